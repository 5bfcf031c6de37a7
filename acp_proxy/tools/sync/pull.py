"""Reads what is new in the logs. Nothing is done to the sessions here; ``apply`` does that.

One request for each machine tells whether there is anything new.
"""

from collections.abc import Mapping
from dataclasses import replace

from acp_proxy.tools.sync import records
from acp_proxy.tools.sync.context import SyncContext
from acp_proxy.tools.sync.interfaces import BadRecord, Unavailable
from acp_proxy.tools.sync.push import confirm_written, take_new_id
from acp_proxy.tools.sync.records import BlankRecord, Death, InvalidRecord, Label, LogEnd, Mask, SegmentRecord
from acp_proxy.tools.sync.session_tree import UNPLACED, Segment
from acp_proxy.tools.sync.state_db import MUST_READ, SENT
from acp_proxy.transcript import file_format

_RECORDS_PER_COMMIT = 50
"""Records that are read before they are remembered for good."""


def pull(context: SyncContext) -> None:
    """Read every log to its end. Raises Unavailable."""
    known_logs, remote_machines = context.state.read_logs(), context.logs.list_machines()
    if (context.state.get_number(SENT) and context.machine not in remote_machines) or (
        known_logs and not remote_machines
    ):
        raise Unavailable(
            "the shared place lacks what this machine wrote there, or has read there. If it is a drive, is it mounted? "
            "After sync rekey on another machine, run here what that has printed. If the place was emptied otherwise: "
            "acp-proxy sync leave, then acp-proxy sync init or join"
        )
    for machine in remote_machines:
        if machine not in known_logs and machine != context.machine:
            context.state.note_read(machine, 0)
    _check_own_log(context)
    while True:
        ends = context.state.read_ends()
        for machine, last_read in context.state.read_logs().items():
            _read_log(context, machine, last_read, ends)
        if context.state.read_ends() == ends:  # else one log has said that another ends later
            break
    _publish_ends(context)
    old_machine, _, number = context.state.get_text(MUST_READ).partition(" ")
    if old_machine:
        if context.state.read_logs()[old_machine] < int(number):  # it was there a moment ago
            raise Unavailable("the shared place does not show what was written to it. Try again later")
        context.state.set_facts({MUST_READ: None})
    context.state.commit()


def _check_own_log(context: SyncContext) -> None:
    """This machine's log may be longer than remembered: after a crash, or if a copy of this machine wrote to it."""
    try:
        data = context.logs.get(context.machine, context.state.get_number(SENT) + 1)
    except BadRecord:  # not written by a copy of this machine, so there is nothing to read
        take_new_id(context, is_copied=False)
        return
    if data is None:
        return
    if data == context.state.get_pending():
        confirm_written(context)
    else:
        take_new_id(context)


def _read_log(context: SyncContext, machine: str, last_read: int, ends: Mapping[str, int]) -> None:
    must_read, _, _ = context.state.get_text(MUST_READ).partition(" ")
    end = ends.get(machine) if machine != must_read else None
    while end is None or last_read < end:
        try:
            data = context.logs.get(machine, last_read + 1)
            if data is None:
                break
            _take_record(context, machine, last_read + 1, data)
        except (BadRecord, InvalidRecord) as problem:
            context.state.set_trouble(machine, str(problem) or "a record is not one that this version knows")
            break
        last_read += 1
        context.counts.received += 1
        if last_read % _RECORDS_PER_COMMIT == 0:
            context.state.commit()
    context.state.commit()


def _publish_ends(context: SyncContext) -> None:
    """Say where logs really end that others have forgotten. If this machine was, it goes on under a new id."""
    state = context.state
    for machine, number in state.read_ends().items():
        if (last_read := state.read_logs().get(machine, 0)) > number:
            context.publish_end(machine, last_read)
    if context.machine in state.read_ends():
        context.publish_end(context.machine, state.get_number(SENT))
        take_new_id(context, is_copied=False)


def _take_record(context: SyncContext, machine: str, number: int, data: bytes) -> None:
    decoded = records.decode(data)
    record = decoded.record
    state = context.state
    match record:
        case SegmentRecord():
            _take_segment(context, machine, number, record, decoded.id, records.read_home(data))
        case BlankRecord():
            if record.id and not state.has_segment(record.id):
                state.put_segment(
                    record.tree, Segment(record.id, record.parent, machine, number, skip=UNPLACED, is_blank=True)
                )
        case Label():
            state.put_label(record)
            state.note_record(machine, number, record.tree, record.anchor)
            context.note_stamp(record.stamp)
        case Death():
            state.put_death(record.tree, record.root, record.survivors)
        case Mask():
            state.put_mask(record)
            _note_mask(context, record)
        case LogEnd():
            state.put_end(record.machine, record.number)
    if record.tree:
        state.mark_unapplied(record.tree)
    state.note_read(machine, number, decoded.machine_name)


def _take_segment(context: SyncContext, machine: str, number: int, record: SegmentRecord, id: str, home: str) -> None:
    state = context.state
    state.note_record(machine, number, record.tree, id)
    state.put_tree_header(
        record.tree, record.agent_folder, file_format.encode_header(context.localize(record.header, home))
    )
    segment = Segment(id, record.parent, machine, number, len(record.data), UNPLACED)
    if not state.has_segment(id):
        context.fetched.put(machine, number, record.data)
        state.put_segment(record.tree, replace(segment, digest=context.compute_digest(segment, record.data)))
    if state.read_masks(id):
        state.mark_for_rewrite(record.tree, id)


def _note_mask(context: SyncContext, mask: Mask) -> None:
    """Note that a segment was masked: the files are compared with it again, and its record is written again."""
    tree = context.state.read_tree(mask.tree)
    segment = tree.segments.get(mask.segment) or tree.unplaced.get(mask.segment)
    if segment is not None and not segment.is_blank:
        context.state.put_segment(mask.tree, replace(segment, digest=""))
        context.state.mark_changed(mask.tree)
    context.state.mark_for_rewrite(mask.tree, mask.segment)
