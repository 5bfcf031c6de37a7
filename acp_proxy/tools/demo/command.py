"""``acp-proxy demo``: print each step of the demonstration."""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy import invocation, shell_quote
from acp_proxy.cli.open_store import STORE_VARIABLE
from acp_proxy.cli.wrapping import fit_to_stream


def demo(
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Instead, make three sessions in a store of their own, to try commands with."),
    ] = False,
) -> None:
    """Demonstrate acp-proxy in a minute, with a bundled agent.

    An editor talks to an agent that can only resume sessions. The demo kills the editor, then lists the session, loads
    it with its complete history, continues it, and deletes it. It uses a temporary directory and checks every step.

    Example: acp-proxy demo
    """
    from acp_proxy.tools.demo.walkthrough import WalkFailed, keep_sessions, walk  # imported late: no other needs it

    try:
        if keep:
            _show_kept(keep_sessions(Path(tempfile.mkdtemp(prefix="acp-proxy-demo-"))))
            return
        walk(print_line)
    except WalkFailed as failure:
        print_line(f"The demo failed: {failure}")
        raise typer.Exit(1) from failure
    print_line("")
    typed = invocation.make_typed_command()
    print_line("Next, set up your editor and your agent:")
    typer.echo(f"  {shell_quote.join([*typed, 'setup'])}")
    print_line("Or try the commands on three such sessions:")
    typer.echo(f"  {shell_quote.join([*typed, 'demo', '--keep'])}")


def _show_kept(store: Path) -> None:
    """Print commands to copy, each on one line. No one line sets a variable in both shells of Windows, so each command
    names the store there."""
    print_line("Three sessions of two demo agents are in a store of their own. Now try, in this terminal:")
    store_option = ["--store", str(store)] if shell_quote.ON_WINDOWS else []
    if not store_option:
        typer.echo(f"  export {STORE_VARIABLE}={shell_quote.quote(str(store))}")
    for words in _list_to_try(store.parent):
        typer.echo(f"  {shell_quote.join([*invocation.make_typed_command(), *words, *store_option])}")
    done = "" if store_option else f"type: unset {STORE_VARIABLE}. Then "
    print_line(f"Your own sessions are not touched. When you are done, {done}remove {store.parent}")


def _list_to_try(base: Path) -> list[list[str]]:
    """The words of commands that have something to show. ``base``: where the projects are."""
    from acp_proxy.tools.demo.sample import OTHER_NAME

    return [
        ["list"],
        ["show", "last"],
        ["search", "login", "cookie"],
        ["search", "ModuleNotFoundError", "--in", "output"],
        ["search", "--failed"],
        ["diff", "last"],
        ["diff", "last", "--check"],
        ["blame", str(base / "shop" / "login.py")],
        ["stats", "--tokens"],
        ["continue", "last", "--with", OTHER_NAME],
        ["export", "last", "--web"],
        ["browse"],
        *([["web"]] if find_spec("starlette") and find_spec("uvicorn") else []),
    ]


def print_line(text: str) -> None:
    """Print without control sequences: the agent may write anything."""
    for line in text.split("\n"):
        shown = "".join(character if character.isprintable() else " " for character in line)
        typer.echo(fit_to_stream(shown, sys.stdout, indent_columns=len(shown) - len(shown.lstrip())))
