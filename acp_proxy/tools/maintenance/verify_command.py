"""``acp-proxy verify`` and ``repair``: find and repair damage in the store."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acp_proxy.cli.choose_session import choose_session
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.progress import show_progress
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, SessionsArgument, StoreOption
from acp_proxy.errors import AcpProxyError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.tools.maintenance.repair_findings import repair_finding
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.views import sanitize

if TYPE_CHECKING:  # imported late: no other command needs them
    from acp_proxy.tools.maintenance.damage import Neighbour
    from acp_proxy.tools.maintenance.verify import Finding


def verify(
    sessions: SessionsArgument = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Check the store for damage. This changes nothing.

    For each damaged place, it shows the file, the position, and the entries before and after it. The exit status is 1
    if there is damage. You can run it while agents are running.

    Example: acp-proxy verify
    """
    damaged = 0
    with report_errors():
        opened_store = open_store(store)
        for finding in verify_store(opened_store, *_choose(opened_store, sessions, agent), wrap_items=show_progress):
            damaged += finding.is_damage
            if as_json:
                typer.echo(json.dumps(_encode_finding(finding)))
            else:
                _print_finding(opened_store, finding)
    if damaged:
        typer.echo(f"{damaged} damaged. To repair: acp-proxy repair", err=True)
        raise typer.Exit(1)
    if not as_json:
        typer.echo("No damage found.")


def repair(
    sessions: SessionsArgument = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be repaired; change nothing.")] = False,
) -> None:
    """Repair damaged files. It copies each file first, and keeps every intact byte of it.

    You can run it while agents are running. The exit status is 1 if some damage needs your action.

    Example: acp-proxy repair --dry-run
    """
    from acp_proxy.tools.maintenance.verify import BY_HAND, REPAIR

    unrepaired = repaired = 0
    with report_errors():
        opened_store = open_store(store, for_writing=not dry_run)
        for _, findings in groupby(
            verify_store(opened_store, *_choose(opened_store, sessions, agent), wrap_items=show_progress),
            _group_for_repair,
        ):
            first_to_repair: Finding | None = None
            for finding in findings:
                if finding.is_damage:
                    _print_finding(opened_store, finding)
                unrepaired += finding.remedy == BY_HAND
                first_to_repair = first_to_repair or (finding if finding.remedy == REPAIR else None)
            if first_to_repair is not None:
                is_repaired = dry_run or _repair(opened_store, first_to_repair)
                unrepaired, repaired = unrepaired + (not is_repaired), repaired + is_repaired
    summary = f"{repaired} can be repaired. Nothing was changed." if dry_run else f"{repaired} repaired."
    typer.echo(summary if repaired or unrepaired else "Nothing to repair.")
    if unrepaired:
        typer.echo(f"{unrepaired} cannot be repaired automatically. The lines above say what to do.", err=True)
        raise typer.Exit(1)


def _group_for_repair(finding: "Finding") -> tuple[Path, str, str, bool]:
    """The key of the findings that one repair mends. Two agents may have a session with the same id."""
    from acp_proxy.tools.maintenance.verify import MODE

    return finding.path, finding.agent_folder, finding.name, finding.kind == MODE


def _choose(store: CommandStore, selectors: Iterable[str] | None, agent: str) -> list[tuple[str, str]]:
    rows = [choose_session(store, selector, agent) for selector in selectors or ()]
    return [(row.agent_folder, row.name) for row in rows]


def _repair(store: CommandStore, finding: "Finding") -> bool:
    try:
        copy = repair_finding(store, finding)
    except (AcpProxyError, OSError) as problem:
        typer.echo(f"  not repaired: {sanitize.make_line(str(problem))}", err=True)
        return False
    typer.echo(
        f"  repaired; copy of the old file: {sanitize.make_line(str(copy))}" if copy is not None else "  repaired"
    )
    return True


def _print_finding(store: CommandStore, finding: "Finding") -> None:
    path = finding.path.relative_to(store.root) if store.root in finding.path.parents else finding.path
    transcript = (
        f" ({finding.agent_folder}/{finding.name})" if finding.name and finding.path.stem != finding.name else ""
    )
    typer.echo(sanitize.make_line(f"{path}{transcript}: {finding.kind}: {finding.text}"))
    stretch = finding.stretch
    if stretch is not None:
        kinds = ", ".join(stretch.kinds)
        typer.echo(f"  line {stretch.line}, byte {stretch.offset}, {stretch.length} bytes: {kinds}")
        before = _format_neighbour(stretch.last, "the beginning")
        after = _format_neighbour(stretch.next, "the end")
        typer.echo(sanitize.make_line(f"  between {before} and {after}"))


def _format_neighbour(entry: "Neighbour | None", edge: str) -> str:
    return f"line {entry.line} ({entry.at} {entry.what})" if entry is not None else edge


def _encode_finding(finding: "Finding") -> dict[str, Any]:
    """A finding as JSON. Each has a line of its own, since the list of damage may not fit into memory."""
    return {
        "file": str(finding.path),
        "agent": finding.agent_folder or None,
        "transcript": finding.name or None,
        "kind": finding.kind,
        "text": finding.text,
        "isDamage": finding.is_damage,
        "mend": finding.remedy,
        "where": asdict(finding.stretch) if finding.stretch is not None else None,
    }
