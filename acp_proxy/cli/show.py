"""``acp-proxy sessions show``: show a conversation, formatted or raw."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy.cli.screen import screen
from acp_proxy.cli.storing import (
    INTERRUPTED,
    AgentOption,
    SessionArgument,
    StoreOption,
    chosen,
    explained,
    store_of,
)
from acp_proxy.transcripts.archive import Archive, Listed, Reading

_TURNS = re.compile(r"(-?[1-9][0-9]{0,8})(-([1-9][0-9]{0,8})?)?")


def show(
    session: SessionArgument,
    store: StoreOption = "",
    agent: AgentOption = "",
    turn: Annotated[
        str, typer.Option("--turn", metavar="N", help="Only this turn or these turns: 3, 2-5, 7-, or -1 for the last.")
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="Include all input and output of tool calls.")] = False,
    extract: Annotated[
        Path | None, typer.Option("--extract", metavar="DIR", help="Save images and files to DIR instead.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on while its turn is running; Ctrl-C ends this. Shown as by replay.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the transcript, byte for byte.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each message as a line of JSON.")] = False,
) -> None:
    """Show a conversation: the messages and the tool calls.

    Each tool call is one line, with its changes to files and, if it failed, with the reason. If the output is not a
    terminal, it is plain text with the original Markdown. On a terminal, --raw replaces control characters.

    --follow shows words as they come, whichever process records them, until the turn or that process ends.

    Example: acp-proxy sessions show last --turn -1
    """
    if raw + as_json + (extract is not None) > 1 or ((raw or as_json) and full) or (raw and turn):
        raise typer.BadParameter(
            "--raw and --json cannot be combined with each other or with --full or --extract, nor --raw with --turn"
        )
    if follow and (raw or as_json or full or extract is not None):
        raise typer.BadParameter("--follow cannot be combined with --raw, --json, --full or --extract")
    from acp_proxy.cli import show_forms  # imported late: no other command needs it

    wanted = _wanted(turn)
    with explained():
        opened = store_of(store)
        row = chosen(opened, session, agent)
        reading, child = opened.open_listed(row), partial(opened.open_child, row)
        try:
            if follow:
                _follow(opened, row, reading, wanted)
            elif extract is not None:
                show_forms.extract(show_forms.of_turns(reading, row.session, wanted, child), extract)
            elif raw:
                show_forms.raw(reading, screen())
            elif as_json:
                show_forms.messages(reading, screen(), wanted)
            else:
                show_forms.conversation(
                    row, show_forms.of_turns(reading, row.session, wanted, child), screen(), full=full
                )
        finally:
            reading.close()


def _follow(store: Archive, row: Listed, reading: Reading, wanted: tuple[int, int | None]) -> None:
    from acp_proxy.cli.following import Following

    try:
        typer.echo(Following(store, row, reading, wanted).run(), err=True)
    except KeyboardInterrupt:
        typer.echo("\x1b[0m")  # typer removes it if the output is not a terminal
        raise typer.Exit(INTERRUPTED) from None


def _wanted(text: str) -> tuple[int, int | None]:
    """The first and the last turn; negative numbers count from the end."""
    match = _TURNS.fullmatch(text)
    if not text:
        return 1, None
    if match is None or (match[2] and text.startswith("-")):
        raise typer.BadParameter(f"{text!r} is not a turn. Give one like 3, 2-5, 7- or -1.", param_hint="'--turn'")
    first = int(match[1])
    return first, int(match[3]) if match[3] else None if match[2] else first
