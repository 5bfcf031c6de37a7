"""Transcripts, damage to their bytes, and the lines that remain intact, determined without our reader.

A `Damaged` is a file's bytes after the damage, and the new place of each intact line.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, Header

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "fixtures" / "transcripts" / "v1"
SESSION = "sess-1"
OLD = (1_700_000_000, 1_700_000_000)
"""The time of a damaged file's last write: long ago, so nobody is writing its end."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """``lines``: each intact line without its newline, including the header, and its offset."""

    how: str
    data: bytes
    lines: tuple[tuple[int, bytes], ...]

    @property
    def entries(self) -> list[bytes]:
        return [line for _, line in self.lines if is_entry(line)]

    @property
    def lacks_a_newline(self) -> bool:
        """The last line lacks only its newline."""
        return any(at + len(line) == len(self.data) for at, line in self.lines)

    @property
    def has_damage(self) -> bool:
        """Whether there is more than intact lines, white space, JSON, and possible updates as an agent wrote them."""
        rest = bytearray(self.data)
        for at, line in self.lines:
            rest[at : at + len(line)] = b" " * len(line)
        strange = (line for line in bytes(rest).split(b"\n") if line.strip() and not _is_json(line))
        return not all(map(_may_be_as_it_came, strange))


_RUN = re.compile(rb'\{"at":"[^"]*","run":"([^"]*)"')


def leave_out_quotable(one: Damaged) -> Damaged:
    """Without the entries that nobody can tell from words of another run's message: the proxy must not serve those.

    Such an entry does not begin its line. The line begins as an entry of another run, or as none, and the entry stands
    where a value may; or it is of another run, and the line ends as an update's entry.
    """

    def is_quotable(at: int, entry: bytes) -> bool:
        start, end = one.data.rfind(b"\n", 0, at) + 1, one.data.find(b"\n", at)
        before, line = one.data[start:at], one.data[start : end if end >= 0 else len(one.data)]
        run, own = _RUN.match(before), _RUN.match(entry)
        if not is_entry(entry) or not before or (run and own and run[1] == own[1]):
            return False
        is_value = before.rstrip(b" \t\r").endswith((b":", b",", b"["))
        return is_value or (run is not None and line.rstrip().endswith(b"}}}}"))

    return replace(one, lines=tuple((at, line) for at, line in one.lines if not is_quotable(at, line)))


def describe_entry(entry: Entry) -> tuple[object, ...]:
    """What an entry says, as our reader gives it."""
    if entry.note is not None:
        return entry.at, entry.run, "proxy", json.dumps(entry.note)
    assert entry.peer is not None
    assert entry.raw is not None
    return entry.at, entry.run, entry.peer.value, entry.raw


def expected(line: bytes) -> tuple[object, ...]:
    """The same for a line of the file, by the format's description alone."""
    value = json.loads(line)
    if "note" in value:
        return value["at"], value["run"], "proxy", json.dumps(value["note"])
    if "line" in value:
        return value["at"], value["run"], value["from"], value["line"].encode("utf-8", "surrogateescape")
    start = line.index(b'"message":') + len(b'"message":')
    end = start + _length(line[start:])
    raw = line[start : -1 if line[end:].strip() == b"}" else end]
    return value["at"], value["run"], value["from"], raw


def is_prompt(line: bytes) -> bool:
    value = json.loads(line)
    return bool(value["from"] == "client" and value.get("message", {}).get("method") == "session/prompt")


def read_chunk_text(line: bytes) -> str | None:
    """The agent's text in a chunk."""
    message = json.loads(line).get("message", {})
    return chunk_text(message)


def chunk_text(message: dict[str, Any]) -> str | None:
    update = message.get("params", {}).get("update", {})
    if update.get("sessionUpdate") != "agent_message_chunk":
        return None
    return str(update["content"]["text"])


def is_entry(line: bytes) -> bool:
    return line.startswith(b'{"at":')


def read_samples() -> dict[str, bytes]:
    """The sample files with a header, except the one of a later version."""
    found = {path.stem: path.read_bytes() for path in sorted(SAMPLES.glob("*.jsonl"))}
    return {name: data for name, data in found.items() if data and name != "newer"}


def generate(chance: random.Random, turns: int) -> bytes:
    """A conversation with entries of every kind, of two runs, short and long."""
    lines = [
        file_format.encode_header(
            Header(SESSION, "/home/me/project", file_format.RECORDED, _at(0), agent={"id": "agent"})
        )
    ]
    number = 0
    for turn in range(turns):
        run = chance.choice(("aaa111", "bbb222"))
        for part in _turn(chance, run, turn):
            number += 1
            lines.append(part(_at(number)))
    return b"".join(lines)


Part = Callable[[str], bytes]
"""Makes a line, given its time."""


def _turn(chance: random.Random, run: str, turn: int) -> Iterator[Part]:
    def message(peer: Peer, value: dict[str, object], of: str | None = None) -> Part:
        spaces = (" ,  ", " : ") if chance.random() < 0.1 else (",", ":")
        text = json.dumps({"jsonrpc": "2.0"} | value, ensure_ascii=chance.random() < 0.5, separators=spaces)
        raw = text.encode("utf-8", "surrogatepass")
        return lambda at: file_format.encode_message(at, run, peer, raw, of, is_plain=jsonrpc.is_embeddable(raw))

    def update(kind: str, **fields: object) -> Part:
        params = {"sessionId": SESSION, "update": {"sessionUpdate": kind} | fields}
        return message(Peer.AGENT, {"method": "session/update", "params": params})

    def text() -> dict[str, object]:
        words = chance.choice(("ä😀 ", "x", '"}{"at":"', "\\u0000\n", "long " * chance.choice((1, 20, 20_000))))
        return {"type": "text", "text": f"{turn} {chance.random()} {words}"}

    within = {"at": _at(1), "run": run, "from": "client", "message": {"method": "session/prompt"}}
    parts: list[Part] = [
        lambda at: file_format.encode_note(
            at, run, {"type": "opened", "method": "session/resume", "cwd": "/home/me/project"}
        ),
        update("agent_thought_chunk", content=text()),
        update("plan", entries=[{"content": "one", "status": "pending", "priority": "high"}]),
        update(
            "tool_call", toolCallId=f"t{turn}", title="run", status="pending", rawInput={"a": within, "b": [within]}
        ),
        update(
            "tool_call_update",
            toolCallId=f"t{turn}",
            status="completed",
            content=[{"type": "content", "content": text()}],
        ),
        update("session_info_update", title=f"title {turn}"),
        update("never_heard_of", data=[1e300, 2**70, -0.0]),
        message(Peer.AGENT, {"id": turn, "method": "session/request_permission", "params": {"sessionId": SESSION}}),
        message(
            Peer.CLIENT, {"id": turn, "result": {"outcome": {"outcome": "cancelled"}}}, "session/request_permission"
        ),
        lambda at: file_format.encode_note(at, run, {"type": "terminal", "terminalId": "t", "output": "ok\n"}),
        update("agent_message_chunk", content={"type": "text", "text": f"half {turn} \ud83d"}),
    ]
    params = {"sessionId": SESSION, "prompt": [text()]}
    yield message(Peer.CLIENT, {"id": turn, "method": "session/prompt", "params": params})
    yield from chance.sample(parts, chance.randrange(len(parts)))
    yield update("agent_message_chunk", content=text())
    yield message(Peer.AGENT, {"id": turn, "result": {"stopReason": "end_turn"}}, "session/prompt")


def list_intact(data: bytes) -> list[tuple[int, bytes]]:
    """The lines of an undamaged part that are complete JSON objects."""
    found, at = [], 0
    for line in data.split(b"\n"):
        if line.startswith((b'{"at":', b'{"acp-transcript":')) and _is_json(line):
            found.append((at, line))
        at += len(line) + 1
    return found


# Damage.


def cut(data: bytes, size: int) -> Damaged:
    lines = tuple((at, line) for at, line in list_intact(data) if at + len(line) <= size)
    return Damaged(f"cut at {size}", data[:size], lines)


def overwrite(data: bytes, at: int, new: bytes, how: str) -> Damaged:
    """Bytes changed in place."""
    end = at + len(new)
    lines = tuple(
        (start, line)
        for start, line in list_intact(data)
        if start + len(line) <= at or start >= end or data[at:end] == new
    )
    return Damaged(f"{how} at {at}", data[:at] + new + data[end:], lines)


def flip_bit(data: bytes, at: int, bit: int) -> Damaged:
    return overwrite(data, at, bytes([data[at] ^ (1 << bit)]), f"bit {bit} flipped")


def overwrite_with_nul(data: bytes, at: int, size: int) -> Damaged:
    return overwrite(data, at, b"\0" * len(data[at : at + size]), f"{size} NUL bytes")


def reorder(data: bytes, order: list[bytes], how: str) -> Damaged:
    """Whole lines in another order, or repeated."""
    new = b"".join(order)
    return Damaged(how, new, tuple(list_intact(new)))


def swap_lines(data: bytes, chance: random.Random) -> Damaged:
    lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
    one, two = chance.randrange(1, len(lines)), chance.randrange(1, len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return reorder(data, lines, f"lines {one} and {two} swapped")


def double_line(data: bytes, chance: random.Random) -> Damaged:
    lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
    one = chance.randrange(1, len(lines))
    return reorder(data, [*lines[: one + 1], *lines[one:]], f"line {one} doubled")


def insert_bytes(data: bytes, at: int, new: bytes) -> Damaged:
    """Foreign bytes inserted."""
    lines = tuple(
        (start + len(new) if start >= at else start, line)
        for start, line in list_intact(data)
        if start >= at or start + len(line) <= at
    )
    return Damaged(f"{len(new)} foreign bytes at {at}", data[:at] + new + data[at:], lines)


def _at(number: int) -> str:
    return f"2026-11-20T{9 + number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1000:03d}Z"


def _length(text: bytes) -> int:
    """The length of the JSON value at the start of a text."""
    return json.JSONDecoder(parse_int=str).raw_decode(text.decode("latin-1"))[1]


_UPDATE = re.compile(
    rb'\{"at":"[ -!#-\[\]-~]*","run":"[ -!#-\[\]-~]*","from":"(?:agent|client)",(?:"of":"[ -!#-\[\]-~]*",)?"message":'
    rb'\{"jsonrpc":"2.0","method":"session/update","params":\{"sessionId":"[^\0]*\}\}\}\}\r*',
    re.DOTALL,
)


def _may_be_as_it_came(line: bytes) -> bool:
    """Whether a line is an entry around a message that passes unread: the beginning of an update, and the end of one.

    The agent may have sent invalid JSON, with words in it that look like an entry of another run.
    """
    run, *others = [match[1] for match in _RUN.finditer(line)] or [b""]
    return _UPDATE.fullmatch(line) is not None and run not in others


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line, parse_int=str)
    except ValueError:
        return False
    return True
