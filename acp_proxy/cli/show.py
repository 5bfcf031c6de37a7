"""``acp-proxy sessions show``: a conversation, rendered, or as it lies there."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli.screen import Screen, paged, screen
from acp_proxy.cli.storing import AgentOption, SessionArgument, StoreOption, chosen, explained, root_of
from acp_proxy.errors import NoSuchTurn, NothingToSave
from acp_proxy.transcripts.access import open_private
from acp_proxy.transcripts.index import Listed
from acp_proxy.transcripts.reading import Reading
from acp_proxy.transcripts.store import Store
from acp_proxy.views import terminal
from acp_proxy.views.attachments import attachments
from acp_proxy.views.conversation import Begun, Ended, Part, parts

if TYPE_CHECKING:
    from acp_proxy.views.showing import Passage

_TURNS = re.compile(r"(-?[1-9][0-9]{0,8})(-([1-9][0-9]{0,8})?)?")


def show(
    session: SessionArgument,
    store: StoreOption = "",
    agent: AgentOption = "",
    turn: Annotated[
        str, typer.Option("--turn", metavar="N", help="Only this turn, or turns: 3, 2-5, 7-, or -1 for the last.")
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="With all that tool calls were given and gave.")] = False,
    extract: Annotated[
        Path | None, typer.Option("--extract", metavar="DIR", help="Save images and files there instead.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The transcript as it is, byte for byte.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: each message, a line of JSON.")] = False,
) -> None:
    """Show a conversation: what was said, and what was done.

    Tool calls are a line each, with their changes to files. To another program it is plain text, and Markdown stays
    as it was written. On a terminal --raw is made printable.

    Example: acp-proxy sessions show last --turn -1
    """
    if raw + as_json + (extract is not None) > 1 or ((raw or as_json) and (turn or full)):
        raise typer.BadParameter("--raw and --json go with no other of --turn, --full and --extract")
    wanted = _wanted(turn)
    with explained():
        opened = Store(root_of(store))
        row = chosen(opened, session, agent)
        reading = opened.open_listed(row)
        try:
            if extract is not None:
                _extract(_of_turns(reading, row.session, wanted), extract)
            elif raw:
                _raw(reading, screen())
            elif as_json:
                with paged(screen()) as say:
                    for line in reading.lines():
                        if line.entry is not None and line.entry.value is not None:
                            say(f"{terminal.json_text(line.entry.value)}\n")
            else:
                _show(row, _of_turns(reading, row.session, wanted), screen(), full=full)
        finally:
            reading.close()


def _show(row: Listed, shown: Iterator[Part], target: Screen, *, full: bool) -> None:
    from acp_proxy.views.showing import passages

    title, _, rest = terminal.heading(row).partition("\n")
    with paged(target) as say:
        say(f"\x1b[1m{title}\x1b[0m\n{rest}\n" if target.is_dressed else f"{title}\n{rest}\n")
        told = _look(target)
        for passage in passages(shown, full=full):
            for text in told(passage):
                say(text)


def _look(target: Screen) -> Callable[["Passage"], Iterator[str]]:
    if target.is_dressed:
        from acp_proxy.views.dressed import Dressed

        return Dressed(target.width, colours=target.colours).told
    from acp_proxy.views.lines import Lines

    return Lines().told


def _raw(reading: Reading, target: Screen) -> None:
    if not target.is_terminal:
        for data in reading.bytes_from(0):
            sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with paged(target) as say:
        say(terminal.printable(reading.first[: reading.header_size].decode("utf-8", "replace")))
        for _, _, line in reading.raw_lines():
            say(terminal.printable(line.decode("utf-8", "replace")))


def _extract(shown: Iterator[Part], folder: Path) -> None:
    saved = turn = number = 0
    folder.mkdir(parents=True, exist_ok=True)
    for part in shown:
        if isinstance(part, Begun):
            turn, number = part.number, 0
        for found in attachments(part) if not isinstance(part, Begun | Ended) else ():
            number += 1
            path, data = folder / f"turn-{turn}-{number}{found.ending}", found.bytes()
            if data is None:
                typer.echo(f"Not saved, since it is damaged: the {found.kind} {path.stem}", err=True)
                continue
            _save(path, data)
            saved += 1
            typer.echo(str(path))
    if not saved:
        raise NothingToSave("there are no images or files in what was asked for, so nothing was saved")


def _save(path: Path, data: bytes) -> None:
    """Nothing is overwritten. Raises NothingToSave, OSError."""
    try:
        fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        if path.is_file() and path.read_bytes() == data:
            return
        raise NothingToSave(f"{path} is there already. Name another directory.") from None
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _wanted(text: str) -> tuple[int, int | None]:
    """The first and the last turn; both negative where they count from the end."""
    match = _TURNS.fullmatch(text)
    if not text:
        return 1, None
    if match is None or (match[2] and text.startswith("-")):
        raise typer.BadParameter(f"{text!r} is no turn, as 3, 2-5, 7- and -1 are", param_hint="--turn")
    first = int(match[1])
    return first, int(match[3]) if match[3] else None if match[2] else first


def _of_turns(reading: Reading, session: str, wanted: tuple[int, int | None]) -> Iterator[Part]:
    """The parts of these turns. Raises NoSuchTurn, at once."""
    first, last = wanted
    if first < 0:
        count = sum(isinstance(part, Begun) for part in parts(reading, session))
        first = last = count + first + 1
    found = _between(parts(reading, session), first, last)
    begun = next(found, None)
    if begun is None and wanted != (1, None):
        count = sum(isinstance(part, Begun) for part in parts(reading, session))
        raise NoSuchTurn(f"there is no such turn: the conversation has {count}")
    return chain(() if begun is None else (begun,), found)


def _between(all_parts: Iterable[Part], first: int, last: int | None) -> Iterator[Part]:
    number = 0
    for part in all_parts:
        number = part.number if isinstance(part, Begun) else number
        if last is not None and number > last:
            return
        if number >= max(first, 1):
            yield part
