"""Writes what is new here to this machine's log, one record after the other.

A record is remembered before it is written, so after a crash or a lost answer the same bytes are tried again. If its
number holds other bytes, there are two machines with one id, and this one takes a new id.
"""

from dataclasses import replace

from msgspec import structs

from acp_proxy.tools.sync import local_changes, records
from acp_proxy.tools.sync.context import Desk, digest
from acp_proxy.tools.sync.interfaces import BadRecord, Unavailable
from acp_proxy.tools.sync.records import Blank, Label, NotARecord, SegmentRecord
from acp_proxy.tools.sync.segment_cut import LARGE, LARGEST, end_of_turns, has_prompt
from acp_proxy.tools.sync.session_tree import Node
from acp_proxy.tools.sync.state_db import Remembered, Shown
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header

MANY_DELETES = 100
"""More deletes than this are published only after the user has confirmed them."""


class Cloned(Exception):
    """Another machine wrote to this machine's log. It has a new id now; begin again with reading."""


def push(desk: Desk, *, deletes: bool) -> None:
    """Publish everything. ``deletes``: even many. Raises Unavailable, OSError, Cloned."""
    _write(desk)
    _outbox(desk, deletes=deletes)
    for line in desk.kept.lines():
        if line.has_news and line.name and not line.trouble and line.uid not in desk.held:
            while _segment(desk, line.uid):
                pass
    _outbox(desk, deletes=deletes)  # the titles of sessions that were new
    _rewrite(desk)


def held(kept: Remembered) -> int:
    """How many deletes wait for a confirmation."""
    count = sum(kind == "dead" for _, kind, _ in kept.outbox())
    return count if count > MANY_DELETES else 0


def _outbox(desk: Desk, *, deletes: bool) -> None:
    waits = held(desk.kept) if not deletes else 0
    for place, kind, data in desk.kept.outbox():
        if kind == "dead" and waits:
            continue
        desk.kept.set(pending=data)
        desk.kept.posted(place)
        desk.kept.commit()
        _write(desk)


def _segment(desk: Desk, uid: str) -> bool:
    """Publish the next segment of a session. Returns whether there may be another."""
    kept = desk.kept
    line = kept.line(uid)
    if line is None or not line.name or line.trouble:
        return False
    path = kept.tree(line.tree).path(line.tip)
    looked = desk.sessions.look(line.agent, line.name)
    if path is None or looked is None:
        return False
    header = looked[1]
    was_deleted = desk.sessions.is_hidden(line.name) and not line.is_hidden  # softly, before it was ever published
    if line.tip == line.tree and (was_deleted or not desk.shares(line.agent, header)):
        _no_news(desk, line, is_damaged=False)
        return False
    at = sum(node.length for node in path)
    left = max(desk.sessions.size(line.agent, line.name) - at, 0)
    data, end, is_open = b"", 0, False
    for most in (2 * LARGE, LARGEST):
        data = desk.sessions.read(line.agent, line.name, at, min(left, most))
        is_open = desk.sessions.is_open(line.agent, line.name)  # after it was read: else somebody could prompt now
        end = end_of_turns(data, header, is_whole=not is_open and len(data) == left)
        if end or len(data) < most:
            break
    else:
        kept.put_line(replace(line, trouble="too large", has_news=False))
        return False
    if not end or (line.tip == line.tree and not (has_prompt(data, header) or _is_begun(desk, line, header, left))):
        _no_news(desk, line, is_damaged=bool(data) and not is_open and not end)
        return False
    data = data[:end]
    said = SegmentRecord(
        line.tree, line.tip, line.agent, structs.replace(header, uid=line.tree, elsewhere=[], branch_of=""), data
    )
    kept.set(pending=records.encode(said, kept.text("name"), home=desk.home), **{"pending line": uid})
    kept.commit()
    _write(desk)
    return end < left


def _is_begun(desk: Desk, line: Shown, header: Header, size: int) -> bool:
    """Whether the user said something in the session here: it may be an imported one."""
    return has_prompt(desk.sessions.read(line.agent, line.name, 0, min(size, LARGEST)), header)


def _no_news(desk: Desk, line: Shown, *, is_damaged: bool) -> None:
    is_open = desk.sessions.is_open(line.agent, line.name)
    trouble = "damaged" if is_damaged else ""
    desk.kept.put_line(replace(line, has_news=is_open, trouble=trouble))


def _write(desk: Desk) -> None:
    data = desk.kept.pending()
    if data is None:
        return
    number = desk.kept.number("sent") + 1
    if not desk.logs.create(desk.machine, number, data):
        there = desk.logs.get(desk.machine, number)
        if there is None:
            raise Unavailable("the shared place does not show what was written to it. Try again later")
        if there != data:
            take_new_id(desk)
            raise Cloned
    book(desk)


def book(desk: Desk) -> None:
    """The pending record is written: remember that."""
    kept = desk.kept
    data = kept.pending()
    assert data is not None
    said, _, id = records.decode(data)
    machine, number = desk.machine, kept.number("sent") + 1
    if isinstance(said, SegmentRecord):
        tree = kept.tree(said.tree)
        kept.note_record(machine, number, said.tree, id)
        if not kept.has_node(id):
            node = Node(id, said.parent, machine, number, len(said.data), 0, digest(said.data))
            kept.put_node(said.tree, node)
        elif (known := tree.nodes.get(id)) is not None and known.is_blank:  # a copy's turns, deleted before ours came
            kept.rewrite(said.tree, id)
        kept.headed(said.tree, said.agent, file_format.encode_header(said.header))
        line = kept.line(kept.text("pending line"))
        if line is not None and line.tip == said.parent:
            line = kept.put_line(replace(line, tip=id))
            if line.name:
                local_changes.labels(desk, line)
        if tree.is_dead(said.parent):
            kept.touch(said.tree)
    elif isinstance(said, Label):
        kept.note_record(machine, number, said.tree)
    kept.set(pending=None, sent=number, **{"pending line": None})
    kept.commit()
    desk.counts.sent += 1


def take_new_id(desk: Desk, *, is_copied: bool = True) -> None:
    """Go on as another machine, and read the old log as a foreign one first. ``is_copied``: it has more than this
    machine has written."""
    kept, old = desk.kept, desk.machine
    sent = kept.number("sent")
    data = kept.pending()
    if data is not None and not kept.text("pending line"):
        said = records.decode(data)[0]
        kept.post("dead" if isinstance(said, records.Dead) else "title", data)
    kept.read_until(old, sent, kept.text("name"))
    must = f"{old} {sent + 1}" if is_copied else None
    kept.set(machine=desk.random(), sent=0, pending=None, **{"pending line": None, "must read": must})
    kept.commit()


def _rewrite(desk: Desk) -> None:
    """Blank the records of what was deleted, mask what was redacted. Every machine does that, as one may be lost.

    What only this machine knows to be deleted stays: that delete waits for a confirmation.
    """
    kept = desk.kept
    unsaid = {records.decode(data)[0].tree for _, kind, data in kept.outbox() if kind == "dead"}
    for machine, number in kept.rewriting():
        try:
            data = desk.logs.get(machine, number)
            said, name, id = records.decode(data) if data is not None else (None, "", "")
        except (BadRecord, NotARecord):
            said, name, id, data = None, "", "", None
        if said is not None and said.tree in unsaid:
            continue
        if said is not None:
            tree = kept.tree(said.tree)
            new: records.Record = said
            if isinstance(said, SegmentRecord):
                new = replace(said, data=records.masked(said.data, kept.masks(id)))
                if tree.is_dead(id if id in tree.nodes else tree.uid):
                    new = Blank(said.tree, id, said.parent)
            elif isinstance(said, Label) and tree.is_dead(tree.uid):
                new = Blank(said.tree, "", "")
            if new != said:
                desk.logs.replace(machine, number, records.encode(new, name, id, home=records.home_of(data or b"")))
        kept.rewritten(machine, number)
        kept.commit()
