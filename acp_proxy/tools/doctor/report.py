"""All checks together, with the resulting advice."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from acp_proxy import installation, shell_quote
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
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import Configuration, ConfiguredAgent, Way, find_configurations
from acp_proxy.tools.editors.known_editors import Name
from acp_proxy.tools.editors.own_files import NotOurs
from acp_proxy.tools.registry.agents import Registry, RegistryError
from acp_proxy.tools.registry.resolve import resolve


@dataclass(frozen=True, slots=True)
class Diagnosis:
    store: StoreReport
    versions: dict[str, str | None]
    configurations: list[Configuration]
    agent: AgentReport | None
    advice: list[Advice]

    @property
    def is_well(self) -> bool:
        return not any(todo.is_wrong for todo in self.advice)


def diagnose(
    root: Path,
    machine: Machine,
    words: list[str],
    seconds: float,
    umask: int,
    print_progress: Callable[[str], None],
    registry: str = "",
) -> Diagnosis:
    """Check everything. Raises UsageError.

    ``words``: an agent's command, as ``split_run_command`` takes it, or none. ``seconds``: how long each answer of the
    agent may take. ``umask``: the user's own umask. ``registry``: goes before that of the command.
    """
    store, store_advice = store_report.examine(root)
    found_versions = versions()
    editors = find_configurations(machine)
    faults = config_file.read_user_file()[1]
    advice = [Advice(text) for text in faults]
    # With such a fault, no option is why nothing is recorded.
    is_recording_off_by_fault = any(text.endswith(config_file.STOPS_RECORDING) for text in faults)
    values, command = split_run_command(words or ["agent"], {})
    try:
        values, command = split_run_command(words or ["agent"], dict(machine.environment))
    except UsageError as problem:
        advice.append(Advice(f"run exits immediately with status 2: {problem}"))
    if values["no-record"]:
        reason = "because of --no-record, ACP_PROXY_NO_RECORD or the configuration file"
        text = f"run records nothing, {reason}. To see which: acp-proxy config"
        advice += [] if is_recording_off_by_fault else [Advice(text, is_wrong=False)]
    elif values["recall"]:
        advice += _advise_on_recall()
    agent_result, agent_advice = None, list[Advice]()
    if words:
        agent_result, agent_advice = _examine_agent(
            root, store, values, command, seconds, umask, print_progress, registry
        )
    advice = [  # the worst first: nothing is recorded; what the user asked about; some agents do not start
        *(store_advice if store.why_not_recording is not None else ()),
        *agent_advice,
        *(
            Advice(f"{name} is missing. Install acp-proxy again.")
            for name, version in found_versions.items()
            if version is None
        ),
        *advice,
        *_advise_on_editors(editors, root, explains_no_record=not is_recording_off_by_fault),
        *(store_advice if store.why_not_recording is None else ()),
    ]
    return Diagnosis(store, found_versions, editors, agent_result, join_alike(advice))


def diagnose_agent(
    root: Path,
    words: list[str],
    seconds: float,
    umask: int,
    print_progress: Callable[[str], None],
    slow_advice: str,
) -> tuple[AgentReport, list[Advice]]:
    """An agent alone, as this process' environment has it. ``slow_advice``: what to do if it is only slow. The other
    arguments are those of ``diagnose``."""
    store, _ = store_report.examine(root)
    try:
        values, command = split_run_command(words, dict(os.environ))
    except UsageError as problem:
        text = f"run exits immediately with status 2: {problem}"
        return AgentReport(words, text), [Advice(text)]
    return _examine_agent(root, store, values, command, seconds, umask, print_progress, slow_advice=slow_advice)


def _examine_agent(
    root: Path,
    store: StoreReport,
    values: dict[str, str],
    command: list[str],
    seconds: float,
    umask: int,
    print_progress: Callable[[str], None],
    registry: str = "",
    slow_advice: str = agent_report.SLOW_ADVICE,
) -> tuple[AgentReport, list[Advice]]:
    try:
        agent = resolve(
            command, Registry(registry or values["registry"], print_line=print_progress), print_progress, may_wait=True
        )
    except RegistryError as problem:
        text = str(problem)
        return AgentReport(command, text), [Advice(text[:1].upper() + text[1:])]
    agent_start = _make_start(root, store, values, agent.words, seconds, umask)
    agent_start = replace(agent_start, variables=agent.variables, slow_advice=slow_advice)
    report, advice = agent_report.examine(agent_start, print_progress)
    if agent.problem is not None and advice:  # it is no id of the registry either
        reason = agent.problem.removeprefix(f"{command[0]} is not in PATH. ")
        advice[0] = replace(advice[0], text=f"{advice[0].text} {reason}")
    return report, advice


def _make_start(
    root: Path, store: StoreReport, values: dict[str, str], command: list[str], seconds: float, umask: int
) -> AgentStart:
    answerers = {name: values[name] for name in ("list", "load", "delete", "resume", "handover")}
    modes = Modes(**answerers, unstable=bool(values["unstable"]))
    opened_store = None
    if store.exists and store.why_not_recording is None:
        with contextlib.suppress(StoreRefused):  # it changed since the check
            opened_store = CommandStore(root, create=False)
    why_passive = None
    if values["no-record"]:
        why_passive = "acp-proxy adds nothing, because it records nothing"
    elif values["no-synthesize"]:
        why_passive = "acp-proxy adds nothing, because --no-synthesize is set"
    elif store.why_not_recording is not None:
        why_passive = "acp-proxy adds nothing, because it cannot record"
    return AgentStart(command, modes, values["agent-id"] or None, opened_store, why_passive, seconds, umask)


def split_run_command(words: list[str], environment: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The options and the agent's command that ``run`` would read, from a command or from a line of an editor's
    settings. Raises UsageError.
    """
    words = command_line.split_line(words)
    if command_line.lacks_run(words):
        raise UsageError(command_line.MISSING_RUN)
    words_after_run = command_line.find_words_after_run(words)
    file, _ = config_file.read_user_file()
    return options.parse(["--", *words] if words_after_run is None else words_after_run, environment, file)


def _advise_on_editors(configurations: list[Configuration], root: Path, *, explains_no_record: bool) -> list[Advice]:
    advice, some_are_proxied = [], any(configuration.is_proxied for configuration in configurations)
    for configuration in configurations:
        name = configuration.editor.name
        if configuration.problem is not None:
            advice.append(Advice(f"{configuration.path} cannot be read: {configuration.problem}. Correct the file."))
        for agent in configuration.agents:
            advice += _advise_on_entry(
                configuration.editor.title, agent, name, root, explains_no_record=explains_no_record
            )
            is_refused = agent.fault is not None or agent.missing_program is not None  # by setup
            if agent.way is Way.DIRECT and some_are_proxied and not is_refused:
                command = shell_quote.join(["acp-proxy", "setup", "--editor", str(name), "--agent", agent.name])
                text = f'{configuration.editor.title} starts "{agent.name}" directly, so it is not recorded.'
                how = f"To put acp-proxy in front of it: {command}"
                if (hindrance := configuration.find_hindrance()) is not None:
                    how = _explain_hindrance(configuration, hindrance)
                advice.append(Advice(f"{text} {how}", is_wrong=False))
    if not any(configuration.is_proxied or configuration.problem is not None for configuration in configurations):
        texts = ["No editor on this machine starts an agent through acp-proxy."]
        left = [
            (configuration, hindrance)
            for configuration in configurations
            if (hindrance := configuration.find_hindrance()) is not None
        ]
        if not left or len(left) < len(configurations):
            texts.append("To set them up: acp-proxy setup")
        advice.append(Advice(" ".join(texts), is_wrong=False))
        advice += [Advice(_explain_hindrance(*each), is_wrong=False) for each in left]
    return advice


def _explain_hindrance(configuration: Configuration, hindrance: NotOurs) -> str:
    command = f"acp-proxy editor {configuration.editor.name} AGENT"
    return f"Setup leaves {configuration.path} to you: {hindrance}. To print what to put there: {command}"


def _advise_on_entry(
    title: str, agent: ConfiguredAgent, editor: Name, root: Path, *, explains_no_record: bool
) -> Iterator[Advice]:
    beginning, found_in = f'{title} starts "{agent.name}"', f'"{agent.name}" in {title}'
    if agent.program is not None and not _is_there(agent.program):
        text = f"{beginning} with {agent.program}, which does not exist."
        mend, cause = "Correct the entry.", f"{agent.program} does not exist. Correct the entries."
        if agent.is_mended_by_setup:
            mend = f"To write the present path there: acp-proxy setup --editor {editor}"
            cause = f"{agent.program} does not exist: acp-proxy setup writes the present path."
        yield Advice(f"{text} {mend}", cause=cause, found_in=found_in)
        if agent.problem is not None:  # what is gone refuses nothing
            return
    if agent.fault is not None:
        yield Advice(f"The entry {found_in} is wrong: {agent.fault}. Correct it.", found_in=found_in)
    if agent.missing_program is not None:
        cause = ". ".join(agent_report.explain_missing_program(agent.missing_program))
        yield Advice(f"{beginning} {agent.way.value}, but {cause}", cause=cause, found_in=found_in)
    if agent.looks_up_sessions:
        yield from _advise_on_recall(beginning, found_in)
    if agent.problem is not None:
        is_mended = agent.is_mended_by_setup and agent.problem == command_line.MISSING_RUN
        mend = f". To write it there: acp-proxy setup --editor {editor}" if is_mended else ""
        yield Advice(
            f"{beginning} through acp-proxy, which exits immediately with status 2: {agent.problem}{mend}",
            found_in=found_in,
        )
    elif agent.way is Way.PROXIED and not agent.is_recorded:
        reason = "because of --no-record, ACP_PROXY_NO_RECORD or the configuration file"
        if explains_no_record:
            yield Advice(f"{beginning} through acp-proxy, which records nothing, {reason}.", is_wrong=False)
    elif agent.store is not None and agent.is_kept_elsewhere(root):
        command = f"acp-proxy doctor --store {shell_quote.quote(agent.store)}"
        yield Advice(f"{beginning} with another store, which was not checked. To check it: {command}", is_wrong=False)


def _advise_on_recall(beginning: str = "", found_in: str = "") -> list[Advice]:
    """What to do for ``--recall``, if its package is missing. ``beginning``: which entry has it, in words."""
    if find_spec("mcp") is not None:
        return []
    reason = installation.explain_no_mcp()
    text = f"{beginning} with --recall, but {reason}" if beginning else f"{reason[:1].upper()}{reason[1:]}"
    return [Advice(text, cause=f"{reason[:1].upper()}{reason[1:]}.", found_in=found_in)]


def _is_there(program: str) -> bool:
    return shutil.which(os.path.expanduser(program)) is not None
