"""The pieces of what an agent sends: updates, messages made of chunks, and spans of letters."""

from itertools import accumulate

from acp_proxy.wire.value import Value

Span = tuple[int, int]
"""A range of letters: the offset of the first one, and of the one after the last."""


class ToldUpdate(Value, frozen=False):
    """An update. ``late``: it came after the agent's answer. ``stands_somewhere``: the transcript has it somewhere."""

    line: bytes
    kind: str
    late: bool
    stands_somewhere: bool = False


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

    def rest(self, count: int) -> "Run":
        """The chunks after the first ``count``, as a message of their own."""
        rest = Run(self.kind, self.message)
        rest.said, rest.pieces = self.said[count:], self.pieces[count:]
        rest.size = sum(map(len, rest.said))
        return rest


def merged(spans: list[Span]) -> list[Span]:
    """The spans in order, with overlapping and adjacent ones joined."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out
