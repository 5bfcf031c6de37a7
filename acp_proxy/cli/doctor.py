"""``acp-proxy doctor``: whether the store can be used, and what mends it."""

import os
import stat

import typer

from acp_proxy.cli.storing import StoreOption, explained, root_of
from acp_proxy.transcripts.store import Store


def doctor(store: StoreOption = "") -> None:
    """Check the store: where it is, whether it can be used, and what to do if not.

    What is damaged within its files: acp-proxy sessions verify.

    Example: acp-proxy doctor
    """
    root = root_of(store)
    typer.echo(f"store     {root}")
    with explained():
        opened = Store(root)
        typer.echo(f"mode      {stat.S_IMODE(os.stat(root).st_mode):04o}")
        rows = opened.sessions()
        damaged = opened.damaged()
    typer.echo(f"agents    {len(opened.agents())}")
    typer.echo(f"sessions  {len(rows)}")
    for path, reason in damaged:
        typer.echo(f"unreadable: {path}: {reason}")
    if damaged:
        typer.echo("Mend what is named above (its mode, its disk), or delete the file.")
        raise typer.Exit(1)
    typer.echo("Nothing is wrong.")
