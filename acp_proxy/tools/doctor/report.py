"""All checks together, with the resulting advice."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from acp_proxy.config import config_file, options
from acp_proxy.decisions.capabilities import read_modes
from acp_proxy.errors import StoreRefused, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.tools.doctor import agent_report, store_report
from acp_proxy.tools.doctor.advice import Advice, join_alike
from acp_proxy.tools.doctor.agent_report import AgentReport, AgentStart
from acp_proxy.tools.doctor.editor_advice import advise_on_agent, advise_on_editors, advise_on_recall, find_entries
from acp_proxy.tools.doctor.store_report import StoreReport
from acp_proxy.tools.doctor.store_variable import explain_store_variable
from acp_proxy.tools.doctor.versions import versions
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import Configuration, find_configurations
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
    """Check everything; of the editors' entries, only those of the agent, if there is one. Raises UsageError.

    ``words``: the agent's command, as ``split_run_command`` takes it, or none. ``seconds``: how long each answer of the
    agent may take. ``umask``: the user's own umask. ``registry``: goes before that of the command.
    """
    store, store_advice = store_report.examine(root)
    found_versions = versions()
    editors = find_configurations(machine)
    faults = config_file.read_user_file()[1]
    values, command = split_run_command(words or ["agent"], dict(machine.environment), faults)
    advice = [Advice(text) for text in faults]
    # With such a fault, no option is why nothing is recorded.
    is_recording_off_by_fault = any(text.endswith(options.STOPS_RECORDING) for text in faults)
    if values["no-record"]:
        reason = "because of --no-record, ACP_PROXY_NO_RECORD or the configuration file"
        text = f"run records nothing, {reason}. To see which: acp-proxy config"
        advice += [] if is_recording_off_by_fault else [Advice(text, is_wrong=False)]
    elif values["recall"]:
        advice += advise_on_recall()
    agent_result, agent_advice = None, list[Advice]()
    explains_no_record = not is_recording_off_by_fault
    if words:
        agent_result, agent_advice = _examine_agent(
            root, store, values, command, seconds, umask, print_progress, registry
        )
        own_entries = find_entries(command, Registry(registry or values["registry"]), machine)
        editors_advice = advise_on_agent(editors, own_entries, root, explains_no_record=explains_no_record)
    else:
        editors_advice = advise_on_editors(editors, root, explains_no_record=explains_no_record)
        if (text_of_variable := explain_store_variable(machine.environment)) is not None:
            advice.append(Advice(text_of_variable, is_wrong=False))
    advice = [  # the worst first: nothing is recorded; what the user asked about; some agents do not start
        *(store_advice if store.why_not_recording is not None else ()),
        *agent_advice,
        *(
            Advice(f"{name} is missing. Install acp-proxy again.")
            for name, version in found_versions.items()
            if version is None
        ),
        *advice,
        *editors_advice,
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
        values, command = split_run_command(words, dict(os.environ), [])
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
    modes = read_modes(values)
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


def split_run_command(
    words: list[str], environment: dict[str, str], wrong_variables: list[str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """The options and the agent's command that ``run`` would read, from a command or from a line of an editor's
    settings. ``wrong_variables``: as for ``options.parse``. Raises UsageError.
    """
    words = command_line.split_line(words)
    if command_line.lacks_run(words):
        raise UsageError(command_line.MISSING_RUN)
    words_after_run = command_line.find_words_after_run(words)
    file, _ = config_file.read_user_file()
    run_words = ["--", *words] if words_after_run is None else words_after_run
    return options.parse(run_words, environment, file, wrong_variables=wrong_variables)
