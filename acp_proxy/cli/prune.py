"""``acp-proxy sessions prune``: deletes what is old, or too much. Only ever on request."""

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from acp_proxy.cli import amounts
from acp_proxy.cli.progress import advancing
from acp_proxy.cli.screen import screen
from acp_proxy.cli.storing import (
    AgentOption,
    JsonOption,
    StoreOption,
    YesOption,
    agreed,
    explained,
    short_ids,
    store_of,
)
from acp_proxy.errors import Unreadable, UsageError
from acp_proxy.transcripts.archive import IN_USE, Archive, Candidate, Limits, beyond, meant
from acp_proxy.views import figures, terminal
from acp_proxy.wire import clock

_SHOWN = 20
"""Before it asks: more is no help in deciding. --dry-run shows all."""


def prune(
    store: StoreOption = "",
    agent: AgentOption = "",
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="What nobody has used for so long: 90d, 12w.")
    ] = None,
    keep: Annotated[int | None, typer.Option("--keep", metavar="N", min=0, help="All but so many, the newest.")] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size", metavar="SIZE", help="The oldest, until the rest takes no more than this: 5GB, 500M."
        ),
    ] = None,
    deleted: Annotated[
        bool,
        typer.Option("--deleted", help="Only what was deleted softly, by when that was; without a limit all of it."),
    ] = False,
    soft: Annotated[bool, typer.Option("--soft", help="So that sessions restore can bring them back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete whole sessions that are old, or too many, for good. It asks first.

    Each limit holds for what is left: a session goes if any of them says so. With --agent they are about that agent's
    sessions alone. What an agent is running now, or has gone on with while this asks, is left alone. A session is as
    old as what was said in it last. Sizes are those of the files; the index is not counted.

    Example: acp-proxy sessions prune --older-than 90d --keep 500 --max-size 5GB --dry-run
    """
    with explained():
        is_for_all = deleted and older_than is None and keep is None and max_size is None
        limits = _limits(older_than, 0 if is_for_all else keep, max_size)
        if deleted and soft:
            raise UsageError("--deleted is about what was deleted softly already: without --soft")
        if as_json and not (dry_run or yes):
            raise UsageError("--json does not ask: with --dry-run or --yes")
        opened = store_of(store, change=not dry_run)
        candidates = opened.candidates(deleted=deleted)
        agents = meant({*opened.agents(), *(each.agent for each in candidates)}, agent)
        chosen = beyond(limits, [each for each in candidates if each.agent in agents])
        if dry_run or not chosen:
            if dry_run and not as_json:
                _show(opened, chosen)
            _tell(chosen, {}, as_json, dry_run=dry_run)
            return
        if not yes:
            _show(opened, chosen[:_SHOWN], err=True)
            more = f" ({len(chosen) - _SHOWN} of them not shown)" if len(chosen) > _SHOWN else ""
            agreed(f"Delete these {_figures(chosen)}{more}{' softly' if soft else ' for good'}?")
        trouble = _pruned(opened, chosen, soft=soft)
    _tell(chosen, trouble, as_json, dry_run=False)
    if set(trouble.values()) - {IN_USE}:
        raise typer.Exit(1)


def _limits(older_than: str | None, keep: int | None, max_size: str | None) -> Limits:
    """One that a script left empty is a wrong one, not none. Raises UsageError."""
    if older_than is None and keep is None and max_size is None:
        raise UsageError("prune takes --older-than, --keep or --max-size, or several of them; --deleted needs none")
    age = amounts.seconds("--older-than", older_than) if older_than is not None else None
    before = clock.stamp(max(time.time() - age, 0.0)) if age is not None else None
    return Limits(before, keep, amounts.size("--max-size", max_size) if max_size is not None else None)


def _pruned(store: Archive, chosen: Sequence[Candidate], *, soft: bool) -> dict[tuple[str, str], str]:
    """Those that were not deleted, by agent and name, and why."""
    trouble: dict[tuple[str, str], str] = {}
    try:
        for candidate, why in store.prune(advancing(chosen, "Deleting"), soft=soft):
            if why is not None:
                trouble[candidate.agent, candidate.name] = why
    except Unreadable:
        typer.echo("The index cannot be written to now: it forgets them with the next list.", err=True)
    return trouble


def _tell(chosen: Sequence[Candidate], trouble: dict[tuple[str, str], str], as_json: bool, *, dry_run: bool) -> None:
    done = [each for each in chosen if (each.agent, each.name) not in trouble]
    if as_json:
        left = [_for_programs(each) | {"reason": trouble[each.agent, each.name]} for each in chosen if each not in done]
        value = {"dryRun": dry_run, "sessions": [_for_programs(each) for each in done], "left": left}
        typer.echo(terminal.json_text(value | {"bytes": sum(each.size for each in done)}, indent=2))
        return
    typer.echo(f"{_figures(done)} would be deleted." if dry_run else f"{_figures(done)} deleted.")
    for each in chosen:
        why = trouble.get((each.agent, each.name))
        if why is not None:
            what = "is in use, and left alone" if why == IN_USE else f"not deleted ({why}). Run: acp-proxy doctor"
            typer.echo(terminal.line(f"acp-proxy: {each.named}: {what}"), err=True)


def _show(store: Archive, chosen: Sequence[Candidate], *, err: bool = False) -> None:
    from acp_proxy.views.meant import Row, lines

    ids = short_ids(store, chosen)
    shown = [Row(each.at, each.agent, ids[each.named], each.title, each.size) for each in chosen]
    target = screen()
    for text in lines(shown, target.width if target.is_terminal else None):
        typer.echo(text, err=err)


def _figures(chosen: Sequence[Candidate]) -> str:
    count = f"{len(chosen)} session{'' if len(chosen) == 1 else 's'}"
    return f"{count}, {figures.size(sum(each.size for each in chosen))}" if chosen else count


def _for_programs(candidate: Candidate) -> dict[str, Any]:
    return {
        "sessionId": candidate.session,
        "agent": candidate.agent,
        "title": candidate.title,
        "updatedAt": None if candidate.is_kept else candidate.at,
        "deletedAt": candidate.at if candidate.is_kept else None,
        "bytes": candidate.size,
        "transcript": candidate.name,
    }
