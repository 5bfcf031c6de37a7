"""``acp-proxy stats``: show the usage by agent and month, or by day, project or agent."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from acp_proxy.cli.choose_session import explain_empty_list
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import find_screen, open_pager
from acp_proxy.cli.progress import PATIENCE_SECONDS, begin_progress
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.session_filter import (
    BranchOption,
    CwdOption,
    HereOption,
    SessionFilter,
    TurnsSinceOption,
    TurnsUntilOption,
    make_filter,
)
from acp_proxy.cli.shared_options import AgentOption, JsonOption, StoreOption
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.tools.stats.usage import explain_unprompted, measure_usage
from acp_proxy.views import sanitize

_By = Literal["month", "day", "project", "agent", "model"]


def stats(
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: CwdOption = "",
    here: HereOption = False,
    since: TurnsSinceOption = "",
    until: TurnsUntilOption = "",
    branch: BranchOption = "",
    by: Annotated[
        _By,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="A line for each: month, day, project, agent or model.",
            show_default=False,
        ),
    ] = "month",
    tokens: Annotated[bool, typer.Option("--tokens", help="Show the tokens of every kind, and the cost.")] = False,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", metavar="FILE", help="Prices of a million tokens, for agents that report no cost."),
    ] = None,
    prices_example: Annotated[bool, typer.Option("--prices-example", help="Print an example of such a file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the usage by agent and month, with bars for the turns.

    acp-proxy counts sessions, turns and bytes. Tokens and cost are figures of the agents, and are missing if an agent
    reports none: tokens come from answers to prompts, context and cost from usage_update. A session that continues in
    another month or on another day counts in both. Days and months are local. With --by project, a session counts
    in the directory where it began. --since and --until count whole quarters of an hour. If the output is not a
    terminal, each line has agent, month (or day or directory), sessions, turns, tokens, context, cost and bytes in
    full, separated by tabs.

    --tokens, --prices and --by model read every transcript. Each model without a price is named on stderr.

    Example: acp-proxy stats --by project
    """
    if prices_example:
        from acp_proxy.tools.stats.prices import EXAMPLE

        typer.echo(EXAMPLE, nl=False)
        return
    if tokens or prices is not None or by == "model":
        with report_errors():
            _show_tokens(
                open_store(store), make_filter(agent, cwd, here, since, until, branch), by, prices, as_json=as_json
            )
        return
    with report_errors():
        session_filter = make_filter(agent, cwd, here, since, until, branch)
        opened_store = open_store(store)
        agents, failures = measure_usage(opened_store, session_filter, "month" if by == "agent" else by)
        if not agents and not as_json:
            print_on_stderr(explain_empty_list(opened_store, is_narrow=session_filter.is_narrow, agent=agent))
    if as_json:
        from acp_proxy.tools.stats.report import encode_report

        typer.echo(sanitize.format_json(encode_report(agents, by), indent=2))
    elif agents and sys.stdout.isatty():
        from rich.console import Console

        from acp_proxy.tools.stats.report import make_report, print_report

        console = Console()
        with console.capture() as captured:
            print_report(make_report(agents, by, os.path.expanduser("~")), console)
        with open_pager(find_screen()) as write:
            write(captured.get())
    elif agents:
        from acp_proxy.tools.stats.report import format_tab_separated, make_report

        for line in format_tab_separated(make_report(agents, by)):
            typer.echo(line)
    if not as_json and (note := explain_unprompted(agents)):
        print_on_stderr(note)
    for text in failures:
        typer.echo(f"acp-proxy: not counted: {sanitize.make_line(text)}.", err=True)
    if failures or (not agents and session_filter.is_narrow):  # as for list
        raise typer.Exit(1)


def _show_tokens(
    store: CommandStore, session_filter: SessionFilter, by: _By, file: Path | None, *, as_json: bool
) -> None:
    """Show the tokens of every kind. Raises AcpProxyError, OSError."""
    from acp_proxy.tools.stats.prices import read_prices
    from acp_proxy.tools.stats.token_report import encode_report, format_report, format_tab_separated
    from acp_proxy.tools.stats.tokens import count_tokens

    prices = read_prices(file) if file is not None else None
    with begin_progress("Reading sessions", PATIENCE_SECONDS) as bar:
        report = count_tokens(store, session_filter, by, prices, bar)
    if as_json:
        typer.echo(sanitize.format_json(encode_report(report, by, prices), indent=2))
    elif report.rows:
        target = find_screen()
        with open_pager(target) as write:
            for line in (
                format_report(report, by, prices, os.path.expanduser("~"), target.width)
                if target.is_terminal
                else format_tab_separated(report, prices)
            ):
                write(f"{line}\n")
    else:
        print_on_stderr(explain_empty_list(store, is_narrow=session_filter.is_narrow, agent=session_filter.agent))
    for model in report.models_without_price:
        print_on_stderr(f"No price: {sanitize.make_line(model) or '(model not known)'}")
    for text in report.failures:
        print_on_stderr(f"acp-proxy: not counted: {sanitize.make_line(text)}.")
    if report.failures or (not report.rows and session_filter.is_narrow):
        raise typer.Exit(1)
