"""Puts sessions that only acp-proxy can list into the first page of the agent's own list."""

from collections.abc import Iterable

from acp_proxy.core.answers import ListRow, session_info
from acp_proxy.wire import acp, clock, jsonrpc, splice


def joined(raw: bytes, rows: Iterable[ListRow], *, directories: bool, archived: bool, of_index: bool = False) -> bytes:
    """The agent's answer to ``session/list`` with these rows by time among its own; every other byte stays.

    ``rows``: newest first. ``directories``, ``archived``, ``of_index``: as for ``answers.session_info``.
    Raises ValueError, KeyError.
    """
    new = [
        (row.updated, session_info(row, directories=directories, archived=archived, of_index=of_index)) for row in rows
    ]
    if not new:
        return raw
    text = splice.decode(raw)
    result = splice.members(text, splice.whole(text)[0])["result"]
    start, end = splice.members(text, result[0])["sessions"]
    out: list[str] = []
    for a, b in splice.elements(text, start):
        item = text[a:b]
        updated = _updated(item)
        while new and updated is not None and new[0][0] > updated:
            out.append(jsonrpc.dump(new.pop(0)[1]).decode())
        out.append(item)
    out += [jsonrpc.dump(info).decode() for _, info in new]
    return splice.encode(splice.replaced(text, [((start, end), f"[{','.join(out)}]")]))


def _updated(item: str) -> str | None:
    told = acp.text(jsonrpc.look(splice.encode(item)), "updatedAt")
    return clock.normalized(told) if told is not None else None
