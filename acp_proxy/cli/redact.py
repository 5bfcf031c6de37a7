"""``acp-proxy sessions redact``: mask secrets in recorded transcripts."""

import json
from collections import Counter
from typing import Annotated

import typer

from acp_proxy import options
from acp_proxy.cli.progress import advancing
from acp_proxy.cli.storing import AgentOption, SessionsArgument, StoreOption, chosen, explained, kept, store_of
from acp_proxy.errors import NewerFormat

PatternsOption = Annotated[
    str,
    typer.Option(
        "--redact",
        metavar="keys|FILE",
        envvar="ACP_PROXY_REDACT",
        help="What to mask. keys: known forms of keys; FILE: also your own patterns, one per line.",
    ),
]


def redact(
    sessions: SessionsArgument = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    patterns: PatternsOption = "keys",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be masked; change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Mask secrets in recorded transcripts, permanently. There is no backup.

    The command masks every text that has the form of a key, also if a message spreads it over several chunks. You can
    run it while sessions are running, and more than once.

    Example: acp-proxy sessions redact --dry-run
    """
    from acp_proxy.redaction.masking import Masking  # imported late: no other command needs it

    with explained():
        masking = Masking(options.patterns(patterns) or [])
        opened = store_of(store, change=not dry_run)
        rows = kept(opened, agent) if agent else None
        if sessions:
            rows = [chosen(opened, each, agent) for each in sessions]
        files: dict[str, Counter[str]] = {}
        failed = []
        for path in advancing(opened.redactable(rows), "Masking"):
            name = str(path.relative_to(opened.root))
            try:
                files[name] = opened.redact(path, masking, dry=dry_run)
            except FileNotFoundError:
                continue  # deleted meanwhile
            except (OSError, NewerFormat) as problem:
                reason = problem.strerror if isinstance(problem, OSError) else str(problem).removesuffix(".")
                failed.append(f"{name}: {reason}")
        if not dry_run:
            opened.renew(rows)
    found = {name: counts for name, counts in files.items() if counts}
    if as_json:
        files_told = [{"file": str(opened.root / name), "masked": dict(counts)} for name, counts in found.items()]
        typer.echo(json.dumps({"dryRun": dry_run, "files": files_told}, indent=2))
    else:
        for name, counts in found.items():
            typer.echo(f"{name}: {', '.join(f'{count} x {rule}' for rule, count in sorted(counts.items()))}")
        total = sum(counts.total() for counts in found.values())
        typer.echo(f"{total} {'would be masked' if dry_run else 'masked'}, in {len(found)} of {len(files)} files.")
    for text in failed:
        typer.echo(f"acp-proxy: not redacted: {text}. Fix this problem, then run the command again.", err=True)
    if failed:
        raise typer.Exit(1)
