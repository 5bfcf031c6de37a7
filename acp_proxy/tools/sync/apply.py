"""Makes the sessions of this machine what the trees say: adds turns, creates sessions, masks, deletes, sets titles.

Each step looks at the files first, so one that a crash interrupted is completed by doing it again. A session that is
open here waits.

A record of another machine becomes a session in these steps: ``pull`` reads and opens it, and puts its segment into the
tree, without a place; here, ``place_segments`` finds what it follows, ``_match_and_complete`` skips what the file has,
and appends the rest of a segment of which it has a part, and ``_write_branches`` finds the file of its branch. If there
is none, ``_register_session`` keeps a row for it before it exists. ``_extend_session`` then appends the rest to the
file, or creates it (``SyncStore.append_turns`` and ``create``, by way of ``store/remote_turns`` and
``remote_transcripts``). The mark that this leaves brings it into the index.
"""

from dataclasses import replace

from msgspec import structs

from acp_proxy.tools.sync import local_changes, records
from acp_proxy.tools.sync.context import DataDeleted, SyncContext, hash_data
from acp_proxy.tools.sync.interfaces import RemotePart, Unavailable
from acp_proxy.tools.sync.records import ARCHIVED, SOFT_DELETED, TITLE, Death, Mask
from acp_proxy.tools.sync.session_tree import Segment, Tree
from acp_proxy.tools.sync.state_db import LocalSession
from acp_proxy.transcript import file_format

_MOST_BYTES_OF_NOTES = 4096
"""Bytes of the notes that a few repairs leave at the end of a file."""


def apply_changes(context: SyncContext) -> None:
    """Apply what is new of every tree to the files. Raises Unavailable, OSError."""
    context.counts.open_here = 0
    context.sessions.remove_waiting_turns()  # it may be dead now; what still waits is left there again
    for uid in context.state.list_unapplied():
        waits = _apply_tree(context, uid)
        if not waits:
            context.state.mark_applied(uid)
        context.counts.open_here += waits
        context.state.commit()


def _apply_tree(context: SyncContext, uid: str) -> bool:
    """Bring the files of a tree up to date; again for each segment whose words turn out to be deleted from the shared
    place. Returns whether something waits for a session to be closed."""
    while True:
        try:
            return _apply_tree_once(context, uid)
        except DataDeleted as problem:
            tree = context.state.read_tree(uid)
            segment = tree.segments.get(problem.segment_id) or tree.unplaced[problem.segment_id]
            context.state.put_segment(uid, replace(segment, is_blank=True))


def _apply_tree_once(context: SyncContext, uid: str) -> bool:
    """Bring the files of a tree up to date. Returns whether something waits for a session to be closed. Raises
    DataDeleted."""
    tree = place_segments(context, uid)
    _delete_dead(context, tree)
    waits = False
    while True:
        outbox_length = len(context.state.list_outbox())
        tree = context.state.read_tree(uid)
        for local_session in context.state.list_local_sessions(uid):
            if local_session.has_news and local_session.name and not local_session.trouble:
                local_session = _compare_and_mask(context, tree, local_session)
                if (
                    local_session.name
                    and not local_session.trouble
                    and (
                        _remove_notes_at_end(context, tree, local_session)
                        or _match_and_complete(context, tree, local_session)
                    )
                ):
                    context.waiting_files.add(local_session.uid)
                    waits = True
        # Again, as long as this publishes something: a redaction that is new in one file concerns its forks, too.
        if len(context.state.list_outbox()) == outbox_length:
            break
    # Twice: before, since a session that was restored elsewhere may get turns; after, for the files made meanwhile.
    _set_labels(context, tree)
    if not waits:
        waits = _write_branches(context, tree)
        _remove_repeated_forks(context, tree)
    _set_labels(context, tree)
    return waits


def place_segments(context: SyncContext, uid: str) -> Tree:
    """Find the place of segments whose parents are known now. Returns the tree with them. Raises DataDeleted."""
    tree = context.state.read_tree(uid)
    has_placed = True
    while has_placed:
        has_placed = False
        for id in sorted(tree.unplaced):
            segment = tree.unplaced[id]
            if segment.parent in tree.segments or segment.parent == uid:
                _place_segment(context, tree, replace(segment, skip=0))
                tree = context.state.read_tree(uid)
                has_placed = True
    return tree


def _place_segment(context: SyncContext, tree: Tree, segment: Segment) -> None:
    """Put a segment into the tree below its parent, or deeper.

    Copies of one machine may publish the same turns, cut in different places, so that of two segments with one parent,
    the data of one begins with that of the other. Then the longer one follows the shorter one, and skips the bytes that
    it has of it (``Segment.skip``): this one is placed again, as a child of that sibling; or the siblings that begin
    with it become its children. ``tree`` stays as it was read.
    """
    siblings = [other for other in tree.list_children(segment.parent) if other.id != segment.id and not other.is_blank]
    for sibling in siblings if not segment.is_blank else ():
        if tree.is_dead(sibling.id) or tree.is_dead(segment.parent):
            continue
        own_data, sibling_data = context.read_data(segment), context.read_data(sibling)
        if own_data.startswith(sibling_data):
            _place_segment(context, tree, replace(segment, parent=sibling.id, skip=segment.skip + len(sibling_data)))
            return
        if sibling_data.startswith(own_data):
            follower = replace(sibling, parent=segment.id, skip=sibling.skip + len(own_data))
            context.state.put_segment(tree.uid, replace(follower, digest=hash_data(sibling_data[len(own_data) :])))
    context.state.put_segment(
        tree.uid, segment if segment.is_blank else replace(segment, digest=hash_data(context.read_data(segment)))
    )


def _delete_dead(context: SyncContext, tree: Tree) -> None:
    """Delete what is dead: the files and titles here, and the words in the logs."""
    state = context.state
    for segment in tree.segments.values():
        if not segment.is_blank and tree.is_dead(segment.id):
            state.mark_for_rewrite(tree.uid, segment.id)
            state.put_segment(tree.uid, replace(segment, is_blank=True))
    for anchor in {label.anchor for labels in state.read_labels(tree.uid).values() for label in labels.values()}:
        if tree.is_dead(anchor):
            state.mark_for_rewrite(tree.uid, anchor)
            state.drop_labels(tree.uid, anchor)
    if tree.is_dead(tree.uid):
        state.mark_for_rewrite(tree.uid)
    for local_session in state.list_local_sessions(tree.uid):
        if tree.is_dead(local_session.tip):
            if local_session.name:
                if context.sessions.read_header(local_session.agent_folder, local_session.name) is None:
                    continue  # damaged, or just removed: deleted when it can be read again, or is seen to be missing
                context.sessions.delete(local_session.agent_folder, local_session.name, local_session.uid)
                local_changes.find_deletes(context)  # sees this one: later, its name may be another session's
            elif local_session.is_pruned:  # what is imported from now on must have another uid
                context.sessions.note_delete(local_session.agent_folder, local_session.uid)
            state.drop_local_session(local_session.uid)
    # Nothing of it is left to show. From here on the whole tree is dead, also what somebody still adds to it.
    if (
        tree.deaths
        and tree.segments
        and not tree.unplaced
        and not state.list_local_sessions(tree.uid)
        and not tree.list_leaves()
    ):
        survivor_ids = {id for survivors in tree.deaths.values() for id in survivors}
        if survivor_ids <= tree.segments.keys():  # else a branch that stays is still on its way
            context.publish_death(Death(tree.uid, tree.uid))


# --- a file and its branch


def _compare_and_mask(context: SyncContext, tree: Tree, local_session: LocalSession) -> LocalSession:
    """Compare a file with its segments, and bring each other's masks into both: it may have been redacted, or be an
    older one from a backup. Returns the session as it is kept now."""
    compared_session, spans = local_session, list[tuple[int, bytes]]()
    offset, tip = 0, tree.uid
    for segment in tree.find_path(local_session.tip) or ():
        file_data = context.sessions.read(local_session.agent_folder, local_session.name, offset, segment.length)
        if len(file_data) < segment.length:
            compared_session = replace(local_session, tip=tip)
            break
        # Nothing is left to compare with a blank one: its words are gone, and its delete may still be on its way.
        if not segment.is_blank and hash_data(file_data) != segment.digest:
            segment_spans, trouble = _exchange_masks(context, tree, local_session, segment, offset, file_data)
            spans += [(offset + span_offset, new) for span_offset, new in segment_spans]
            if trouble:
                compared_session = replace(local_session, trouble=trouble, has_news=False)
                break
        offset, tip = offset + segment.length, segment.id
    if spans:
        context.state.commit()  # the file's own masks, which these may overwrite in part
        context.sessions.mask(local_session.agent_folder, local_session.name, spans)
    return compared_session if compared_session is local_session else context.state.put_local_session(compared_session)


def _exchange_masks(
    context: SyncContext,
    tree: Tree,
    local_session: LocalSession,
    segment: Segment,
    segment_offset: int,
    file_data: bytes,
) -> tuple[list[tuple[int, bytes]], str]:
    """Publish the masks that are new in the file. ``file_data``: what it has of the segment. Returns the masks to write
    into the file, with their offsets in the segment, and the trouble if anything else differs: "damaged" if a line is
    no entry, else "changed"."""
    segment_data, skip = context.read_data(segment), segment.known_skip
    if hash_data(segment_data) != segment.digest:
        context.state.put_segment(tree.uid, replace(segment, digest=hash_data(segment_data)))
    file_data = _restore_repaired(context, local_session, segment_offset, file_data, segment_data)
    spans = records.list_spans(context.state.read_masks(segment.id), skip, len(file_data))
    masked_data = records.overwrite(file_data, spans)
    if masked_data == file_data:
        spans = []
    if masked_data == segment_data:
        return spans, ""
    lines = masked_data.split(b"\n")[:-1]
    if any(file_format.decode_entry(line) is None and line.strip() for line in lines):
        return spans, "damaged"
    # Not those in ``masked_data``: of two that overlap, only one is whole there.
    file_masks = records.find_masks(file_data)
    all_masks = [*records.find_masks(segment_data), *file_masks]
    if records.overwrite(segment_data, all_masks) != records.overwrite(masked_data, all_masks):
        return spans, "changed"
    new_masks = [(skip + offset, new) for offset, new in file_masks if not segment_data.startswith(new, offset)]
    if new_masks:  # else the record was masked on another machine, which has not said so yet
        mask = Mask(tree.uid, segment.id, tuple(new_masks))
        context.state.put_mask(mask)
        context.publish(mask)
        context.state.mark_for_rewrite(tree.uid, segment.id)
        context.state.put_segment(tree.uid, replace(segment, digest=hash_data(context.read_data(segment))))
        context.state.mark_changed(tree.uid)
    return spans, ""


def _restore_repaired(
    context: SyncContext, local_session: LocalSession, segment_offset: int, file_data: bytes, known_data: bytes
) -> bytes:
    """Write what ``acp-proxy repair`` has overwritten back into the file: it was damaged here, and no redaction. Only
    whole lines: the rest of one whose end was cut off would be damage again.

    ``file_data``: what the file has of a segment. ``known_data``: what the segment has. Returns what the file has then.
    """
    spans, offset, start = list[tuple[int, bytes]](), 0, 0
    for line in file_data.split(b"\n"):
        end = offset + len(line)
        if not _is_repaired(line):
            start = end + 1
        elif known_data[end : end + 1] in (b"\n", b""):  # else the newline may be of the damage, too
            if known_data[start:end] != file_data[start:end]:
                spans.append((start, known_data[start:end]))
            start = end + 1
        offset = end + 1
    if not spans:
        return file_data
    context.sessions.overwrite(
        local_session.agent_folder, local_session.name, [(segment_offset + start, known) for start, known in spans]
    )
    restored = bytearray(file_data)
    for start, known in spans:
        restored[start : start + len(known)] = known
    return bytes(restored)


def _is_repaired(line: bytes) -> bool:
    """Whether a line is what ``acp-proxy repair`` leaves in place of a damaged one."""
    entry = file_format.decode_entry(line.strip())
    note = entry.note if entry is not None else None
    return not line.strip() or (note is not None and note.get("reason") == file_format.GapReason.REPAIRED)


def _remove_notes_at_end(context: SyncContext, tree: Tree, local_session: LocalSession) -> bool:
    """Remove what ``acp-proxy repair`` has noted at the end of a file because it had no room for it in place of the
    damage: what was lost there is back, and other machines' turns follow it. Returns whether that waits for the file to
    be closed."""
    offset = _find_offset(tree, local_session.tip)
    file_size = context.sessions.measure(local_session.agent_folder, local_session.name)
    if not 0 < file_size - offset <= _MOST_BYTES_OF_NOTES or not offset:
        return False
    end = context.sessions.read(local_session.agent_folder, local_session.name, offset, file_size - offset)
    # Spaces, also behind a note, are left of something that was lost here, and was nowhere else.
    return (
        all(_is_repaired(line) and line and line == line.strip() for line in end.splitlines())
        and not context.sessions.is_soft_deleted(local_session.name)
        and not context.sessions.remove_end(
            local_session.agent_folder, local_session.name, local_session.uid, file_size, offset
        )
    )


def _match_and_complete(context: SyncContext, tree: Tree, local_session: LocalSession) -> bool:
    """Move the tip past the segments that the file has already, and append the rest of one of which it has a part.
    Returns whether such a rest waits for the file to be closed."""
    while True:
        offset = _find_offset(tree, local_session.tip)
        file_size = context.sessions.measure(local_session.agent_folder, local_session.name)
        for segment in tree.list_children(local_session.tip) if file_size > offset else ():
            if segment.is_blank or tree.is_dead(segment.id):
                continue
            segment_data = context.read_data(segment)
            file_data = context.sessions.read(
                local_session.agent_folder, local_session.name, offset, min(segment.length, file_size - offset)
            )
            if not segment_data.startswith(file_data):
                continue
            if len(file_data) < len(segment_data) and _append_segments(
                context, local_session, file_size, [(segment, segment_data[len(file_data) :])]
            ):
                return True
            local_session = context.state.put_local_session(replace(local_session, tip=segment.id))
            break
        else:
            return False


def _write_branches(context: SyncContext, tree: Tree) -> bool:
    """Bring each branch into a file. Returns whether one waits for its file to be closed."""
    waits, state = False, context.state
    for leaf in tree.list_leaves():
        path = tree.list_ids(leaf)
        local_sessions = state.list_local_sessions(tree.uid)
        if any(
            local_session.tip == leaf and (local_session.name or local_session.is_pruned)
            for local_session in local_sessions
        ):
            continue
        candidates = [
            local_session
            for local_session in local_sessions
            if local_session.tip in path and not _has_unpublished_turns(context, tree, local_session)
        ]
        # The file that has most of it already, so that least is written; one with a trouble only if there is no other.
        candidates.sort(
            key=lambda local_session: (local_session.trouble != "", -path.index(local_session.tip), local_session.uid)
        )
        local_session = candidates[0] if candidates else _register_session(context, tree)
        waits |= _extend_session(context, tree, local_session, leaf)
    for local_session in state.list_local_sessions(tree.uid):
        # Nothing of its own is left to show, but its file is missing.
        if (
            not local_session.name
            and not local_session.is_pruned
            and local_session.tip != tree.uid
            and local_session.tip not in tree.list_leaves()
        ):
            waits |= _extend_session(context, tree, local_session, local_session.tip)
        elif (
            not local_session.name
            and not local_session.is_pruned
            and local_session.tip == tree.uid
            and not tree.segments
            and not tree.unplaced
        ):
            state.drop_local_session(local_session.uid)  # nothing was ever published of it
    return waits


def _remove_repeated_forks(context: SyncContext, tree: Tree) -> None:
    """Remove forks that turned out to be the beginning of another branch, or the same: copies of one machine had
    published it."""
    for fork in context.state.list_local_sessions(tree.uid):
        if fork.uid == tree.uid or not fork.name or fork.trouble or _has_unpublished_turns(context, tree, fork):
            continue
        other_sessions = [
            local_session
            for local_session in context.state.list_local_sessions(tree.uid)
            if local_session.uid != fork.uid and local_session.name
        ]
        for other in other_sessions:
            if (
                other.uid == tree.uid
                and other.tip in tree.list_ids(fork.tip)
                and not _has_unpublished_turns(context, tree, other)
            ):
                _extend_session(context, tree, other, fork.tip)
        extended_sessions = [context.state.find_local_session(other.uid) or other for other in other_sessions]
        is_unused = not context.sessions.is_open(fork.agent_folder, fork.name)
        # Of two that end alike, the one with the larger uid goes.
        if is_unused and any(
            fork.tip in tree.list_ids(other.tip) and (other.tip, other.uid) != (fork.tip, max(other.uid, fork.uid))
            for other in extended_sessions
        ):
            context.sessions.delete(fork.agent_folder, fork.name, fork.uid)
            local_changes.find_deletes(context)


def _register_session(context: SyncContext, tree: Tree) -> LocalSession:
    """A row for the session of a branch that has no file yet. It is kept before the file exists, so that the file is
    known after a crash."""
    agent_and_header = context.state.find_tree_header(tree.uid)
    assert agent_and_header is not None
    agent_folder, _ = agent_and_header
    uid = tree.uid if context.state.find_local_session(tree.uid) is None else context.make_id()
    local_session = context.state.put_local_session(LocalSession(uid, tree.uid, tree.uid, agent_folder, has_news=False))
    context.state.commit()
    return local_session


def _extend_session(context: SyncContext, tree: Tree, local_session: LocalSession, leaf: str) -> bool:
    """Bring a file to the end of a branch, unless it shall stay as it is. Returns whether it waits for the file to be
    closed."""
    state = context.state
    path = tree.find_path(leaf) or []
    if any(segment.is_blank for segment in path):  # its words were deleted: there is nothing to write or to wait for
        return False
    if local_session.is_pruned:  # deleted on this machine only: it gets no file again, whatever is said elsewhere
        state.put_local_session(replace(local_session, tip=leaf))
        return False
    if local_session.trouble:  # left alone until the user has repaired it
        return False
    if local_session.is_soft_deleted:  # it gets its turns when it is restored, perhaps by those
        labels = state.read_labels(tree.uid).get(SOFT_DELETED, {})
        anchor = tree.find_nearest(leaf, labels)
        if anchor is None or labels[anchor].value:
            return False
        local_session = state.put_local_session(_set_label(context, local_session, SOFT_DELETED, False))
    if local_session.name:
        offset = _find_offset(tree, local_session.tip)
        missing_segments = path[_find_depth(path, local_session.tip) :]
        if _append_segments(
            context, local_session, offset, [(segment, context.read_data(segment)) for segment in missing_segments]
        ):
            return True
        state.put_local_session(replace(local_session, tip=leaf))
        return False
    local_session = _create_branch_file(context, tree, local_session, leaf)
    if local_session.uid != tree.uid:
        _title_branch(context, tree, local_session)
    return False


def _create_branch_file(context: SyncContext, tree: Tree, local_session: LocalSession, leaf: str) -> LocalSession:
    """Create the file of a session, with its branch up to ``leaf``. Raises Unavailable, OSError."""
    state, path = context.state, tree.find_path(leaf) or []
    agent_and_header = state.find_tree_header(tree.uid)
    header = file_format.decode_header(agent_and_header[1].rstrip(b"\n")) if agent_and_header is not None else None
    if header is None:
        raise Unavailable("the beginning of a session is not there yet")
    has_local_id = local_session.uid == tree.uid and path[0].machine == context.machine
    segments_and_data = [(segment, context.read_data(segment)) for segment in path]
    header = structs.replace(
        header,
        uid=local_session.uid,
        remote_parts=_list_remote_parts(context, 0, segments_and_data),
        branch_of=tree.uid if local_session.uid != tree.uid else "",
    )
    # What follows must find the file: another machine may have a folder whose name is not used here.
    local_session = replace(local_session, agent_folder=context.sessions.find_folder(local_session.agent_folder))
    name = context.sessions.create(
        local_session.agent_folder, header, b"".join(data for _, data in segments_and_data), has_local_id=has_local_id
    )
    return state.put_local_session(
        replace(local_session, name=name, tip=leaf, file_version="", title=None, is_archived=False)
    )


def _title_branch(context: SyncContext, tree: Tree, local_session: LocalSession) -> None:
    """Give a further session of a tree a title that tells it from the others: with the machine that began its branch.
    Raises OSError."""
    tips = [other.tip for other in context.state.list_local_sessions(tree.uid) if other.uid != local_session.uid]
    anchor = tree.find_anchor(local_session.tip, tips) or local_session.tip
    machine = tree.segments[anchor].machine if anchor in tree.segments else context.machine
    title = (
        f"{context.sessions.find_title(local_session.agent_folder, local_session.name)} ({context.find_name(machine)})"
    )
    context.sessions.set_title(local_session.agent_folder, local_session.name, title)
    context.state.put_local_session(replace(local_session, title=title))


def _append_segments(
    context: SyncContext, local_session: LocalSession, size: int, segments_and_data: list[tuple[Segment, bytes]]
) -> bool:
    """Append these data to a file of ``size``. Returns whether they wait for the file to be closed."""
    data = b"".join(data for _, data in segments_and_data)
    return bool(data) and not context.sessions.append_turns(
        local_session.agent_folder,
        local_session.name,
        local_session.uid,
        size,
        data,
        _list_remote_parts(context, size, segments_and_data),
    )


def _list_remote_parts(
    context: SyncContext, offset: int, segments_and_data: list[tuple[Segment, bytes]]
) -> list[RemotePart]:
    """Which parts of these data other machines recorded. ``offset``: where they begin in the file."""
    remote_parts = []
    for segment, data in segments_and_data:
        if data and segment.machine != context.machine:
            remote_parts.append((offset, offset + len(data), context.find_name(segment.machine)))
        offset += len(data)
    return remote_parts


def _has_unpublished_turns(context: SyncContext, tree: Tree, local_session: LocalSession) -> bool:
    """Whether the file has turns that are not published."""
    return bool(local_session.name) and context.sessions.measure(
        local_session.agent_folder, local_session.name
    ) > _find_offset(tree, local_session.tip)


def _find_offset(tree: Tree, tip: str) -> int:
    return sum(segment.length for segment in tree.find_path(tip) or ())


def _find_depth(path: list[Segment], tip: str) -> int:
    """How many segments of the path a file has whose end is ``tip``."""
    return next((depth for depth, segment in enumerate(path, 1) if segment.id == tip), 0)


# --- labels


def _set_labels(context: SyncContext, tree: Tree) -> None:
    """Set the titles that count, and what is archived or soft-deleted."""
    labels = context.state.read_labels(tree.uid)
    for local_session in context.state.list_local_sessions(tree.uid):
        # It was soft-deleted, and then removed here; but is it restored elsewhere?
        if local_session.is_pruned and local_session.is_soft_deleted:
            soft_deleted_labels = labels.get(SOFT_DELETED, {})
            anchor = tree.find_nearest(local_session.tip, soft_deleted_labels)
            if anchor is not None and not soft_deleted_labels[anchor].value:
                local_session = context.state.put_local_session(
                    replace(local_session, is_pruned=False, is_soft_deleted=False)
                )
        if local_session.trouble or local_session.is_pruned:
            continue
        for field, field_labels in labels.items():
            anchor = tree.find_nearest(local_session.tip, field_labels)
            if anchor is not None:
                local_session = _set_label(context, local_session, field, field_labels[anchor].value)
        context.state.put_local_session(local_session)


def _set_label(context: SyncContext, local_session: LocalSession, field: str, value: str | bool | None) -> LocalSession:
    sessions = context.sessions
    if not local_session.name:  # it has no file now
        return replace(local_session, is_soft_deleted=bool(value)) if field == SOFT_DELETED else local_session
    if field == TITLE and value != local_session.title and not isinstance(value, bool):
        sessions.set_title(local_session.agent_folder, local_session.name, value)
        return replace(local_session, title=value)
    if field == ARCHIVED and bool(value) != local_session.is_archived:
        sessions.set_archived(local_session.agent_folder, local_session.name, bool(value))
        return replace(local_session, is_archived=bool(value))
    if field == SOFT_DELETED and bool(value) != local_session.is_soft_deleted:
        name = sessions.set_soft_deleted(local_session.agent_folder, local_session.name, bool(value))
        return replace(local_session, name=name, is_soft_deleted=bool(value), file_version="")
    return local_session
