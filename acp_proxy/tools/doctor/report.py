"""All checks together, with the resulting advice."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from acp_proxy import shell_quote
from acp_proxy.config import config_file, options
from acp_proxy.errors import StoreRefused, UsageError
from acp_proxy.proxy.capabilities import Modes
from acp_proxy.store.command_store import CommandStore
from acp_proxy.tools.doctor import agent_report, store_report
from acp_proxy.tools.doctor.advice import Advice, join_alike
from acp_proxy.tools.doctor.agent_report import AgentReport, AgentStart
from acp_proxy.tools.doctor.store_report import StoreReport
from acp_proxy.tools.doctor.versions import versions
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.command_line import MISSING_RUN
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import Configuration, ConfiguredAgent, Way, find_configurations
from acp_proxy.tools.editors.known_editors import Name
from acp_proxy.tools.registry.agents import Registry, RegistryError
from acp_proxy.tools.registry.resolve import resolve


@dataclass(frozen=True, slots=True)
class Diagnosis:
    store: StoreReport
    versions: dict[str, str | None]
    editors: list[Configuration]
    agent: AgentReport | None
    todo: list[Advice]

    @property
    def is_well(self) -> bool:
        return not any(todo.is_wrong for todo in self.todo)


def diagnose(
    root: Path,
    machine: Machine,
    words: list[str],
    seconds: float,
    umask: int,
    say: Callable[[str], None],
    registry: str = "",
) -> Diagnosis:
    """``words``: an agent's command, as ``split_run_command`` takes it, or none. ``umask``: the user's own umask.
    ``registry``: goes before that of the command. Raises UsageError.
    """
    store, of_store = store_report.examine(root)
    found_versions = versions()
    editors = find_configurations(machine)
    todo = [Advice(text) for text in config_file.read_user_file()[1]]
    values, command = split_run_command(words or ["agent"], {})
    try:
        values, command = split_run_command(words or ["agent"], dict(machine.environment))
    except UsageError as problem:
        todo.append(Advice(f"run exits immediately with status 2: {problem}"))
    if values["no-record"]:
        todo.append(
            Advice(
                "run records nothing, because of --no-record, ACP_PROXY_NO_RECORD or the configuration file. "
                "To see which: acp-proxy config",
                is_wrong=False,
            )
        )
    examined, of_agent = None, list[Advice]()
    if words:
        examined, of_agent = _examine_agent(root, store, values, command, seconds, umask, say, registry)
    todo = [  # the worst first: nothing is recorded; what the user asked about; some agents do not start
        *(of_store if store.off is not None else ()),
        *of_agent,
        *(
            Advice(f"{name} is missing. Install acp-proxy again.")
            for name, version in found_versions.items()
            if version is None
        ),
        *todo,
        *_advise_on_editors(editors, root),
        *(of_store if store.off is None else ()),
    ]
    return Diagnosis(store, found_versions, editors, examined, join_alike(todo))


def diagnose_agent(
    root: Path, words: list[str], seconds: float, umask: int, say: Callable[[str], None]
) -> tuple[AgentReport, list[Advice]]:
    """An agent alone, as this process' environment has it. The arguments are those of ``diagnose``."""
    store, _ = store_report.examine(root)
    try:
        values, command = split_run_command(words, dict(os.environ))
    except UsageError as problem:
        text = f"run exits immediately with status 2: {problem}"
        return AgentReport(words, text), [Advice(text)]
    return _examine_agent(root, store, values, command, seconds, umask, say)


def _examine_agent(
    root: Path,
    store: StoreReport,
    values: dict[str, str],
    command: list[str],
    seconds: float,
    umask: int,
    say: Callable[[str], None],
    registry: str = "",
) -> tuple[AgentReport, list[Advice]]:
    try:
        agent = resolve(command, Registry(registry or values["registry"], say=say), say, may_wait=True)
    except RegistryError as problem:
        text = str(problem)
        return AgentReport(command, text), [Advice(text[:1].upper() + text[1:])]
    agent_start = _make_start(root, store, values, agent.words, seconds, umask)
    report, todo = agent_report.examine(replace(agent_start, variables=agent.variables), say)
    if agent.problem is not None and todo:  # it is no id of the registry either
        why = agent.problem.removeprefix(f"{command[0]} is not in PATH. ")
        todo[0] = replace(todo[0], text=f"{todo[0].text} {why}")
    return report, todo


def _make_start(
    root: Path, store: StoreReport, values: dict[str, str], command: list[str], seconds: float, umask: int
) -> AgentStart:
    answerers = {name: values[name] for name in ("list", "load", "delete", "resume", "handover")}
    modes = Modes(**answerers, unstable=bool(values["unstable"]))
    opened = None
    if store.is_there and store.off is None:
        with contextlib.suppress(StoreRefused):  # it changed since the check
            opened = CommandStore(root, create=False)
    off = None
    if values["no-record"]:
        off = "acp-proxy adds nothing, because it records nothing"
    elif values["no-synthesize"]:
        off = "acp-proxy adds nothing, because --no-synthesize is set"
    elif store.off is not None:
        off = "acp-proxy adds nothing, because it cannot record"
    return AgentStart(command, modes, values["agent-id"] or None, opened, off, seconds, umask)


def split_run_command(words: list[str], environment: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The options and the agent's command that ``run`` would read, from a command or from a line of an editor's
    settings. Raises UsageError.
    """
    words = command_line.split_line(words)
    if command_line.lacks_run(words):
        raise UsageError(command_line.MISSING_RUN)
    behind = command_line.find_words_behind_run(words)
    file, _ = config_file.read_user_file()
    return options.parse(["--", *words] if behind is None else behind, environment, file)


def _advise_on_editors(editors: list[Configuration], root: Path) -> list[Advice]:
    todo, some_are_proxied = [], any(configuration.is_proxied for configuration in editors)
    for configuration in editors:
        name = configuration.editor.name
        if configuration.problem is not None:
            todo.append(Advice(f"{configuration.path} cannot be read: {configuration.problem}. Correct the file."))
        for agent in configuration.agents:
            todo += _advise_on_entry(configuration.editor.title, agent, name, root)
            if agent.way is Way.DIRECT and some_are_proxied:
                command = shell_quote.join(["acp-proxy", "setup", "--editor", str(name), "--agent", agent.name])
                text = f'{configuration.editor.title} starts "{agent.name}" directly, so it is not recorded.'
                todo.append(Advice(f"{text} To put acp-proxy in front of it: {command}", is_wrong=False))
    if not any(configuration.is_proxied or configuration.problem is not None for configuration in editors):
        text = "No editor on this machine starts an agent through acp-proxy. To set them up:"
        todo.append(Advice(f"{text} acp-proxy setup", is_wrong=False))
    return todo


def _advise_on_entry(title: str, agent: ConfiguredAgent, editor: Name, root: Path) -> Iterator[Advice]:
    starts, where = f'{title} starts "{agent.name}"', f'"{agent.name}" in {title}'
    if agent.program is not None and not _is_there(agent.program):
        text = f"{starts} with {agent.program}, which does not exist."
        yield Advice(f"{text} To write the present path there: acp-proxy setup --editor {editor}", where=where)
    if agent.missing is not None:
        cause = ". ".join(agent_report.explain_missing_program(agent.missing))
        yield Advice(f"{starts} {agent.way.value}, but {cause}", cause=cause, where=where)
    if agent.problem is not None:
        mend = f". To write it there: acp-proxy setup --editor {editor}" if agent.problem == MISSING_RUN else ""
        yield Advice(
            f"{starts} through acp-proxy, which exits immediately with status 2: {agent.problem}{mend}", where=where
        )
    elif agent.way is Way.PROXIED and not agent.is_recorded:
        why = "because of --no-record, ACP_PROXY_NO_RECORD or the configuration file"
        yield Advice(f"{starts} through acp-proxy, which records nothing, {why}.", is_wrong=False)
    elif agent.store is not None and agent.is_kept_elsewhere(root):
        at = f"acp-proxy doctor --store {shell_quote.quote(agent.store)}"
        yield Advice(f"{starts} with another store, which was not checked. To check it: {at}", is_wrong=False)


def _is_there(program: str) -> bool:
    return shutil.which(os.path.expanduser(program)) is not None
