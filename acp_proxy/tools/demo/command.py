"""``acp-proxy demo``: print each step of the demonstration."""

import sys

import typer

from acp_proxy.cli.wrapping import fit_to_stream


def demo() -> None:
    """Demonstrate acp-proxy in a minute, with a bundled agent.

    An editor talks to an agent that can only resume sessions. The demo kills the editor, then lists the session, loads
    it with its complete history, continues it, and deletes it. It uses a temporary directory and checks every step.

    Example: acp-proxy demo
    """
    from acp_proxy.tools.demo.walkthrough import WalkFailed, walk  # imported late: no other command needs it

    try:
        walk(say)
    except WalkFailed as failure:
        say(f"The demo failed: {failure}")
        raise typer.Exit(1) from failure
    say("")
    say("Next, set up your editor and your agent:")
    say("  acp-proxy setup")


def say(text: str) -> None:
    """Print without control sequences: the agent may write anything."""
    for line in text.split("\n"):
        shown = "".join(one if one.isprintable() else " " for one in line)
        typer.echo(fit_to_stream(shown, sys.stdout, hanging=len(shown) - len(shown.lstrip())))
