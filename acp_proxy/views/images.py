"""Images of a conversation that may be shown: known by their own first bytes, never by what is said of them.

Only pictures made of pixels: a drawing (SVG) is a document, which can hold scripts and links of its own.
"""

import base64
import binascii
from dataclasses import dataclass

from acp_proxy.wire import acp

_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))


@dataclass(frozen=True, slots=True)
class Image:
    """``kind``: png, jpeg, gif, webp. ``data``: base64, and nothing but that."""

    kind: str
    data: str
    size: int


def image_in(block: object) -> Image | None:
    """The image that a content block holds; None where it holds none that may be shown."""
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
