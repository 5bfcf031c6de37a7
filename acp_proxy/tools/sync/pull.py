"""Reads what is new in the logs. Nothing is done to the sessions here; ``settling`` does that.

One request for each machine tells whether there is anything new.
"""

from collections.abc import Mapping
from dataclasses import replace

from acp_proxy.tools.sync import records
from acp_proxy.tools.sync.context import Desk
from acp_proxy.tools.sync.interfaces import BadRecord, Unavailable
from acp_proxy.tools.sync.push import book, take_new_id
from acp_proxy.tools.sync.records import Blank, Dead, Label, LogEnd, Mask, NotARecord, SegmentRecord
from acp_proxy.tools.sync.session_tree import Node
from acp_proxy.transcript import file_format

_AT_ONCE = 50
"""Records that are read before they are remembered for good."""


def pull(desk: Desk) -> None:
    """Read every log to its end. Raises Unavailable."""
    known, there = desk.kept.logs(), desk.logs.machines()
    if desk.kept.number("sent") and desk.machine not in there:
        raise Unavailable(
            "the shared place lacks what this machine wrote there. If it is a drive, is it mounted? If it was emptied: "
            "acp-proxy sync leave, then acp-proxy sync init or join"
        )
    for machine in there:
        if machine not in known and machine != desk.machine:
            desk.kept.read_until(machine, 0)
    _own(desk)
    ends: dict[str, int] | None = None
    while ends != (ends := desk.kept.ends()):  # one log may say that another ends later
        for machine, read in desk.kept.logs().items():
            _read(desk, machine, read, ends)
    _ends(desk)
    old, _, number = desk.kept.text("must read").partition(" ")
    if old:
        if desk.kept.logs()[old] < int(number):  # it was there a moment ago
            raise Unavailable("the shared place does not show what was written to it. Try again later")
        desk.kept.set(**{"must read": None})
    desk.kept.commit()


def _own(desk: Desk) -> None:
    """This machine's log may be longer than remembered: after a crash, or if a copy of this machine wrote to it."""
    data = desk.logs.get(desk.machine, desk.kept.number("sent") + 1)
    if data is None:
        return
    if data == desk.kept.pending():
        book(desk)
    else:
        take_new_id(desk)


def _read(desk: Desk, machine: str, read: int, ends: Mapping[str, int]) -> None:
    must, _, _ = desk.kept.text("must read").partition(" ")
    end = ends.get(machine) if machine != must else None
    while end is None or read < end:
        try:
            data = desk.logs.get(machine, read + 1)
            if data is None:
                break
            _take(desk, machine, read + 1, data)
        except (BadRecord, NotARecord) as problem:
            desk.kept.in_trouble(machine, str(problem) or "a record is not one that this version knows")
            break
        read += 1
        desk.counts.received += 1
        if read % _AT_ONCE == 0:
            desk.kept.commit()
    desk.kept.commit()


def _ends(desk: Desk) -> None:
    """Say where logs really end that others have forgotten. If this machine was, it goes on under a new id."""
    kept = desk.kept
    for machine, number in kept.ends().items():
        if (read := kept.logs().get(machine, 0)) > number:
            desk.end(machine, read)
    if desk.machine in kept.ends():
        desk.end(desk.machine, kept.number("sent"))
        take_new_id(desk, is_copied=False)


def _take(desk: Desk, machine: str, number: int, data: bytes) -> None:
    said, name, id = records.decode(data)
    kept = desk.kept
    match said:
        case SegmentRecord():
            _segment(desk, machine, number, said, id, records.home_of(data))
        case Blank():
            if said.id and not kept.has_node(said.id):
                kept.put_node(said.tree, Node(said.id, said.parent, machine, number, skip=-1, is_blank=True))
        case Label():
            kept.put_label(said)
            kept.note_record(machine, number, said.tree)
            desk.saw(said.stamp)
        case Dead():
            kept.bury(said.tree, said.root, said.beside)
        case Mask():
            kept.put_mask(said)
            _masked(desk, said)
        case LogEnd():
            kept.put_end(said.machine, said.number)
    if said.tree:
        kept.touch(said.tree)
    kept.read_until(machine, number, name)


def _segment(desk: Desk, machine: str, number: int, said: SegmentRecord, id: str, home: str) -> None:
    kept = desk.kept
    kept.note_record(machine, number, said.tree, id)
    kept.headed(said.tree, said.agent, file_format.encode_header(desk.localized(said.header, home)))
    node = Node(id, said.parent, machine, number, len(said.data), -1)
    if not kept.has_node(id):
        desk.fetched.put(machine, number, said.data)
        kept.put_node(said.tree, replace(node, digest=desk.digest_of(node, said.data)))
    if kept.masks(id):
        kept.rewrite(said.tree, id)


def _masked(desk: Desk, mask: Mask) -> None:
    """The segment should look otherwise now, in every file."""
    tree = desk.kept.tree(mask.tree)
    node = tree.nodes.get(mask.segment) or tree.waiting.get(mask.segment)
    if node is not None and not node.is_blank:
        desk.kept.put_node(mask.tree, replace(node, digest=""))
        desk.kept.unseen(mask.tree)
    desk.kept.rewrite(mask.tree, mask.segment)
