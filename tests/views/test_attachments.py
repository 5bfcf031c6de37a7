"""Images and files in messages: their bytes, sizes and names."""

import base64
from typing import Any

import pytest

from acp_proxy.views import attachments
from acp_proxy.views.attachments import Attachment
from acp_proxy.views.conversation import Plan, SpokenMessage, ToolCall

DATA = base64.b64encode(b"\x89PNG1234").decode()
IMAGE = {"type": "image", "data": DATA, "mimeType": "image/png"}


def test_messages_and_tool_calls_have_attachments() -> None:
    blob = {"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": DATA, "mimeType": "application/pdf"}}
    text = {"type": "text", "text": "x"}
    said = SpokenMessage("user", [text, IMAGE, blob, {"type": "audio", "data": DATA}])
    assert [(attachment.kind, attachment.mime) for attachment in attachments.find_attachments(said)] == [
        ("image", "image/png"),
        ("resource", "application/pdf"),
        ("audio", "of no known type"),
    ]
    content = [{"type": "content", "content": IMAGE}, {"type": "diff", "path": "/a"}, "odd", {"type": "content"}]
    call = ToolCall("1", {"content": content}, is_new=True)
    assert [attachment.decode() for attachment in attachments.find_attachments(call)] == [b"\x89PNG1234"]
    assert list(attachments.find_attachments(Plan([]))) == []


@pytest.mark.parametrize("data", ["", "a", "====", "not base64!", "é"])
def test_invalid_base64_has_no_bytes(data: str) -> None:
    attachment = Attachment("image", "image/png", data)
    assert attachment.decode() in (None, b"")
    assert attachment.size <= len(data)


@pytest.mark.parametrize("length", range(5))
def test_the_size_is_the_decoded_size(length: int) -> None:
    assert Attachment("image", "image/png", base64.b64encode(b"x" * length).decode()).size == length


@pytest.mark.parametrize(
    ("mime", "ending"),
    [
        ("image/png", ".png"),
        ("image/jpeg", ".jpg"),
        ("image/webp", ".webp"),
        ("application/pdf", ".pdf"),
        ("x/../../etc/passwd", ".bin"),
        ("", ".bin"),
    ],
)
def test_the_mime_type_decides_the_file_suffix(mime: str, ending: str) -> None:
    assert Attachment("image", mime, "").suffix == ending


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (IMAGE, "image: image/png, 8 B"),
        ({"type": "image", "data": DATA, "uri": "file:///a.png"}, "image: file:///a.png, of no known type, 8 B"),
        ({"type": "resource_link", "name": "a.py", "uri": "file:///a.py"}, "link: a.py, file:///a.py"),
        ({"type": "resource", "resource": {"uri": "file:///b", "text": "é"}}, "resource: file:///b, 2 B"),
        ({"type": "audio"}, "audio"),
        ({}, "content"),
        ({"type": "new", "name": 1}, "new"),
    ],
)
def test_content_that_is_not_text_is_described(block: dict[str, Any], words: str) -> None:
    assert attachments.describe_block(block) == words
