"""Compares the index with a transcript. Raises OSError, ``sqlite3.Error``."""

from copy import deepcopy

from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.transcripts.files.summary import Summary
from acp_proxy.transcripts.listing.index import Index, parsed, row_of, trusting
from acp_proxy.wire import acp
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry


def agrees(index: Index, agent: str, name: str, reading: Reading) -> bool:
    """Whether a transcript's row is correct and lacks no turn.

    The inode only says from where on to read the next time: a copy of the whole store has others.
    """
    columns = "session, listed, updated, info, open, created, size, lines, state, used"
    query = f"SELECT {columns} FROM transcripts WHERE agent = ? AND name = ?"
    found = next(iter(index.select(query, (agent, name))), None)
    header = reading.header or reading.remade_header()
    if header is None or found is None:
        return header is None and found is None
    with trusting():
        size = parsed(found[3])["size"]
    summary, lines, upto = Summary.begun(header), 0, found[6]

    def is_so(shown: Summary) -> bool:
        row = row_of(name, header, summary, shown, reading.inode, size, upto, lines)
        return tuple(row[key] for key in columns.split(", ")) == tuple(found)

    first, shown, agrees, lacks_turn = 0, summary, False, False
    for line in reading.lines():
        if line.end <= upto:
            lines = line.number + 1
            if line.entry is not None:
                summary.add(line.entry)
            continue
        if shown is summary:
            first, shown, agrees = line.number, deepcopy(summary), is_so(summary)
        if line.entry is None:
            continue
        lacks_turn |= line.whole and _begins_turn(line.entry)
        if line.number == first:  # the row may include it from before its newline was written
            shown.add(line.entry)
            if is_so(shown):
                agrees, lacks_turn = True, False
    return not lacks_turn and (agrees or (shown is summary and is_so(summary)))


def _begins_turn(entry: Entry) -> bool:
    return entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.PROMPT
