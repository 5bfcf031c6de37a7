"""``acp-proxy show``: show a conversation, formatted or raw."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy import shell_quote
from acp_proxy.cli import completion, output_files, recordings, values
from acp_proxy.cli.choose_session import choose_session, has_form_of_file, shorten_ids
from acp_proxy.cli.confirm import INTERRUPTED
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import Screen, find_screen, open_pager
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, StoreOption
from acp_proxy.errors import AlreadyThere, NoSuchTurn, NothingToSave, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.raw_lines import read_raw_lines
from acp_proxy.sessions.soft_deleted import summarize_file
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.views import formatting, sanitize, session_lines
from acp_proxy.views.attachments import find_attachments
from acp_proxy.views.conversation import OpenChild, Part, TurnBegin, TurnEnd, number_turns, read_parts
from acp_proxy.views.passages import Heading, Passage, make_passages


def show(
    session: Annotated[
        str,  # Tab offers sessions alone: files would hide them
        typer.Argument(metavar="SESSION|FILE", help=recordings.HELP, autocompletion=completion.complete_session),
    ],
    store: StoreOption = "",
    agent: AgentOption = "",
    turn: values.TurnOption = "",
    full: Annotated[bool, typer.Option("--full", help="Include all input and output of tool calls.")] = False,
    files: Annotated[bool, typer.Option("--files", help="List the files that it changed instead.")] = False,
    extract: Annotated[
        Path | None, typer.Option("--extract", metavar="DIR", help="Save images and files to DIR instead.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on while its turn is running; Ctrl-C ends this. Shown as by replay."),
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the transcript, byte for byte.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each message as a line of JSON.")] = False,
) -> None:
    """Show a conversation: the messages and the tool calls.

    Each tool call is one line, with its changes to files and, if it failed, with the reason. If the output is not a
    terminal, it is plain text with the original Markdown. On a terminal, --raw replaces control characters.

    --follow shows words as they come, whichever process records them, until the turn or that process ends.

    Example: acp-proxy show last --turn -1
    """
    if files and (raw or as_json or full or follow or extract is not None):
        raise typer.BadParameter("--files can be combined only with --turn. For JSON: acp-proxy diff SESSION --json")
    if raw + as_json + (extract is not None) > 1 or ((raw or as_json) and full) or (raw and turn):
        raise typer.BadParameter(
            "--raw and --json cannot be combined with each other or with --full or --extract, nor --raw with --turn"
        )
    if follow and (raw or as_json or full or extract is not None):
        raise typer.BadParameter("--follow cannot be combined with --raw, --json, --full or --extract")

    with report_errors():
        turns = values.parse_turns(turn)
        opened_store = open_store(store)
        is_outside = _is_outside(opened_store, session)
        if is_outside and follow:
            replay_command = shell_quote.join(["acp-proxy", "replay", session])
            raise UsageError(f"--follow needs a session of the store. To watch a file: {replay_command}")
        with (_open_outside if is_outside else _open_stored)(opened_store, session, agent) as (
            row,
            reader,
            open_child,
        ):
            if follow:
                _follow(opened_store, row, reader, turns)
            elif files:
                _list_files(row, reader, open_child, turns)
            elif extract is not None:
                extract_attachments(find_parts(reader, row.session_id, turns, open_child), extract)
            elif raw:
                print_raw(reader, find_screen())
            elif as_json:
                print_messages(reader, find_screen(), turns)
            else:
                short_ids = (
                    session_lines.shorten_selectors([row], ()) if is_outside else shorten_ids(opened_store, [row])
                )
                parts = find_parts(reader, row.session_id, turns, open_child)
                print_conversation(row, parts, find_screen(), full=full, id=short_ids[row.selector])


_OpenSession = tuple[ListedSession, TranscriptReader, OpenChild]


def _is_outside(store: CommandStore, word: str) -> bool:
    """Whether this is a file that is not in the store. A title may be the name of a file, too: a file has its ending,
    or is a path."""
    return has_form_of_file(word) and Path(word).is_file() and store.locate_file(word) is None


@contextmanager
def _open_stored(store: CommandStore, word: str, agent: str) -> Iterator[_OpenSession]:
    row = choose_session(store, word, agent)
    with closing(store.open_listed(row)) as reader:
        yield row, reader, partial(store.open_child, row)


@contextmanager
def _open_outside(store: CommandStore, word: str, agent: str) -> Iterator[_OpenSession]:
    """The sessions of its subagents are not looked for."""
    with recordings.open_recording(word, str(store.root), agent) as (reader, header, _):
        yield summarize_file(reader, header), reader, lambda session_id: nullcontext(None)


def _list_files(row: ListedSession, reader: TranscriptReader, open_child: OpenChild, turns: values.Turns) -> None:
    from acp_proxy.tools.changes.command import print_summary  # imported late: comparing files is slow to import
    from acp_proxy.tools.changes.session_changes import read_changes

    print_summary(read_changes(reader, row.cwd, open_child, turns))


def _follow(store: CommandStore, row: ListedSession, reader: TranscriptReader, turns: values.Turns) -> None:
    from acp_proxy.tools.show.follow import Follower

    try:
        typer.echo(Follower(store, row, reader, turns).run(), err=True)
    except KeyboardInterrupt:
        typer.echo("\x1b[0m")  # typer removes it if the output is not a terminal
        raise typer.Exit(INTERRUPTED) from None


# --- The forms of a conversation that ``show`` can print: text, raw bytes, JSON, or its images as files.


_TURN_HEADINGS = "^Turn [0-9]"
"""The lines that begin a turn on a terminal (``RichPrinter``), as less searches them."""


def print_conversation(
    row: ListedSession,
    parts: Iterator[Part],
    target: Screen,
    *,
    full: bool,
    keeps_short_text: bool = False,
    id: str = "",
    turn: int = 1,
) -> None:
    """Print a conversation. ``keeps_short_text``: see ``open_pager``. ``id``: the short one, for people. ``turn``:
    where the pager begins."""
    when = formatting.format_local_time(row.updated) if target.is_formatted else None  # like the times of the turns
    home = os.path.expanduser("~") if target.is_formatted else ""
    title, _, details = sanitize.format_heading(row, when, id if target.is_formatted else None, home).partition("\n")
    format_passage, passages = _make_passage_formatter(target, row.cwd), make_passages(parts, full=full)
    texts_before = [f"\x1b[1m{title}\x1b[0m\n{details}\n" if target.is_formatted else f"{title}\n{details}\n"]
    first_line = 1
    if turn > 1:
        for passage in passages:
            printed = "".join(format_passage(passage))
            if isinstance(passage, Heading) and passage.number >= turn:
                first_line = (
                    sum(text.count("\n") for text in texts_before) + len(printed) - len(printed.lstrip("\n")) + 1
                )
            texts_before.append(printed)
            if first_line > 1:
                break
    with open_pager(
        target, keeps_short_text=keeps_short_text, line_pattern=_TURN_HEADINGS, first_line=first_line
    ) as write:
        for text in texts_before:
            write(text)
        for passage in passages:
            for text in format_passage(passage):
                write(text)


def _make_passage_formatter(target: Screen, cwd: str | None) -> Callable[[Passage], Iterator[str]]:
    if target.is_formatted:
        from acp_proxy.views.rich_text import RichPrinter

        return RichPrinter(target.line_width, has_colours=target.has_colours, cwd=cwd).print
    from acp_proxy.views.plain_text import PassagePrinter

    return PassagePrinter().print


def print_messages(reader: TranscriptReader, target: Screen, turns: values.Turns) -> None:
    """Print each message of these turns as a line of JSON; without a choice, also what came before the first turn."""
    first, last = find_turns(reader, turns) if turns != (1, None) else turns
    with open_pager(target) as write:
        for number, line in number_turns(reader.read_lines()):
            if last is not None and number > last:
                break
            if line.entry is not None and line.entry.value is not None and (number >= first or turns == (1, None)):
                write(f"{sanitize.format_json(line.entry.value)}\n")


def print_raw(reader: TranscriptReader, target: Screen) -> None:
    if not target.is_terminal:
        output_files.write_to_stdout(reader.read_bytes(0))
        return
    with open_pager(target) as write:
        write(sanitize.make_printable(reader.first_line[: reader.header_size].decode("utf-8", "replace")))
        for _, _, line in read_raw_lines(reader):
            write(sanitize.make_printable(line.decode("utf-8", "replace")))


def extract_attachments(parts: Iterator[Part], folder: Path) -> None:
    saved = turn = number = 0
    for part in parts:
        if isinstance(part, TurnBegin):
            turn, number = part.number, 0
        for attachment in find_attachments(part) if not isinstance(part, TurnBegin | TurnEnd) else ():
            number += 1
            path, data = folder / f"turn-{turn}-{number}{attachment.suffix}", attachment.decode()
            if data is None:
                typer.echo(f"Not saved: the {attachment.kind} {path.stem} is damaged", err=True)
                continue
            _save(path, data)
            saved += 1
            typer.echo(str(path))
    if not saved:
        raise NothingToSave(
            "nothing was saved: these turns contain no images or files. Choose other turns with --turn."
        )


def _save(path: Path, data: bytes) -> None:
    """Save a file; replace none. Raises NothingToSave, NotWritable, OSError."""
    if path.is_file() and path.read_bytes() == data:
        return
    output_files.make_directory(path.parent)
    try:
        output_files.write_file(path, [data], force=False)
    except AlreadyThere:
        raise NothingToSave(f"{path} already exists. Choose another directory.") from None


def find_turns(reader: TranscriptReader, turns: values.Turns) -> values.Turns:
    """The first and the last of these turns, counted from the beginning. Raises NoSuchTurn."""
    count = max((number for number, _ in number_turns(reader.read_lines())), default=0)
    first, last = (count + turns[0] + 1,) * 2 if turns[0] < 0 else turns
    if not 1 <= first <= min(count, count if last is None else last):
        raise _make_no_such_turn(count)
    return first, last


def find_parts(reader: TranscriptReader, session_id: str, turns: values.Turns, open_child: OpenChild) -> Iterator[Part]:
    """The parts of these turns. Raises NoSuchTurn before the first part. ``open_child``: opens subagents'
    transcripts."""
    first, last = turns
    if first < 0:
        count = sum(isinstance(part, TurnBegin) for part in read_parts(reader, session_id))
        first = last = count + first + 1
    parts = _cut_parts(read_parts(reader, session_id, open_child), first, last)
    first_part = next(parts, None)
    if first_part is None and turns != (1, None):
        count = sum(isinstance(part, TurnBegin) for part in read_parts(reader, session_id))
        raise _make_no_such_turn(count)
    return chain(() if first_part is None else (first_part,), parts)


def _make_no_such_turn(count: int) -> NoSuchTurn:
    return NoSuchTurn(f"there is no such turn: the conversation has {count}. To see the last one: --turn -1")


def _cut_parts(all_parts: Iterable[Part], first: int, last: int | None) -> Iterator[Part]:
    number = 0
    for part in all_parts:
        number = part.number if isinstance(part, TurnBegin) else number
        if last is not None and number > last:
            return
        if number >= max(first, 1):
            yield part
