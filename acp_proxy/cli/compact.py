"""``acp-proxy sessions compact``: stores large, cold transcripts compressed."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli import amounts
from acp_proxy.cli.progress import advancing
from acp_proxy.cli.storing import AgentOption, SessionsArgument, StoreOption, chosen, explained, kept, store_of
from acp_proxy.views import figures

if TYPE_CHECKING:  # other commands need no zstd
    from acp_proxy.transcripts.archive import Made


def compact(
    sessions: SessionsArgument = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Only what nobody has written to for so long: 90m, 12h, 7d."),
    ] = "7d",
    min_size: Annotated[
        str, typer.Option("--min-size", metavar="SIZE", help="Only transcripts from this size on: 64K, 1M.")
    ] = "256K",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be saved.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: JSON instead of text.")] = False,
) -> None:
    """Compress large transcripts that nobody has used for a while.

    One at a time; they are read as before, and one that goes on is made plain again. It may run while agents do: what
    is in use is left alone, and so is what is larger than 128 MiB.

    Example: acp-proxy sessions compact --dry-run
    """
    from acp_proxy.transcripts.archive import Terms

    made: list[Made] = []
    failed: list[str] = []
    with explained():
        terms = Terms(
            min_size=amounts.size("--min-size", min_size),
            older_than=amounts.seconds("--older-than", older_than),
            dry=dry_run,
        )
        opened = store_of(store, change=not dry_run)
        rows = kept(opened, agent) if agent else None
        if sessions:
            rows = [chosen(opened, each, agent) for each in sessions]
        for folder, name in advancing(opened.compactable(rows), "Compressing"):
            try:
                one = opened.compact(folder, name, terms)
            except OSError as problem:
                failed.append(f"{folder}/{name}: {problem.strerror}")
                continue
            if one is not None:
                made.append(one)
                if not as_json:
                    typer.echo(f"{folder}/{name}: {_figures(one.before, one.after)}")
    before, after = sum(one.before for one in made), sum(one.after for one in made)
    if as_json:
        values = [
            {"agent": one.agent, "transcript": one.name, "bytesBefore": one.before, "bytes": one.after} for one in made
        ]
        told = {"dryRun": dry_run, "transcripts": values, "bytesBefore": before, "bytes": after}
        typer.echo(json.dumps(told, indent=2))
    else:
        what = "would be compressed" if dry_run else "compressed"
        typer.echo(f"{len(made)} {what}" + (f": {_figures(before, after)}" if made else "."))
    for text in failed:
        typer.echo(f"acp-proxy: not compressed: {text}. Mend what is named here, and run this again.", err=True)
    if failed:
        raise typer.Exit(1)


def _figures(before: int, after: int) -> str:
    return f"{figures.size(before)} to {figures.size(after)}, {before / after:.1f} times smaller"
