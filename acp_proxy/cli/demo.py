"""`acp-proxy demo`: prints the walk through the main job."""

import typer


def demo() -> None:
    """Show the main job in a minute, with a bundled agent.

    A conversation with an agent that can only resume; the editor is killed; then the session is listed, loaded with its
    whole history, continued and deleted. It happens in a temporary directory, and every step is checked.

    Example: acp-proxy demo
    """
    from acp_proxy.demo.walkthrough import WalkFailed, walk  # no other command needs it

    try:
        walk(say)
    except WalkFailed as failure:
        say(f"The demo failed: {failure}")
        raise typer.Exit(1) from failure
    say("")
    say("Next, what belongs into your editor's configuration (zed, jetbrains, …), with the agent you use:")
    say("  acp-proxy editor EDITOR YOUR-AGENT [ARGS...]")


def say(text: str) -> None:
    """Print without anything that could steer the terminal: what an agent says is somebody else's text."""
    for line in text.split("\n"):
        typer.echo("".join(one if one.isprintable() else " " for one in line))
