"""Check an agent: start it, ask what it offers, ask for an old session as an editor would, and end it.

This creates no session and sends no prompt. What acp-proxy adds to the offer is its own decision in ``decisions/``.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from acp_proxy import shell_quote
from acp_proxy.decisions.capabilities import AGENT, LOAD, Modes, Offer, explain_unknown_version, read_offer
from acp_proxy.decisions.handover import handover_lines
from acp_proxy.errors import AcpProxyError
from acp_proxy.protocol import acp, update_kinds, versions
from acp_proxy.protocol.jsonrpc import Notification
from acp_proxy.protocol.versions import Dialect
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.command_names import may_run_others, name_command
from acp_proxy.tools.doctor import replay_check
from acp_proxy.tools.doctor.advice import Advice
from acp_proxy.tools.doctor.capabilities import Ability, list_abilities
from acp_proxy.tools.doctor.exit_reasons import ARGUMENTS, explain_exit
from acp_proxy.tools.doctor.probe import NoAnswer, Probe
from acp_proxy.tools.editors.agent_names import advise_arguments
from acp_proxy.tools.editors.command_line import SHELL_HOME, find_program_of_line, is_not_executable
from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.registry.resolve import RUNNERS

AUTHENTICATION_REQUIRED = -32000
_MESSAGE_LENGTH = 300
_MOST_REPLAY_BYTES = 64 * 1024 * 1024
SLOW_ADVICE = "If it is only slow, use --timeout 120."
REFUSED, SILENT, UNTRIED = "refused", "no answer", "not tried"


@dataclass(frozen=True, slots=True)
class AgentStart:
    """How ``run`` would start the agent. ``why_passive``: why acp-proxy adds nothing to its offer; None: it does.
    ``seconds``: how long each answer may take. ``variables``: added to its environment, where the user has set no
    others. ``slow_advice``: what to do if it is only slow.
    """

    command: list[str]
    modes: Modes
    agent_id: str | None
    store: CommandStore | None
    why_passive: str | None
    seconds: float
    umask: int = -1
    variables: Mapping[str, str] = field(default_factory=dict)
    slow_advice: str = SLOW_ADVICE


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of loading an old session: an outcome of ``replay_check``, or one of this module."""

    outcome: str
    text: str
    session_id: str | None = None
    left_out: tuple[str, ...] = ()


class _ReplayCollector:
    """What the agent replays of one session, up to the size that the proxy would hold back to compare it."""

    def __init__(self, session_id: str) -> None:
        self.updates: list[bytes] = []
        self.size = 0
        self._session_id = session_id

    def take(self, message: Notification) -> None:
        kind = acp.update_kind(acp.member(message.params, "update"))
        if (
            message.method == acp.UPDATE
            and acp.session_id(message.params) == self._session_id
            and update_kinds.is_conversation(kind)
        ):
            self.size += len(message.raw)
            if self.size <= _MOST_REPLAY_BYTES:
                self.updates.append(message.raw)


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What was found of an agent. ``problem``: why the agent gave no answer; the other fields are then empty.
    ``stray_lines``: of its stdout, those that are none of the protocol. ``folder``: the folder of its sessions.
    """

    command: list[str]
    problem: str | None = None
    stderr: tuple[str, ...] = ()
    stray_lines: tuple[str, ...] = ()
    seconds: float | None = None
    offer: Offer | None = None
    abilities: tuple[Ability, ...] = ()
    folder: str | None = None
    sessions: int = 0
    load_result: LoadResult | None = None
    last_loads: tuple[replay_check.LastLoad, ...] = ()


def examine(agent_start: AgentStart, print_progress: Callable[[str], None]) -> tuple[AgentReport, list[Advice]]:
    """Start the agent, and ask it. ``print_progress`` is called before each wait, with what is waited for."""
    try:
        probe = Probe(agent_start.command, agent_start.umask, {**agent_start.variables, **os.environ})
    except OSError as problem:
        text, advice = explain_failed_start(agent_start.command[0], problem)
        return AgentReport(agent_start.command, text), [Advice(f"{text}. {advice}", cause=f"{text}. {advice}")]
    with probe:
        try:
            report, advice_list = _ask(probe, agent_start, print_progress)
        except NoAnswer as problem:
            text = f"at initialize, the agent {problem}"
            report = AgentReport(agent_start.command, text)
            todo = advise_on_silence(probe, problem.status, slow_advice=agent_start.slow_advice)
            advice_list = [Advice(_capitalize(f"{text}. {todo}"))]
    return replace(report, stderr=tuple(probe.stderr_lines), stray_lines=tuple(probe.stray_lines)), advice_list


def _ask(
    probe: Probe, agent_start: AgentStart, print_progress: Callable[[str], None]
) -> tuple[AgentReport, list[Advice]]:
    """Ask a started agent what it offers, and for an old session. Raises NoAnswer."""
    print_progress(f"Starting {agent_start.command[0]} and asking what it offers (at most {agent_start.seconds:g} s)")
    start = time.monotonic()
    answer = probe.initialize("acp-proxy doctor", agent_start.seconds)
    seconds = time.monotonic() - start
    if answer.error is not None:
        text = f"the agent answered initialize with an error: {format_error(answer.error)}"
        advice = explain_exit(None, [acp.text(answer.error, "message") or ""]) or ARGUMENTS
        advice = _name_arguments(advice, agent_start.command)
        return AgentReport(agent_start.command, text, seconds=seconds), [Advice(f"{_capitalize(text)}. {advice}")]
    offer = read_offer(answer.result)
    abilities = tuple(list_abilities(offer, agent_start.modes, agent_start.why_passive))
    folder, sessions, load_result, todo, last_loads = None, 0, None, list[Advice](), tuple[replay_check.LastLoad, ...]()
    if offer.dialect is None:
        todo.append(Advice(f"Nothing is recorded: {explain_unknown_version(offer)}. Update the agent, or acp-proxy."))
    if agent_start.store is not None:
        name, may_be_others = name_command(agent_start.command), may_run_others(agent_start.command)
        folder = agent_start.store.choose_agent(agent_start.agent_id, offer.name, name, may_run_others=may_be_others)
        try:
            sessions = sum(row.agent_folder == folder for row in agent_start.store.list_all())
            last_loads = replay_check.find_last_loads(agent_start.store, folder)
            if LOAD in offer.served_by_agent and offer.dialect is not None:
                load_result, todo = _check_load(
                    probe, offer.dialect, agent_start, agent_start.store, folder, print_progress
                )
        except AcpProxyError:  # the report on the store says it
            pass
    return AgentReport(
        agent_start.command, None, (), (), seconds, offer, abilities, folder, sessions, load_result, last_loads
    ), todo


def _check_load(
    probe: Probe,
    dialect: Dialect,
    agent_start: AgentStart,
    store: CommandStore,
    folder: str,
    print_progress: Callable[[str], None],
) -> tuple[LoadResult, list[Advice]]:
    """Ask the agent for its newest session, and compare the replay with the transcript. Raises AcpProxyError."""
    newest = replay_check.find_newest_session(store, folder)
    if newest is None:
        return LoadResult(UNTRIED, "not compared: no complete session of this agent is recorded yet"), []
    row, reader = newest
    try:
        print_progress(f"Asking it to load the session {row.session_id} (at most {agent_start.seconds:g} s)")
        replay = _ReplayCollector(row.session_id)
        params: dict[str, object] = {"sessionId": row.session_id, "cwd": row.cwd, "mcpServers": list[object]()}
        method = acp.LOAD
        if dialect is versions.V2:
            method, params["replayFrom"] = acp.RESUME, {"type": "start"}
        answer = probe.ask(method, params, agent_start.seconds, replay.take)
        if answer.error is not None:
            return _report_refusal(answer.error, row.session_id, agent_start)
        if replay.size > _MOST_REPLAY_BYTES:
            return LoadResult(UNTRIED, "not compared: its replay is too large", row.session_id), []
        comparison = replay_check.compare(reader, replay.updates)
    except NoAnswer as problem:
        return LoadResult(SILENT, f"at {method}, the agent {problem}", row.session_id), []
    except OSError as problem:
        return LoadResult(
            UNTRIED, f"not compared: the transcript cannot be read ({problem.strerror})", row.session_id
        ), []
    finally:
        reader.close()
    match comparison.outcome:
        case replay_check.LOSES:
            left_out = ", ".join(comparison.left_out)
            text = f"it leaves out: {left_out}" if left_out else "it sends something twice"
            if agent_start.why_passive is None and agent_start.modes.load != AGENT:
                text += "; acp-proxy shows the transcript instead"
        case replay_check.WHOLE:
            text = "it replays everything"
        case _:
            text = "it replays something else than the transcript: the session may have continued without acp-proxy"
    return LoadResult(comparison.outcome, text, row.session_id, comparison.left_out), []


def _report_refusal(error: object, session_id: str, agent_start: AgentStart) -> tuple[LoadResult, list[Advice]]:
    text = f"it refuses to load the newest recorded session: {format_error(error)}"
    if acp.member(error, "code") == AUTHENTICATION_REQUIRED:
        return LoadResult(REFUSED, text, session_id), [
            Advice("The agent needs a login. Log in with its own command.", False)
        ]
    mode = agent_start.modes.handover
    if agent_start.why_passive is None and (
        mode == "always" or (mode == "auto" and handover_lines.says_session_unknown(error))
    ):
        text += "; acp-proxy shows the transcript instead"
        todo = (
            "The agent refuses to load an old session, but your editor can open it: acp-proxy shows the transcript, "
            "and continues in a new session of the agent, which gets a record of the old one with your next prompt."
        )
    else:
        todo = (
            "The agent refuses to load an old session, and so your editor cannot open it. To open such sessions all "
            "the same: acp-proxy run --handover always AGENT"
        )
    return LoadResult(REFUSED, text, session_id), [Advice(todo, is_wrong=False)]


def explain_failed_start(program: str, problem: OSError) -> tuple[str, str]:
    """What happened, and what to do about it."""
    if not isinstance(problem, FileNotFoundError):
        consequence = "so it would not start"
        advice = "Check that it is a program, and that it is executable (chmod +x)."
        if os.name == "nt":
            advice = "Give the path of a program. For a script, start its interpreter with the script as its argument."
        return f"{program} cannot be executed ({problem.strerror}), {consequence}", advice
    if shutil.which(program) is not None:
        consequence = "so it would not start"
        return f"{program} exists, but the interpreter in its first line does not, {consequence}", "Correct that line."
    return explain_missing_program(program)


def explain_missing_program(program: str) -> tuple[str, str]:
    """What happens because a program does not exist, and what to do about it."""
    fact, advice = describe_missing_program(program)
    return f"{fact}, so it would not start", advice


def describe_missing_program(program: str) -> tuple[str, str]:
    """In which way a program does not exist, and what to do about it."""
    variable, equals, _ = program.partition("=")
    if equals and variable.isidentifier():
        advice = f"Put {variable} into \"env\" of the agent's entry in your editor's settings."
        return f"{program} is a variable and no program", advice
    if (first_word := find_program_of_line(program)) is not None:
        return (
            f'"{program}" is no program',
            f"If the program is {first_word}, put the words after it into args, each on its own.",
        )
    if is_not_executable(program):
        return f"{program} is not executable", f"To allow it: chmod +x {shell_quote.quote(program)}"
    if program.startswith(SHELL_HOME):
        return f"{program} does not exist", "Write the directory itself: only a shell replaces $HOME."
    if os.path.dirname(program):
        return f"{program} does not exist", "Correct the path."
    if (package := RUNNERS.get(program)) is not None:
        path = "PATH in \"env\" of the agent's entry in your editor's settings"
        return f"{program} is not in PATH", f"Install {package}, or add its directory to {path}."
    return f"{program} is not in PATH", "Install it, or give its absolute path."


def explain_missing_runner(program: str, agent: str, *, is_started_by_editor: bool) -> str:
    """Why ``run`` does not start an agent whose program is not in PATH, and what to do. ``agent``: its id, or its
    program."""
    path = "the PATH that your editor gives" if is_started_by_editor else "PATH"
    fact = f"{program} is not in {path}"
    if agent != program:
        fact = f"{agent.removeprefix(PREFIX)} needs {program}, which is not in {path}"
    return f"{fact}. {describe_missing_program(program)[1]}"


def advise_on_silence(
    probe: Probe, status: int | None, *, shows_messages: bool = True, slow_advice: str = SLOW_ADVICE
) -> str:
    """Why the agent may have given no answer, and what to do. ``status``: its exit status, if it has ended.
    ``shows_messages``: the user sees what it wrote to stderr."""
    text = _explain_silence(probe, status, shows_messages=shows_messages, slow_advice=slow_advice)
    return _name_arguments(text, probe.command)


def _name_arguments(text: str, command: Sequence[str]) -> str:
    """The text with what is known about this command, in place of what is true of many agents."""
    return text.replace(ARGUMENTS, advise_arguments(command) or ARGUMENTS) if ARGUMENTS in text else text


def _explain_silence(probe: Probe, status: int | None, *, shows_messages: bool, slow_advice: str) -> str:
    if cause := explain_exit(status, [*probe.stray_lines, *probe.stderr_lines]):
        return cause
    if probe.stderr_lines:
        messages = "See its messages on stderr." if shows_messages else f'Its last message: "{probe.stderr_lines[-1]}".'
        if status:  # what it says is why, unless its arguments are known to be wrong
            return f"{messages} {advise_arguments(probe.command) or ''}".rstrip()
        return f"{messages} {ARGUMENTS}"
    if probe.stray_lines:
        return f"Its output is not the Agent Client Protocol. {ARGUMENTS}"
    return f"It wrote nothing. {ARGUMENTS}{f' {slow_advice}' if status is None else ''}"


def format_error(error: object) -> str:
    """An error's reason and code, for people."""
    message = (acp.read_error(error) or "no message")[:_MESSAGE_LENGTH]
    return f"{message} ({acp.member(error, 'code')})"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
