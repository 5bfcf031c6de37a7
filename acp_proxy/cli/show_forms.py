"""The forms of a conversation that ``show`` can print: text, raw bytes, JSON, or its images as files."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import typer

from acp_proxy.cli import writing
from acp_proxy.cli.screen import Screen, paged
from acp_proxy.conversation import Begun, Ended, OpenChild, Part, numbered, parts
from acp_proxy.errors import AlreadyThere, NoSuchTurn, NothingToSave
from acp_proxy.transcripts.archive import Listed, Reading
from acp_proxy.views import figures, terminal
from acp_proxy.views.attachments import attachments
from acp_proxy.views.showing import Passage, passages

Wanted = tuple[int, int | None]
"""The first and the last turn; negative numbers count from the end."""


def conversation(row: Listed, shown: Iterator[Part], target: Screen, *, full: bool, stays: bool = False) -> None:
    """``stays``: see ``paged``."""
    when = figures.local(row.updated) if target.is_dressed else None  # like the times of the turns
    title, _, rest = terminal.heading(row, when).partition("\n")
    with paged(target, stays=stays) as say:
        say(f"\x1b[1m{title}\x1b[0m\n{rest}\n" if target.is_dressed else f"{title}\n{rest}\n")
        told = _look(target)
        for passage in passages(shown, full=full):
            for text in told(passage):
                say(text)


def _look(target: Screen) -> Callable[[Passage], Iterator[str]]:
    if target.is_dressed:
        from acp_proxy.views.dressed import Dressed

        return Dressed(target.room, colours=target.colours).told
    from acp_proxy.views.printing import PassagePrinter

    return PassagePrinter().told


def messages(reading: Reading, target: Screen, wanted: Wanted) -> None:
    """Print each message of these turns as a line of JSON; without a choice, also what came before the first turn."""
    first, last = wanted
    if wanted != (1, None):
        count = max((number for number, _ in numbered(reading.lines())), default=0)
        first, last = (count + first + 1,) * 2 if first < 0 else wanted
        if not 1 <= first <= min(count, count if last is None else last):
            raise _no_such_turn(count)
    with paged(target) as say:
        for number, line in numbered(reading.lines()):
            if last is not None and number > last:
                break
            if line.entry is not None and line.entry.value is not None and (number >= first or wanted == (1, None)):
                say(f"{terminal.json_text(line.entry.value)}\n")


def raw(reading: Reading, target: Screen) -> None:
    if not target.is_terminal:
        writing.to_stdout(reading.bytes_from(0))
        return
    with paged(target) as say:
        say(terminal.printable(reading.first[: reading.header_size].decode("utf-8", "replace")))
        for _, _, line in reading.raw_lines():
            say(terminal.printable(line.decode("utf-8", "replace")))


def extract(shown: Iterator[Part], folder: Path) -> None:
    saved = turn = number = 0
    for part in shown:
        if isinstance(part, Begun):
            turn, number = part.number, 0
        for found in attachments(part) if not isinstance(part, Begun | Ended) else ():
            number += 1
            path, data = folder / f"turn-{turn}-{number}{found.ending}", found.bytes()
            if data is None:
                typer.echo(f"Not saved: the {found.kind} {path.stem} is damaged", err=True)
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
    writing.make_directory(path.parent)
    try:
        writing.to_file(path, [data], force=False)
    except AlreadyThere:
        raise NothingToSave(f"{path} already exists. Choose another directory.") from None


def of_turns(reading: Reading, session: str, wanted: Wanted, child: OpenChild) -> Iterator[Part]:
    """The parts of these turns. Raises NoSuchTurn before the first part. ``child``: opens subagents' transcripts."""
    first, last = wanted
    if first < 0:
        count = sum(isinstance(part, Begun) for part in parts(reading, session))
        first = last = count + first + 1
    found = _between(parts(reading, session, child), first, last)
    begun = next(found, None)
    if begun is None and wanted != (1, None):
        count = sum(isinstance(part, Begun) for part in parts(reading, session))
        raise _no_such_turn(count)
    return chain(() if begun is None else (begun,), found)


def _no_such_turn(count: int) -> NoSuchTurn:
    return NoSuchTurn(f"there is no such turn: the conversation has {count}. Give a smaller number with --turn.")


def _between(all_parts: Iterable[Part], first: int, last: int | None) -> Iterator[Part]:
    number = 0
    for part in all_parts:
        number = part.number if isinstance(part, Begun) else number
        if last is not None and number > last:
            return
        if number >= max(first, 1):
            yield part
