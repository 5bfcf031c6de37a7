"""What a round works with: the logs of all machines, and the sessions of this one. Tests have both in memory."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from acp_proxy.errors import AcpProxyError
from acp_proxy.tools.sync.sync_store import KnownHeader, Move, RemotePart, SeenFile
from acp_proxy.transcript.file_format import Header

__all__ = ["BadRecord", "KnownHeader", "Logs", "Move", "RemotePart", "SeenFile", "SyncSessions", "Unavailable"]


class Unavailable(AcpProxyError):
    """The shared place did not answer, or not as it should. Trying again later may help."""


class BadRecord(AcpProxyError):
    """A record of a log cannot be opened: it was not sealed with this key, for this place in the log."""


class Logs(Protocol):
    """The logs of all machines. Every method raises Unavailable; then what was written may be there or not.

    ``history``: the id of the history.
    """

    history: str

    def list_machines(self) -> list[str]:
        """The ids of all machines that have a log."""

    def get(self, machine: str, number: int) -> bytes | None:
        """A record; None if there is none. Raises BadRecord."""

    def create(self, machine: str, number: int, data: bytes) -> bool:
        """Write a record, unless there is one: then return False."""

    def replace(self, machine: str, number: int, data: bytes) -> None:
        """Write a record in place of another."""


class SyncSessions(Protocol):
    """The sessions of this machine, by agent and transcript name. Offsets and sizes are of the entries, without the
    header. Raises OSError."""

    def list_agents(self) -> list[str]:
        """The agents' folders."""

    def list_files(self) -> Iterable[SeenFile]:
        """All sessions, soft-deleted ones included."""

    def read_header(self, agent_folder: str, name: str) -> KnownHeader | None:
        """The uid and the header of a session; None if there is none, or no readable header."""

    def list_moves(self, agent_folder: str, offset: int) -> tuple[list[Move], int]:
        """What was deleted and renamed, in order, after this offset in the agent's journal; and the next offset."""

    def read_labels(self, agent_folder: str) -> tuple[Mapping[str, str], frozenset[str]]:
        """The user's titles by name, and the names that are archived."""

    def is_soft_deleted(self, name: str) -> bool:
        """Whether this is the name of a soft-deleted session."""

    def is_open(self, agent_folder: str, name: str) -> bool:
        """Whether somebody has a session open to append."""

    def measure(self, agent_folder: str, name: str) -> int:
        """The bytes of a session's entries; 0 if it is gone."""

    def read(self, agent_folder: str, name: str, offset: int, size: int) -> bytes:
        """``size`` bytes of its entries from ``offset`` on; fewer at its end."""

    def find_folder(self, agent_folder: str) -> str:
        """The agent's folder here. A name that acp-proxy cannot have made is never used as one."""

    def create(self, agent_folder: str, header: Header, data: bytes, *, has_local_id: bool) -> str:
        """Create a session in a folder of ``find_folder``. Returns its name. ``has_local_id``: an agent gave its id on
        this machine. If not, or if it is taken, it gets another, and the old one as its parent's. The header
        says what was recorded elsewhere."""

    def append_turns(
        self, agent_folder: str, name: str, uid: str, expected_size: int, data: bytes, remote_parts: list[RemotePart]
    ) -> bool:
        """Append entries to a session of ``expected_size``. Returns False if it is open or has changed, so that the
        next load tries again, or if it is gone: then only the next round does. ``uid``: given to it if its header has
        none. ``remote_parts``: which of the entries other machines recorded."""

    def remove_end(self, agent_folder: str, name: str, uid: str, expected_size: int, kept_size: int) -> bool:
        """Keep only the first ``kept_size`` bytes of a session of ``expected_size``. Returns False if it is open or has
        changed. ``uid``: given to it if its header has none."""

    def remove_waiting_turns(self) -> None:
        """Forget what ``append_turns`` left to the next load of each session."""

    def overwrite(self, agent_folder: str, name: str, spans: list[tuple[int, bytes]]) -> None:
        """Overwrite parts of a session's entries. ``spans``: offsets, and what is there from then on."""

    def mask(self, agent_folder: str, name: str, spans: list[tuple[int, bytes]]) -> None:
        """Mask the words that are in these places of a session's entries in its copies and backups, and then overwrite
        the places. A mask without words is that of a secret so short that it may mean something else there."""

    def delete(self, agent_folder: str, name: str, uid: str) -> None:
        """Delete a session for good, unless the name is another session's now. One whose header has no uid is known by
        its name."""

    def note_delete(self, agent_folder: str, uid: str) -> None:
        """Note that a session is deleted on all machines that was deleted on this one only."""

    def set_soft_deleted(self, agent_folder: str, name: str, is_soft_deleted: bool) -> str:
        """Soft-delete or restore a session. Returns its new name."""

    def set_title(self, agent_folder: str, name: str, title: str | None) -> None:
        """Set the user's title."""

    def set_archived(self, agent_folder: str, name: str, is_archived: bool) -> None:
        """Archive or unarchive a session."""

    def find_title(self, agent_folder: str, name: str) -> str:
        """The title of a session, as a list shows it."""
