"""A conversation as plain text."""

from acp_proxy.views.conversation import Part, Speaker, SpokenMessage, ToolCall, TurnBegin, TurnEnd
from acp_proxy.views.passages import make_passages
from acp_proxy.views.plain_text import PassagePrinter
from tests.views.parts import AT, make_all_parts

PLAIN = """\
--- Turn 1, 2026-11-20T09:15:02.123Z ---

User:
  Fix [x](y)
  please
  [image: image/png, 3 B; to save it: --turn 1 --extract DIR]

Thought:
  **Hm**, a thought.

Plan:
  [x] look
  [>] mend
  [ ] test

Tool: Read auth.py [completed]
Tool: grep -rn 'login' src | sort | uniq -c | sort -rn | head -20 && a long command line that goes on [failed]
    red
    line

Tool: Edit [completed]
  /p/auth.py
  @@ -1,3 +1,4 @@
   a
  -b
  +B
   c
  +d
  [image: image/png, 3 B; to save it: --turn 1 --extract DIR]

Agent:
  # A heading

  See `auth.py` and <b>the</b> *bug*: [docs](https://example.com/x?y=1).

  - one
  - **two**

  ```python
  def f(x):
      return x
  ```

  more

--- Turn 2, 2026-11-20T09:15:02.123Z ---

Note: The conversation continues in a new session of the agent, which got a record of it.

Tool, later: Read auth.py [failed]
    no

Note: Something is missing here: the recording was interrupted (ENOSPC).

Note: The turn ended at the limit of tokens.

--- Turn 3, 2026-11-20T09:15:02.123Z ---

Error: Authentication required

--- Turn 4, 2026-11-20T09:15:02.123Z ---

Note: This turn has no end: it is still running, or its process ended.
"""


def render(parts: list[Part], *, full: bool = False) -> str:
    look = PassagePrinter()
    return "".join(text for passage in make_passages(parts, full=full) for text in look.print(passage))


def test_a_conversation_is_in_order_with_its_markdown_unchanged() -> None:
    assert render(make_all_parts()) == "\n" + PLAIN


def test_full_shows_all_content_of_tool_calls() -> None:
    text = render(make_all_parts(), full=True)
    for part in (
        "Tool: Read auth.py [completed]\n  [at /p/a:3]\n",
        '[failed]\n  input:\n    {\n      "command": "grep"\n    }\n    red\n    line\n\nTool: Edit',
        '  more\n\n  [compaction_update]\n    {\n      "sessionUpdate": "compaction_update",\n',
        "Tool, later: Read auth.py [failed]\n  output:\n    no\n",
    ):
        assert part in text


def test_only_full_shows_a_long_title_of_a_call_whole() -> None:
    call = ToolCall("1", {"title": f"{'x' * 600} end"}, True)
    assert render([call]) == f"\nTool: {'x' * 499}…\n"
    assert render([call], full=True).startswith(f"\nTool: {'x' * 600} end\n")


def test_only_full_shows_a_long_change_to_its_end() -> None:
    diff = {"type": "diff", "path": "/a", "newText": "".join(f"{number}\n" for number in range(1000))}
    call = ToolCall("1", {"title": "Write", "content": [diff]}, True)
    short = render([call])
    assert "+78\n" in short
    assert "+79\n" not in short
    assert short.endswith("... 921 more rows: --full\n")
    assert render([call], full=True).endswith("+998\n  +999\n")


def message_parts(speaker: Speaker, *texts: str, id: str = "m") -> list[Part]:
    return [SpokenMessage(speaker, [{"type": "text", "text": text}], id) for text in texts]


def test_the_chunks_of_a_message_are_one_message() -> None:
    assert render(message_parts("agent", "one ", "two", "\n\nthree")) == "\nAgent:\n  one two\n\n  three\n"
    assert (
        render(message_parts("agent", "one") + message_parts("agent", "two", id="n"))
        == "\nAgent:\n  one\n\nAgent:\n  two\n"
    )
    assert (
        render(message_parts("thought", "one") + message_parts("agent", "two"))
        == "\nThought:\n  one\n\nAgent:\n  two\n"
    )


def test_attachments_have_lines_of_their_own() -> None:
    assert render(message_parts("user", "<context>", "look at ", "it")) == "\nUser:\n  <context>\n  look at it\n"
    link: list[Part] = [SpokenMessage("user", [{"type": "resource_link", "name": "a.py"}], "m")]
    assert (
        render(message_parts("user", "see") + link + message_parts("user", "now"))
        == "\nUser:\n  see\n  [link: a.py]\n  now\n"
    )


def test_a_message_cannot_imitate_another_speaker() -> None:
    said = SpokenMessage("agent", [{"type": "text", "text": "a\n\nUser:\n  b\rError: c\u2028Note: d"}])
    lines = render([TurnBegin(1, AT, is_prompted=True), said]).splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == [f"--- Turn 1, {AT} ---", "Agent:"]


def test_tool_calls_with_odd_fields_are_shown() -> None:
    odd: dict[str, object] = {
        "title": 7,
        "status": {"a": 1},
        "locations": [None, {"line": 3}, {"path": 1}],
        "content": [None, 3, {"type": "diff"}, {"type": "content", "content": {"type": "text"}}, {"type": "terminal"}],
        "rawInput": 1.5,
        "rawOutput": [],
    }
    for full in (False, True):
        assert render([ToolCall("id", odd, True), TurnEnd(None, None)], full=full).startswith("\nTool: id\n")
    assert render([ToolCall("1", {"content": "text"}, True), ToolCall("", {}, False)]) == "\nTool: 1\nTool, later: \n"
