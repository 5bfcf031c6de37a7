"""Cutting a stream into lines: the same lines for every chunking, and no byte lost."""

from acp_proxy.protocol.framing import LineFramer
from fuzz.choices import Choices


def run(data: bytes) -> None:
    choices = Choices(data)
    sizes = [choices.byte() for _ in range(choices.below(8))]
    stream = choices.rest()
    framer, lines, at = LineFramer(), list[bytes](), 0
    while at < len(stream):
        size = sizes[len(lines) % len(sizes)] if sizes else 1
        lines += framer.feed(stream[at : at + size])
        at += size or 1 if size else 0
        if not size:
            lines += framer.feed(stream[at : at + 1])
            at += 1
    rest = framer.take_unfinished()
    whole = LineFramer()
    assert (lines, rest) == (whole.feed(stream), whole.take_unfinished()), "chunking makes no difference"
    assert b"".join(lines) + rest == stream, "no byte is lost"
    assert all(line.find(b"\n") == len(line) - 1 for line in lines), "each line ends in its one newline"
    assert b"\n" not in rest
    assert framer.take_unfinished() == b"", "what is left is handed out once"
