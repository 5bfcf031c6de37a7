"""Which content is an image, by its bytes."""

import base64
from typing import Any

import pytest

from acp_proxy.views.attachments import find_image

PNG = b"\x89PNG\r\n\x1a\n rest"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'


def block(data: bytes, mime: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "mimeType": mime, "data": base64.b64encode(data).decode()}


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PNG, "png"), (b"\xff\xd8\xff\xe0", "jpeg"), (b"GIF89a..", "gif"), (b"RIFF\0\0\0\0WEBPVP8 ", "webp")],
)
def test_the_bytes_decide_the_kind_of_an_image(data: bytes, kind: str) -> None:
    image = find_image(block(data, "image/svg+xml"))
    assert image is not None
    assert (image.kind, base64.b64decode(image.data), image.size) == (kind, data, len(data))


@pytest.mark.parametrize(
    "found",
    [
        block(SVG, "image/svg+xml"),
        block(SVG, "image/png"),
        block(b"<html>", "text/html"),
        block(b"RIFF\0\0\0\0WAVE", "image/webp"),
        {"type": "image", "mimeType": "image/png", "data": 'iVBORw0KGgo" onerror="alert(1)'},
        {"type": "image", "mimeType": "image/png", "data": "é"},
        {"type": "image", "mimeType": "image/png", "data": ""},
        {"type": "image", "uri": "https://example.org/a.png"},
        {"type": "audio", "data": base64.b64encode(PNG).decode()},
        {"type": "text", "text": "x"},
        {},
        None,
    ],
)
def test_other_content_is_no_image(found: object) -> None:
    assert find_image(found) is None


def test_an_image_can_be_inside_a_resource() -> None:
    resource = {"uri": "file:///a.png", "blob": base64.b64encode(PNG).decode()}
    image = find_image({"type": "resource", "resource": resource})
    assert image is not None
    assert image.kind == "png"
