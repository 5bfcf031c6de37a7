"""Options and functions shared by the commands on recorded sessions: which store, and which session."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, TextIO

import typer

from acp_proxy import own_command, shell_quote
from acp_proxy.cli import completion
from acp_proxy.cli.pager import is_attended
from acp_proxy.cli.progress import PATIENCE_SECONDS, begin_progress
from acp_proxy.cli.stdio import find_ascii_forms
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.config import config_file
from acp_proxy.errors import AcpProxyError, NoStore, NoSuchSession, UsageError
from acp_proxy.own_command import write_as_typed
from acp_proxy.store.command_store import (
    COMPRESSED_SUFFIX,
    PRIVATE_UMASK,
    SUFFIX,
    CommandStore,
    DeletedSession,
    ListedSession,
    find_default_root,
    is_windows_path,
    match_agents,
)
from acp_proxy.transcript.titles import mask_title
from acp_proxy.views import formatting, sanitize, session_lines

STORE_VARIABLE = "ACP_PROXY_STORE"
NOTHING_ARCHIVED = "No session is archived. To archive one: acp-proxy archive SESSION"


def find_root(path: str) -> Path:
    """The store's directory: ``path``, else that of the configuration file, else the default. Raises UsageError."""
    return _resolve_root(path or _read_configured_root())


def _resolve_root(path: str) -> Path:
    return Path(path).expanduser() if path else find_default_root()


def make_new_files_private() -> None:
    """Set the umask of this process: what it creates from now on, nobody else can read. An agent that it starts gets
    the user's own, which ``read_umask`` must have read before."""
    os.umask(PRIVATE_UMASK)


def _read_configured_root() -> str:
    """The directory in the configuration file; empty if it names none. Raises UsageError."""
    return config_file.read_valid().get("store", "")


def is_default_store(root: Path) -> bool:
    """Whether a command without --store uses this store."""
    with suppress(UsageError):
        return root == find_root(os.environ.get(STORE_VARIABLE, ""))
    return False


def open_store(path: str, *, create: bool = False, for_writing: bool = False) -> CommandStore:
    """Open the store. If it has to rebuild its index, which may take long, a progress bar appears. What this process
    creates from now on is private (``make_new_files_private``).

    Only ``create`` creates a store. Without it, a missing store is empty in the default place, and an error elsewhere.
    ``create`` and ``for_writing`` refuse a read-only store. Raises StoreRefused, NoStore, UsageError.
    """
    make_new_files_private()
    configured_path = "" if path else _read_configured_root()
    root = _resolve_root(path or configured_path)
    bin_days = config_file.read_bin_days() if for_writing else None
    store = CommandStore(root, create=create, bin_days=bin_days)
    if configured_path and not store.exists:
        raise NoStore(root, f"{config_file.find_path()} names it. acp-proxy run creates it with the first session.")
    if path and not store.exists:
        raise NoStore(root)
    if for_writing and store.read_only_reason is not None:
        raise store.read_only_reason
    if for_writing and store.exists:
        with suppress(OSError):  # whatever cannot be removed now must not keep the user from something else
            store.remove_expired()
    store.show_progress = partial(begin_progress, "Rebuilding the index", PATIENCE_SECONDS)
    return store


def choose_directory(cwd: str, *, here: bool) -> str | None:
    """The absolute directory of --cwd or --here. Raises AcpProxyError."""
    if cwd and here:
        raise UsageError("--here and --cwd exclude each other. Give one of them.")
    if not cwd and not here:
        return None
    try:
        return cwd if os.path.isabs(cwd) or is_windows_path(cwd) else os.path.join(os.getcwd(), cwd or ".")
    except FileNotFoundError as problem:
        raise AcpProxyError("the current directory no longer exists. Give an absolute path: --cwd DIR") from problem


def shorten_ids(store: CommandStore, sessions: Sequence[session_lines.SelectableSession]) -> dict[str, str]:
    """By selector: the shortest form that names a session among those of the store, for display."""
    ids = [session.session_id for session in sessions]
    return session_lines.shorten_selectors(sessions, store.find_ids_alike(ids, formatting.SHORTEST_ID))


def format_short_heading(store: CommandStore, row: ListedSession) -> str:
    """A session's title, and a line about it with its short id and local time, for people."""
    when, id = formatting.format_local_time(row.updated), shorten_ids(store, [row])[row.selector]
    return sanitize.format_heading(row, when, id, os.path.expanduser("~"))


LAST = "last"
"""As SESSION: the newest session."""
INTERRUPTED = 128 + 2
"""The exit status after Ctrl-C: 128 and SIGINT, as in shells."""
_MOST_CANDIDATES = 8
_INDENT, _UNLIMITED_COLUMNS = "  ", 10_000
_LEAST_LIKENESS = 0.75
"""How alike a wrong word and ``last`` have to be: as `lats` is, and `latest`."""

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar=STORE_VARIABLE,
        help="The store's directory (or set ACP_PROXY_STORE).",
        show_envvar=False,
    ),
]
AgentOption = Annotated[
    str,
    typer.Option(
        "--agent",
        "-a",
        metavar="NAME",
        help="Only agents whose name has a word that begins so.",
        autocompletion=completion.complete_agent,
    ),
]
SessionsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SESSION...",
        help="Ids, beginnings of ids, titles, or: last. Default: all.",
        autocompletion=completion.complete_session,
    ),
]
NamedSessionsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SESSION...",
        help="Ids, beginnings of ids, titles, or: last.",
        show_default=False,
        autocompletion=completion.complete_session,
    ),
]
SomeSessionsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SESSION...",
        help="Ids, beginnings of ids, titles, or: last. Default: list them.",
        show_default=False,
        autocompletion=completion.complete_session,
    ),
]
SessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="An id, the beginning of an id, a title or a part of it, or: last.",
        autocompletion=completion.complete_session,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
RegistryOption = Annotated[
    str, typer.Option("--registry", metavar="URL|FILE", help="Another registry of agents.", show_default=False)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@contextmanager
def report_errors() -> Iterator[None]:
    """Print errors that the user can fix, and exit with 1; after a wrong command line, with 2."""
    try:
        yield
    except AcpProxyError as problem:
        _print_error(problem)
        raise typer.Exit(2 if isinstance(problem, UsageError) else 1) from problem
    except BrokenPipeError:  # the reader left; typer exits silently
        raise
    except OSError as problem:
        where = sanitize.make_line(str(problem.filename or "the store"))
        print_on_stderr(f"acp-proxy: {where}: {problem.strerror}. Run: acp-proxy doctor")
        raise typer.Exit(1) from problem


@contextmanager
def report_wrong_usage() -> Iterator[None]:
    """Print the error of a wrong command line, and exit with 2."""
    try:
        yield
    except UsageError as problem:
        _print_error(problem)
        raise typer.Exit(2) from problem


def _print_error(problem: AcpProxyError) -> None:
    for number, text in enumerate(problem.args):
        line = re.sub(r"(?<!\\)\\udc([89a-f][0-9a-f])", r"\\x\1", str(text))  # a quoted byte that is not UTF-8
        print_on_stderr(f"{'' if number else 'acp-proxy: '}{sanitize.make_line(line)}")


def print_on_stderr(text: str) -> None:
    """Print a message, in which there may be foreign words, on a terminal with lines that end between words."""
    typer.echo(fit_to_stream(sanitize.make_printable(text), sys.stderr), err=True)


def ask_to_confirm(
    question: str,
    *,
    enter_means_yes: bool = False,
    declined: str = "Nothing was changed.",
    options_to_skip: str = "--yes",
) -> None:
    """Ask on stderr until the answer is yes or no. No exits with 1, Ctrl-C with 130. ``enter_means_yes``: what Enter
    means.

    ``declined``: what to say after no, or at the end of the input. ``options_to_skip``: those that mean yes.
    """
    choice, meaning = ("[Y/n]", "yes") if enter_means_yes else ("[y/N]", "no")
    try:
        while True:
            answer = typer.prompt(f"{question} {choice}", default="", show_default=False, err=True).strip().lower()
            if not sys.stdin.isatty():  # only a terminal shows the answer, with the end of its line
                typer.echo(err=True)
            if answer in ("y", "yes") or (enter_means_yes and not answer):
                return
            if answer in ("", "n", "no"):
                print_on_stderr(declined)
                break
            typer.echo(f"Type y for yes, or n for no. Enter alone means {meaning}.", err=True)
    except typer.Abort as problem:
        typer.echo(err=True)
        print_on_stderr(declined)
        if isinstance(problem.__context__, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        why = "There is no answer" if is_attended() else "stdin is not a terminal, so there is no answer"
        print_on_stderr(f"{why}. To skip the question: {options_to_skip}")
    raise typer.Exit(1)


def discard_typed_input() -> None:
    """Forget what was typed in the terminal before a question was there."""
    if not sys.stdin.isatty():
        return
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def format_command(command: str, arguments: Sequence[str], *options: str) -> str:
    """A command line that the user can copy, such as of a command on these sessions."""
    has_dash = any(argument.startswith("-") for argument in arguments)
    words = [*options, "--", *arguments] if has_dash else [*arguments, *options]
    return write_as_typed(shell_quote.join(["acp-proxy", *command.split(), *words]))


def repeat_store_option(context: typer.Context, store: str) -> list[str]:
    """The options that make another command use the same store."""
    is_given = getattr(context.get_parameter_source("store"), "name", "") == "COMMANDLINE"
    return ["--store", store] if is_given else []


def repeat_options(context: typer.Context, *names: str) -> list[str]:
    """Those of these options that were given, as they were, for a command that takes them too."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        if name in names and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE":
            value = context.params[name]
            words += [max(option.opts, key=len), *([] if value is True else [str(value)])]
    return words


def repeat_agent_option(store: CommandStore, agent_folder: str, session_id: str) -> list[str]:
    """The option that tells a session from those of other agents; empty if no other one has a session of this id."""
    other_folders = (folder for folder in store.list_agents() if folder != agent_folder)
    is_ambiguous = any(store.is_indexed(folder, session_id) for folder in other_folders)
    return ["--agent", name_known_agent(store, agent_folder)] if is_ambiguous else []


def name_known_agent(store: CommandStore, agent_folder: str) -> str:
    """The word for --agent that means this agent and no other one of the store."""
    return session_lines.make_distinct_names({*store.list_agents(), agent_folder})[agent_folder]


def format_for_agents(store: CommandStore, agent_folders: Iterable[str]) -> list[str]:
    """The command line that was given, once for each of these agents: lines to copy."""
    words = list(own_command.words)
    end = words.index("--") if "--" in words else len(words)
    names = (name_known_agent(store, agent_folder) for agent_folder in agent_folders)
    commands = (["acp-proxy", *words[:end], "--agent", name, *words[end:]] for name in names)
    return [f"  {write_as_typed(shell_quote.join(command))}" for command in commands]


def list_rows_of_agent(store: CommandStore, agent: str) -> list[ListedSession]:
    """All sessions of the matching agents, newest first."""
    return list(store.list_newest(agent))


def choose_session(store: CommandStore, selector: str, agent: str, *, exact_title: bool = False) -> ListedSession:
    """The one session that the user means, by its id or its file in the store, else by its title. Raises NoSuchSession.

    ``exact_title``: a part of a title is not enough.
    """
    file_location = store.locate_file(selector)
    if file_location is not None and file_location[0] in store.list_agents(agent):
        agent, selector = file_location
    if selector == LAST:
        matches = list(islice(store.list_newest(agent, archived=False), 1))
    else:
        matches = list(
            {(row.agent_folder, row.session_id): row for row in reversed(store.find_named(selector, agent))}.values()
        )[::-1]
    if len(matches) > 1:
        raise NoSuchSession(
            f"{selector!r} matches several sessions:",
            *format_candidates(store, matches),
            *advise_on_several(store, matches),
        )
    if matches:
        return matches[0]
    if agent_problem := explain_unknown_agent(store, agent):
        raise NoSuchSession(agent_problem)
    return _choose_titled(store, selector, agent, exact_title=exact_title)


def _choose_titled(store: CommandStore, selector: str, agent: str, *, exact_title: bool) -> ListedSession:
    """The one session with this title, or part of one. Raises NoSuchSession, as ``choose_session`` does."""
    titled_rows = store.find_titled(selector, agent) if selector != LAST else []
    if not titled_rows and selector != LAST:
        titled_rows = store.find_titled(selector, agent, formatting.strip_markdown)
    if not titled_rows:
        raise _explain_no_such_session(store, selector, agent)
    if len(titled_rows) > 1:
        raise NoSuchSession(
            f"the titles of several sessions match {selector!r}:",
            *format_candidates(store, titled_rows),
            "Give the id instead.",
        )
    if exact_title and selector not in (titled_rows[0].title, formatting.format_title(titled_rows[0].title)):
        raise NoSuchSession(
            f"{selector!r} is only a part of a title:",
            *format_candidates(store, titled_rows),
            "With --yes, give the id instead.",
        )
    return titled_rows[0]


def _explain_no_such_session(store: CommandStore, selector: str, agent: str) -> NoSuchSession:
    """The error for a word that is neither an id nor a title: what it may be instead, and what to do."""
    if selector != LAST and find_deleted_matching(store.list_deleted(), selector, agent):
        restore_command = format_command("restore", [selector])
        return NoSuchSession(f"{selector!r} is deleted. To bring it back: {restore_command}")
    if os.path.isfile(selector):
        path = selector if os.sep in selector else os.path.join(".", selector)
        show_command, import_command = (shell_quote.join(["acp-proxy", word, path]) for word in ("show", "import"))
        return NoSuchSession(
            f"{selector} is a file outside of the store. To show it: {show_command}. To add it: {import_command}"
        )
    if has_form_of_file(selector) and not os.path.exists(selector):
        return NoSuchSession(f"{selector} does not exist. To see all sessions: acp-proxy list")
    if not store.list_agents():
        return NoSuchSession("no session is recorded yet. To set up your editor: acp-proxy setup")
    if selector == LAST:
        text = explain_empty_list(store, is_narrow=bool(agent), agent=agent)
        return NoSuchSession(f"{text[:1].lower()}{text[1:]}")
    if os.path.isdir(selector):
        list_command = format_command("list", [], "--cwd", selector)
        return NoSuchSession(f"no session matches {selector!r}, a directory. To see the sessions in it: {list_command}")
    from difflib import get_close_matches  # imported late: only this message needs it

    suggestion = f" Did you mean: {LAST}?" if get_close_matches(selector, [LAST], cutoff=_LEAST_LIKENESS) else ""
    message = f"no session matches {selector!r}.{suggestion} To see all sessions: acp-proxy list"
    is_id = re.fullmatch(r"[0-9a-f-]*", selector)
    search_advice = [] if is_id else [f"To search in them: {format_command('search', [selector])}"]
    return NoSuchSession(message, *search_advice)


def explain_empty_list(
    store: CommandStore,
    *,
    is_narrow: bool,
    agent: str = "",
    archived: bool = False,
    words: Sequence[str] = (),
    search_options: Sequence[str] = (),
    near_command: str = "",
) -> str:
    """The message for an empty list: the reason, and what to do. ``is_narrow``: an option may have left out sessions.
    ``search_options``: those that a search for the words repeats. ``near_command``: the one that may have been meant.
    """
    if agent_problem := explain_unknown_agent(store, agent):
        return f"{agent_problem[:1].upper()}{agent_problem[1:]}"
    if words and next(store.list_newest(), None) is not None:
        search = sanitize.make_line(format_command("search", words, *search_options))
        suggestion = f"\nDid you mean: {sanitize.make_line(near_command)}\n" if near_command else " "
        return f"No title, directory or agent has these words.{suggestion}To look in what was said: {search}"
    if is_narrow and next(store.list_newest(archived=archived), None) is not None:
        return f"No session matches. To see all sessions: acp-proxy list{' --archived' if archived else ''}"
    if archived:
        return NOTHING_ARCHIVED
    if next(store.list_newest(archived=True), None) is not None:
        return "All sessions are archived. To see them: acp-proxy list --archived"
    if store.list_deleted():
        return "All sessions are deleted. To bring one back: acp-proxy restore"
    if store.list_agents():
        return "No recorded session has a prompt yet. If you expect one, run: acp-proxy verify"
    return (
        "No sessions are recorded yet. To set up your editor: acp-proxy setup. To take over older ones: acp-proxy adopt"
    )


def has_form_of_file(selector: str) -> bool:
    return selector.endswith((SUFFIX, COMPRESSED_SUFFIX)) or os.sep in selector


def find_deleted_matching(
    deleted_sessions: Iterable[DeletedSession], selector: str | None, agent: str
) -> list[DeletedSession]:
    """Those of the deleted sessions that have the id or transcript name ``selector``, else those whose id, or a copy's
    short id, begins with it. Titles do not count.

    An empty ``selector`` matches none; None: all. ``agent``: only sessions of the agents that the user means by it.
    """
    all_deleted = list(deleted_sessions)
    folders = match_agents({session.agent_folder for session in all_deleted}, agent)
    candidates = [session for session in all_deleted if session.agent_folder in folders]
    if selector is None:
        return candidates
    return (
        [session for session in candidates if session.session_id == selector]
        or [session for session in candidates if selector in (session.selector, session.name)]
        or [session for session in candidates if selector and _begins_with(session, selector)]
    )


def advise_on_several(store: CommandStore, matches: Sequence[ListedSession | DeletedSession]) -> list[str]:
    """What to do if a word matches several sessions. Where they have one id, only the agent tells them apart."""
    if len({session.session_id for session in matches}) > 1:
        return ["Give more of the id, or use --agent."]
    agent_folders = dict.fromkeys(session.agent_folder for session in matches)
    return ["Choose the agent:", *format_for_agents(store, agent_folders)]


def _begins_with(deleted: DeletedSession, word: str) -> bool:
    """Whether ``word`` is the beginning of the id; with the whole number after it, if the session has one."""
    number = deleted.selector.removeprefix(deleted.session_id)
    beginning = word.removesuffix(number) or word
    return deleted.selector.startswith(word) or deleted.session_id.startswith((word, beginning))


def explain_unknown_agent(store: CommandStore, agent: str) -> str | None:
    """Which agents there are, if none is called as ``--agent`` says; None if one is."""
    if not agent or store.list_agents(agent) or not (agent_folders := store.list_agents()):
        return None
    names = ", ".join(
        sanitize.make_line(name) for name in sorted(session_lines.make_distinct_names(agent_folders).values())
    )
    return f"no agent called {agent!r} has sessions here. Those that have: {names}"


def mask_title_as_recorded(title: str | None) -> str | None:
    """A title as ``run`` would store it, as far as the settings for all agents say. Raises UsageError."""
    if title is None or (patterns := config_file.read_patterns()) is None:
        return title
    from acp_proxy.redaction.masking import Masking  # compiling its patterns takes a while

    return mask_title(title, Masking(patterns).mask_lines)


def format_candidates(
    store: CommandStore, rows: Sequence[ListedSession], ids: Mapping[str, str] | None = None
) -> list[str]:
    """The lines of a message on stderr that names sessions: a table as that of ``list``. ``ids``: the displayed forms,
    by selector, if they are not those of the store."""
    shown_rows, hidden_count = rows[:_MOST_CANDIDATES], len(rows) - _MOST_CANDIDATES
    if ids is None:
        ids = shorten_ids(store, shown_rows)
    lines = format_table(store, shown_rows, ids, sys.stderr, len(_INDENT))
    return [f"{_INDENT}{line}" for line in [*lines, *([f"and {hidden_count} more"] if hidden_count > 0 else [])]]


def format_table(
    store: CommandStore,
    rows: Sequence[ListedSession],
    ids: Mapping[str, str],
    stream: TextIO,
    indent: int = 0,
    *,
    with_size: bool = False,
) -> list[str]:
    """A table like that of ``list``, without colours, as wide as a terminal, indented by ``indent`` columns. Titles may
    be the same, or cut: agents, directories and times go before them. ``ids``: the displayed forms, by selector.
    ``with_size``: with the sizes, too."""
    from acp_proxy.views import session_table  # imported late, as list does

    width = shutil.get_terminal_size().columns - indent if stream.isatty() else _UNLIMITED_COLUMNS
    now, home, forms = datetime.now().astimezone(), os.path.expanduser("~"), find_ascii_forms(stream)
    agents = session_lines.make_distinct_names({*store.list_agents(), *(row.agent_folder for row in rows)})
    look = session_table.ListLook(width, False, now, home, forms, agents)
    table = session_table.make_table(rows, ids, look, short_titles=True, with_size=with_size)
    return [table.format_heading(), *table.format_rows(rows, ids)]
