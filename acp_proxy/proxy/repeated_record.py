"""Finds what an agent repeats of the record of a handover, since clients must not see it."""

from collections.abc import Sequence

from acp_proxy.protocol import acp, json_splice, jsonrpc
from acp_proxy.transcript.record_text import ExactRecord, FormRecord


class RepeatedRecord:
    """Finds what an agent repeats of a record that it was given.

    A record of this process is known by its text. One of an earlier process is known by its form: every line of it is
    one that only acp-proxy writes, or a quote, down to the line that ends it. Words that a user typed are cut only in a
    session that was handed over, and only if they have this form from the first line to the last: then nobody but
    acp-proxy wrote them, and nothing tells them from the record.
    """

    def __init__(self, record: str | None, attached: Sequence[bytes] = ()) -> None:
        """``record``: None: one of an earlier process. ``attached``: the blocks that followed it."""
        self.is_of_this_process = record is not None
        self._start: ExactRecord | FormRecord = ExactRecord(record) if record is not None else FormRecord()
        self._matched = self._start
        self._attached = [_identify_content(jsonrpc.parse(block)) for block in attached]
        self._expected: list[tuple[object, ...]] = []
        """What is attached and may follow, since the record was repeated."""
        self._next_attached = 0
        """How many blocks were attached to a record of an earlier process. Nothing may come between."""
        self._has_just_ended = False

    def continues(self, text: str) -> bool:
        """Whether the text of a user chunk goes on with the record, after the chunks that were given to ``cut``."""
        return self._matched.read(text) is not None

    def cut(self, text: str) -> str | None:
        """The text of a user chunk without the record; None: all of it is the record's if the rest of that follows.

        Agents echo prompts whole or in chunks; call it in order.
        """
        if self._has_just_ended:  # the empty line between the record and the user's words
            text = text.lstrip("\n")
        self.end_attached()
        progress = self._matched.read(text)
        if progress is not None and progress.end is None:
            self._matched = progress
            return None
        self.start_over()
        return self._take_rest(progress, text) if progress is not None else text

    def start_over(self) -> None:
        """What came only began like the record, which may still come."""
        self._matched = self._start

    def cut_message(self, text: str) -> str:
        """The text of a whole user message, or of its first text block, without the record."""
        self.end_attached()
        progress = self._start.read(text)
        return self._take_rest(progress, text) if progress is not None and progress.end is not None else text

    def is_attached(self, block: object) -> bool:
        """Whether the content of a user chunk repeats what was attached to the record, after that. Each is repeated
        once."""
        if self._next_attached and acp.text(block, "type") != "text":
            self._next_attached -= 1
            return True
        if (content := _identify_content(block)) not in self._expected:
            return False
        self._expected.remove(content)
        return True

    def end_attached(self) -> None:
        """Something else comes than what is attached to the record of an earlier process."""
        self._next_attached, self._has_just_ended = 0, False

    def _take_rest(self, progress: ExactRecord | FormRecord, text: str) -> str:
        remaining = text[progress.end :].lstrip()
        self._expected = self._attached.copy()
        self._has_just_ended = not remaining
        if isinstance(progress, FormRecord) and not remaining:
            self._next_attached = progress.attached
        return remaining


def cut_record(line: bytes, repeated: RepeatedRecord) -> bytes | None:
    """A whole user message without the record; None if it has nothing else. Raises ValueError, KeyError."""
    text = json_splice.decode(line)
    start = json_splice.find_value(text)[0]
    for key in ("params", "update"):
        start = json_splice.find_members(text, start)[key][0]
    content = json_splice.find_members(text, start)["content"]
    blocks = [text[start:end] for start, end in json_splice.find_elements(text, content[0])]
    remaining = [remaining_block for block in blocks if (remaining_block := _cut_block(block, repeated)) is not None]
    if remaining == blocks:
        return line
    return (
        json_splice.encode(json_splice.replace_spans(text, [(content, f"[{','.join(remaining)}]")]))
        if remaining
        else None
    )


def _cut_block(block: str, repeated: RepeatedRecord) -> str | None:
    if repeated.is_attached(jsonrpc.parse_leniently(json_splice.encode(block))):
        return None
    words = acp.text(jsonrpc.parse_leniently(json_splice.encode(block)), "text") or ""
    remaining = repeated.cut_message(words)
    if remaining == words:
        return block
    span = json_splice.find_members(block)["text"]
    return json_splice.replace_spans(block, [(span, jsonrpc.dump(remaining).decode())]) if remaining else None


def _identify_content(block: object) -> tuple[object, ...]:
    """What identifies a content block: agents drop its other members."""
    resource = acp.member(block, "resource")
    inner = tuple(acp.member(resource, key) for key in ("uri", "text", "blob"))
    return (acp.member(block, "type"), acp.member(block, "data"), *inner)
