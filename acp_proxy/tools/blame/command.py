"""``acp-proxy blame``: which session and turn wrote the lines of a file."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from typing import Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from acp_proxy.cli.choose_session import shorten_ids
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import Screen, find_screen, open_pager
from acp_proxy.cli.progress import PATIENCE_SECONDS, begin_progress
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.shared_options import AgentOption, JsonOption, StoreOption
from acp_proxy.errors import AcpProxyError, NewerFormat
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession
from acp_proxy.store.same_directory import is_inside, resolve_directory
from acp_proxy.tools.blame.blame import WrittenLine, find_writers
from acp_proxy.tools.blame.same_file import SameFile
from acp_proxy.tools.changes.edits import CallSummary, Edit, Unclear, read_edits
from acp_proxy.tools.changes.net import FileText, fit_to_files, trace_edits
from acp_proxy.tools.search.call_search import find_calls
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.views import formatting, sanitize

_LARGEST_FILE_BYTES = 16 * 1024 * 1024
"""Bytes of a file whose lines are followed: larger ones are data."""
_PROMPT_CHARACTERS = 100
_LEAST_PROMPT = 30
"""Columns of a prompt beside its turn: with fewer, it has a line of its own."""
_MOST_COMMANDS = 3
_COMMAND_WORD = re.compile(r"[^\s'\"`<>|;&()=]+")
"""A word of a command line, also one after ``>`` without a space."""
_GIT_SECONDS = 20
_GIT_BLAME_LINE = re.compile(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")
_MOST_TURNS = 1_000_000
"""More turns than a session has: so a turn has a number of its own among all sessions."""


class SessionTurn(Struct, frozen=True):
    """A turn that edited the file. ``prompt``: what the user asked for."""

    row: ListedSession
    number: int
    started_at: str
    prompt: str


class NamingCommand(Struct, frozen=True):
    """A command that names the file, and so may have written it: what a command changed is not recorded."""

    row: ListedSession
    turn: int
    call: str
    stamp: str
    command: str


class FileEdits(Struct):
    """All edits of a file in all sessions, oldest first, and the turns they belong to. ``commands``: newest first."""

    edits: list[Edit]
    turns: list[SessionTurn]
    unclear: list[tuple[ListedSession, Unclear]]
    commands: list[NamingCommand]
    unreadable: int = 0


def blame(
    file: Annotated[str, typer.Argument(metavar="FILE[:LINE]", help="A file, or one of its lines: src/login.py:12.")],
    store: StoreOption = "",
    agent: AgentOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show which session and turn wrote the lines of a file.

    The newest turn comes first, with its prompt. Lines that no session wrote are yours. A line that was moved keeps its
    writer. In a git work tree, the commit of each line is beside it. The sessions may be of any directory, also of
    another work tree of the repository, or of where the project was before it was moved.

    Example: acp-proxy blame src/login.py:12
    """
    with report_errors():
        path, line = _parse_target(file)
        text = _read_text(path)
        opened_store = open_store(store)
        file_edits = _read_sessions(opened_store, path, agent)
        lines = _find_lines(path, text, file_edits)
        if line is not None:
            if not 1 <= line <= len(lines):
                count = formatting.format_count(len(lines), "line")
                raise AcpProxyError(f"{file}: the file has {count}. Give a number from 1 to that.")
            lines = [lines[line - 1]]
        if any(written_line.edit is not None for written_line in lines):  # most commands only read what an edit wrote
            file_edits.commands = []
        commits = _ask_git(path)
        if as_json:
            typer.echo(sanitize.format_json(_encode_report(path, lines, file_edits, commits), indent=2))
        else:
            target = find_screen()
            with open_pager(target) as write:
                for row in _format_lines(
                    opened_store, path, lines, file_edits, commits, target if target.is_terminal else None
                ):
                    write(f"{row}\n")
        for session, call in file_edits.unclear:
            outcome = "edited it without a diff" if call.cause == "no-diff" else "did not finish an edit of it"
            print_on_stderr(f"Not known: {sanitize.make_line(session.selector)} turn {call.turn} {outcome}.")
        for text in _format_commands(opened_store, file_edits.commands):
            print_on_stderr(text)
        if file_edits.unreadable:
            print_on_stderr(f"{file_edits.unreadable} sessions could not be read. Run: acp-proxy verify")


def _parse_target(target: str) -> tuple[str, int | None]:
    """The file's absolute path, and the number of the line."""
    name, mark, number = target.rpartition(":")
    if mark and number.isdecimal() and not os.path.lexists(target):
        return os.path.abspath(name), int(number)
    return os.path.abspath(target), None


def _read_text(path: str) -> str:
    """The text of the file. Raises AcpProxyError, OSError."""
    if os.path.isdir(path):
        raise AcpProxyError(f"{path} is a directory. Name a file.")
    if not os.path.exists(path):
        raise AcpProxyError(f"{path} does not exist. Check the file's name.")
    if os.path.getsize(path) > _LARGEST_FILE_BYTES:
        raise AcpProxyError(
            f"{path} is larger than {formatting.format_size(_LARGEST_FILE_BYTES)}: its lines are not followed."
        )
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "surrogateescape")


def _read_sessions(store: CommandStore, path: str, agent: str) -> FileEdits:
    """The edits of the file in every session that has a call with it."""
    file = SameFile(path)
    dated_edits: list[tuple[str, SessionTurn, Edit]] = []
    file_edits = FileEdits([], [], [], [])
    for row in _find_sessions(store, file, agent, file_edits):
        try:
            with closing(store.open_listed(row)) as reader:
                dated_edits += _read_session(store, row, reader, file, file_edits)
        except (OSError, NewerFormat):
            file_edits.unreadable += 1
    dated_edits.sort(key=lambda dated_edit: dated_edit[0])
    for _, turn, edit in dated_edits:
        file_edits.turns.append(turn)
        file_edits.edits.append(edit)
    return file_edits


def _find_sessions(store: CommandStore, file: SameFile, agent: str, file_edits: FileEdits) -> list[ListedSession]:
    """The sessions that may have edited the file, oldest first. Adds the commands that name it."""
    name = os.path.basename(file.path)

    def may_edit(call: CallSummary) -> bool:
        return any(file.may_be(path) for _, path in call.files)

    def is_naming(call: CallSummary) -> bool:
        words = _COMMAND_WORD.findall(call.command) if name in call.command and call.result != "denied" else ()
        return any(os.path.basename(word) == name for word in words)

    with begin_progress("Reading new transcripts", PATIENCE_SECONDS) as bar:
        calls_found = find_calls(store, store.list_agents(agent), lambda call: may_edit(call) or is_naming(call), bar)
    if not calls_found:
        return []
    rows = {(row.agent_folder, row.name): row for row in store.list_newest(agent)}
    calls = {
        key
        for key, turns in calls_found.items()
        if any(may_edit(call) for _, calls_of_turn in turns.values() for call in calls_of_turn)
    }
    # The calls of a subagent are in a transcript of its own, which does not say whose it is.
    agents_with_others = {agent for agent, name in calls if (agent, name) not in rows}
    directory = resolve_directory(os.path.dirname(file.path))
    file_edits.commands = sorted(
        (
            NamingCommand(row, turn, call.call, call.stamp, call.command)
            for key, turns in calls_found.items()
            if (row := rows.get(key)) is not None and _is_above(row, directory)
            for turn, (_, its_calls) in turns.items()
            for call in its_calls
            if is_naming(call)
        ),
        key=lambda command: (command.stamp, command.turn),
        reverse=True,
    )
    return [
        row
        for key, row in rows.items()
        if key in calls or (row.agent_folder in agents_with_others and _is_above(row, directory))
    ][::-1]


def _is_above(row: ListedSession, directory: str) -> bool:
    return any(
        is_inside(directory, resolve_directory(session_directory))
        for session_directory in (row.cwd, *row.directories)
        if session_directory
    )


def _read_session(
    store: CommandStore, row: ListedSession, reader: TranscriptReader, file: SameFile, file_edits: FileEdits
) -> Iterator[tuple[str, SessionTurn, Edit]]:
    session_edits = read_edits(reader, partial(store.open_child, row))
    header = reader.header
    # A fork begins with its parent's entries: they are the parent's edits.
    since = header.created_at if header is not None and header.forked_from else ""

    names = set[str]()

    def is_this_file(path: str) -> bool:
        return file.is_at(path, row.cwd) or os.path.normpath(os.path.join(row.cwd or "/", path)) in names

    edits = []
    for edit in reversed(session_edits.edits):
        if edit.stamp < since or not is_this_file(edit.path):
            continue
        if edit.form == "move":  # what came before, it had another name
            names.add(os.path.normpath(os.path.join(row.cwd or "/", edit.source)))
        else:
            turn = SessionTurn(
                row,
                edit.turn,
                session_edits.starts.get(edit.turn, edit.stamp),
                session_edits.prompts.get(edit.turn, ""),
            )
            edits.append((edit.stamp, turn, replace(edit, path=file.path)))
    yield from reversed(edits)
    file_edits.unclear += [
        (row, call) for call in session_edits.unclear if call.stamp >= since and any(map(is_this_file, call.paths))
    ]


def _find_lines(path: str, text: str, file_edits: FileEdits) -> list[WrittenLine]:
    """The lines with the indexes of their edits. Sorts ``file_edits`` by the order in which the edits were made."""

    def find_current_text(path: str) -> FileText:
        return FileText(text)

    keys = {(turn.row.agent_folder, turn.row.name): n for n, turn in enumerate(file_edits.turns)}
    edits = [
        replace(edit, turn=keys[turn.row.agent_folder, turn.row.name] * _MOST_TURNS + edit.turn)
        for edit, turn in zip(file_edits.edits, file_edits.turns, strict=True)
    ]
    by_turn = {edit.turn: turn for edit, turn in zip(edits, file_edits.turns, strict=True)}
    traced = trace_edits(fit_to_files(edits, find_current_text), os.path.dirname(path), find_current_text)
    file_edits.edits = [traced_edit.edit for traced_edit in traced]
    file_edits.turns = [by_turn[traced_edit.edit.turn] for traced_edit in traced]
    return find_writers(text, traced)


def _ask_git(path: str) -> Mapping[int, str]:
    """The commit of each line, if the file is in a git work tree; none for what is not committed."""
    git = shutil.which("git")
    if git is None:
        return {}
    folder, name = os.path.split(path)
    words = [git, "-C", folder, "-c", "core.fsmonitor=false", "blame", "--porcelain", "--", name]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        result = subprocess.run(words, capture_output=True, timeout=_GIT_SECONDS, env=environment, check=False)
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = result.stdout.decode("utf-8", "replace").splitlines() if result.returncode == 0 else []
    commits = {int(match[2]): match[1] for row in rows if (match := _GIT_BLAME_LINE.fullmatch(row))}
    return {line: commit for line, commit in commits.items() if commit.strip("0")}


def _group(lines: Sequence[WrittenLine], file_edits: FileEdits) -> list[tuple[SessionTurn | None, list[WrittenLine]]]:
    """The lines by turn, the newest first; at the end those that no session wrote."""

    def turn_of(line: WrittenLine) -> tuple[str, str, str, int]:
        turn = file_edits.turns[line.edit] if line.edit is not None else None
        return (
            (turn.started_at, turn.row.agent_folder, turn.row.name, turn.number)
            if turn is not None
            else ("", "", "", 0)
        )

    ordered = sorted(lines, key=turn_of, reverse=True)
    groups = [list(group) for _, group in groupby(ordered, key=turn_of)]
    return [
        (
            file_edits.turns[group[0].edit] if group[0].edit is not None else None,
            sorted(group, key=lambda line: line.number),
        )
        for group in groups
    ]


def _format_lines(
    store: CommandStore,
    path: str,
    lines: Sequence[WrittenLine],
    file_edits: FileEdits,
    commits: Mapping[int, str],
    target: Screen | None,
) -> Iterator[str]:
    """The lines to print, by turn. ``target``: the terminal; None: other programs read the lines."""
    ids = shorten_ids(store, list({turn.row.selector: turn.row for turn in file_edits.turns}.values()))
    width = max((len(str(line.number)) for line in lines), default=1)
    directory = resolve_directory(os.path.dirname(path))
    for turn, group in _group(lines, file_edits):
        if turn is None:
            yield f"no session: {_format_ranges([line.number for line in group])}"
            continue
        prompt = sanitize.join_lines(turn.prompt)[: target.width if target is not None else _PROMPT_CHARACTERS]
        other_directory = "" if _is_above(turn.row, directory) else f"in {sanitize.make_line(turn.row.cwd or '?')}  "
        agent_name = name_agent(sanitize.make_line(turn.row.agent_folder))
        when = formatting.format_local_time(turn.started_at)
        turn_text = f"turn {turn.number}  {agent_name}  {when}  {other_directory}".rstrip()
        yield from _fit_heading(f"{sanitize.make_line(ids[turn.row.selector])}  {turn_text}", prompt, target)
        for line in group:
            commit = f"{commits.get(line.number, '-')[:8]:<8}  " if commits else ""
            yield f"  {line.number:>{width}}  {commit}{sanitize.make_line(line.text.rstrip())}".rstrip()


def _fit_heading(turn_text: str, prompt: str, target: Screen | None) -> Iterator[str]:
    """A turn and its prompt: on a line that a terminal need not wrap, or on two if that shows more of the prompt."""
    if target is None:
        yield f"{turn_text}  {prompt}".rstrip()
        return
    room = target.line_width - cell_len(turn_text) - 2
    if room >= min(cell_len(prompt), _LEAST_PROMPT):
        yield f"{turn_text}  {_cut_end(prompt, room)}".rstrip()
    else:
        yield _cut_end(turn_text, target.line_width)
        yield f"  {_cut_end(prompt, target.line_width - 2)}"


def _cut_end(text: str, width: int) -> str:
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(width - 1, 0)).rstrip()}…"


def _format_commands(store: CommandStore, commands: Sequence[NamingCommand]) -> Iterator[str]:
    shown = commands[:_MOST_COMMANDS]
    ids = shorten_ids(store, [command.row for command in shown]) if shown else {}
    for command in shown:
        text = sanitize.join_lines(command.command)[:_PROMPT_CHARACTERS]
        who = f"{sanitize.make_line(ids[command.row.selector])} turn {command.turn}"
        yield f"Not known: {who} ran a command that names it; what it changed is not recorded: {text}"
    if len(commands) > len(shown):
        yield f"Earlier commands that name it: {len(commands) - len(shown)}"


def _format_ranges(numbers: Sequence[int]) -> str:
    """``1-3, 7``."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _encode_report(
    path: str, lines: Sequence[WrittenLine], file_edits: FileEdits, commits: Mapping[int, str]
) -> dict[str, Any]:
    """The lines for ``--json``; docs/json.md describes them."""
    return {
        "file": path,
        "lines": [_encode_line(line, file_edits, commits.get(line.number)) for line in lines],
        "unclear": [
            {
                "sessionId": row.session_id,
                "agent": row.agent_folder,
                "turn": call.turn,
                "toolCallId": call.call,
                "cause": call.cause,
            }
            for row, call in file_edits.unclear
        ]
        + [
            {
                "sessionId": command.row.session_id,
                "agent": command.row.agent_folder,
                "turn": command.turn,
                "toolCallId": command.call,
                "cause": "command",
            }
            for command in file_edits.commands
        ],
    }


def _encode_line(line: WrittenLine, file_edits: FileEdits, commit: str | None) -> dict[str, Any]:
    turn = file_edits.turns[line.edit] if line.edit is not None else None
    return {
        "line": line.number,
        "text": line.text.rstrip("\r\n"),
        "sessionId": turn.row.session_id if turn is not None else None,
        "agent": turn.row.agent_folder if turn is not None else None,
        "transcript": turn.row.name if turn is not None else None,
        "cwd": turn.row.cwd if turn is not None else None,
        "turn": turn.number if turn is not None else None,
        "at": turn.started_at if turn is not None else None,
        "prompt": turn.prompt if turn is not None else None,
        "toolCallId": file_edits.edits[line.edit].call if line.edit is not None else None,
        "commit": commit,
    }
