"""The transcript's format, version 1: a header line, then one line per entry. docs/transcript-format.md has examples.

Encoding embeds the original bytes of a message; decoding hands them back. Decoding never raises on a damaged entry
(it is None); a header raises ``NewerFormat`` when a later version of this program wrote it.
"""

import json
import re
from collections.abc import Callable, Mapping

from acp_proxy.errors import NewerFormat
from acp_proxy.wire import acp, jsonrpc, remains, splice
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.remains import Intact
from acp_proxy.wire.value import Value

VERSION = 1
RECORDED, IMPORTED, PARTIAL = "recorded", "imported", "partial"

OPENED, CLOSED, GAP, FAILED, TERMINAL = "opened", "closed", "gap", "failed", "terminal"
HANDOVER, ALIAS, REPLAY, COPIED = "handover", "alias", "replay", "copied"
"""What notes are about (their ``type``)."""

HEADER_START = b'{"acp-transcript":'
GAP_MARK = b'"note":{"type":"gap"'
"""How a note of a gap is written: enough to find one without reading the rest."""

MOVED_MARKS = (b'"from":"proxy","note":{"type":"handover"', b'"from":"proxy","note":{"type":"alias"')
"""How notes are written that say what the agent calls the session from then on."""
REPLAY_MARK = b'"from":"proxy","note":{"type":"replay"'
_TO = re.compile(rb'"note":\{"type":"[a-z]+","to":("(?:[^"\\]|\\.)*")')

# How an entry of ours begins. What stands in it holds, whatever the message behind it says: that is somebody else's.
_TEXT = rb'"([ !#-\[\]-~]*)"'
_ENVELOPE = re.compile(
    rb'\{"at":' + _TEXT + rb',"run":' + _TEXT + rb',"from":"(client|agent)",(?:"of":' + _TEXT + rb',)?"message":'
)
ENTRY_START = b'{"at":"'
"""How any line of ours begins, for finding it again beside damage."""
_ENTRY_START = re.compile(re.escape(ENTRY_START))

UPGRADES: dict[int, Callable[[dict[str, object]], dict[str, object]]] = {}
"""By version: one step that turns an entry of that version into one of the next."""


class Header(Value):
    """The first line: what the session is. ``origin`` says how we came to know it."""

    session: str
    cwd: str | None
    origin: str
    created_at: str
    directories: list[str]
    agent: Mapping[str, object]
    forked_from: list[str]
    """Ids under which messages stand in the part that was copied from a parent."""
    version: int

    def __init__(
        self,
        session: str,
        cwd: str | None,
        origin: str,
        created_at: str,
        directories: list[str] | None = None,
        agent: Mapping[str, object] | None = None,
        forked_from: list[str] | None = None,
        version: int = VERSION,
    ) -> None:
        more = directories or [], agent or {}, forked_from or [], version
        super().__init__(session, cwd, origin, created_at, *more)


class Entry(Value):
    """One line after the header. ``raw`` is the exact message, ``value`` what it says; a note has neither."""

    at: str
    run: str
    peer: Peer | None
    of: str | None = None
    raw: bytes | None = None
    value: object = None
    note: Mapping[str, object] | None = None


def encode_header(header: Header) -> bytes:
    return (
        jsonrpc.dump(
            {
                "acp-transcript": header.version,
                "sessionId": header.session,
                "agent": header.agent,
                "cwd": header.cwd,
                "additionalDirectories": header.directories,
                "createdAt": header.created_at,
                "origin": header.origin,
                **({"forkedFrom": header.forked_from} if header.forked_from else {}),
            }
        )
        + b"\n"
    )


def encode_message(at: str, run: str, peer: Peer, raw: bytes, of: str | None = None, *, plain: bool = True) -> bytes:
    """An entry around the exact message. ``plain`` is False for a line known not to be plain JSON: kept as a string."""
    method = f'"of":{json.dumps(of)},' if of else ""
    start = f'{{"at":"{at}","run":"{run}","from":"{peer.value}",{method}'.encode()
    if plain:
        return b"".join((start, b'"message":', raw, b"}\n"))
    return b"".join((start, b'"line":', json.dumps(splice.decode(raw)).encode(), b"}\n"))


def encode_updates(at: str, run: str, lines: bytes) -> bytes:
    """Many messages of the agent's, of one moment, each a line that ends in its newline."""
    start = f'{{"at":"{at}","run":"{run}","from":"agent","message":'.encode()
    return b"".join((start, lines[:-1].replace(b"\n", b"}\n" + start), b"}\n"))


def encode_piece(at: str, run: str, peer: Peer, piece: bytes, *, first: bool, last: bool) -> bytes:
    """A piece of an entry around one long message, whose last piece may lack its newline."""
    start = f'{{"at":"{at}","run":"{run}","from":"{peer.value}","message":'.encode() if first else b""
    if not last:
        return start + piece
    return b"".join((start, memoryview(piece)[: len(piece) - piece.endswith(b"\n")], b"}\n"))


def encode_note(at: str, run: str, note: Mapping[str, object]) -> bytes:
    return f'{{"at":"{at}","run":"{run}","from":"proxy","note":'.encode() + jsonrpc.dump(note) + b"}\n"


def decode_header(line: bytes) -> Header | None:
    """The header, or None where the line is none. Raises NewerFormat for a version that is not known yet."""
    try:
        value = jsonrpc.parse_text(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or type(version := value.get("acp-transcript")) is not int or version < 1:
        return None
    if version > VERSION:
        raise NewerFormat(version, VERSION)
    session, cwd, created = value.get("sessionId"), value.get("cwd"), value.get("createdAt")
    origin: object = value.get("origin")
    if not isinstance(session, str):
        return None
    directories, agent = value.get("additionalDirectories"), value.get("agent")
    return Header(
        session=session,
        cwd=cwd if isinstance(cwd, str) else None,
        origin=origin if isinstance(origin, str) and origin in (RECORDED, IMPORTED) else PARTIAL,
        created_at=created if isinstance(created, str) and created.isascii() else "",
        directories=[item for item in directories if isinstance(item, str)] if isinstance(directories, list) else [],
        agent=agent if isinstance(agent, dict) else {},
        forked_from=acp.strings(value, "forkedFrom"),
        version=version,
    )


def moved_to(note: bytes) -> str | None:
    """The id that such a note names, from its mark on."""
    found = _TO.search(note)
    id = jsonrpc.look(found[1]) if found is not None else None
    return id if isinstance(id, str) else None


def decode_header_of(line: bytes) -> tuple[Header | None, int]:
    """The header that a line begins with, and where it ends (0: there is none); entries may be glued to it."""
    header = decode_header(line)
    if header is not None:
        return header, len(line.rstrip(b"\r\n"))
    if not line.startswith(HEADER_START):
        return None, 0
    start = remains.first_value(line)
    header = decode_header(start)
    return header, len(start) if header is not None else 0


def entries_in(line: bytes, version: int = VERSION) -> list[Intact[Entry]]:
    """Every intact entry of a line: the one that it is, or those that stand in what is damaged, and where."""
    entry = decode_entry(line, version)
    if entry is not None:
        return [Intact(0, len(line.rstrip(b"\r\n")), entry)]
    return remains.pieces(line, _ENTRY_START, lambda piece: decode_entry(piece, version))


def decode_entry(line: bytes, version: int = VERSION) -> Entry | None:
    """The entry that a line is, or None where it is damaged."""
    line = line.rstrip(b"\r\n")
    envelope = _ENVELOPE.match(line) if version == VERSION else None
    try:
        return _enveloped(line, envelope) if envelope is not None else _read(jsonrpc.parse_text(line), line, version)
    except (ValueError, RecursionError):
        return None


def _enveloped(line: bytes, envelope: re.Match[bytes]) -> Entry:
    """An entry of ours. Raises ValueError, RecursionError."""
    at, run, peer, of = (part.decode() if part is not None else None for part in envelope.groups())
    raw = line[envelope.end() : -1]
    try:
        value = jsonrpc.parse_text(raw if line.endswith(b"}") else b"")
    except ValueError:
        try:
            jsonrpc.parse_text(line)  # keys that we do not know may follow
        except ValueError:
            if line.endswith(b"}") and _passed_unread(raw):
                return Entry(at or "", run or "", Peer(peer), of, raw=raw)
            raise
        raw = splice.encode(splice.first(splice.decode(line[envelope.end() :])))
        value = jsonrpc.parse_text(raw)
    return Entry(at or "", run or "", Peer(peer), of, raw=raw, value=value)


def _passed_unread(raw: bytes) -> bool:
    """Whether a message that is no JSON was kept as it came: the beginning of an update, and the end of an object, let
    it pass without being read. Half a line, or another one within it, is damage."""
    is_like_update = raw.startswith(acp.UPDATE_PREFIX) and raw.endswith(b"}}}")
    return is_like_update and b"\0" not in raw and ENTRY_START not in raw


def _read(value: object, line: bytes, version: int) -> Entry | None:
    """Any other entry. Raises ValueError, RecursionError."""
    if not isinstance(value, dict):
        return None
    for step in range(version, VERSION):
        value = UPGRADES[step](value)
    at, run, sender, of = value.get("at"), value.get("run"), value.get("from"), value.get("of")
    if not isinstance(at, str) or not at.isascii() or not isinstance(run, str):
        return None
    of = of if isinstance(of, str) else None
    if sender == "proxy":
        note = value.get("note")
        return Entry(at, run, None, of, note=note) if isinstance(note, dict) else None
    if sender not in ("client", "agent"):
        return None
    if "message" in value:
        whole = splice.decode(line)
        start, end = splice.members(whole, splice.whole(whole)[0])["message"]
        return Entry(at, run, Peer(sender), of, raw=splice.encode(whole[start:end]), value=value["message"])
    if isinstance(text := value.get("line"), str):
        raw = splice.encode(text) if _is_encodable(text) else b""
        return Entry(at, run, Peer(sender), of, raw=raw, value=jsonrpc.look(raw))
    return None


def _is_encodable(text: str) -> bool:
    try:
        splice.encode(text)
    except UnicodeEncodeError:
        return False
    return True
