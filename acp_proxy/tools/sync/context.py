"""What every part of the merge uses: the logs, this machine's sessions, and what it remembers."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from acp_proxy.tools.sync import records
from acp_proxy.tools.sync.cache import Spool
from acp_proxy.tools.sync.interfaces import Logs, SyncSessions, Unavailable
from acp_proxy.tools.sync.records import Blank, Dead, Label, LogEnd, SegmentRecord
from acp_proxy.tools.sync.session_tree import Node, Tree
from acp_proxy.tools.sync.state_db import Remembered, Shown
from acp_proxy.transcript.file_format import Header


class Gone(Exception):
    """A segment's words were deleted since its record was read. ``args``: its id."""


@dataclass(slots=True)
class Counts:
    """What a round did, for people."""

    received: int = 0
    sent: int = 0
    waiting: int = 0
    """Sessions that are open here and will be changed when they are closed."""


@dataclass(slots=True)
class Desk:
    """``now``: the time in seconds. ``random``: a new machine's id, or a new file's uid."""

    logs: Logs
    sessions: SyncSessions
    kept: Remembered
    now: Callable[[], float]
    random: Callable[[], str]
    counts: Counts = field(default_factory=Counts)
    held: set[str] = field(default_factory=set)
    """Files of which another machine published a part that is unpublished here; they wait to be closed."""
    home: str = ""
    """This user's home directory."""
    localized: Callable[[Header, str], Header] = lambda header, home: header
    """Another machine's header, with its directory as it is here. The second argument: its user's home directory."""
    shares: Callable[[str, Header], bool] = lambda agent, header: True
    """Whether a session of this agent may leave the machine."""
    fetched: Spool = field(default_factory=Spool)
    """Data that was read in this round."""

    @property
    def machine(self) -> str:
        """This machine's id."""
        return self.kept.text("machine")

    def name_of(self, machine: str) -> str:
        """A machine's name, for people."""
        return self.kept.text("name") if machine == self.machine else self.kept.name_of(machine)

    def stamp(self) -> int:
        """A stamp that is larger than all that were seen. The clock alone may be wrong."""
        latest = max(int(self.now() * 1000), self.kept.number("latest") + 1)
        self.kept.set(latest=latest)
        return latest

    def saw(self, stamp: int) -> None:
        """Another machine's stamp."""
        self.kept.set(latest=max(stamp, self.kept.number("latest")))

    def data(self, node: Node) -> bytes:
        """The bytes that a segment adds to its parent's, masked. Raises Unavailable, Gone."""
        found = self.fetched.get(node.machine, node.number)
        if found is None:
            record = self.logs.get(node.machine, node.number)
            said = _decoded(record)
            if isinstance(said, Blank):
                raise Gone(node.id)
            if not isinstance(said, SegmentRecord):
                raise Unavailable("a part of a session is not in the shared place any more")
            found = said.data
            self.fetched.put(node.machine, node.number, found)
        return records.masked(found, self.kept.masks(node.id))[max(node.skip, 0) :]

    def digest_of(self, node: Node, data: bytes) -> str:
        """The digest that the segment should have in a file. ``data``: all of it."""
        return digest(records.masked(data, self.kept.masks(node.id))[max(node.skip, 0) :])

    # --- what the user did here

    def label(self, tree: Tree, line: Shown, field: str, value: str | bool | None) -> bool:
        """The user has set a title, or archived, soft-deleted or restored a session. Returns False if nothing of it is
        published yet."""
        others = [other.tip for other in self.kept.lines(line.tree) if other.uid != line.uid]
        anchor = tree.anchor(line.tip, others)
        if anchor is None or line.tip == line.tree:
            return False
        said = Label(line.tree, anchor, field, value, self.stamp(), self.machine)
        self.kept.put_label(said)
        self.post("title", said)
        return True

    def bury(self, line: Shown) -> None:
        """The user has deleted a session for good."""
        self.kept.drop_line(line.uid)
        tree = self.kept.tree(line.tree)
        others = [other.tip for other in self.kept.lines(line.tree)]
        anchor = tree.anchor(line.tip, others)
        pending = self.kept.pending() if self.kept.text("pending line") == line.uid else None
        if pending is not None and anchor is None:  # what is just being published is its alone
            anchor = records.decode(pending)[2]
        if anchor is not None and (tree.nodes or tree.waiting or pending is not None):
            beside = tuple(tip for tip in others if tip != line.tree) if anchor != line.tree else ()
            self.kill(Dead(line.tree, anchor, beside))

    def kill(self, dead: Dead) -> None:
        """Publish a death, unless it is known."""
        if self.kept.bury(dead.tree, dead.root, dead.beside):
            self.post("dead", dead)
            self.kept.touch(dead.tree)

    def end(self, machine: str, number: int) -> None:
        """Publish that a log ends with this number."""
        self.kept.put_end(machine, number)
        self.post("ended", LogEnd(machine, number))

    def post(self, kind: str, said: records.Record) -> None:
        """Put a record into the outbox."""
        self.kept.post(kind, records.encode(said, self.kept.text("name")))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _decoded(record: bytes | None) -> records.Record | None:
    if record is None:
        return None
    try:
        return records.decode(record)[0]
    except records.NotARecord:
        return None
