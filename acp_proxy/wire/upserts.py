"""What protocol version 2 sends by id: messages, calls, plans and terminals. Chunks add to them, updates replace what
they name, null clears it.

Each tells itself in updates of version 1: what has changed since it did so last. Accepts any value, never raises.
"""

from collections.abc import Iterator, Mapping

from acp_proxy.wire import acp, second
from acp_proxy.wire.record import Entry

_OUTPUT_LIMIT = 1024 * 1024
"""The most bytes of a terminal's output that are kept: its end."""
_FINAL = frozenset({"completed", "failed", "cancelled"})
_NOT_FIELDS = ("sessionUpdate", "toolCallId", "content", "capabilities")


class UpsertedMessage:
    """A message. ``kind``: of its chunks."""

    def __init__(self, entry: Entry, kind: str, id: str | None) -> None:
        self.entry = entry
        self.kind = kind
        self.id = id
        self.blocks: list[object] = []
        self.told = 0
        self.is_placed = False

    def add(self, block: object) -> None:
        last = self.blocks[-1] if len(self.blocks) > self.told else None
        if _is_text(block) and isinstance(last, _JoinedText):
            last.pieces.append(acp.text(block, "text") or "")
        else:
            self.blocks.append(_JoinedText(acp.text(block, "text") or "") if _is_text(block) else block)

    def go_on(self, text: str) -> None:
        self.add({"type": "text", "text": text})

    def replace(self, content: object) -> None:
        """Replace all blocks. What was told already is told again only if it is not how the new content begins."""
        told, self.blocks, self.told = _words(self.blocks[: self.told]), [], 0
        new: list[object] = [block for block in _items(content) if isinstance(block, dict)]
        if told and not _words(new).startswith(told):
            self.id = None  # other words begin a new message, since nothing can take back the first ones
        elif told:
            words = _words(new)
            self.blocks, self.told = [_JoinedText(told)], 1
            new = [block for block in new if not _is_text(block)]
            if words != told:
                self.blocks.append(_JoinedText(words[len(told) :]))
        for block in new:
            self.add(block)

    def tell(self) -> Iterator[Mapping[str, object]]:
        more = {} if self.id is None else {"messageId": self.id}
        for block in self.blocks[self.told :]:
            value = {"type": "text", "text": block.text} if isinstance(block, _JoinedText) else block
            yield {"sessionUpdate": self.kind, "content": value, **more}
        self.told = len(self.blocks)


class _JoinedText:
    """Adjacent text blocks."""

    def __init__(self, text: str) -> None:
        self.pieces = [text]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class UpsertedCall:
    """A tool call."""

    def __init__(self, entry: Entry, id: str) -> None:
        self.entry = entry
        self.id = id
        self.fields: dict[str, object] = {}
        self.content: list[object] = []
        self.has_content = self.was_told = self.is_placed = False
        self.is_changed = True

    def update(self, update: Mapping[str, object]) -> None:
        self.is_changed = True
        for name, value in update.items():
            if name in _NOT_FIELDS:
                continue
            if value is None:
                self.fields.pop(name, None)
            else:
                self.fields[name] = second.status(value) if name == "status" else value
        if "content" in update:
            content = update["content"]
            self.content, self.has_content = list(content) if isinstance(content, list) else [], True

    def add(self, item: object) -> None:
        self.is_changed = self.has_content = True
        self.content.append(item)

    @property
    def terminals(self) -> set[str]:
        return {acp.text(item, "terminalId") or "" for item in self.content if acp.text(item, "type") == "terminal"}

    @property
    def is_over(self) -> bool:
        return acp.text(self.fields, "status") in _FINAL

    def tell(self, terminals: "AgentTerminals") -> Iterator[Mapping[str, object]]:
        if not self.is_changed:
            return
        shown = [second.item(item, terminals.text(acp.text(item, "terminalId"))) for item in self.content]
        kind = second.CALL_UPDATE if self.was_told else acp.TOOL_CALL
        fields = {"title": self.id, **self.fields} if not self.was_told else self.fields
        content = {"content": shown} if self.has_content else {}
        yield {"sessionUpdate": kind, "toolCallId": self.id, **fields, **content}
        self.was_told, self.is_changed = True, False


class UpsertedPlans:
    """The plans of a turn, by id. Version 1 has one plan, which has the steps of all of them."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.plans: dict[str | None, object] = {}
        self.is_placed, self.is_changed = False, True

    def tell(self) -> Iterator[Mapping[str, object]]:
        entries = [each for plan in self.plans.values() for each in _items(acp.member(plan, "entries"))]
        if self.is_changed:
            yield {"sessionUpdate": second.PLAN, "entries": entries}
        self.is_changed = False


class AgentTerminals:
    """The terminals of a session."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str | None, bytes, object]] = {}

    def update(self, id: str, update: Mapping[str, object]) -> None:
        command, output, status = self._known.get(id, (None, b"", None))
        if "command" in update:
            command = acp.text(update, "command")
        if "output" in update:
            output = second.output(update["output"]) or b""
        if "exitStatus" in update:
            status = update["exitStatus"]
        self._known[id] = command, output[-_OUTPUT_LIMIT:], status

    def add(self, id: str, data: bytes) -> None:
        command, output, status = self._known.get(id, (None, b"", None))
        self._known[id] = command, (output + data)[-_OUTPUT_LIMIT:], status

    def is_running(self, id: str) -> bool:
        return id in self._known and self._known[id][2] is None

    def text(self, id: str | None) -> str | None:
        """The output in a code fence, and how the command ended."""
        if id not in self._known or id is None:
            return None
        command, output, status = self._known[id]
        lines = [f"$ {command}"] if command is not None else []
        said = second.fenced("\n".join([*lines, output.decode(errors="replace")]))
        code, signal = acp.member(status, "exitCode"), acp.text(status, "signal")
        if type(code) is int:
            return f"{said}\n[exited with code {code}]"
        return f"{said}\n[ended by {signal}]" if signal is not None else said

    def forget(self, kept: set[str]) -> None:
        self._known = {id: known for id, known in self._known.items() if id in kept}


def _is_text(block: object) -> bool:
    """Whether a block is text and nothing else, so that texts may be joined."""
    return isinstance(block, dict) and acp.text(block, "type") == "text" and len(block) == 2


def _words(blocks: list[object]) -> str:
    return "".join(block.text if isinstance(block, _JoinedText) else acp.text(block, "text") or "" for block in blocks)


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []
