"""``acp-proxy doctor``: whether all is well, and what to do if not."""

import os
import sys
from typing import Annotated

import typer

from acp_proxy.cli.storing import StoreOption, root_of, wrong_usage

_DAY = 24 * 60 * 60.0
_SECONDS = 30.0
"""For each answer of an agent: a first start through ``npx`` may have to fetch it."""


def doctor(
    agent: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="AGENT", help="The agent's command, as for run, or a whole line of an editor's settings."
        ),
    ] = None,
    store: StoreOption = "",
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="How long the agent may take for an answer."),
    ] = _SECONDS,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: JSON instead of text.")] = False,
) -> None:
    """Look whether all is well, and say what to do if not.

    The store, the versions, and the editors on this machine are looked at, and an agent if one is given: it is started
    and asked what it offers, and, if it can load sessions, to load one that is kept, to see whether it leaves something
    out. No session is made, no prompt is sent, and nothing is changed. Ends with 1 if something is wrong.

    Example: acp-proxy doctor npx -y @agentclientprotocol/claude-agent-acp
    """
    from acp_proxy.diagnosis.whole import diagnose, run_words  # no other command needs these
    from acp_proxy.editors.machine import this_machine
    from acp_proxy.views import diagnosis, terminal

    os.umask(own := os.umask(0))
    with wrong_usage():
        given = run_words(agent, {})[0]["store"] if agent else ""
        found = diagnose(root_of(store or given), this_machine(), agent or [], min(timeout, _DAY), own, _say)
    if as_json:
        typer.echo(terminal.json_text(diagnosis.for_programs(found), indent=2))
    else:
        for text in diagnosis.lines(found):
            typer.echo(text)
    if not found.is_well:
        raise typer.Exit(1)


def _say(text: str) -> None:
    """Why nothing happens for a while: for who sits there."""
    if sys.stderr.isatty():
        typer.echo(f"{text} …", err=True)
