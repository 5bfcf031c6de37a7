"""What every part of a round uses: the logs, this machine's sessions, and what it remembers."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from acp_proxy.tools.sync import records
from acp_proxy.tools.sync.cache import FetchCache
from acp_proxy.tools.sync.interfaces import Logs, SyncSessions, Unavailable
from acp_proxy.tools.sync.records import BlankRecord, Death, Label, LogEnd, SegmentRecord
from acp_proxy.tools.sync.session_tree import Segment, Tree
from acp_proxy.tools.sync.state_db import LATEST_STAMP, MACHINE, MACHINE_NAME, PENDING_SESSION, LocalSession, SyncState
from acp_proxy.transcript.file_format import Header


class DataDeleted(Exception):
    """A segment's words were deleted since its record was read."""

    def __init__(self, segment_id: str) -> None:
        super().__init__(segment_id)
        self.segment_id = segment_id


@dataclass(slots=True)
class Counts:
    """What a round did, for people."""

    received: int = 0
    sent: int = 0
    open_here: int = 0
    """Sessions that are open here and will be changed when they are closed."""


@dataclass(slots=True)
class SyncContext:
    """``now``: the time in seconds. ``make_id``: a new machine's id, or a new file's uid."""

    logs: Logs
    sessions: SyncSessions
    state: SyncState
    now: Callable[[], float]
    make_id: Callable[[], str]
    counts: Counts = field(default_factory=Counts)
    waiting_files: set[str] = field(default_factory=set)
    """Files of which another machine published a part that is unpublished here; they wait to be closed."""
    home: str = ""
    """This user's home directory."""
    localize: Callable[[Header, str], Header] = lambda header, home: header
    """Another machine's header, with its directory as it is here. The second argument: its user's home directory."""
    may_share: Callable[[str, Header], bool] = lambda agent_folder, header: True
    """Whether a session of this agent may leave the machine."""
    fetched: FetchCache = field(default_factory=FetchCache)
    """Data that was read in this round."""

    @property
    def machine(self) -> str:
        """This machine's id."""
        return self.state.get_text(MACHINE)

    def find_name(self, machine: str) -> str:
        """A machine's name, for people."""
        return self.state.get_text(MACHINE_NAME) if machine == self.machine else self.state.find_name(machine)

    def make_stamp(self) -> int:
        """A stamp that is larger than all that were seen. The clock alone may be wrong."""
        latest = max(int(self.now() * 1000), self.state.get_number(LATEST_STAMP) + 1)
        self.state.set_facts({LATEST_STAMP: latest})
        return latest

    def note_stamp(self, stamp: int) -> None:
        """Remember another machine's stamp, so that the next one made here is larger."""
        self.state.set_facts({LATEST_STAMP: max(stamp, self.state.get_number(LATEST_STAMP))})

    def read_data(self, segment: Segment) -> bytes:
        """The bytes that a segment adds to its parent's, masked. Raises Unavailable, DataDeleted."""
        data = self.fetched.get(segment.machine, segment.number)
        if data is None:
            encoded_record = self.logs.get(segment.machine, segment.number)
            record = _decode_or_none(encoded_record)
            if isinstance(record, BlankRecord):
                raise DataDeleted(segment.id)
            if not isinstance(record, SegmentRecord):
                raise Unavailable("a part of a session is not in the shared place any more")
            data = record.data
            self.fetched.put(segment.machine, segment.number, data)
        return records.apply_masks(data, self.state.read_masks(segment.id))[segment.known_skip :]

    def compute_digest(self, segment: Segment, data: bytes) -> str:
        """The digest that the segment should have in a file. ``data``: all of it."""
        return hash_data(records.apply_masks(data, self.state.read_masks(segment.id))[segment.known_skip :])

    # --- what the user did here

    def publish_label(self, tree: Tree, local_session: LocalSession, field: str, value: str | bool | None) -> bool:
        """Publish that the user has set a title, or archived, soft-deleted or restored a session. Returns False if
        nothing of the session is published yet."""
        other_tips = [
            other.tip for other in self.state.list_local_sessions(local_session.tree) if other.uid != local_session.uid
        ]
        anchor = tree.find_anchor(local_session.tip, other_tips)
        if anchor is None or local_session.tip == local_session.tree:
            return False
        record = Label(local_session.tree, anchor, field, value, self.make_stamp(), self.machine)
        self.state.put_label(record)
        self.publish(record)
        return True

    def delete_everywhere(self, local_session: LocalSession) -> None:
        """Forget a session that the user has deleted for good, and publish that."""
        self.state.drop_local_session(local_session.uid)
        tree = self.state.read_tree(local_session.tree)
        other_tips = [other.tip for other in self.state.list_local_sessions(local_session.tree)]
        anchor = tree.find_anchor(local_session.tip, other_tips)
        pending_record = self.state.get_pending() if self.state.get_text(PENDING_SESSION) == local_session.uid else None
        if pending_record is not None and anchor is None:  # what is just being published is its alone
            anchor = records.decode(pending_record).id
        if anchor is not None and (tree.segments or tree.unplaced or pending_record is not None):
            survivors = (
                tuple(tip for tip in other_tips if tip != local_session.tree) if anchor != local_session.tree else ()
            )
            self.publish_death(Death(local_session.tree, anchor, survivors))

    def publish_death(self, death: Death) -> None:
        """Publish a death, unless it is known."""
        if self.state.put_death(death.tree, death.root, death.survivors):
            self.publish(death)
            self.state.mark_unapplied(death.tree)

    def publish_end(self, machine: str, number: int) -> None:
        """Publish that a log ends with this number."""
        self.state.put_end(machine, number)
        self.publish(LogEnd(machine, number))

    def publish(self, record: records.Record) -> None:
        """Put a record into the outbox."""
        self.state.add_to_outbox(record, records.encode(record, self.state.get_text(MACHINE_NAME)))


def hash_data(data: bytes) -> str:
    """The digest of a segment's data: 32 hex digits of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:32]


def _decode_or_none(encoded_record: bytes | None) -> records.Record | None:
    if encoded_record is None:
        return None
    try:
        return records.decode(encoded_record).record
    except records.InvalidRecord:
        return None
