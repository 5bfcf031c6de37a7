"""What the writer knows of a recorded session and its file. ``RecordedSessions`` has one for each session."""

from msgspec import Struct

from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.rewinds import Point


class SessionFileState(Struct):
    """The state of a recorded session's file, for the writer."""

    agent_folder: str
    """Its folder; empty until the store can say."""
    header: Header
    is_new: bool
    """The agent has just created it."""
    parent_id: str | None = None
    """The session that it is a fork of."""
    fork_point: Point | None = None
    """Where the fork was made, unless at the end."""
    size_to_copy: int | None = None
    """How many bytes to copy of the parent's transcript."""
    was_opened: bool = False
    """Its file was opened here, so it is opened again only if it is still the same one."""
    file_identity: bytes = b""
    """That of its file, if that existed."""
    file_is_deleted: bool = False
    """Its file was deleted, by this process or another one, and it was not prompted since."""
    must_lift_delete: bool = False
    """It was prompted since it was deleted, and its delete could not be lifted yet."""
    appender: TranscriptAppender | None = None
    """None if the file is not open."""
    is_in_turn: bool = False
    """It was prompted, and no ``EndTurn`` has come since."""
    mark_path: str = ""
    """The path of its last mark for the index, if this process has set one since it opened the file."""
    is_duplicate_import: bool = False
    """Another process has imported it, so it has what comes before the next note."""
    recording_failed: bool = False
    """Recording it has failed before. If it is a fork, its parent may have grown before it is copied."""
