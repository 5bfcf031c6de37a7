"""Encodes and decodes the transcript's format, version 1: a header line, then one line per entry.

An entry embeds a message's original bytes, and decoding returns exactly those. A damaged header or entry decodes to
None; only a header of a later version raises ``NewerFormat``. docs/transcript-format.md describes the format.

Code that searches a transcript for bytes must not take a message for a note, since others choose what is in messages.
So what it finds only says which lines to decode (``find_notes``), or it looks where no message can be: at a line's
first byte, or in lines that are all ours. Into a line that does not parse only ``find_entries``, ``salvage`` and, for
what is left of a header, ``rebuild_header`` look.
"""

import enum
import json
import re
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp, json_splice, jsonrpc, proxy_ids
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import salvage
from acp_proxy.transcript.salvage import Intact

VERSION = 1
ACP_V1 = 1
"""The protocol's version of a line whose entry names none."""
RECORDED, IMPORTED, PARTIAL = "recorded", "imported", "partial"


# Frozen: these words are in every store, and older versions read it at the same time. A note of a new type is no
# problem for them, since they ignore it; a word never changes or gets another meaning. The numbers in a ``replay`` note
# are those of ``PastRule`` (comparison/whose_past.py), and frozen too.
class NoteType(enum.StrEnum):
    """The values of a note's ``type``."""

    OPENED = "opened"
    CLOSED = "closed"
    GAP = "gap"
    FAILED = "failed"
    TERMINAL = "terminal"
    HANDOVER = "handover"
    ALIAS = "alias"
    REPLAY = "replay"
    COPIED = "copied"
    CONTINUED = "continued"
    ADOPTED = "adopted"
    CAUGHT_UP = "caught-up"


class GapReason(enum.StrEnum):
    """The values of a gap note's ``reason``, besides the names of the errors with which a store fails."""

    STORE_HANGS = "ETIMEDOUT"
    LINE_TOO_LONG = "EMSGSIZE"
    DELETED = "deleted"
    REPAIRED = "repair"


Parts = list[bytes | memoryview]
"""Lines, cut anywhere."""

HEADER_START = b'{"acp-transcript":'
ANEW = "anew"
"""The member of an ``opened`` note that says that the agent opened a new session instead."""
NOTE_BYTES = b'"note":{"type":"'
"""Bytes that every note contains. A message may contain them too: only ``find_notes`` says where a note is."""

_TEXT = rb'"([ !#-\[\]-~]*)"'
_ENVELOPE = re.compile(
    rb'\{"at":'
    + _TEXT
    + rb',"run":'
    + _TEXT
    + rb',"from":"(client|agent)",(?:"of":'
    + _TEXT
    + rb',)?(?:"v":(\d),)?"message":'
)
"""The first bytes of an entry with a message. They are trusted; the message after them may contain the same keys."""
ENTRY_START = b'{"at":"'
"""The first bytes of every entry, to find entries in a damaged line."""
_ENTRY_PATTERN = re.compile(re.escape(ENTRY_START))
_CONTROL = re.compile(rb"[\0-\x1f]")
_JSON_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_RUN = re.compile(rb'\{"at":' + _TEXT + rb',"run":' + _TEXT)


class GitHead(Struct, frozen=True):
    """What a Git work tree is at. ``branch``: empty if none. ``commit``: in hexadecimal; empty if unknown."""

    branch: str = ""
    commit: str = ""

    @classmethod
    def from_members(cls, value: object) -> "GitHead":
        """Read it from its parsed JSON. Accepts any value."""
        return cls(acp.text(value, "branch") or "", acp.text(value, "commit") or "")

    def encode_members(self) -> dict[str, str]:
        """The members of its JSON object, without empty ones."""
        return {name: value for name, value in (("branch", self.branch), ("commit", self.commit)) if value}


RemotePart = tuple[int, int, str]
"""Entries that another machine recorded: the offsets where they begin and end, and its name."""


class Header(Struct, frozen=True):
    """The first line. ``origin``: ``recorded``, ``imported`` or ``partial``. ``created_at``: a time as text, or empty.

    ``directories``: additional ones, beside ``cwd``. ``agent``: ``id``, ``name`` and ``version``.
    """

    session_id: str
    cwd: str | None
    origin: str
    created_at: str
    directories: list[str] = field(default_factory=list)
    agent: Mapping[str, object] = field(default_factory=dict)
    forked_from: list[str] = field(default_factory=list)
    """The session ids of the parent, its parent and so on: entries copied into a fork still name them."""
    uid: str = ""
    """Random text that no other transcript has; empty in files that are older than it."""
    remote_parts: list[RemotePart] = field(default_factory=list)
    """The parts that were recorded on other machines, in order. In the file: ``elsewhere``."""
    remote_directories: list[str] = field(default_factory=list)
    """Directories in which the session was opened on other machines, where they are not the same ones as here."""
    branch_of: str = ""
    """The uid of the session of which this is a branch, because two machines continued it; else empty."""
    git: GitHead = GitHead()
    """What the work tree of ``cwd`` was at when the session began."""

    @property
    def machine(self) -> str:
        """The name of the machine where the session was begun; empty if that is this one."""
        return next((machine for start, _, machine in self.remote_parts if start == 0), "")

    @property
    def has_own_id(self) -> bool:
        """Whether an agent gave the session its id, rather than acp-proxy when it came from another machine."""
        return not self.uid or not self.session_id.startswith(proxy_ids.make_remote_id(self.uid))


class Entry(Struct, frozen=True):
    """A line after the header: a message or a note.

    ``at``: its time. ``run``: the connection's id. ``peer``: the sender; None for a note. ``answered_method``: the
    method that a response answers. ``raw``: the message's exact bytes. ``value``: the parsed message. ``note``: the
    note's members. ``protocol_version``: the protocol's version of the message.
    """

    at: str
    run: str
    peer: Peer | None
    answered_method: str | None = None
    raw: bytes | None = None
    value: object = None
    note: Mapping[str, object] | None = None
    protocol_version: int = ACP_V1

    @property
    def is_prompt(self) -> bool:
        """Whether the client prompts the agent."""
        return self.peer is Peer.CLIENT and acp.text(self.value, "method") == acp.PROMPT

    @property
    def request_key(self) -> tuple[str, bytes]:
        """What a request shares with its answer, within a transcript: the run, and the request's id as JSON."""
        return self.run, jsonrpc.dump(acp.member(self.value, "id"))


def find_runs(lines: bytes) -> Iterator[tuple[str, int]]:
    """The run of each entry in whole lines, and where its line begins. A damaged line may be left out."""
    start = 0
    for line in lines.split(b"\n"):
        if (match := _RUN.match(line)) is not None:
            yield match[2].decode(), start
        start += len(line) + 1


def begins_new_session(note: Mapping[str, object] | None) -> bool:
    """Whether a note says that the agent opened a new session in place of the one that it does not have."""
    return note is not None and note.get("type") == NoteType.OPENED and note.get(ANEW) is True


def encode_header(header: Header) -> bytes:
    """The header's line."""
    members = {
        "acp-transcript": VERSION,
        "sessionId": header.session_id,
        "agent": header.agent,
        "cwd": header.cwd,
        "additionalDirectories": header.directories,
        "createdAt": header.created_at,
        "origin": header.origin,
    }
    optional = {
        "forkedFrom": header.forked_from,
        "uid": header.uid,
        "elsewhere": header.remote_parts,
        "foreignDirectories": header.remote_directories,
        "branchOf": header.branch_of,
        "git": header.git.encode_members(),
    }
    return jsonrpc.dump(members | {name: value for name, value in optional.items() if value}) + b"\n"


def encode_message(
    at: str,
    run: str,
    peer: Peer,
    raw: bytes,
    answered_method: str | None = None,
    *,
    is_plain: bool = True,
    protocol_version: int = ACP_V1,
) -> bytes:
    """The line of an entry with a message; ``encode_message_parts`` explains the parameters."""
    return b"".join(
        encode_message_parts(at, run, peer, raw, answered_method, is_plain=is_plain, protocol_version=protocol_version)
    )


def encode_message_parts(
    at: str,
    run: str,
    peer: Peer,
    raw: bytes,
    answered_method: str | None = None,
    *,
    is_plain: bool = True,
    protocol_version: int = ACP_V1,
) -> Parts:
    """The line of an entry with a message (``raw``, without its newline), in parts, so that a long one is not copied.
    ``answered_method``: the method that a response answers. ``is_plain=False``: the message fails
    ``jsonrpc.is_embeddable``, so it is written as a string."""
    method = f'"of":{json.dumps(answered_method)},' if answered_method else ""
    start = f'{{"at":"{at}","run":"{run}","from":"{peer.value}",{method}{_encode_version(protocol_version)}'.encode()
    if is_plain:
        return [start, b'"message":', raw, b"}\n"]
    return [start, b'"line":', json.dumps(json_splice.decode(raw)).encode(), b"}\n"]


def encode_update_parts(at: str, run: str, data: bytes, protocol_version: int = ACP_V1) -> Parts:
    """The lines of many entries of one time: agent messages, each of which ends in a newline. In parts, so that a long
    line is not copied. They were not parsed: one that is not JSON is written as it came, or as a string if it is not
    text, or a reader could take a part of it for an entry."""
    if data.rfind(ENTRY_START) >= 0 or not _is_text(data):  # rfind is faster than ``in``
        raw_lines = data[:-1].split(b"\n")
        are_plain = [_is_text(raw) and (ENTRY_START not in raw or jsonrpc.is_embeddable(raw)) for raw in raw_lines]
        if not all(are_plain):
            pairs = zip(raw_lines, are_plain, strict=True)
            return [
                encode_message(at, run, Peer.AGENT, raw, is_plain=is_plain, protocol_version=protocol_version)
                for raw, is_plain in pairs
            ]
    start = f'{{"at":"{at}","run":"{run}","from":"agent",{_encode_version(protocol_version)}"message":'.encode()
    if data.find(b"\n") + 1 == len(data):
        return [start, memoryview(data)[:-1], b"}\n"]
    return [start, data[:-1].replace(b"\n", b"}\n" + start), b"}\n"]


def _is_text(data: bytes) -> bool:
    """Whether it is UTF-8 without NUL, which a reader takes for what a crash left."""
    if data.rfind(b"\0") >= 0:
        return False
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _encode_version(protocol: int) -> str:
    return f'"v":{protocol},' if protocol != ACP_V1 else ""


def encode_note(at: str, run: str, note: Mapping[str, object]) -> bytes:
    """The line of a note."""
    return f'{{"at":"{at}","run":"{run}","from":"proxy","note":'.encode() + jsonrpc.dump(note) + b"}\n"


def decode_header(line: bytes) -> Header | None:
    """The header, or None if the line is not one. Raises NewerFormat for a later version of the format."""
    try:
        value = jsonrpc.parse_strictly(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or type(version := value.get("acp-transcript")) is not int or version < 1:
        return None
    if version > VERSION:
        raise NewerFormat(version, VERSION)
    session_id, cwd, created_at = value.get("sessionId"), value.get("cwd"), value.get("createdAt")
    origin: object = value.get("origin")
    if not isinstance(session_id, str):
        return None
    agent = value.get("agent")
    return Header(
        session_id=session_id,
        cwd=cwd if isinstance(cwd, str) else None,
        origin=origin if isinstance(origin, str) and origin in (RECORDED, IMPORTED) else PARTIAL,
        created_at=created_at if isinstance(created_at, str) and created_at.isascii() else "",
        directories=acp.strings(value, "additionalDirectories"),
        agent=agent if isinstance(agent, dict) else {},
        forked_from=acp.strings(value, "forkedFrom"),
        uid=acp.text(value, "uid") or "",
        remote_parts=_read_remote_parts(acp.items(value, "elsewhere")),
        remote_directories=acp.strings(value, "foreignDirectories"),
        branch_of=acp.text(value, "branchOf") or "",
        git=GitHead.from_members(value.get("git")),
    )


def _read_remote_parts(items: list[object]) -> list[RemotePart]:
    parts = []
    for item in items:
        match item:
            case [int(start), int(end), str(machine)] if 0 <= start < end:
                parts.append((start, end, machine))
    return parts


def find_header(line: bytes) -> tuple[Header | None, int]:
    """The header at the start of a line, which entries may follow after damage, and the offset of its end; (None, 0) if
    there is none. Raises NewerFormat."""
    header = decode_header(line)
    if header is not None:
        return header, len(line.rstrip(b"\r\n"))
    if not line.startswith(HEADER_START):
        return None, 0
    start = salvage.get_first_value(line)
    header = decode_header(start)
    return header, len(start) if header is not None else 0


def find_entries(line: bytes) -> list[Intact[Entry]]:
    """The entry of an intact line, or every intact entry within a damaged one, with their offsets. Never raises.

    What is inside a line that was written as one entry is never an entry, however it looks. Where the bytes alone
    leave that open, the run decides: nobody but the proxy knows the six random letters of its own.
    """
    entry = decode_entry(line)
    if entry is not None:
        return [Intact(0, len(line.rstrip(b"\r\n")), entry)]
    beginning = _RUN.match(line)
    own_run = beginning[2].decode() if beginning is not None else None
    may_be_one = _may_be_unparsed(line)
    has_message = own_run is not None or not line.startswith(ENTRY_START[:-1])  # else it was cut off before that

    def read(piece: bytes, is_value: bool) -> Entry | None:
        entry = decode_entry(piece)
        may_be_inside = may_be_one or (is_value and has_message)
        return entry if entry is not None and (entry.run == own_run or not may_be_inside) else None

    return salvage.find_pieces(line, _ENTRY_PATTERN, read)


def find_notes(data: bytes, note_types: Collection[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """acp-proxy's own notes of these kinds in whole lines: each note's offset and its members. Never raises.

    Only entries count (``find_entries``), never what a message contains. Lines without such bytes are not parsed.
    """
    beginnings = tuple(NOTE_BYTES + kind.encode() + b'"' for kind in note_types)
    offset = data.find(NOTE_BYTES) if data.rfind(NOTE_BYTES) >= 0 else -1  # rfind is faster where there is none
    while offset >= 0:
        if not data.startswith(beginnings, offset):
            offset = data.find(NOTE_BYTES, offset + 1)
            continue
        start = data.rfind(b"\n", 0, offset) + 1
        end = data.find(b"\n", offset)
        line = data[start : end if end >= 0 else len(data)]
        for piece in find_entries(line):
            note = piece.value.note
            if note is not None and acp.text(note, "type") in note_types:
                yield start + piece.start, note
        offset = data.find(NOTE_BYTES, start + len(line))


def decode_entry(line: bytes) -> Entry | None:
    """The entry of a line, or None if the line is damaged."""
    line = line.rstrip(b"\r\n")
    envelope = _ENVELOPE.match(line)
    try:
        if envelope is not None:
            return _read_enveloped(line, envelope)
        return _read_parsed(jsonrpc.parse_strictly(line), line)
    except (ValueError, RecursionError):
        return None


def _read_enveloped(line: bytes, envelope: re.Match[bytes]) -> Entry:
    """Read an entry whose beginning was recognised. Raises ValueError, RecursionError."""
    at, run, peer, of, version = (part.decode() if part is not None else None for part in envelope.groups())
    protocol = int(version) if version is not None else ACP_V1
    raw = line[envelope.end() : -1]
    try:
        value = jsonrpc.parse_strictly(raw if line.endswith(b"}") else b"")
    except ValueError:
        try:
            jsonrpc.parse_strictly(line)  # unknown keys may follow the message
        except ValueError:
            if line.endswith(b"}") and _was_passed_unparsed(raw, run or ""):
                raw, value = _read_unparsed(raw)
                return Entry(at or "", run or "", Peer(peer), of, raw=raw, value=value, protocol_version=protocol)
            raise
        raw = json_splice.encode(json_splice.get_first_value(json_splice.decode(line[envelope.end() :])))
        value = jsonrpc.parse_strictly(raw)
    return Entry(at or "", run or "", Peer(peer), of, raw=raw, value=value, protocol_version=protocol)


def _was_passed_unparsed(raw: bytes, run: str) -> bool:
    """Whether a message that is not JSON was recorded on purpose: a line that begins and ends like an update passes
    unread. Half a line, or a line within another of the same run, is damage.

    Today such a line is recorded as a string if it has bytes that begin an entry (``encode_update_parts``); older
    versions did not do that.
    """
    holds_entry = ENTRY_START in raw and b'"run":"%b"' % run.encode() in raw
    return raw.startswith(acp.UPDATE_PREFIX) and raw.endswith(b"}}}") and b"\0" not in raw and not holds_entry


def _read_unparsed(raw: bytes) -> tuple[bytes, object]:
    """A message that was recorded without being parsed, and its value. Control characters in its strings are escaped:
    some clients accept them, and nobody else has to."""
    value = jsonrpc.parse_leniently(raw)
    if value is None and _CONTROL.search(raw) is not None:
        escaped = _JSON_STRING.sub(lambda string: _CONTROL.sub(_escape_control, string[0]), raw)
        if (value := jsonrpc.parse_leniently(escaped)) is not None:
            return escaped, value
    return raw, value


def _escape_control(character: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % character[0][0]


def _may_be_unparsed(line: bytes) -> bool:
    """Whether a damaged line looks like the entry of an update that passed unread."""
    envelope = _ENVELOPE.match(line)
    is_update = envelope is not None and line.startswith(acp.UPDATE_PREFIX, envelope.end())
    return is_update and line.rstrip(b"\r\n").endswith(b"}}}}")


def _read_parsed(value: object, line: bytes) -> Entry | None:
    """Read any other entry from its parsed line. Raises ValueError, RecursionError."""
    if not isinstance(value, dict):
        return None
    at, run, sender, of = value.get("at"), value.get("run"), value.get("from"), value.get("of")
    if not isinstance(at, str) or not at.isascii() or not isinstance(run, str):
        return None
    of = of if isinstance(of, str) else None
    if sender == "proxy":
        note = value.get("note")
        return Entry(at, run, None, of, note=note) if isinstance(note, dict) else None
    if sender not in ("client", "agent"):
        return None
    protocol = value.get("v")
    protocol = protocol if type(protocol) is int else ACP_V1
    if "message" in value:
        text_of_line = json_splice.decode(line)
        start, end = json_splice.find_span(text_of_line, "message")
        return Entry(
            at,
            run,
            Peer(sender),
            of,
            raw=json_splice.encode(text_of_line[start:end]),
            value=value["message"],
            protocol_version=protocol,
        )
    if isinstance(text := value.get("line"), str):
        raw, message = _read_unparsed(json_splice.encode(text) if _is_encodable(text) else b"")
        return Entry(at, run, Peer(sender), of, raw=raw, value=message, protocol_version=protocol)
    return None


def _is_encodable(text: str) -> bool:
    try:
        json_splice.encode(text)
    except UnicodeEncodeError:
        return False
    return True
