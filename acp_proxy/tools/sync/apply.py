"""Makes the sessions of this machine what the trees say: adds turns, begins sessions, masks, deletes, sets titles.

Each step looks at the files first, so one that a crash interrupted is completed by doing it again. A session that is
open here waits.
"""

from dataclasses import replace

from msgspec import structs

from acp_proxy.tools.sync import local_changes, records
from acp_proxy.tools.sync.context import Desk, Gone, digest
from acp_proxy.tools.sync.interfaces import Part, Unavailable
from acp_proxy.tools.sync.records import ARCHIVED, HIDDEN, TITLE, Dead, Mask
from acp_proxy.tools.sync.session_tree import Node, Tree
from acp_proxy.tools.sync.state_db import Shown
from acp_proxy.transcript import file_format


def settle(desk: Desk) -> None:
    """Settle every tree of which something is new. Raises Unavailable, OSError."""
    desk.counts.waiting = 0
    desk.sessions.withdraw()  # it may be dead now; what still waits is left there again
    for uid in desk.kept.unsettled():
        waits = _settled(desk, uid)
        if not waits:
            desk.kept.settled(uid)
        desk.counts.waiting += waits
        desk.kept.commit()


def _settled(desk: Desk, uid: str) -> bool:
    while True:
        try:
            return _settle(desk, uid)
        except Gone as gone:
            tree, [id] = desk.kept.tree(uid), gone.args
            desk.kept.put_node(uid, replace(tree.nodes.get(id) or tree.waiting[id], is_blank=True))


def _settle(desk: Desk, uid: str) -> bool:
    """Returns whether something waits for a session to be closed."""
    tree = place(desk, uid)
    _bury(desk, tree)
    waits, posted = False, -1
    while posted != (posted := len(desk.kept.outbox())):  # a redaction that is new in one file concerns its forks
        tree = desk.kept.tree(uid)
        for line in desk.kept.lines(uid):
            if line.has_news and line.name and not line.trouble:
                line = _verified(desk, tree, line)
                if line.name and not line.trouble and _adopt(desk, tree, line):
                    desk.held.add(line.uid)
                    waits = True
    _label(desk, tree)  # before: a session that was restored elsewhere may get its turns
    if not waits:
        waits = _show(desk, tree)
        _merge(desk, tree)
    _label(desk, tree)
    return waits


def place(desk: Desk, uid: str) -> Tree:
    """Find the place of segments whose parents are known now.

    Copies of one machine may publish the same turns, cut in different places. So a segment that begins like another
    with the same parent follows that one, with the rest of its bytes.
    """
    tree = desk.kept.tree(uid)
    progress = True
    while progress:
        progress = False
        for id in sorted(tree.waiting):
            node = tree.waiting[id]
            if node.parent in tree.nodes or node.parent == uid:
                _place(desk, tree, replace(node, skip=0))
                tree, progress = desk.kept.tree(uid), True
    return tree


def _place(desk: Desk, tree: Tree, node: Node) -> None:
    beside = [other for other in tree.children(node.parent) if other.id != node.id and not other.is_blank]
    for other in beside if not node.is_blank else ():
        if tree.is_dead(other.id) or tree.is_dead(node.parent):
            continue
        mine, its = desk.data(node), desk.data(other)
        if mine.startswith(its):
            _place(desk, tree, replace(node, parent=other.id, skip=node.skip + len(its)))
            return
        if its.startswith(mine):
            moved = replace(other, parent=node.id, skip=other.skip + len(mine))
            desk.kept.put_node(tree.uid, replace(moved, digest=digest(its[len(mine) :])))
    desk.kept.put_node(tree.uid, node if node.is_blank else replace(node, digest=digest(desk.data(node))))


def _bury(desk: Desk, tree: Tree) -> None:
    """Delete what is dead: the files here, and the words in the logs."""
    kept = desk.kept
    for node in tree.nodes.values():
        if not node.is_blank and tree.is_dead(node.id):
            kept.rewrite(tree.uid, node.id)
            kept.put_node(tree.uid, replace(node, is_blank=True))
    if tree.is_dead(tree.uid):
        kept.rewrite(tree.uid)
    for line in kept.lines(tree.uid):
        if tree.is_dead(line.tip):
            if line.name:
                desk.sessions.delete(line.agent, line.name, line.uid)
                local_changes.deletes(desk)  # sees this one: later, its name may be another session's
            kept.drop_line(line.uid)
    if tree.deaths and tree.nodes and not tree.waiting and not kept.lines(tree.uid) and not tree.leaves():
        known = {id for beside in tree.deaths.values() for id in beside}
        if known <= tree.nodes.keys():  # else a line that stays is still on its way
            desk.kill(Dead(tree.uid, tree.uid))


# --- a file and its line


def _verified(desk: Desk, tree: Tree, line: Shown) -> Shown:
    """Compare a file with its segments: it may have been redacted, or be an older one from a backup."""
    at, tip = 0, tree.uid
    for node in tree.path(line.tip) or ():
        have = desk.sessions.read(line.agent, line.name, at, node.length)
        if len(have) < node.length:
            return desk.kept.put_line(replace(line, tip=tip))
        if digest(have) != node.digest and not _masked(desk, tree, line, node, at, have):
            return desk.kept.put_line(replace(line, trouble="changed", has_news=False))
        at, tip = at + node.length, node.id
    return line


def _masked(desk: Desk, tree: Tree, line: Shown, node: Node, at: int, have: bytes) -> bool:
    """Apply the masks that the file lacks, and publish those that are new in it. False: other things were changed."""
    want, skip = desk.data(node), max(node.skip, 0)
    if digest(want) != node.digest:
        desk.kept.put_node(tree.uid, replace(node, digest=digest(want)))
    before = b"\0" * skip + have
    now = records.masked(before, desk.kept.masks(node.id))[skip:]
    if now != have:
        spans = records.spans_of(have, now) or ()
        desk.sessions.mask(line.agent, line.name, [(at + place, new) for place, new in spans])
    if now == want:
        return True
    found = records.spans_of(want, now)
    lines = now.split(b"\n")[:-1]
    if found is None or any(file_format.decode_entry(each) is None and each.strip() for each in lines):
        return False
    mask = Mask(tree.uid, node.id, tuple((skip + place, new) for place, new in found))
    desk.kept.put_mask(mask)
    desk.post("mask", mask)
    desk.kept.rewrite(tree.uid, node.id)
    desk.kept.put_node(tree.uid, replace(node, digest=digest(now)))
    desk.kept.unseen(tree.uid)
    return True


def _adopt(desk: Desk, tree: Tree, line: Shown) -> bool:
    """Recognize segments that the file has already. Returns whether the rest of one waits for the file to be closed."""
    while True:
        at, size = _offset(tree, line.tip), desk.sessions.size(line.agent, line.name)
        for node in tree.children(line.tip) if size > at else ():
            if node.is_blank or tree.is_dead(node.id):
                continue
            want, have = desk.data(node), desk.sessions.read(line.agent, line.name, at, min(node.length, size - at))
            if not want.startswith(have):
                continue
            if len(have) < len(want) and not _extended(desk, line, size, [(node, want[len(have) :])]):
                return True
            line = desk.kept.put_line(replace(line, tip=node.id))
            break
        else:
            return False


def _show(desk: Desk, tree: Tree) -> bool:
    """Bring each line into a file. Returns whether one waits."""
    waits, kept = False, desk.kept
    for leaf in tree.leaves():
        path = _ids(tree, leaf)
        lines = kept.lines(tree.uid)
        if any(line.tip == leaf and (line.name or line.is_pruned) for line in lines):
            continue
        able = [line for line in lines if line.tip in path and not _has_more(desk, tree, line)]
        able.sort(key=lambda line: (line.trouble != "", -path.index(line.tip), line.uid))
        line = able[0] if able else _begun(desk, tree)
        waits |= not _grown(desk, tree, line, leaf)
    for line in kept.lines(tree.uid):  # nothing of its own is left to show, but its file is missing
        if not line.name and not line.is_pruned and line.tip != tree.uid and line.tip not in tree.leaves():
            waits |= not _grown(desk, tree, line, line.tip)
        elif not line.name and not line.is_pruned and line.tip == tree.uid and not tree.nodes and not tree.waiting:
            kept.drop_line(line.uid)  # nothing was ever published of it
    return waits


def _merge(desk: Desk, tree: Tree) -> None:
    """Remove forks that turned out to be the beginning of another line, or the same: copies of one machine had
    published it."""
    for fork in desk.kept.lines(tree.uid):
        if fork.uid == tree.uid or not fork.name or fork.trouble or _has_more(desk, tree, fork):
            continue
        others = [line for line in desk.kept.lines(tree.uid) if line.uid != fork.uid and line.name]
        for other in others:
            if other.uid == tree.uid and other.tip in _ids(tree, fork.tip) and not _has_more(desk, tree, other):
                _grown(desk, tree, other, fork.tip)
        ends = [desk.kept.line(other.uid) or other for other in others]
        is_free = not desk.sessions.is_open(fork.agent, fork.name)
        if is_free and any(
            fork.tip in _ids(tree, end.tip) and (end.tip, end.uid) != (fork.tip, max(end.uid, fork.uid)) for end in ends
        ):
            desk.sessions.delete(fork.agent, fork.name, fork.uid)
            local_changes.deletes(desk)


def _begun(desk: Desk, tree: Tree) -> Shown:
    """A new session for a line. It is remembered before its file exists, so that the file is known after a crash."""
    head = desk.kept.head(tree.uid)
    assert head is not None
    uid = tree.uid if desk.kept.line(tree.uid) is None else desk.random()
    line = desk.kept.put_line(Shown(uid, tree.uid, tree.uid, head[0], has_news=False))
    desk.kept.commit()
    return line


def _grown(desk: Desk, tree: Tree, line: Shown, leaf: str) -> bool:
    """Bring a file to the end of a line. False: it waits."""
    kept = desk.kept
    path = tree.path(leaf) or []
    if any(node.is_blank for node in path):
        return True
    if line.is_pruned:
        kept.put_line(replace(line, tip=leaf))
        return True
    if line.trouble:
        return True
    if line.is_hidden:  # it gets its turns when it is restored, perhaps by those
        labels = kept.labels(tree.uid).get(HIDDEN, {})
        anchor = tree.nearest(leaf, labels)
        if anchor is None or labels[anchor].value:
            return True
        line = kept.put_line(_labelled(desk, line, HIDDEN, False))
    if line.name:
        at = _offset(tree, line.tip)
        if not _extended(desk, line, at, [(node, desk.data(node)) for node in path[_depth(path, line.tip) :]]):
            return False
        kept.put_line(replace(line, tip=leaf))
        return True
    head = kept.head(tree.uid)
    header = file_format.decode_header(head[1].rstrip(b"\n")) if head is not None else None
    if header is None:
        raise Unavailable("the beginning of a session is not there yet")
    is_ours = line.uid == tree.uid and path[0].machine == desk.machine
    told = [(node, desk.data(node)) for node in path]
    branch_of = tree.uid if line.uid != tree.uid else ""
    header = structs.replace(header, uid=line.uid, elsewhere=_elsewhere(desk, 0, told), branch_of=branch_of)
    name = desk.sessions.create(line.agent, header, b"".join(data for _, data in told), is_ours=is_ours)
    line = kept.put_line(replace(line, name=name, tip=leaf, stamp="", title=None, is_archived=False))
    if line.uid != tree.uid and line.title is None:
        tips = [other.tip for other in kept.lines(tree.uid) if other.uid != line.uid]
        anchor = tree.anchor(leaf, tips) or leaf
        machine = tree.nodes[anchor].machine if anchor in tree.nodes else desk.machine
        title = f"{desk.sessions.title_of(line.agent, name)} ({desk.name_of(machine)})"
        desk.sessions.set_title(line.agent, name, title)
        kept.put_line(replace(line, title=title))
    return True


def _extended(desk: Desk, line: Shown, size: int, told: list[tuple[Node, bytes]]) -> bool:
    data = b"".join(data for _, data in told)
    return not data or desk.sessions.extend(line.agent, line.name, size, data, _elsewhere(desk, size, told))


def _elsewhere(desk: Desk, at: int, told: list[tuple[Node, bytes]]) -> list[Part]:
    """Which parts of these data other machines recorded. ``at``: where they begin in the file."""
    found = []
    for node, data in told:
        if data and node.machine != desk.machine:
            found.append((at, at + len(data), desk.name_of(node.machine)))
        at += len(data)
    return found


def _has_more(desk: Desk, tree: Tree, line: Shown) -> bool:
    """Whether the file has turns that are not published."""
    return bool(line.name) and desk.sessions.size(line.agent, line.name) > _offset(tree, line.tip)


def _offset(tree: Tree, tip: str) -> int:
    return sum(node.length for node in tree.path(tip) or ())


def _ids(tree: Tree, tip: str) -> list[str]:
    return [tree.uid, *(node.id for node in tree.path(tip) or ())]


def _depth(path: list[Node], tip: str) -> int:
    return next((number for number, node in enumerate(path, 1) if node.id == tip), 0)


# --- labels


def _label(desk: Desk, tree: Tree) -> None:
    """Set the titles that count, and what is archived or soft-deleted."""
    labels = desk.kept.labels(tree.uid)
    for line in desk.kept.lines(tree.uid):
        if (
            line.is_pruned and line.is_hidden
        ):  # it was soft-deleted, and then removed here; but is it restored elsewhere?
            of_hidden = labels.get(HIDDEN, {})
            anchor = tree.nearest(line.tip, of_hidden)
            if anchor is not None and not of_hidden[anchor].value:
                line = desk.kept.put_line(replace(line, is_pruned=False, is_hidden=False))
        if line.trouble or line.is_pruned:
            continue
        for field, of_field in labels.items():
            anchor = tree.nearest(line.tip, of_field)
            if anchor is not None:
                line = _labelled(desk, line, field, of_field[anchor].value)
        desk.kept.put_line(line)


def _labelled(desk: Desk, line: Shown, field: str, value: str | bool | None) -> Shown:
    sessions = desk.sessions
    if not line.name:  # it has no file now
        return replace(line, is_hidden=bool(value)) if field == HIDDEN else line
    if field == TITLE and value != line.title and not isinstance(value, bool):
        sessions.set_title(line.agent, line.name, value)
        return replace(line, title=value)
    if field == ARCHIVED and bool(value) != line.is_archived:
        sessions.set_archived(line.agent, line.name, bool(value))
        return replace(line, is_archived=bool(value))
    if field == HIDDEN and bool(value) != line.is_hidden:
        name = sessions.hide(line.agent, line.name, bool(value))
        return replace(line, name=name, is_hidden=bool(value), stamp="")
    return line
