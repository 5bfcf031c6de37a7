"""The pieces of what an agent sends: updates, messages made of chunks, and spans of letters."""

from itertools import accumulate

from acp_proxy.wire import acp
from acp_proxy.wire.value import Value

Span = tuple[int, int]
"""A range of letters: the offset of the first one, and of the one after the last."""


class ToldUpdate(Value, frozen=False):
    """An update. ``late``: it came after the agent's answer. ``stands_somewhere``: the transcript has it somewhere.
    ``goes_on``: it is a user message that follows the transcript's last turn."""

    line: bytes
    kind: str
    late: bool
    stands_somewhere: bool = False
    goes_on: bool = False


class Run:
    """Adjacent chunks of one message. ``said``: the letters of each chunk. ``size``: how many letters in all."""

    def __init__(self, kind: str, message: str | None) -> None:
        """``message``: the ``messageId``, if there is one."""
        self.kind = kind
        self.message = message
        self.said: list[str] = []
        self.size = 0
        self.pieces: list[ToldUpdate] = []
        self._joined: str | None = None
        self.span: Span | None = None
        """The place of all its letters in the transcript, if they have been looked for and found."""
        self.is_new = False

    @property
    def text(self) -> str:
        """The letters of all chunks."""
        if self._joined is None or len(self._joined) != self.size:
            self._joined = "".join(self.said)
        return self._joined

    def behind(self, size: int) -> list[ToldUpdate]:
        """The chunks that begin after the first ``size`` letters."""
        starts = accumulate((len(said) for said in self.said), initial=0)
        return [told for told, start in zip(self.pieces, starts, strict=False) if start >= size]

    def divided(self, size: int) -> list[ToldUpdate] | None:
        """The chunks behind the first ``size`` letters; the chunk that has the last of these, without them.

        None if that chunk cannot be divided: it is no chunk of text, or its letters were masked in the transcript.
        """
        out: list[ToldUpdate] = []
        for told, said in zip(self.pieces, self.said, strict=True):
            if 0 < size < len(said):
                text = acp.text(acp.member(acp.update_of(told.line), "content"), "text") or ""
                if acp.update_kind(acp.update_of(told.line)) != self.kind or "".join(text.split()) != said:
                    return None
                try:
                    out.append(told.but(line=acp.with_chunk_text(told.line, behind(text, size))))
                except (ValueError, KeyError):  # the line says something twice
                    return None
            elif size <= 0:
                out.append(told)
            size -= len(said)
        return out

    def rest(self, count: int) -> "Run":
        """The chunks after the first ``count``, as a message of their own."""
        rest = Run(self.kind, self.message)
        rest.said, rest.pieces = self.said[count:], self.pieces[count:]
        rest.size = sum(map(len, rest.said))
        return rest


def behind(text: str, size: int) -> str:
    """The text behind its first ``size`` letters, which are all characters but white space."""
    for at, each in enumerate(text):
        if not size:
            return text[at:]
        size -= not each.isspace()
    return ""


def merged(spans: list[Span]) -> list[Span]:
    """The spans in order, with overlapping and adjacent ones joined."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out
