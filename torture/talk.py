"""Conversations whose every update can be found again: what was asked stands in each of them."""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp_proxy.transcripts.files.names import file_name
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.wire.jsonrpc import Peer
from tests.end_to_end.proxied import is_update_of
from torture.outcome import Outcome

ASKED = re.compile(rb"turn \d+\.\d+ \xc2\xb7")
"""What a turn is asked, as `asked` words it; it ends in a character of two bytes, that a tear can go through."""
OURS = b'"session_info_update"'
"""The title, which acp-proxy itself tells, and does not keep."""


def asked(conversation: int, number: int) -> str:
    return f"turn {conversation}.{number} \u00b7"


@dataclass
class Turn:
    """One prompt, and the updates that an editor received for it, as they came, without their newlines."""

    session: str
    asked: str
    received: list[bytes] = field(default_factory=list)
    prompted: bool = False
    """The agent has received the prompt, or it was found in the transcript once: it stays there."""

    def take(self, lines: Iterable[bytes]) -> int:
        """Take in what came behind the prompt; how many updates of this turn that were."""
        mark, before = self.asked.encode(), len(self.received)
        for line in lines:
            if mark in line and OURS not in line and is_update_of(json.loads(line), self.session):
                self.received.append(line.rstrip(b"\n"))
        return len(self.received) - before


@dataclass
class Written:
    """What a transcript has: the updates of each turn, what was prompted, and how many lines cannot be read."""

    updates: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    prompts: list[str] = field(default_factory=list)
    damaged: int = 0
    headers: int = 0


def path_of(store: Path, session: str) -> Path | None:
    """The file of a session; of one agent only."""
    return next(store.glob(f"transcripts/*/{file_name(session)}.jsonl"), None)


def written(path: Path | None) -> Written:
    found = Written()
    if path is None:
        return found
    reading = Reading(path)
    try:
        found.headers = int(reading.header is not None)
        for line in reading.lines():
            entry = line.entry
            if entry is None:
                found.damaged += 1
            elif entry.peer is Peer.CLIENT:
                found.prompts += prompted(entry.value)
            elif entry.raw is not None and entry.of is None and (what := ASKED.search(entry.raw)) is not None:
                found.updates[what[0].decode()].append(entry.raw)
    finally:
        reading.close()
    return found


def prompted(message: Any) -> list[str]:
    """What a prompt asks; nothing, if it is none of `asked`."""
    match message:
        case {"method": "session/prompt", "params": {"prompt": [{"text": str(text)}, *_]}} if text.startswith("turn "):
            return [text]
    return []


@dataclass
class Told:
    """What a load told of one turn."""

    texts: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    calls: set[str] = field(default_factory=set)


def told_by_turn(updates: Iterable[dict[str, Any]]) -> dict[str, Told]:
    """What a load told, by what was asked; in the order of the telling."""
    told: dict[str, Told] = {}
    current = ""
    for update in updates:
        match update:
            case {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": str(text)}}:
                current = text
                told.setdefault(current, Told())
            case {"toolCallId": str(call)}:
                told.setdefault(current, Told()).calls.add(call)
            case {"sessionUpdate": str(kind), "content": {"text": str(text)}}:
                told.setdefault(current, Told()).texts[kind] += text
    return told


def is_told(turn: Turn, told: Told) -> bool:
    """Whether all that an editor received of a turn is in what a load told of it."""
    live = told_by_turn(json.loads(line)["params"]["update"] for line in turn.received).get("", Told())
    return live.calls <= told.calls and all(text in told.texts[kind] for kind, text in live.texts.items())


class Count:
    """What came of one kind of fault so far; filled by several threads."""

    def __init__(self, fault: str, what: str) -> None:
        self.fault, self.what = fault, what
        self.tried = self.checked = self.lost = self.left = 0
        self.also: dict[str, int] = defaultdict(int)
        self._trouble: list[str] = []
        self._lock = threading.Lock()

    def add(self, *, tried: int = 0, checked: int = 0, lost: int = 0, left: int = 0, **also: int) -> None:
        with self._lock:
            self.tried += tried
            self.checked += checked
            self.lost += lost
            self.left += left
            for what, count in also.items():
                self.also[what.replace("_", " ")] += count

    def trouble(self, text: str) -> None:
        with self._lock:
            self._trouble.append(text)

    def outcome(self) -> Outcome:
        also = ", ".join(f"{count:,} {what}" for what, count in self.also.items())
        return Outcome(
            self.fault, self.tried, self.checked, self.what, self.lost, self.left, also, tuple(self._trouble)
        )
