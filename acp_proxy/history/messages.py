"""What an agent tells, message by message, and where it stands among the letters that were said."""

from itertools import accumulate

from acp_proxy.wire.value import Value

Span = tuple[int, int]
"""Letters: the first, and the one behind the last."""


class ToldUpdate(Value, frozen=False):
    """One update of the tail. ``late``: it came behind the answer to the request."""

    line: bytes
    kind: str
    late: bool
    stands_somewhere: bool = False


class Run:
    """Adjacent chunks of one message."""

    def __init__(self, kind: str, message: str | None) -> None:
        self.kind = kind
        self.message = message
        self.said: list[str] = []
        self.size = 0
        self.pieces: list[ToldUpdate] = []
        self._joined: str | None = None
        self.span: Span | None = None
        """Where all of it stands, as far as it has been looked for."""
        self.is_new = False

    @property
    def text(self) -> str:
        if self._joined is None or len(self._joined) != self.size:
            self._joined = "".join(self.said)
        return self._joined

    def behind(self, size: int) -> list[ToldUpdate]:
        """The chunks that begin behind so many letters."""
        starts = accumulate((len(said) for said in self.said), initial=0)
        return [told for told, start in zip(self.pieces, starts, strict=False) if start >= size]


def merged(spans: list[Span]) -> list[Span]:
    """Spans, in order, with those that touch each other as one."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out
