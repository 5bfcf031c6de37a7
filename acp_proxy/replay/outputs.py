"""Merges updates of a tool call for readers, with the output of the agent's own terminals (in ``_meta``)."""

from collections.abc import Iterable, Mapping

from acp_proxy.wire import acp

Fields = Mapping[str, object]


def merged(updates: Iterable[Fields]) -> dict[str, object]:
    """The last value of each field other than null. Terminal output in the updates replaces the content's terminals.

    ``updates``: the fields of each, as parsed values.
    """
    fields: dict[str, object] = {}
    written: list[str] = []
    for update in updates:
        fields |= {name: value for name, value in update.items() if value is not None or name not in fields}
        written.append(acp.text(acp.member(update.get("_meta"), "terminal_output"), "data") or "")
    output, content = "".join(written), fields.get("content")
    if output and isinstance(content, list):
        fields["content"] = [_shown(item, output) for item in content]
    return fields


def _shown(item: object, output: str) -> object:
    if acp.text(item, "type") != "terminal":
        return item
    return {"type": "content", "content": {"type": "text", "text": output}}
