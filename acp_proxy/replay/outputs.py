"""A tool call that is told in several updates, as one, with what terminals of the agent's own wrote (in ``_meta``)."""

from collections.abc import Iterable, Mapping

from acp_proxy.wire import acp

Fields = Mapping[str, object]


def merged(updates: Iterable[Fields]) -> dict[str, object]:
    """The fields of all updates, the last of each. Where they say what terminals wrote, it stands in place of these."""
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
