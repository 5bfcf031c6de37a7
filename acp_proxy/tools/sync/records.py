"""The records of a machine's log, and their bytes. Pure.

A record is one line of JSON, then data. Some of its words are older than those of the code: a ``Label`` has the kind
``title``, a ``Death`` the kind ``dead``, and its survivors are ``beside`` it. A session's history is a tree of
segments: ``parent`` is the segment before, or the session's uid (``tree``) for a first one. Reading raises only
``InvalidRecord``.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.redaction.masks import MASK
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header

TITLE, ARCHIVED, SOFT_DELETED = "title", "archived", "hidden"
"""What a ``Label`` sets: the user's title, whether the session is archived, whether it is soft-deleted. Records have
had the third word from the first version on."""
_SURVIVORS = "beside"
"""The key of ``Death.survivors`` in a record."""
_FIELDS = frozenset({TITLE, ARCHIVED, SOFT_DELETED})
_LARGEST_NUMBER = 2**53
"""Larger numbers are not exact in JSON."""


class InvalidRecord(ValueError):
    """These bytes are not a record of a known kind."""


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """Whole turns of one session.

    ``tree``: the session's uid. ``header``: of the session, with its uid; its id is what the entries name.
    """

    tree: str
    parent: str
    agent_folder: str
    header: Header
    data: bytes

    @property
    def id(self) -> str:
        """Made from the content, so that a copy of a machine that publishes the same turns says nothing new."""
        hasher = hashlib.sha256(f"{self.tree}\n{self.parent}\n".encode())
        hasher.update(self.data)
        return hasher.hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Label:
    """A title, or whether a session is archived or soft-deleted, from the segment ``anchor`` on.

    ``stamp``: milliseconds, larger than every stamp that the machine had seen. ``by``: the machine's id, which decides
    between equal stamps.
    """

    tree: str
    anchor: str
    field: str
    value: str | bool | None
    stamp: int
    by: str


@dataclass(frozen=True, slots=True)
class Death:
    """Everything from the segment ``root`` on is deleted for good; the whole session if that is its uid.

    ``survivors``: segments of the session that the author knew, and that stay.
    """

    tree: str
    root: str
    survivors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mask:
    """What a redaction put over words of a segment: offsets in its data, and the masks (``redaction.masks.MASK``)."""

    tree: str
    segment: str
    spans: tuple[tuple[int, bytes], ...]

    @property
    def id(self) -> str:
        """Made from the content. Where two masks overlap, the order of their ids decides on every machine."""
        return hashlib.sha256(repr((self.segment, self.spans)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The log of this machine ends with this number, and is asked for no more. If several say so, the largest counts.

    The user has forgotten the machine; or it has come back under a new id, and says where its old log really ends.
    """

    machine: str
    number: int

    tree = ""


@dataclass(frozen=True, slots=True)
class BlankRecord:
    """What is left of a segment or a label whose session was deleted. ``id``: the segment's; empty for a label."""

    tree: str
    id: str
    parent: str


Record = SegmentRecord | Label | Death | Mask | BlankRecord | LogEnd


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """``machine_name``: of the machine that wrote it. ``id``: a segment's, or that of what is left of
    one; empty for other records."""

    record: Record
    machine_name: str
    id: str


def encode(record: Record, machine: str, id: str = "", *, home: str = "") -> bytes:
    """The bytes of a record. ``machine``: the name of the machine that writes it. ``id``: of a segment whose data was
    masked since. ``home``: its user's home directory."""
    head: dict[str, object] = {"machine": machine, "tree": record.tree}
    if home:
        head["home"] = home
    data = b""
    match record:
        case SegmentRecord():
            header = file_format.encode_header(record.header).decode()
            head |= {"kind": "segment", "id": id or record.id, "parent": record.parent, "agent": record.agent_folder}
            head["header"] = header
            data = record.data
        case Label():
            head |= {"kind": "title", "anchor": record.anchor, "field": record.field, "value": record.value}
            head |= {"stamp": record.stamp, "by": record.by}
        case Death():
            head |= {"kind": "dead", "root": record.root, _SURVIVORS: list(record.survivors)}
        case Mask():
            spans = [[offset, new.decode("latin-1")] for offset, new in record.spans]
            head |= {"kind": "mask", "segment": record.segment, "spans": spans}
        case BlankRecord():
            head |= {"kind": "blank", "id": record.id, "parent": record.parent}
        case LogEnd():
            head |= {"kind": "ended", "log": record.machine, "number": record.number}
    return jsonrpc.dump(head) + b"\n" + data


def decode(data: bytes) -> DecodedRecord:
    """The record in these bytes. Raises InvalidRecord."""
    line, newline, body = data.partition(b"\n")
    try:
        head = jsonrpc.parse(line)
    except (ValueError, RecursionError) as problem:
        raise InvalidRecord from problem
    if not newline or not isinstance(head, dict):
        raise InvalidRecord
    machine, id = _get_text(head, "machine"), ""
    kind = _get_text(head, "kind")
    tree = _get_text(head, "tree")
    record: Record
    if kind == "segment":
        id = _get_text(head, "id")
        header = _decode_header(_get_text(head, "header").encode())
        record = SegmentRecord(tree, _get_text(head, "parent"), _get_text(head, "agent"), header, body)
        _check_lines(record)
    elif kind == "title":
        record = Label(
            tree,
            _get_text(head, "anchor"),
            _get_text(head, "field"),
            _get_value(head),
            _get_number(head, "stamp"),
            _get_text(head, "by"),
        )
        if record.field not in _FIELDS or isinstance(record.value, str) != (
            record.field == TITLE and record.value is not None
        ):
            raise InvalidRecord
    elif kind == "dead":
        record = Death(tree, _get_text(head, "root"), tuple(acp.strings(head, _SURVIVORS)))
    elif kind == "mask":
        record = Mask(tree, _get_text(head, "segment"), _decode_spans(head.get("spans")))
    elif kind == "blank":
        record = BlankRecord(tree, _get_text(head, "id"), _get_text(head, "parent"))
        id = record.id
    elif kind == "ended":
        record = LogEnd(_get_text(head, "log"), _get_number(head, "number"))
    else:
        raise InvalidRecord
    return DecodedRecord(record, machine, id)


def read_home(data: bytes) -> str:
    """The home directory that a record names; empty if it names none."""
    return acp.text(jsonrpc.parse_leniently(data.partition(b"\n")[0]), "home") or ""


def apply_masks(data: bytes, masks: Iterable[Mask]) -> bytes:
    """A segment's data with these masks, which must always come in the same order."""
    return overwrite(data, list_spans(masks, 0, len(data)))


def list_spans(masks: Iterable[Mask], skip: int, size: int) -> list[tuple[int, bytes]]:
    """The spans of these masks in the ``size`` bytes of a segment's data that follow the first ``skip``."""
    spans = ((offset - skip, new) for mask in masks for offset, new in mask.spans)
    return [(offset, new) for offset, new in spans if 0 <= offset <= size - len(new)]


def find_masks(data: bytes) -> list[tuple[int, bytes]]:
    """All masks in these data, with their offsets."""
    return [(match.start(), match[0]) for match in MASK.finditer(data)]


def overwrite(data: bytes, spans: Iterable[tuple[int, bytes]]) -> bytes:
    """The data with these bytes at these offsets."""
    overwritten = bytearray(data)
    for offset, new in spans:
        overwritten[offset : offset + len(new)] = new
    return bytes(overwritten)


def _check_lines(record: SegmentRecord) -> None:
    """Every line must be an entry of the session. Raises InvalidRecord."""
    if record.data and not record.data.endswith(b"\n"):
        raise InvalidRecord
    ids = {record.header.session_id, *record.header.forked_from}
    for line in record.data.split(b"\n")[:-1]:
        entry = file_format.decode_entry(line)
        if entry is None and not (line == b"" or line.isspace()):
            raise InvalidRecord
        session_id = acp.session_id(acp.member(entry.value, "params")) if entry is not None else None
        if session_id is not None and session_id not in ids:
            raise InvalidRecord


def _decode_header(line: bytes) -> Header:
    try:
        header = file_format.decode_header(line.rstrip(b"\n"))
    except NewerFormat as problem:
        raise InvalidRecord from problem
    if header is None:
        raise InvalidRecord
    return header


def _get_text(head: dict[str, object], key: str) -> str:
    value = head.get(key)
    if not isinstance(value, str):
        raise InvalidRecord
    return value


def _get_value(head: dict[str, object]) -> str | bool | None:
    value = head.get("value")
    if value is not None and not isinstance(value, str | bool):
        raise InvalidRecord
    return value


def _get_number(head: dict[str, object], key: str) -> int:
    value = head.get(key)
    if type(value) is not int or not 0 <= value < _LARGEST_NUMBER:
        raise InvalidRecord
    return value


def _decode_spans(value: object) -> tuple[tuple[int, bytes], ...]:
    spans = list[tuple[int, bytes]]()
    for span in value if isinstance(value, list) else []:
        match span:
            case [int(offset), str(new)] if offset >= 0:
                # Nobody may change words in another way. Older records also have what lay between two masks.
                spans += [(offset + start, mask) for start, mask in find_masks(new.encode("latin-1", "replace"))]
            case _:
                raise InvalidRecord
    return tuple(spans)
