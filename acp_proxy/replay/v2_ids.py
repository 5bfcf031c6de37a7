"""Changes the ids in updates of version 2, where an id belongs to one message, call, terminal or plan of a session.

After a handover, the agent's new session may use the ids of the old one again. So the client gets the old ones
changed.
"""

from collections.abc import Iterator, Mapping

from acp_proxy.protocol import acp, framing, json_splice, jsonrpc

_ID_NAMES = frozenset({"messageId", "toolCallId", "terminalId", "planId", "compactionId"})
_INSIDE = ("plan", "content")
"""The members of an update that may have ids inside."""


def prefix_ids(lines: list[bytes], prefix: str) -> list[bytes]:
    """Items of a replay, each of which is one or more lines, with this prefix to every id. Other bytes stay."""
    return [b"".join(_prefix_ids_of(line, prefix) for line in framing.cut(item)) for item in lines]


def _prefix_ids_of(line: bytes, prefix: str) -> bytes:
    update = acp.update_of(line)
    text = json_splice.decode(line)
    try:
        params = json_splice.members(text, json_splice.whole(text)[0])["params"]
        start = json_splice.members(text, params[0])["update"][0]
        return json_splice.encode(json_splice.replaced(text, list(_find_ids(text, start, update, prefix))))
    except (ValueError, KeyError):
        return line


def _find_ids(text: str, start: int, value: object, prefix: str) -> Iterator[tuple[json_splice.Span, str]]:
    """The new ids of an object that begins at ``start``. Raises ValueError."""
    if not isinstance(value, Mapping) or not any(name in value for name in (*_ID_NAMES, *_INSIDE)):
        return
    spans = json_splice.members(text, start)
    for name in _ID_NAMES & value.keys():
        if isinstance(id := value[name], str):
            yield spans[name], json_splice.decode(jsonrpc.dump(prefix + id))
    for name in _INSIDE:
        inner = value.get(name)
        if isinstance(inner, list):
            for (at, _), item in zip(json_splice.elements(text, spans[name][0]), inner, strict=True):
                yield from _find_ids(text, at, item, prefix)
        elif isinstance(inner, Mapping):
            yield from _find_ids(text, spans[name][0], inner, prefix)
