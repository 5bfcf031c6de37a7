"""Conversations whose updates can be recognised: each contains its prompt."""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader
from tests.end_to_end.proxied import is_update_of
from torture.outcome import Outcome

ASKED = re.compile(rb"turn \d+\.\d+ \xc2\xb7")
"""The prompt of a turn, as `make_prompt` words it; its last character has two bytes, so that a cut can divide it."""
OURS = b'"session_info_update"'
"""The title update, which acp-proxy sends itself and does not record."""


def make_prompt(conversation: int, number: int) -> str:
    return f"turn {conversation}.{number} \u00b7"


@dataclass
class Turn:
    """One prompt, and the lines of its updates as the editor received them, without newlines."""

    session: str
    asked: str
    received: list[bytes] = field(default_factory=list)
    is_prompted: bool = False
    """The agent has received the prompt, or it was once found in the transcript: it must stay there."""

    def take(self, lines: Iterable[bytes]) -> int:
        """Take the lines after the prompt. The number of updates of this turn among them."""
        mark, before = self.asked.encode(), len(self.received)
        for line in lines:
            if mark in line and OURS not in line and is_update_of(json.loads(line), self.session):
                self.received.append(line.rstrip(b"\n"))
        return len(self.received) - before


@dataclass
class Written:
    """What a transcript has: the prompts, the updates of each turn, and the number of unreadable lines."""

    updates: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    prompts: list[str] = field(default_factory=list)
    damaged: int = 0
    headers: int = 0


def find_transcript(store: Path, session: str) -> Path | None:
    """The transcript of a session; there must be one agent."""
    return next(store.glob(f"transcripts/*/{file_name(session)}.jsonl"), None)


def read_transcript(path: Path | None) -> Written:
    found = Written()
    if path is None:
        return found
    reader = TranscriptReader(path)
    try:
        found.headers = int(reader.header is not None)
        for line in reader.read_lines():
            entry = line.entry
            if entry is None:
                found.damaged += 1
            elif entry.peer is Peer.CLIENT:
                found.prompts += list_prompts(entry.value)
            elif (
                entry.raw is not None
                and entry.answered_method is None
                and (what := ASKED.search(entry.raw)) is not None
            ):
                found.updates[what[0].decode()].append(entry.raw)
    finally:
        reader.close()
    return found


def list_prompts(message: Any) -> list[str]:
    """The text of a prompt; empty unless made by `make_prompt`."""
    match message:
        case {"method": "session/prompt", "params": {"prompt": [{"text": str(text)}, *_]}} if text.startswith("turn "):
            return [text]
    return []


@dataclass
class Told:
    """What a load replayed of one turn."""

    texts: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    calls: set[str] = field(default_factory=set)


def group_by_turn(updates: Iterable[dict[str, Any]]) -> dict[str, Told]:
    """What a load replayed, by prompt, in order."""
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


def is_replayed(turn: Turn, told: Told) -> bool:
    """Whether a load has everything that an editor received of a turn."""
    live = group_by_turn(json.loads(line)["params"]["update"] for line in turn.received).get("", Told())
    return live.calls <= told.calls and all(text in told.texts[kind] for kind, text in live.texts.items())


class Count:
    """The results for one kind of fault so far; several threads add to it."""

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
