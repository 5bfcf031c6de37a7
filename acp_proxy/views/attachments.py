"""Images, sounds and files of a conversation, in messages and in tool calls."""

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from acp_proxy.protocol import acp
from acp_proxy.views import formatting
from acp_proxy.views.conversation import Item, SpokenMessage, Subagent, ToolCall

_SAFE_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}")  # it becomes part of a file name, so it must be harmless
_SUFFIXES = {"image/webp": ".webp", "audio/wav": ".wav", "audio/ogg": ".ogg", "image/avif": ".avif"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image, a sound or a file. ``kind``: image, audio or resource. ``data``: the base64 as it came."""

    kind: str
    mime: str
    data: str

    @property
    def size(self) -> int:
        """How many bytes it has, decoded."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")

    @property
    def suffix(self) -> str:
        """The suffix of a file name, with its dot."""
        suffix = _SUFFIXES.get(self.mime) or mimetypes.guess_extension(self.mime) or ".bin"
        return suffix if _SAFE_SUFFIX.fullmatch(suffix) else ".bin"

    def decode(self) -> bytes | None:
        """The decoded bytes; None if ``data`` is not base64."""
        try:
            return base64.b64decode("".join(self.data.split()), validate=True)
        except (binascii.Error, ValueError):
            return None


def find_attachments(item: Item) -> Iterator[Attachment]:
    """The attachments of a message, a tool call or a subagent."""
    for block in list_blocks(item):
        if (attachment := read_attachment(block)) is not None:
            yield attachment


def list_blocks(item: Item) -> list[object]:
    """The content blocks of a message, a tool call or a subagent."""
    if isinstance(item, SpokenMessage):
        return list(item.blocks)
    if isinstance(item, Subagent):
        return [block for part in item.items for block in list_blocks(part)]
    content = item.fields.get("content") if isinstance(item, ToolCall) else None
    return [acp.member(part, "content") for part in content] if isinstance(content, list) else []


def read_attachment(block: object) -> Attachment | None:
    """The attachment of a content block; None if there is nothing to save."""
    kind = acp.text(block, "type")
    holder = acp.member(block, "resource") if kind == "resource" else block
    data = acp.text(holder, "blob" if kind == "resource" else "data")
    if kind not in ("image", "audio", "resource") or data is None:
        return None
    return Attachment(kind, acp.text(holder, "mimeType") or "of no known type", data)


def describe_block(block: Mapping[str, object]) -> str:
    """Describe a content block that is not text: kind, name and size."""
    kind = acp.text(block, "type") or "content"
    resource = acp.member(block, "resource")
    names = (acp.text(block, "name"), acp.text(block, "uri"), acp.text(resource, "uri"))
    parts = [name for name in dict.fromkeys(names) if name]
    if (attachment := read_attachment(block)) is not None:
        parts += [attachment.mime, formatting.format_size(attachment.size)]
    elif (text := acp.text(resource, "text")) is not None:
        parts.append(formatting.format_size(len(text.encode("utf-8", "replace"))))
    return f"{kind.replace('resource_link', 'link')}: {', '.join(parts)}" if parts else kind


# --- Images of a conversation that may be shown, recognised by their first bytes, never by their declared type.
#
# Only raster images: an SVG is a document, which can contain scripts and links.


_MAGIC_BYTES = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))


@dataclass(frozen=True, slots=True)
class Image:
    """An image that may be shown. ``kind``: png, jpeg, gif, webp. ``data``: in base64. ``size``: bytes, decoded."""

    kind: str
    data: str
    size: int


def find_image(block: object) -> Image | None:
    """The image of a content block; None if it has none that may be shown."""
    if acp.text(block, "type") == "resource":
        resource = acp.member(block, "resource")
        data = acp.text(resource, "blob")
    else:
        data = acp.text(block, "data") if acp.text(block, "type") == "image" else None
    if not data:
        return None
    try:
        raw = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = _detect_kind(raw)
    return Image(kind, base64.b64encode(raw).decode(), len(raw)) if kind is not None else None


def _detect_kind(raw: bytes) -> str | None:
    """``png``, ``jpeg``, ``gif`` or ``webp``; None for anything else."""
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "webp"
    return next((kind for beginning, kind in _MAGIC_BYTES if raw.startswith(beginning)), None)
