"""``acp-proxy sessions stats``: what was used, by agent and month."""

import sys

import typer

from acp_proxy.cli.listing import nothing
from acp_proxy.cli.progress import advancing
from acp_proxy.cli.storing import AgentOption, JsonOption, StoreOption, explained, store_of
from acp_proxy.views import terminal


def stats(store: StoreOption = "", agent: AgentOption = "", as_json: JsonOption = False) -> None:
    """Show what was used, by agent and month, with bars of the turns.

    Sessions, turns, and bytes here are counted. Tokens and cost are what the agents say, and are missing where they say
    nothing: tokens by their answers to prompts, context and cost by usage_update. A session that goes on in another
    month counts in both.

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
        from acp_proxy.views.usage import for_programs

        typer.echo(terminal.json_text(for_programs(agents), indent=2))
    elif agents and sys.stdout.isatty():
        from rich.console import Console

        from acp_proxy.views.usage import printed

        printed(agents, Console())
    elif agents:
        from acp_proxy.views.usage import lines

        for line in lines(agents):
            typer.echo(line)
    for text in failed:
        typer.echo(f"acp-proxy: not counted: {terminal.line(text)}. Run: acp-proxy sessions verify", err=True)
    if failed:
        raise typer.Exit(1)
