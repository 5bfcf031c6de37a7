"""Finds what the user did on this machine since the last round: deletes, new and moved files, titles.

A file that is missing without a delete is not a delete: it will be fetched again.
"""

from collections.abc import Mapping
from dataclasses import replace

from acp_proxy.tools.sync.context import Desk
from acp_proxy.tools.sync.interfaces import Move, SeenFile
from acp_proxy.tools.sync.records import ARCHIVED, HIDDEN, TITLE
from acp_proxy.tools.sync.state_db import Shown

_BURY_DAYS = 60
"""Since a soft delete, until its words are removed from the shared place: twice as long as it can be undone, because a
machine that undid it in time may have been offline since."""
Labels = tuple[Mapping[str, str], frozenset[str]]
"""The user's titles by name, and the names that are archived."""


def gather(desk: Desk) -> None:
    """Bring what is remembered up to date with the files. Raises OSError."""
    deletes(desk)
    _bury_expired(desk)
    _files(desk)
    told: dict[str, Labels] = {}
    for line in desk.kept.lines():
        if line.name and line.tip != line.tree:
            if line.agent not in told:
                told[line.agent] = desk.sessions.labels(line.agent)
            labels(desk, line, told[line.agent])


def _bury_expired(desk: Desk) -> None:
    """Delete for good, everywhere, what was soft-deleted on this machine and removed here long ago."""
    latest = (desk.now() - _BURY_DAYS * 24 * 60 * 60) * 1000
    for line in desk.kept.lines():
        if line.is_pruned and line.is_hidden:
            known = desk.kept.labels(line.tree).get(HIDDEN, {})
            anchor = desk.kept.tree(line.tree).nearest(line.tip, known)
            label = known[anchor] if anchor is not None else None
            if label is not None and label.value is True and label.by == desk.machine and label.stamp <= latest:
                desk.bury(line)


def labels(desk: Desk, line: Shown, told: Labels | None = None) -> None:
    """Publish what the user changed of a session's title, and whether it is archived or soft-deleted.

    ``told``: the labels of all the agent's sessions, if they are known.
    """
    titles, archived = told or desk.sessions.labels(line.agent)
    now: dict[str, str | bool | None] = {
        TITLE: titles.get(line.name),
        ARCHIVED: line.name in archived,
        HIDDEN: desk.sessions.is_hidden(line.name),
    }
    before = {TITLE: line.title, ARCHIVED: line.is_archived, HIDDEN: line.is_hidden}
    if now == before and not line.is_hidden:
        return
    tree, known = desk.kept.tree(line.tree), desk.kept.labels(line.tree)
    if line.is_hidden and tree.nearest(line.tip, known.get(HIDDEN, {})) is None:
        before[HIDDEN] = False  # it was said in the shared place before this one
    if now == before:
        return
    for field, value in now.items():
        anchor = tree.nearest(line.tip, known.get(field, {}))
        is_said = anchor is not None and known[field][anchor].value == value
        if value != before[field] and not is_said and not desk.label(tree, line, field, value):
            now[field] = before[field]  # seen again when more of the session is published
    title = now[TITLE]
    desk.kept.put_line(
        replace(
            line,
            title=title if isinstance(title, str) else None,
            is_archived=bool(now[ARCHIVED]),
            is_hidden=bool(now[HIDDEN]),
        )
    )
    desk.kept.touch(line.tree)


def deletes(desk: Desk) -> None:
    """See which sessions were deleted, for good or softly, or restored. Raises OSError."""
    for agent in desk.sessions.list_agents():
        moves, at = desk.sessions.moves(agent, desk.kept.number(f"journal {agent}"))
        for move in moves:
            for line in _meant(desk, agent, move):
                _moved(desk, line, move)
        desk.kept.set(**{f"journal {agent}": at})


def _meant(desk: Desk, agent: str, move: Move) -> list[Shown]:
    """The session that was deleted or renamed. A delete for good takes soft-deleted ones with the same id along."""
    named = desk.kept.named_after(agent, move.name)
    line = desk.kept.line(move.uid) if move.uid else next((each for each in named if each.name == move.name), None)
    also = [each for each in named if each.name != move.name and desk.sessions.look(agent, each.name) is None]
    return [*([line] if line is not None else ()), *(also if not move.to else ())]


def _moved(desk: Desk, line: Shown, move: Move) -> None:
    if move.is_here:
        if desk.sessions.is_hidden(move.name) and not line.is_hidden:  # soft-deleted and removed since the last round
            desk.label(desk.kept.tree(line.tree), line, HIDDEN, True)
            line = replace(line, is_hidden=True)
        desk.kept.put_line(replace(line, name="", is_pruned=True, has_news=False))
    elif move.to:
        desk.kept.put_line(replace(line, name=move.to, stamp="", has_news=True))
    else:
        desk.bury(line)


def _files(desk: Desk) -> None:
    found = {(file.agent, file.name): file for file in desk.sessions.files()}
    before = [line for line in desk.kept.lines() if line.name]
    stamps = {(line.agent, line.name): line.stamp for line in before}
    for place, file in found.items():
        if stamps.get(place) != file.stamp:
            _look(desk, file, found)
    for line in before:
        if (line.agent, line.name) not in found:
            now = desk.kept.line(line.uid)
            if now is not None and (now.agent, now.name) not in found:
                desk.kept.put_line(replace(now, name="", stamp=""))


def _look(desk: Desk, file: SeenFile, found: dict[tuple[str, str], SeenFile]) -> None:
    looked = desk.sessions.look(file.agent, file.name)
    if looked is None:
        return
    uid, header = looked
    there = desk.kept.named(file.agent, file.name)
    if there is not None and not header.uid and there.uid != uid:  # its header was masked, which changes its hash
        uid = there.uid
    if there is not None and there.uid != uid:
        desk.kept.put_line(replace(there, name="", stamp=""))
    line = desk.kept.line(uid)
    if line is not None and line.is_pruned and desk.sessions.is_hidden(file.name):
        return
    if line is None:
        tree = header.branch_of or uid  # a branch is known if this machine left, and takes part again
        desk.kept.put_line(Shown(uid, tree, tree, file.agent, file.name, file.stamp))
    elif (line.agent, line.name) == (file.agent, file.name) or (line.agent, line.name) not in found:
        place = replace(line, agent=file.agent, name=file.name, stamp=file.stamp)
        desk.kept.put_line(replace(place, has_news=True, is_pruned=False, trouble=""))
