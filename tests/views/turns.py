"""Turns of a conversation for the views, and texts that try to break out of them."""

from typing import Any

from acp_proxy.views.conversation import (
    ConversationTurn,
    Item,
    Note,
    OtherUpdate,
    Plan,
    Speaker,
    SpokenMessage,
    ToolCall,
)
from acp_proxy.views.document import Head

AT = "2026-11-20T09:15:02.123Z"
HEAD = Head(
    session_id="sess-1",
    agent={"id": "my-agent-4f1c2d3e4a5b6c7d", "name": "my-agent", "version": "1.2.0"},
    title="Fix the login",
    cwd="/home/me/project",
    created=AT,
    updated="2026-11-20T09:17:00.000Z",
    origin="recorded",
)

EVIL = [
    "<script>document.title='ran'</script>",
    "</title><script>alert(1)</script>",
    "</style></code></pre></details></main><script>alert(1)</script>",
    '" onmouseover="alert(1)" style="x" \'',
    "' onerror='alert(1)",
    "javascript:alert(1)",
    "JAVASCRIPT:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "]]><svg/onload=alert(1)>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&quot;&#34;&#x22; onload=alert(1)",
    "<base href=https://example.org><meta http-equiv=refresh content=0;url=https://example.org>",
    "<link rel=stylesheet href=https://example.org/x.css><img src=https://example.org/x>",
    "\x00<\x00script\x00>\ud800\u202e",
    'image/png;base64,AAAA" onload="alert(1)',
]
"""Texts that try to break out of a page."""


def message(speaker: Speaker, *blocks: str | dict[str, Any]) -> SpokenMessage:
    return SpokenMessage(
        speaker, [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    )


def turn(*items: Item, number: int = 1, stop: str | None = "end_turn", error: str | None = None) -> ConversationTurn:
    return ConversationTurn(number, AT, list(items), stop, error)


def call(title: str, *content: dict[str, Any], **fields: Any) -> ToolCall:
    return ToolCall("call-1", {"title": title, "status": "completed", "content": list(content), **fields}, is_new=True)


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def diff(path: str, old: str | None, new: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def put_everywhere(evil: str) -> tuple[Head, list[ConversationTurn]]:
    """Turns with this text in every place that others control."""
    head = Head(evil, {"id": evil, "name": evil, "version": evil}, evil, evil, evil, evil, evil)
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": evil},
        {"type": evil, "data": evil},
        {"type": "image", "mimeType": evil, "data": evil, "uri": evil},
        {"type": "audio", "mimeType": evil, "data": evil},
        {"type": "resource_link", "uri": evil, "name": evil, "title": evil, "mimeType": evil},
        {"type": "resource", "resource": {"uri": evil, "text": evil, "mimeType": evil}},
        {"type": "resource", "resource": {"uri": evil, "blob": evil, "mimeType": evil}},
        {"type": "text", "text": f"```{evil}\n{evil}\n```\n\n[{evil}]({evil}) ![{evil}]({evil})\n\n    {evil}"},
        {"type": "text", "text": f"|{evil}|\n|---|\n|`{evil}`|\n\n# {evil}\n\n> {evil}\n\n1. {evil}"},
    ]
    content = [*({"type": "content", "content": block} for block in blocks), diff(evil, evil, f"{evil}\n{evil}x")]
    fields: dict[str, Any] = {
        "status": evil,
        "kind": evil,
        "locations": [{"path": evil, "line": 1}],
        "rawInput": {evil: evil},
        "rawOutput": evil,
    }
    items: list[Item] = [
        *(message(speaker, *blocks) for speaker in ("user", "agent", "thought")),
        call(evil, *content, **fields),
        ToolCall(evil, {"title": evil, "rawInput": {"command": evil}, "rawOutput": evil}, is_new=True),
        ToolCall(evil, {"rawInput": evil}, is_new=False),
        Plan([{"content": evil, "status": evil, "priority": evil}, evil]),
        Note("gap", evil),
        Note(evil, evil),
        OtherUpdate({"sessionUpdate": evil, evil: evil}),
    ]
    return head, [ConversationTurn(1, evil, items, evil, evil), turn(message("user", evil), number=2, stop=evil)]
