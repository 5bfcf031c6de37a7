"""``acp-proxy sessions stats``: show the usage by agent and month."""

import sys

import typer

from acp_proxy.cli.list_sessions import nothing
from acp_proxy.cli.progress import advancing
from acp_proxy.cli.screen import paged, screen
from acp_proxy.cli.storing import AgentOption, JsonOption, StoreOption, explained, store_of
from acp_proxy.views import terminal


def stats(store: StoreOption = "", agent: AgentOption = "", as_json: JsonOption = False) -> None:
    """Show the usage by agent and month, with bars for the turns.

    acp-proxy counts sessions, turns and bytes. Tokens and cost are figures of the agents, and are missing if an agent
    reports none: tokens come from answers to prompts, context and cost from usage_update. A session that continues in
    another month counts in both.

    Example: acp-proxy sessions stats --agent claude
    """
    with explained():
        opened = store_of(store)
        meant = frozenset(opened.agents(agent))
        transcripts = [each for each in opened.transcripts() if each[0] in meant]
        agents, failed = opened.usage(advancing(transcripts, "Reading"))
        if not agents and not as_json:
            typer.echo(nothing(opened, narrowed=bool(agent)), err=True)
    if as_json:
        from acp_proxy.views.store_usage import for_programs

        typer.echo(terminal.json_text(for_programs(agents), indent=2))
    elif agents and sys.stdout.isatty():
        from rich.console import Console

        from acp_proxy.views.store_usage import printed

        console = Console()
        with console.capture() as shown:
            printed(agents, console)
        with paged(screen()) as say:
            say(shown.get())
    elif agents:
        from acp_proxy.views.store_usage import lines

        for line in lines(agents):
            typer.echo(line)
    for text in failed:
        typer.echo(f"acp-proxy: not counted: {terminal.line(text)}. Run: acp-proxy sessions verify", err=True)
    if failed:
        raise typer.Exit(1)
