"""Images of a conversation that may be shown, recognised by their first bytes, never by their declared type.

Only raster images: an SVG is a document, which can contain scripts and links.
"""

import base64
import binascii
from dataclasses import dataclass

from acp_proxy.wire import acp

_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))


@dataclass(frozen=True, slots=True)
class Image:
    """``kind``: png, jpeg, gif, webp. ``data``: only base64."""

    kind: str
    data: str
    size: int


def image_in(block: object) -> Image | None:
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
    kind = _kind(raw)
    return Image(kind, base64.b64encode(raw).decode(), len(raw)) if kind is not None else None


def _kind(raw: bytes) -> str | None:
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "webp"
    return next((kind for beginning, kind in _BEGINNINGS if raw.startswith(beginning)), None)
