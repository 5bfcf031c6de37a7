"""The lines of a transcript with entries of protocol version 1 only: those of other versions are retold."""

from collections.abc import Iterable, Iterator

from acp_proxy.transcripts.files.reading import AlikeLines, Line
from acp_proxy.wire.record import FIRST
from acp_proxy.wire.retelling import Retelling


def retold(lines: Iterable[Line | AlikeLines]) -> Iterator[Line | AlikeLines]:
    """The lines, with a turn of version 2 in the place where it ends.

    What is retold has the number and the end of the last line that was read for it.
    """
    retelling, number, end, whole = Retelling(), 0, 0, True
    for line in lines:
        if isinstance(line, AlikeLines):
            if not retelling.go_on(line.stream):
                yield line
        elif line.entry is None or (line.entry.protocol == FIRST and retelling.is_idle):
            yield line
        else:
            for entry in retelling.add(line.entry):
                yield line if entry is line.entry else Line(number, end, True, entry)
        number, end, whole = line.number, line.end, not isinstance(line, Line) or line.whole
    for entry in retelling.end():
        yield Line(number, end, whole, entry)
