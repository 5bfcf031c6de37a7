"""``acp-proxy compress``: compress large transcripts that nobody uses."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli import values as cli_values
from acp_proxy.cli.choose_session import check_agent, choose_session, list_rows_of_agent
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.progress import show_progress
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, SessionsArgument, StoreOption
from acp_proxy.views import formatting, sanitize

if TYPE_CHECKING:  # imported late: other commands need no zstd
    from acp_proxy.store.compress import CompressionResult


def compress(
    sessions: SessionsArgument = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="Only transcripts not written to for this long: 90m, 12h, 7d."
        ),
    ] = "7d",
    min_size: Annotated[
        str, typer.Option("--min-size", metavar="SIZE", help="Only transcripts of at least this size: 64K, 1M.")
    ] = "256K",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be saved; change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Compress large transcripts that nobody has used for a while.

    You can read them as before. acp-proxy decompresses a transcript when its session continues. You can run this
    command while agents are running: it skips transcripts in use, and transcripts larger than 128 MiB.

    Example: acp-proxy compress --dry-run
    """
    from acp_proxy.store.compress import CompressionOptions

    results: list[CompressionResult] = []
    failures: list[str] = []
    with report_errors():
        options = CompressionOptions(
            min_size=cli_values.parse_size("--min-size", min_size),
            older_than=cli_values.parse_seconds("--older-than", older_than),
            dry_run=dry_run,
        )
        opened_store = open_store(store, for_writing=not dry_run)
        check_agent(opened_store, agent)
        rows = list_rows_of_agent(opened_store, agent) if agent else None
        if sessions:
            rows = [choose_session(opened_store, selector, agent) for selector in sessions]
        for agent_folder, name in show_progress(opened_store.list_transcripts_to_compress(rows), "Compressing"):
            try:
                result = opened_store.compress(agent_folder, name, options)
            except OSError as problem:
                failures.append(f"{agent_folder}/{name}: {problem.strerror}")
                continue
            if result is not None:
                results.append(result)
        rows_by_key = (
            {(row.agent_folder, row.name): row for row in opened_store.list_all()} if results and not as_json else {}
        )
    total_size = sum(result.size for result in results)
    total_compressed = sum(result.compressed_size for result in results)
    if as_json:
        values = [
            {
                "agent": result.agent_folder,
                "transcript": result.name,
                "bytesBefore": result.size,
                "bytes": result.compressed_size,
            }
            for result in results
        ]
        report = {"dryRun": dry_run, "transcripts": values, "bytesBefore": total_size, "bytes": total_compressed}
        typer.echo(json.dumps(report, indent=2))
    else:
        for result in results:  # after the progress bar
            row = rows_by_key.get((result.agent_folder, result.name))
            session = (
                f"{row.selector}  {formatting.format_title(row.title)}"
                if row is not None
                else f"{result.agent_folder}/{result.name}"
            )
            typer.echo(sanitize.make_line(f"{session}: {_format_figures(result.size, result.compressed_size)}"))
        outcome = "would be compressed" if dry_run else "compressed"
        empty_message = f"Nothing to compress: no transcript of {min_size} or more was unused for {older_than}."
        if results:
            typer.echo(f"{len(results)} {outcome}: {_format_figures(total_size, total_compressed)}")
        elif not failures:
            typer.echo(empty_message)
    for text in failures:
        typer.echo(f"acp-proxy: not compressed: {text}. Fix this problem, then run the command again.", err=True)
    if failures:
        raise typer.Exit(1)


def _format_figures(size: int, compressed_size: int) -> str:
    sizes = f"{formatting.format_size(size)} to {formatting.format_size(compressed_size)}"
    return f"{sizes}, {size / compressed_size:.1f} times smaller"
