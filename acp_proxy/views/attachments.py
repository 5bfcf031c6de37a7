"""Images, sounds and files of a conversation, in messages and in tool calls."""

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from acp_proxy.conversation import Item, Said, Subagent, ToolCall
from acp_proxy.views import figures
from acp_proxy.wire import acp

_ENDING = re.compile(r"\.[a-z0-9]{1,8}")  # it becomes part of a file name, so it must be harmless
_COMMON = {"image/webp": ".webp", "audio/wav": ".wav", "audio/ogg": ".ogg", "image/avif": ".avif"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """``kind``: image, audio or resource. ``data``: the base64 as it came."""

    kind: str
    mime: str
    data: str

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")

    @property
    def ending(self) -> str:
        """The suffix of a file name, with its dot."""
        found = _COMMON.get(self.mime) or mimetypes.guess_extension(self.mime) or ".bin"
        return found if _ENDING.fullmatch(found) else ".bin"

    def bytes(self) -> bytes | None:
        """The decoded bytes; None if ``data`` is not base64."""
        try:
            return base64.b64decode("".join(self.data.split()), validate=True)
        except (binascii.Error, ValueError):
            return None


def attachments(item: Item) -> Iterator[Attachment]:
    for block in blocks(item):
        if (found := attached(block)) is not None:
            yield found


def blocks(item: Item) -> list[object]:
    """The content blocks of a message, a tool call or a subagent."""
    if isinstance(item, Said):
        return list(item.blocks)
    if isinstance(item, Subagent):
        return [block for each in item.items for block in blocks(each)]
    content = item.fields.get("content") if isinstance(item, ToolCall) else None
    return [acp.member(each, "content") for each in content] if isinstance(content, list) else []


def attached(block: object) -> Attachment | None:
    """The attachment of a content block; None if there is nothing to save."""
    kind = acp.text(block, "type")
    holder = acp.member(block, "resource") if kind == "resource" else block
    data = acp.text(holder, "blob" if kind == "resource" else "data")
    if kind not in ("image", "audio", "resource") or data is None:
        return None
    return Attachment(kind, acp.text(holder, "mimeType") or "of no known type", data)


def described(block: Mapping[str, object]) -> str:
    """Describe a content block that is not text: kind, name and size."""
    kind = acp.text(block, "type") or "content"
    resource = acp.member(block, "resource")
    names = (acp.text(block, "name"), acp.text(block, "uri"), acp.text(resource, "uri"))
    told = [name for name in dict.fromkeys(names) if name]
    if (carried := attached(block)) is not None:
        told += [carried.mime, figures.size(carried.size)]
    elif (text := acp.text(resource, "text")) is not None:
        told.append(figures.size(len(text.encode("utf-8", "replace"))))
    return f"{kind.replace('resource_link', 'link')}: {', '.join(told)}" if told else kind
