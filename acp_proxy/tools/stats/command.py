"""``acp-proxy stats``: show the usage by agent and month, or by day, project or agent."""

import os
import sys
from typing import Annotated, Literal

import typer

from acp_proxy.cli.common import AgentOption, JsonOption, StoreOption, explained, store_of
from acp_proxy.cli.list_sessions import nothing
from acp_proxy.cli.pager import paged, screen
from acp_proxy.cli.session_filter import CwdOption, HereOption, TurnsSinceOption, TurnsUntilOption, make_filter
from acp_proxy.tools.stats.usage import measure_usage
from acp_proxy.views import sanitize

_By = Literal["month", "day", "project", "agent"]


def stats(
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: CwdOption = "",
    here: HereOption = False,
    since: TurnsSinceOption = "",
    until: TurnsUntilOption = "",
    by: Annotated[
        _By,
        typer.Option(
            "--by",
            help="One line for each day, each directory or each agent. Default: by agent and month.",
            show_default=False,
        ),
    ] = "month",
    as_json: JsonOption = False,
) -> None:
    """Show the usage by agent and month, with bars for the turns.

    acp-proxy counts sessions, turns and bytes. Tokens and cost are figures of the agents, and are missing if an agent
    reports none: tokens come from answers to prompts, context and cost from usage_update. A session that continues in
    another month or on another day counts in both. Days and months are local. With --by project, a session counts
    in the directory where it began. --since and --until count whole quarters of an hour.

    Example: acp-proxy stats --by project
    """
    with explained():
        wanted = make_filter(agent, cwd, here, since, until)
        opened = store_of(store)
        agents, failed = measure_usage(opened, wanted, by if by != "agent" else "month")
        if not agents and not as_json:
            typer.echo(nothing(opened, narrowed=wanted.is_narrow), err=True)
    if as_json:
        from acp_proxy.tools.stats.report import for_programs

        typer.echo(sanitize.json_text(for_programs(agents, by), indent=2))
    elif agents and sys.stdout.isatty():
        from rich.console import Console

        from acp_proxy.tools.stats.report import make_report, print_report

        console = Console()
        with console.capture() as shown:
            print_report(make_report(agents, by, os.path.expanduser("~")), console)
        with paged(screen()) as say:
            say(shown.get())
    elif agents:
        from acp_proxy.tools.stats.report import format_lines, make_report

        for line in format_lines(make_report(agents, by)):
            typer.echo(line)
    for text in failed:
        typer.echo(f"acp-proxy: not counted: {sanitize.line(text)}.", err=True)
    if failed:
        raise typer.Exit(1)
