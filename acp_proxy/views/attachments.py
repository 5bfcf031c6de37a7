"""What a conversation carries besides text: images, sounds and files, in messages and in what tool calls show."""

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from acp_proxy.conversation import Call, Item, Said
from acp_proxy.views import figures
from acp_proxy.wire import acp

_ENDING = re.compile(r"\.[a-z0-9]{1,8}")  # a name is made of it: nothing that somebody else has chosen
_COMMON = {"image/webp": ".webp", "audio/wav": ".wav", "audio/ogg": ".ogg", "image/avif": ".avif"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """``kind``: image, audio or resource. ``data``: in base64, as it came."""

    kind: str
    mime: str
    data: str

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")

    @property
    def ending(self) -> str:
        """Of a file's name, with its dot."""
        found = _COMMON.get(self.mime) or mimetypes.guess_extension(self.mime) or ".bin"
        return found if _ENDING.fullmatch(found) else ".bin"

    def bytes(self) -> bytes | None:
        """None where it is no base64."""
        try:
            return base64.b64decode("".join(self.data.split()), validate=True)
        except (binascii.Error, ValueError):
            return None


def attachments(item: Item) -> Iterator[Attachment]:
    for block in blocks(item):
        if (found := attached(block)) is not None:
            yield found


def blocks(item: Item) -> list[object]:
    """The content blocks of a message or a tool call."""
    if isinstance(item, Said):
        return list(item.blocks)
    content = item.fields.get("content") if isinstance(item, Call) else None
    return [acp.member(each, "content") for each in content] if isinstance(content, list) else []


def attached(block: object) -> Attachment | None:
    """What a content block carries that can be saved."""
    kind = acp.text(block, "type")
    holder = acp.member(block, "resource") if kind == "resource" else block
    data = acp.text(holder, "blob" if kind == "resource" else "data")
    if kind not in ("image", "audio", "resource") or data is None:
        return None
    return Attachment(kind, acp.text(holder, "mimeType") or "of no known type", data)


def described(block: Mapping[str, object]) -> str:
    """A content block that is no text: what it is, which one, and how large."""
    kind = acp.text(block, "type") or "content"
    resource = acp.member(block, "resource")
    names = (acp.text(block, "name"), acp.text(block, "uri"), acp.text(resource, "uri"))
    told = [name for name in dict.fromkeys(names) if name]
    if (carried := attached(block)) is not None:
        told += [carried.mime, figures.size(carried.size)]
    elif (text := acp.text(resource, "text")) is not None:
        told.append(figures.size(len(text.encode("utf-8", "replace"))))
    return f"{kind.replace('resource_link', 'link')}: {', '.join(told)}" if told else kind
