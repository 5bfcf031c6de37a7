"""Writes what is new here to this machine's log, one record after the other.

A record is remembered before it is written, so after a crash or a lost answer the same bytes are tried again. If its
number holds other bytes, there are two machines with one id, and this one takes a new id.
"""

from dataclasses import replace

from msgspec import structs

from acp_proxy.tools.sync import local_changes, records
from acp_proxy.tools.sync.context import SyncContext, hash_data
from acp_proxy.tools.sync.interfaces import BadRecord, Unavailable
from acp_proxy.tools.sync.records import BlankRecord, InvalidRecord, Label, SegmentRecord
from acp_proxy.tools.sync.segment_cut import LARGE_BYTES, LARGEST_BYTES, find_end_of_turns, has_prompt
from acp_proxy.tools.sync.session_tree import Segment
from acp_proxy.tools.sync.state_db import (
    MACHINE,
    MACHINE_NAME,
    MUST_READ,
    PENDING,
    PENDING_SESSION,
    SENT,
    LocalSession,
    SyncState,
)
from acp_proxy.transcript import file_format

MANY_DELETES = 100
"""More deletes than this are published only after the user has confirmed them."""


class MachineCopied(Exception):
    """Another machine wrote to this machine's log. It has a new id now; begin again with reading."""


def push(context: SyncContext, *, confirms_deletes: bool) -> None:
    """Publish everything. ``confirms_deletes``: even many. Raises Unavailable, OSError, MachineCopied."""
    _write_pending(context)  # what was pending when the last attempt ended: the log has no gaps
    _write_outbox(context, confirms_deletes=confirms_deletes)
    for local_session in context.state.list_local_sessions():
        if (
            local_session.has_news
            and local_session.name
            and not local_session.trouble
            and local_session.uid not in context.waiting_files
        ):
            while _publish_segment(context, local_session.uid):
                pass
    _write_outbox(context, confirms_deletes=confirms_deletes)  # the titles of sessions that were new
    _rewrite_records(context)


def count_waiting_deletes(state: SyncState) -> int:
    """How many deletes wait for a confirmation."""
    count = sum(is_death for _, is_death, _ in state.list_outbox())
    return count if count > MANY_DELETES else 0


def _write_outbox(context: SyncContext, *, confirms_deletes: bool) -> None:
    waiting_deletes = count_waiting_deletes(context.state) if not confirms_deletes else 0
    for place, is_death, data in context.state.list_outbox():
        if is_death and waiting_deletes:  # a store that was emptied by mistake must not empty those of all machines
            continue
        context.state.set_facts({PENDING: data})
        context.state.remove_from_outbox(place)
        context.state.commit()
        _write_pending(context)


def _publish_segment(context: SyncContext, uid: str) -> bool:
    """Publish the next segment of a session. Returns whether there may be another."""
    state = context.state
    local_session = state.find_local_session(uid)
    if local_session is None or not local_session.name or local_session.trouble:
        return False
    path = state.read_tree(local_session.tree).find_path(local_session.tip)
    known_header = context.sessions.read_header(local_session.agent_folder, local_session.name)
    # A segment before it is still on its way, or the file is gone: the next round.
    if path is None or known_header is None:
        return False
    header = known_header.header
    # Softly, before it was ever published.
    was_soft_deleted = context.sessions.is_soft_deleted(local_session.name) and not local_session.is_soft_deleted
    # Only a session of which nothing is published may be kept to oneself: of another, the others have the beginning.
    if local_session.tip == local_session.tree and (
        was_soft_deleted or not context.may_share(local_session.agent_folder, header)
    ):
        _put_no_news(context, local_session, is_damaged=False)
        return False
    offset = sum(segment.length for segment in path)
    remaining = max(context.sessions.measure(local_session.agent_folder, local_session.name) - offset, 0)
    data, end, is_open = b"", 0, False
    # Nearly every turn ends within the first size, so the second one, which costs memory, is read only for the rest.
    for limit in (2 * LARGE_BYTES, LARGEST_BYTES):
        data = context.sessions.read(local_session.agent_folder, local_session.name, offset, min(remaining, limit))
        # Asked after it was read: else somebody could prompt in between.
        is_open = context.sessions.is_open(local_session.agent_folder, local_session.name)
        end = find_end_of_turns(data, header, is_whole=not is_open and len(data) == remaining)
        if end or len(data) < limit:
            break
    else:
        state.put_local_session(replace(local_session, trouble="too large", has_news=False))
        return False
    if not end or (
        local_session.tip == local_session.tree
        and not (has_prompt(data) or _has_any_prompt(context, local_session, remaining))
    ):
        _put_no_news(context, local_session, is_damaged=bool(data) and not is_open and not end)
        return False
    data = data[:end]
    # What the header says of other machines and of branches is how the session came here; the tree says that to others.
    record = SegmentRecord(
        local_session.tree,
        local_session.tip,
        local_session.agent_folder,
        structs.replace(header, uid=local_session.tree, remote_parts=[], branch_of=""),
        data,
    )
    state.set_facts(
        {PENDING: records.encode(record, state.get_text(MACHINE_NAME), home=context.home), PENDING_SESSION: uid}
    )
    state.commit()  # before it is written, so that the same bytes are tried again after a crash
    _write_pending(context)
    return end < remaining


def _has_any_prompt(context: SyncContext, local_session: LocalSession, size: int) -> bool:
    """Whether the user said something in the session here: it may be an imported one."""
    return has_prompt(
        context.sessions.read(local_session.agent_folder, local_session.name, 0, min(size, LARGEST_BYTES))
    )


def _put_no_news(context: SyncContext, local_session: LocalSession, *, is_damaged: bool) -> None:
    # An open one is looked at again in each round; others only after a change.
    is_open = context.sessions.is_open(local_session.agent_folder, local_session.name)
    trouble = "damaged" if is_damaged else ""
    context.state.put_local_session(replace(local_session, has_news=is_open, trouble=trouble))


def _write_pending(context: SyncContext) -> None:
    data = context.state.get_pending()
    if data is None:
        return
    number = context.state.get_number(SENT) + 1
    if not context.logs.create(context.machine, number, data):
        remote_data = context.logs.get(context.machine, number)
        if remote_data is None:  # some storage shows what was just written only later
            raise Unavailable("the shared place does not show what was written to it. Try again later")
        if remote_data != data:
            take_new_id(context)
            raise MachineCopied
    confirm_written(context)


def confirm_written(context: SyncContext) -> None:
    """The pending record is written: remember that."""
    state = context.state
    data = state.get_pending()
    assert data is not None
    decoded = records.decode(data)
    record, id = decoded.record, decoded.id
    machine, number = context.machine, state.get_number(SENT) + 1
    if isinstance(record, SegmentRecord):
        tree = state.read_tree(record.tree)
        state.note_record(machine, number, record.tree, id)
        if not state.has_segment(id):
            segment = Segment(id, record.parent, machine, number, len(record.data), 0, hash_data(record.data))
            state.put_segment(record.tree, segment)
        elif (old_segment := tree.segments.get(id)) is not None and old_segment.is_blank:
            # A copy of this machine has published the same turns, and they were deleted before ours came.
            state.mark_for_rewrite(record.tree, id)
        state.put_tree_header(record.tree, record.agent_folder, file_format.encode_header(record.header))
        local_session = state.find_local_session(state.get_text(PENDING_SESSION))
        # Else ``apply`` has moved it since a crash.
        if local_session is not None and local_session.tip == record.parent:
            local_session = state.put_local_session(replace(local_session, tip=id))
            if local_session.name:
                local_changes.publish_labels(context, local_session)
        if tree.is_dead(record.parent):  # another machine deleted it: these turns go, too
            state.mark_unapplied(record.tree)
    elif isinstance(record, Label):
        state.note_record(machine, number, record.tree, record.anchor)
    state.set_facts({PENDING: None, SENT: number, PENDING_SESSION: None})
    state.commit()
    context.counts.sent += 1


def take_new_id(context: SyncContext, *, is_copied: bool = True) -> None:
    """Go on as another machine, and read the old log as a foreign one first. ``is_copied``: it has more than this
    machine has written."""
    state, old_machine = context.state, context.machine
    last_sent = state.get_number(SENT)
    data = state.get_pending()
    if data is not None and not state.get_text(PENDING_SESSION):  # a segment is made anew from the file
        state.add_to_outbox(records.decode(data).record, data)
    state.note_read(old_machine, last_sent, state.get_text(MACHINE_NAME))
    must_read = f"{old_machine} {last_sent + 1}" if is_copied else None
    state.set_facts({MACHINE: context.make_id(), SENT: 0, PENDING: None, PENDING_SESSION: None, MUST_READ: must_read})
    state.commit()


def _rewrite_records(context: SyncContext) -> None:
    """Blank the records of what was deleted, mask what was redacted. Every machine does that, as one may be lost.

    What only this machine knows to be deleted stays: that delete waits for a confirmation.
    """
    state = context.state
    unpublished = {records.decode(data).record.tree for _, is_death, data in state.list_outbox() if is_death}
    for machine, number in state.list_rewrites():
        try:
            data = context.logs.get(machine, number)
            decoded = records.decode(data) if data is not None else None
        except (BadRecord, InvalidRecord):  # nobody can read it, so nothing in it is to be hidden
            decoded, data = None, None
        if decoded is not None and decoded.record.tree in unpublished:
            continue
        if data is not None and decoded is not None:
            record, id = decoded.record, decoded.id
            tree = state.read_tree(record.tree)
            new_record = record
            if isinstance(record, SegmentRecord):
                new_record = replace(record, data=records.apply_masks(record.data, state.read_masks(id)))
                if tree.is_dead(id if id in tree.segments else tree.uid):
                    new_record = BlankRecord(record.tree, id, record.parent)
            elif isinstance(record, Label) and tree.is_dead(record.anchor):
                new_record = BlankRecord(record.tree, "", "")
            if new_record != record:
                context.logs.replace(
                    machine, number, records.encode(new_record, decoded.machine_name, id, home=records.read_home(data))
                )
        state.remove_rewrite(machine, number)
        state.commit()
