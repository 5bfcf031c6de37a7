"""Changes the ids in updates of version 2, where an id belongs to one message, call, terminal or plan of a session.

After a handover, the agent's new session may use the ids of the old one again. So the client gets the old ones changed.
"""

from collections.abc import Iterator, Mapping

from acp_proxy.wire import acp, framing, jsonrpc, splice

_IDS = frozenset({"messageId", "toolCallId", "terminalId", "planId", "compactionId"})
_INSIDE = ("plan", "content")
"""The members of an update that may have ids inside."""


def renamed(lines: list[bytes], prefix: str) -> list[bytes]:
    """Items of a replay, each of which is one or more lines, with this prefix to every id. Other bytes stay."""
    return [b"".join(_one(line, prefix) for line in framing.cut(item)) for item in lines]


def _one(line: bytes, prefix: str) -> bytes:
    update = acp.update_of(line)
    text = splice.decode(line)
    try:
        params = splice.members(text, splice.whole(text)[0])["params"]
        start = splice.members(text, params[0])["update"][0]
        return splice.encode(splice.replaced(text, list(_changes(text, start, update, prefix))))
    except (ValueError, KeyError):
        return line


def _changes(text: str, start: int, value: object, prefix: str) -> Iterator[tuple[splice.Span, str]]:
    """The new ids of an object that begins at ``start``. Raises ValueError."""
    if not isinstance(value, Mapping) or not any(name in value for name in (*_IDS, *_INSIDE)):
        return
    spans = splice.members(text, start)
    for name in _IDS & value.keys():
        if isinstance(id := value[name], str):
            yield spans[name], splice.decode(jsonrpc.dump(prefix + id))
    for name in _INSIDE:
        inner = value.get(name)
        if isinstance(inner, list):
            for (at, _), item in zip(splice.elements(text, spans[name][0]), inner, strict=True):
                yield from _changes(text, at, item, prefix)
        elif isinstance(inner, Mapping):
            yield from _changes(text, spans[name][0], inner, prefix)
