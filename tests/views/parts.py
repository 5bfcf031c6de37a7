"""A conversation with parts of every kind."""

from acp_proxy.transcript.file_format import NoteType
from acp_proxy.views.conversation import Note, OtherUpdate, Part, Plan, SpokenMessage, ToolCall, TurnBegin, TurnEnd

AT = "2026-11-20T09:15:02.123Z"
PROSE = """\
# A heading

See `auth.py` and <b>the</b> *bug*: [docs](https://example.com/x?y=1).

- one
- **two**

```python
def f(x):
    return x
```"""
DIFF = {"type": "diff", "path": "/p/auth.py", "oldText": "a\nb\nc\n", "newText": "a\nB\nc\nd\n"}
OUTPUT = {"type": "content", "content": {"type": "text", "text": "\x1b[31mred\x1b[0m\r\nline"}}
IMAGE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
TEST = {"content": "test"}
SHOWN = {"type": "content", "content": IMAGE}
LONG = "grep -rn 'login' src | sort | uniq -c | sort -rn | head -20 && a long command line that goes on"


def make_all_parts() -> list[Part]:
    return [
        TurnBegin(1, AT, is_prompted=True),
        SpokenMessage("user", [{"type": "text", "text": "Fix [x](y)\nplease"}, IMAGE]),
        SpokenMessage("thought", [{"type": "text", "text": "**Hm**, a thought."}]),
        Plan(
            [
                {"content": "look", "status": "completed"},
                {"content": "mend", "status": "in_progress"},
                {"content": "test"},
            ]
        ),
        ToolCall(
            "1", {"title": "Read auth.py", "status": "completed", "locations": [{"path": "/p/a", "line": 3}]}, True
        ),
        ToolCall("2", {"title": LONG, "status": "failed", "content": [OUTPUT], "rawInput": {"command": "grep"}}, True),
        ToolCall(
            "3",
            {"title": "Edit", "status": "completed", "content": [DIFF, {"type": "content", "content": IMAGE}]},
            True,
        ),
        SpokenMessage("agent", [{"type": "text", "text": PROSE}], "m1"),
        SpokenMessage("agent", [{"type": "text", "text": "\n\nmore"}], "m1"),
        OtherUpdate({"sessionUpdate": "compaction_update", "before": 10}),
        TurnEnd("end_turn", None),
        TurnBegin(2, AT, is_prompted=True),
        Note(NoteType.HANDOVER, "new-1"),
        ToolCall("1", {"status": "failed", "rawOutput": "no"}, False),
        Note(NoteType.GAP, "ENOSPC"),
        TurnEnd("max_tokens", None),
        TurnBegin(3, AT, is_prompted=True),
        TurnEnd(None, "Authentication required"),
        TurnBegin(4, AT, is_prompted=True),
        TurnEnd(None, None),
    ]
