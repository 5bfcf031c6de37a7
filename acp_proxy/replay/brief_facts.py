"""What the record of a handover states beside the turns: files, the last plan, open ends, and what is attached."""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

from acp_proxy.replay.brief_turns import quoted
from acp_proxy.wire import acp, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry

CHANGED, READ = "Files that were changed, the last one last:", "Files that were read, the last one last:"
PLAN, OPEN = "The agent's last plan:", "Open ends:"
_CHANGING = frozenset({"edit", "delete", "move"})
_FILES = 50
_ENTRIES = 50
_LINE = 300  # characters of a path or a plan's entry
_NUMBERED = frozenset({"image", "audio", "resource"})
"""The types of blocks that can be attached."""
ATTACHED_BYTES = 1024 * 1024
"""The most bytes of images and files that are sent: a few screenshots."""
ATTACHED_MOST = 10


_ENDS = {
    "cancelled": "The user cancelled the last turn.",
    "max_tokens": "The last turn broke off: the most tokens were used.",
    "max_turn_requests": "The last turn broke off: it made too many requests.",
    "refusal": "The agent refused to go on with the last turn.",
}
"""What a stop reason means."""


class Facts:
    """Collects them from the lines of a replay."""

    def __init__(self) -> None:
        self._changed: OrderedDict[str, None] = OrderedDict()
        self._read: OrderedDict[str, None] = OrderedDict()
        self._plan: list[str] = []
        self.stopped: str | None = None
        """Why the last turn ended, as text; None: as usual."""

    def call(self, update: object) -> None:
        """Note the files that a tool call touches."""
        kind = acp.text(update, "kind")
        content, places = acp.member(update, "content"), acp.member(update, "locations")
        diffs = [item for item in content if acp.text(item, "type") == "diff"] if isinstance(content, list) else []
        changed = [*diffs, *(places if kind in _CHANGING and isinstance(places, list) else [])]
        read = places if kind == "read" and isinstance(places, list) else []
        for files, items in ((self._changed, changed), (self._read, read)):
            for item in items:
                _note(files, acp.text(item, "path") or "")

    def plan(self, update: object) -> None:
        """Note a plan, which replaces the one before."""
        entries = acp.member(update, "entries")
        told = [
            f"[{acp.text(entry, 'status') or 'pending'}] {acp.text(entry, 'content') or ''}"
            for entry in (entries if isinstance(entries, list) else [])
        ]
        self._plan = [line[:_LINE] for line in told[:_ENTRIES]]

    def note(self, entry: Entry) -> None:
        """Note how the last turn ended, if that is not as usual."""
        if entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.PROMPT:
            self.stopped = "The user's last message was not answered."
        elif entry.note is not None and entry.note.get("type") == record.FAILED:
            self.stopped = "The last turn broke off: the agent ended."
        elif entry.peer is Peer.AGENT and entry.of == acp.PROMPT:
            error = acp.text(acp.member(entry.value, "error"), "message") or "no message"
            reason = acp.text(acp.member(entry.value, "result"), "stopReason") or f"with an error: {error}"
            self.stopped = None if reason == "end_turn" else _ENDS.get(reason, f"The last turn ended {reason}")

    def sections(self, failed: Sequence[str]) -> list[str]:
        """The parts of the record, the most important ones last. ``failed``: titles of the last turn's failed calls."""
        read = [path for path in self._read if path not in self._changed]
        ends = [f"A tool call failed: {title}"[:_LINE] for title in failed]
        ends = [self.stopped[:_LINE], *ends] if self.stopped is not None else ends
        parts = ((READ, read), (CHANGED, list(self._changed)), (PLAN, self._plan), (OPEN, ends))
        return [f"{label}\n{quoted(chr(10).join(lines))}" for label, lines in parts if lines]


def _note(files: OrderedDict[str, None], path: str) -> None:
    path = " ".join(path[:_LINE].splitlines())
    if not path:
        return
    files[path] = None
    files.move_to_end(path)
    if len(files) > _FILES:
        files.popitem(last=False)


class Attachments:
    """Names images and files, and keeps the user's newest ones that the agent takes.

    They follow the record without a quote, as blocks of the user's prompt. What an agent or a tool put out may come
    from anybody, so it is only named.
    """

    def __init__(self, takes: frozenset[str]) -> None:
        """``takes``: the types of content blocks that the agent takes."""
        self._takes = takes
        self._count = 0
        self._kept: deque[tuple[str, bytes]] = deque()
        self._size = 0

    def named(self, block: object, *, is_users: bool) -> str:
        """The name of a content block in the record; with a number if it is the user's and can be attached."""
        kind = acp.text(block, "type") or "content"
        places = acp.text(block, "name"), acp.text(block, "uri"), acp.text(acp.member(block, "resource"), "uri")
        about = " ".join(dict.fromkeys(filter(None, places))) or acp.text(block, "mimeType")
        if is_users and kind in _NUMBERED:
            kind = self._numbered(kind, block)
        return f"[{kind}: {about}]" if about else f"[{kind}]"

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        """What is attached, in the order of the conversation: its name, and the block as JSON."""
        yield from self._kept

    def _numbered(self, kind: str, block: object) -> str:
        """A block's type with a number. The block is kept if the agent takes it; the same block is kept once."""
        data = jsonrpc.dump(block) if kind in self._takes else b""
        known = next((name for name, kept in self._kept if kept == data), None)
        if known is not None:
            return known
        self._count += 1
        name = f"{kind} {self._count}"
        if data and len(data) <= ATTACHED_BYTES:
            self._kept.append((name, data))
            self._size += len(data)
        while self._size > ATTACHED_BYTES or len(self._kept) > ATTACHED_MOST:
            self._size -= len(self._kept.popleft()[1])
        return name
