"""``acp-proxy adopt``: take over sessions that agents have from before acp-proxy."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli import values
from acp_proxy.cli.confirm import INTERRUPTED, ask_to_confirm
from acp_proxy.cli.next_command import format_command
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.progress import begin_progress
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.shared_options import RegistryOption, StoreOption, YesOption, choose_directory
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.config import options
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views import formatting, sanitize

if TYPE_CHECKING:  # imported late: no other command needs them
    from acp_proxy.tools.adopt.adopt import Adoption, AdoptionResult
    from acp_proxy.tools.adopt.candidates import AskedAgent
    from acp_proxy.tools.adopt.plan import AdoptionFilter, Choice, OfferedSession

_TIMEOUT_SECONDS = 60.0
"""For each answer of an agent: a long session takes a while to load."""
_DAY = 24 * 60 * 60.0
_LISTS_OTHERS_ELSEWHERE = (
    "Some agents list only those of the project in which they start: try it there, or with --cwd DIR"
)


def adopt(
    agent: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="AGENT",
            help="The agent's command, as for run. Default: all agents in the settings of your editors.",
        ),
    ] = None,
    store: StoreOption = "",
    since: Annotated[
        str,
        typer.Option(
            "--since",
            "-S",
            metavar="WHEN",
            help="Only sessions active since then: 30m, 12h, 7d, 2w, yesterday, 2026-11-01.",
        ),
    ] = "",
    cwd: Annotated[str, typer.Option("--cwd", metavar="DIR", help="Only sessions in exactly this directory.")] = "",
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=1, help="At most N sessions of each agent, newest first."),
    ] = None,
    redact: Annotated[
        str,
        typer.Option("--redact", metavar="off|keys|FILE", help="Mask secrets, as run does. Default: as run would."),
    ] = "",
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="Maximum time for each answer of an agent."),
    ] = _TIMEOUT_SECONDS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the sessions that would be loaded; load and keep nothing.")
    ] = False,
    yes: YesOption = False,
    registry: RegistryOption = "",
) -> None:
    """Take over sessions that agents have from before acp-proxy. It asks first.

    The command starts each agent, lists its sessions, loads those that are not here yet, and keeps what the agent
    replays. It sends no prompt and changes no session. Loading may make an agent run its hooks and MCP servers in a
    session's directory.

    Run again, it takes what is new. A session that has grown replaces what was adopted, unless something was recorded
    in it since. Sessions that were deleted here stay deleted. Ctrl-C keeps what was adopted by then. The exit status is
    1 if a session or an agent failed.

    Example: acp-proxy adopt --since 30d -- npx -y @agentclientprotocol/claude-agent-acp
    """
    from acp_proxy.cli.open_store import find_root, make_new_files_private, read_umask
    from acp_proxy.tools.adopt.plan import AdoptionFilter

    umask = read_umask()
    make_new_files_private()
    with report_errors():
        directory = choose_directory(cwd, here=False)
        session_filter = AdoptionFilter(_make_directory_test(directory), values.parse_since(since), limit, directory)
        asked, texts = _find_candidates(agent or [], find_root(store), registry)
        if redact:
            options.check_value("redact", redact)
        for text in texts:
            _print_problem(text)
        if not asked:
            raise UsageError(
                "no editor on this machine has an agent that can be asked. Give its command: acp-proxy adopt -- AGENT"
            )
        if not (dry_run or yes):
            typer.echo(fit_to_stream(_describe_plan(asked), sys.stderr), err=True)
            ask_to_confirm("Continue?")
        opened_store = CommandStore(find_root(store), create=False) if dry_run else open_store(store, create=True)
        adoption_run = _AdoptionRun(opened_store, session_filter, umask, min(timeout, _DAY), redact, dry_run=dry_run)
        try:
            for candidate in asked:
                adoption_run.adopt_from(candidate)
        except KeyboardInterrupt:
            typer.echo("Interrupted. What was adopted by then stays.", err=True)
            raise typer.Exit(INTERRUPTED) from None
    if adoption_run.has_failed:
        raise typer.Exit(1)
    if not cwd:
        typer.echo(fit_to_stream(f"{_LISTS_OTHERS_ELSEWHERE}.", sys.stderr), err=True)


class _AdoptionRun:
    """Adopts from one agent after the other, and prints what happens."""

    def __init__(
        self,
        store: CommandStore,
        session_filter: "AdoptionFilter",
        umask: int,
        seconds: float,
        redact: str,
        *,
        dry_run: bool,
    ) -> None:
        self._store = store
        self._session_filter = session_filter
        self._umask = umask
        self._seconds = seconds
        self._redact = redact
        self._dry_run = dry_run
        self.has_failed = False

    def adopt_from(self, candidate: "AskedAgent") -> None:
        from acp_proxy.redaction.masking import Masking
        from acp_proxy.tools.adopt.adopt import Adoption
        from acp_proxy.tools.adopt.agent_loader import AgentStart, WrongAnswer

        patterns = options.read_patterns(self._redact or candidate.redact)
        masking = Masking(patterns) if patterns is not None else None
        environment = dict(candidate.environment) if candidate.environment is not None else None
        start = AgentStart(list(candidate.command), environment, self._umask, self._seconds)
        with Adoption(self._store, start, self._session_filter, masking, candidate.agent_id) as adoption:
            try:
                _print_progress(f"Asking {candidate.name} for its sessions")
                choice = adoption.choose()
                name = name_agent(adoption.folder)
                if self._dry_run:
                    self._show(name, choice)
                else:
                    self._load(name, adoption, choice)
            except AcpProxyError as problem:
                self.has_failed = True
                _print_problem(f"{candidate.name}: {problem}")
                if isinstance(problem, WrongAnswer):
                    print_on_stderr(f"To see more: {format_command('doctor', candidate.given_words)}")

    def _show(self, name: str, choice: "Choice") -> None:
        for listed in choice.loads:
            when = (
                formatting.format_local_time(listed.updated)[: len("2026-11-20 09:15")] if listed.updated else "no time"
            )
            words = [when, listed.session_id, formatting.format_title(listed.title), listed.cwd or ""]
            typer.echo(sanitize.make_line("  ".join(words)))
        typer.echo(_summarize(name, choice, {f"of {choice.listed_count} would be loaded": len(choice.loads)}))

    def _load(self, name: str, adoption: "Adoption", choice: "Choice") -> None:
        from acp_proxy.tools.adopt.adopt import Result

        results: Counter[Result] = Counter()
        try:
            with begin_progress(f"Adopting from {sanitize.make_line(name)}") as report:
                report(0, len(choice.loads))
                for outcome in adoption.load(choice):
                    results[outcome.result] += 1
                    if outcome.result is Result.FAILED:
                        _print_problem(_describe_failure(outcome))
                    report(results.total(), len(choice.loads))
        finally:
            self.has_failed |= results.total() < len(choice.loads) or bool(results[Result.FAILED])
            counts = {result.value: results[result] for result in Result if results[result] or result is Result.ADOPTED}
            if missing := len(choice.loads) - results.total():
                counts["not tried"] = missing
            typer.echo(_summarize(name, choice, counts))


def _find_candidates(words: list[str], root: "os.PathLike[str]", registry: str) -> "tuple[list[AskedAgent], list[str]]":
    """The agents to ask, and a text for each one that is not asked. ``registry``: goes before that of a command.

    Raises UsageError.
    """
    from pathlib import Path

    from acp_proxy.store.command_names import name_command
    from acp_proxy.tools.adopt.candidates import AskedAgent, choose_agents
    from acp_proxy.tools.doctor.report import split_run_command
    from acp_proxy.tools.editors.config_dirs import find_machine
    from acp_proxy.tools.editors.launch_commands import find_started_agents
    from acp_proxy.tools.registry.agents import Registry
    from acp_proxy.tools.registry.resolve import ResolvedAgent, resolve

    def find(command: list[str], source: str) -> ResolvedAgent:
        return resolve(
            command, Registry(registry or source, print_line=print_on_stderr), print_on_stderr, may_wait=True
        )

    if not words:
        return choose_agents(find_started_agents(find_machine()), os.environ, Path(root), find)
    if words[0] == "run":  # copied from an editor's arguments
        words = ["acp-proxy", *words]
    values, command = split_run_command(words, dict(os.environ))
    agent = find(command, values["registry"])
    if agent.problem is not None:
        raise AcpProxyError(agent.problem)
    environment = tuple({**agent.variables, **os.environ}.items()) if agent.variables else None
    name, agent_id = name_command(agent.words), values["agent-id"] or None
    return [AskedAgent(name, tuple(words), tuple(agent.words), environment, agent_id, values["redact"])], []


def _make_directory_test(cwd: str | None) -> "Callable[[str], bool]":
    """A function that says whether a directory is ``cwd``; every directory is, if that is None."""
    from acp_proxy.store.same_directory import resolve_directory

    if cwd is None:
        return lambda directory: True
    resolved = resolve_directory(cwd)
    return lambda directory: resolve_directory(directory) == resolved


def _describe_plan(asked: "Sequence[AskedAgent]") -> str:
    names = sanitize.make_line(", ".join(agent.name for agent in asked))
    return (
        f"This starts {names}, and loads the sessions that are not here yet. Loading may make an agent run its hooks"
        " and MCP servers in a session's directory. --dry-run only lists the sessions."
    )


def _describe_failure(outcome: "AdoptionResult") -> str:
    return f"not adopted: {_describe_session(outcome.offered)}: {outcome.reason.removesuffix('.')}."


def _describe_session(listed: "OfferedSession") -> str:
    return f"{listed.session_id} ({formatting.format_title(listed.title)})" if listed.title else listed.session_id


def _summarize(name: str, choice: "Choice", counts_of_loads: dict[str, int]) -> str:
    counts = {**counts_of_loads, **{reason.value: count for reason, count in choice.left_out.items()}}
    counts |= {"left for another time by --limit": choice.over_limit} if choice.over_limit else {}
    if not choice.listed_count:
        return sanitize.make_line(f"{name}: the agent lists no sessions.")  # what to try is said once, at the end
    return sanitize.make_line(f"{name}: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}")


def _print_progress(text: str) -> None:
    """Say on a terminal what the command is waiting for."""
    if sys.stderr.isatty():
        typer.echo(sanitize.make_line(f"{text} …"), err=True)


def _print_problem(text: str) -> None:
    typer.echo(fit_to_stream(f"acp-proxy: {sanitize.make_line(text)}", sys.stderr), err=True)
