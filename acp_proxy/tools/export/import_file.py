"""Imports an exported transcript into the store, byte for byte.

Refuses whatever is doubtful: a file that is not a transcript, is damaged or of a later version, or is of a session that
already exists with other content. If the uids say that another session has the id, since the agent uses ids again, this
one is set aside: it gets a name with a number. The file gets its name once it is complete and on disk, and never
replaces another. Its path is made from generated names, never from text in the header. A stream is read once, into an
unnamed temporary file in the store.

Nobody here knows who wrote a file, so its notes do not say for which session the agent is asked: if they name another
id, a note at its end says that the agent has none for it yet.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from acp_proxy import shell_quote
from acp_proxy.errors import NewerFormat, NotImported, Unreadable
from acp_proxy.protocol import acp, timestamps
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.import_folder import choose_folder_for_import
from acp_proxy.store import delete, journal
from acp_proxy.store.layout import Layout, lock_folder, number_name
from acp_proxy.transcript import file_access, file_format
from acp_proxy.transcript.agent_session import NEW_ID_NOTES
from acp_proxy.transcript.compressed import CompressedTranscript, read_pieces, write_chunks
from acp_proxy.transcript.file_format import Header, NoteType
from acp_proxy.transcript.file_names import file_name, make_uid, unfinished_path
from acp_proxy.transcript.reader import TranscriptReader, split_file
from acp_proxy.transcript.summary import Summary

_ZSTD_START = b"\x28\xb5\x2f\xfd"
"""The first bytes of a zstd frame."""
_UID = re.compile(rb'"(uid|branchOf)":"([0-9a-f]{32})"')
"""The uids in a header, as acp-proxy makes them: its own, and that of the session of which it is a branch."""
_LONGEST_HEADER = 1024 * 1024
"""Bytes: a header has a few ids, paths and names. A first line longer than this is not a header."""
_READ_BYTES = _LONGEST_HEADER
"""Bytes read from a stream at a time; the first read contains the header."""
_IMPORT_RUN = "import"
"""The ``run`` of the note at the end."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """An imported session.

    ``name``: the transcript's. ``prompts``: its number of turns, as a list counts them. ``is_new``: False if the same
    transcript was already there.
    """

    agent_folder: str
    session_id: str
    name: str
    prompts: int
    is_new: bool


class Source:
    """An open file that may be a transcript, plain or compressed."""

    def __init__(self, file: IO[bytes]) -> None:
        """Raises NotImported if it is not a regular file, or far larger than what is on disk; OSError."""
        fd = file.fileno()
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # a device may never end
            raise NotImported("it is neither a file nor a pipe. Save its content to a file, and import that")
        try:
            self._compressed = (
                CompressedTranscript(fd) if file_access.read_at(fd, len(_ZSTD_START), 0) == _ZSTD_START else None
            )
            file_access.check_space(fd)
        except file_access.TooLarge as problem:
            raise NotImported(problem.text) from problem
        self.read: Callable[[int, int], bytes]
        self.read = self._compressed.read if self._compressed is not None else partial(file_access.read_at, fd)
        self.size = self._compressed.size if self._compressed is not None else os.fstat(fd).st_size

    @property
    def is_damaged(self) -> bool:
        """Whether its compressed data is damaged, as far as it was read."""
        return self._compressed is not None and self._compressed.is_damaged


def import_transcript(
    store: CommandStore, file_or_stream: Path | IO[bytes], *, accepts_damaged: bool = False
) -> ImportedFile:
    """Import an exported transcript from a file or a stream.

    ``accepts_damaged``: accept it even if some of its lines cannot be read. Raises NotImported, NewerFormat, OSError.
    """
    imported = _import_or_find(
        store.layout,
        file_or_stream,
        store.layout.make_folder,
        timestamps.format_now(time.time()),
        accepts_damaged=accepts_damaged,
    )
    if imported.is_new:
        with suppress(Unreadable):  # then its mark stays
            store.index_transcript(imported.agent_folder, imported.name, is_deferrable=True)
    return imported


def _import_or_find(
    layout: Layout,
    file_or_stream: Path | IO[bytes],
    make_folder: Callable[[Path], None],
    stamp: str,
    *,
    accepts_damaged: bool,
) -> ImportedFile:
    """Import a transcript, or find that it is there already. Raises NotImported, NewerFormat, OSError.

    ``make_folder``: creates an agent's folder. ``stamp``: the time of the import. ``accepts_damaged``: as for
    ``import_transcript``.
    """
    with _open(layout, file_or_stream) as file:
        source = Source(file)
        header = _read_header(source)
        prompts, names_ids = _check_entries(source, header, accepts_damaged=accepts_damaged)
        agent_folder, name = choose_folder_for_import(header), file_name(header.session_id)
        folder = layout.transcript_path(agent_folder, name).parent
        make_folder(folder)
        with lock_folder(folder, wait=True):  # nobody removes the unfinished file, or compresses it
            agent_journal = layout.get_journal(agent_folder)
            if header.session_id in agent_journal.read_deleted():
                with agent_journal.lock():
                    if header.session_id in agent_journal.read_deleted():
                        # A crash may have interrupted the delete.
                        delete.apply_delete(layout, agent_folder, header.session_id)
            while layout.has_transcript(agent_folder, name):
                if _is_same_session(source, layout.transcript_path(agent_folder, name), header):
                    return ImportedFile(agent_folder, header.session_id, name, prompts, is_new=False)
                name = number_name(name)
            target = layout.transcript_path(agent_folder, name)
            _write(layout, agent_folder, target, header, source, stamp, names_ids=names_ids)
    return ImportedFile(agent_folder, header.session_id, name, prompts, is_new=True)


@contextmanager
def _open(layout: Layout, file_or_stream: Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """Yields a file that can be read more than once: a stream is copied. Raises NotImported, NewerFormat, OSError."""
    with ExitStack() as stack:
        file = stack.enter_context(file_or_stream.open("rb")) if isinstance(file_or_stream, Path) else file_or_stream
        if file is file_or_stream or stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            copy = stack.enter_context(TemporaryFile(dir=layout.root, buffering=0))  # removed even if we are killed
            _copy(file, copy)
            file = copy
        yield file


def _copy(stream: IO[bytes], target: IO[bytes]) -> None:
    offset = 0
    while data := stream.read(_READ_BYTES):
        file_access.write_at(target.fileno(), data, offset)
        if not offset:
            _read_header(Source(target))  # refuse early: another stream may never end
        offset += len(data)


def read_creation_time(path: Path) -> str:
    """When the session of a file began, as its header says; empty for what is not a transcript, or cannot be read."""
    with suppress(NotImported, NewerFormat, OSError):
        if path.is_file():  # opening a pipe would take what it has
            with path.open("rb") as file:
                return _read_header(Source(file)).created_at
    return ""


def examine(source: Source) -> tuple[Header, int]:
    """A transcript's header and its number of turns. Raises NotImported, NewerFormat."""
    header = _read_header(source)
    return header, _check_entries(source, header, accepts_damaged=False)[0]


def _read_header(source: Source) -> Header:
    """A transcript's header. Raises NotImported, NewerFormat."""
    line, newline, _ = source.read(min(source.size, _LONGEST_HEADER), 0).partition(b"\n")
    header = file_format.decode_header(line)
    if header is None or not newline:
        raise NotImported(
            "it is not a transcript: its first line is not a header. Only exports with --format jsonl can be imported, "
            "as they are or compressed with zstd"
        )
    return header


def _check_entries(source: Source, header: Header, *, accepts_damaged: bool) -> tuple[int, bool]:
    """The number of turns, and whether notes may name other ids of the session. Raises NotImported if the compression
    is damaged, or a line unless ``accepts_damaged``: what is left in such lines may be notes."""
    summary, names_ids = Summary.begin(header), False
    for number, (_, line) in enumerate(split_file(source.read, 0, source.size), 1):
        entry = file_format.decode_entry(line) if number > 1 else None
        if entry is None and number > 1 and not accepts_damaged and not line.isspace():
            raise NotImported(f"line {number} is not an entry of a transcript. To import the file anyway: --damaged")
        if entry is not None:
            summary.add(entry)
            names_ids |= acp.text(entry.note, "type") in NEW_ID_NOTES
        elif number > 1:
            names_ids |= any(file_format.find_notes(line, NEW_ID_NOTES))
    if source.is_damaged:
        raise NotImported("its compressed data is damaged. Import an intact copy")
    return summary.prompts, names_ids


def _is_same_session(source: Source, stored_path: Path, header: Header) -> bool:
    """Whether the existing transcript equals the source, or continues it; False: it is another session's, as the uids
    say. Raises NotImported: it has other content; NewerFormat, OSError."""
    stored = TranscriptReader(stored_path)
    try:
        if not all(_compare_lines(source, stored.read_bytes(0))):
            stored_uid = stored.header.uid if stored.header is not None else ""
            if header.uid and stored_uid and header.uid != stored_uid:
                return False
            session = _quote_session(header.session_id, stored_path.stem)
            raise NotImported(
                f"session {header.session_id} already exists, with other content. "
                f"To replace it, delete it first: acp-proxy delete {session}"
            )
        return True
    finally:
        stored.close()


def _quote_session(session_id: str, name: str) -> str:
    """The session as a command-line argument, whatever its id contains. ``name``: its transcript's."""
    is_typable = shell_quote.is_typable(session_id) and not session_id.startswith("-")
    return shell_quote.quote(session_id if is_typable and name == file_name(session_id) else name)


def _compare_lines(source: Source, stored: Iterator[bytes]) -> Iterator[bool]:
    """Compares piece by piece; the source may end first."""
    offset = 0
    for data in stored:
        source_data = source.read(min(len(data), source.size - offset), offset)
        if not offset and (spans := _find_uids(source_data)) == _find_uids(data):
            # An import after a delete has another uid than its source.
            for start, end in spans:
                source_data = source_data[:start] + data[start:end] + source_data[end:]
        yield data.startswith(source_data)
        offset += len(source_data)
        if offset >= source.size:
            return
    yield offset == source.size


def _write(
    layout: Layout,
    agent_folder: str,
    target: Path,
    header: Header,
    source: Source,
    stamp: str,
    *,
    names_ids: bool,
) -> None:
    """Write the file and give it its name. Raises NotImported, OSError."""
    note = {"type": NoteType.CONTINUED, "agent": agent_folder, "session": header.session_id}
    last_line = file_format.encode_note(stamp, _IMPORT_RUN, note) if names_ids else b""
    with (
        store_on_disk(target, source, last_line) as unfinished,
        delete.lock_completed_journal(layout, agent_folder) as agent_journal,
    ):
        state = agent_journal.read_state()
        is_deleted = header.session_id in state.deleted
        # A delete means the uid, on other machines too, and whatever id the session had: with that uid, sync would
        # delete what is imported. After a prune the others have it still, and know by its uid that it is the same.
        if header.uid in state.deleted_uids or (is_deleted and header.uid not in state.pruned):
            _overwrite_uid(unfinished, make_uid())
        if is_deleted:
            agent_journal.append(journal.Event(journal.LIFTED, header.session_id), stamp)
        layout.mark(agent_folder, target.stem)
        move_into_place(unfinished, target)


def _overwrite_uid(path: Path, new_uid: str) -> None:
    """Put another uid into a transcript's header, if that has one as acp-proxy makes it. If it is a branch of a session
    for sync, it becomes a session of its own. Raises OSError."""
    fd = file_access.open_private(path, os.O_RDWR)
    try:
        for start, _ in _find_uids(file_access.read_at(fd, _LONGEST_HEADER, 0)):
            file_access.write_at(fd, new_uid.encode(), start)
        file_access.fsync(fd)
    finally:
        os.close(fd)


def _find_uids(data: bytes) -> list[tuple[int, int]]:
    """Where the uids are in the data that a transcript begins with; empty if its header has none, or of another
    form."""
    members = list(_UID.finditer(data.partition(b"\n")[0]))
    names = {member[1] for member in members}
    return [member.span(2) for member in members] if b"uid" in names and len(names) == len(members) else []


@contextmanager
def store_on_disk(target: Path, source: Source, last_line: bytes = b"") -> Iterator[Path]:
    """Yields a new file with the source's content, which can get the name ``target``; else it is removed afterwards.
    ``last_line``: a line to write after it.

    Call it only while holding the lock on its folder. Raises NotImported, OSError.
    """
    unfinished = unfinished_path(target)
    fd = file_access.open_private(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        try:
            if last_line and source.read(1, source.size - 1) != b"\n":
                last_line = b"\n" + last_line
            size = write_chunks(fd, chain(read_pieces(source.read, source.size), [last_line] if last_line else []))
        finally:
            os.close(fd)  # Windows cannot rename an open file
        if size != source.size + len(last_line):
            raise NotImported("it became shorter while it was being read. Try again")
        yield unfinished
    finally:
        unfinished.unlink(missing_ok=True)


def move_into_place(unfinished: Path, target: Path) -> None:
    """Give the file its name if that is free. Raises NotImported, OSError.

    Without hard links, another process may still take the name between the check and the rename.
    """
    try:
        os.link(unfinished, target)
    except FileExistsError as problem:
        raise NotImported("the session has just been started here. Try again") from problem
    except FileNotFoundError as problem:
        raise NotImported("the session was deleted in the meantime. Try again") from problem
    except OSError as problem:
        if problem.errno not in _NO_LINKS or os.path.lexists(target):
            raise
        unfinished.replace(target)
