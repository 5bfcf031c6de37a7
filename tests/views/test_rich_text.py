"""A conversation on a terminal: in two widths, with and without colours."""

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_proxy.views.conversation import Part, SpokenMessage, ToolCall
from acp_proxy.views.diffs import DiffRow
from acp_proxy.views.passages import CallHeading, Passage, ShownDiff, make_passages
from acp_proxy.views.rich_text import RichPrinter
from acp_proxy.views.sanitize import strip_sequences
from tests.views.parts import make_all_parts

STYLE = re.compile("\x1b\\[[0-9;]*m")
NARROW = """\
\x1b[1;7mTurn 1 · 2026-11-20 09:15:02\x1b[0m

\x1b[1mUser\x1b[0m
  Fix [x](y)
  please
  [image: image/png, 3 B; to save it:
  --turn 1 --extract DIR]

\x1b[2;3mThought\x1b[0m
  \x1b[1;2;3mHm\x1b[0m\x1b[2;3m, a thought.\x1b[0m

\x1b[1mPlan\x1b[0m
  ✓ \x1b[2mlook\x1b[0m
  ▸ mend
  ○ test

✓ Read auth.py
✗ failed: grep -rn 'login' src | sort |…
\x1b[2m    red\x1b[0m
\x1b[2m    line\x1b[0m

✓ Edit
  \x1b[1m/p/auth.py\x1b[0m
  @@ -1,3 +1,4 @@
   a
  -b
  +B
   c
  +d
  [image: image/png, 3 B; to save it:
  --turn 1 --extract DIR]

\x1b[1mAgent\x1b[0m
  \x1b[1;4mA heading\x1b[0m

  See \x1b[1mauth.py\x1b[0m and <b>the</b> \x1b[3mbug\x1b[0m: docs
  (\x1b[4mhttps://example.com/x?y=1\x1b[0m).

  \x1b[1m • \x1b[0mone
  \x1b[1m • \x1b[0m\x1b[1mtwo\x1b[0m

  \x1b[2mpython\x1b[0m
   def f(x):
       return x

  more

\x1b[1;7mTurn 2 · 2026-11-20 09:15:02\x1b[0m

The conversation continues in a new
session of the agent, which got a record
of it.

✗ \x1b[2mlater: \x1b[0mfailed: Read auth.py
\x1b[2m    no\x1b[0m

Something is missing here: the recording
was interrupted (ENOSPC).

The turn ended at the limit of tokens.

\x1b[1;7mTurn 3 · 2026-11-20 09:15:02\x1b[0m

\x1b[1mError: Authentication required\x1b[0m

\x1b[1;7mTurn 4 · 2026-11-20 09:15:02\x1b[0m

This turn has no end: it is still
running, or its process ended.
"""
WIDE = """\
\x1b[1;7mTurn 1 · 2026-11-20 09:15:02\x1b[0m

\x1b[1;32mUser\x1b[0m
  Fix [x](y)
  please
  \x1b[35m[image: image/png, 3 B; to save it: --turn 1 --extract DIR]\x1b[0m

\x1b[2;3mThought\x1b[0m
  \x1b[1;2;3mHm\x1b[0m\x1b[2;3m, a thought.\x1b[0m

\x1b[1mPlan\x1b[0m
  \x1b[32m✓\x1b[0m \x1b[2mlook\x1b[0m
  \x1b[33m▸\x1b[0m mend
  ○ test

\x1b[32m✓ \x1b[0mRead auth.py
\x1b[31m✗ \x1b[0m\x1b[31mfailed: \x1b[0mgrep -rn 'login' src | sort | uniq -c | sort -rn | head -20 && a long…
\x1b[2m    red\x1b[0m
\x1b[2m    line\x1b[0m

\x1b[32m✓ \x1b[0mEdit
  \x1b[1m/p/auth.py\x1b[0m
  \x1b[36m@@ -1,3 +1,4 @@\x1b[0m
   a
  \x1b[31m-b\x1b[0m
  \x1b[32m+B\x1b[0m
   c
  \x1b[32m+d\x1b[0m
  \x1b[35m[image: image/png, 3 B; to save it: --turn 1 --extract DIR]\x1b[0m

\x1b[1;34mAgent\x1b[0m
  \x1b[1;4mA heading\x1b[0m

  See \x1b[1;36mauth.py\x1b[0m and <b>the</b> \x1b[3mbug\x1b[0m: \x1b[94mdocs\x1b[0m (\x1b[4;34mhttps://example.com/x?y=1\x1b[0m).

  \x1b[1m • \x1b[0mone
  \x1b[1m • \x1b[0m\x1b[1mtwo\x1b[0m

  \x1b[2mpython\x1b[0m
   \x1b[94mdef\x1b[0m\x1b[90m \x1b[0m\x1b[92mf\x1b[0m(x):
       \x1b[94mreturn\x1b[0m x

  more

\x1b[1;7mTurn 2 · 2026-11-20 09:15:02\x1b[0m

\x1b[33mThe conversation continues in a new session of the agent, which got a record of \x1b[0m
\x1b[33mit.\x1b[0m

\x1b[31m✗ \x1b[0m\x1b[2mlater: \x1b[0m\x1b[31mfailed: \x1b[0mRead auth.py
\x1b[2m    no\x1b[0m

\x1b[33mSomething is missing here: the recording was interrupted (ENOSPC).\x1b[0m

\x1b[33mThe turn ended at the limit of tokens.\x1b[0m

\x1b[1;7mTurn 3 · 2026-11-20 09:15:02\x1b[0m

\x1b[1;31mError: Authentication required\x1b[0m

\x1b[1;7mTurn 4 · 2026-11-20 09:15:02\x1b[0m

\x1b[33mThis turn has no end: it is still running, or its process ended.\x1b[0m
"""


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as here:
        here.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def test_paths_in_the_directory_are_relative_and_stand_once() -> None:
    look = RichPrinter(80, has_colours=False, cwd="/home/me/project")
    rows = [DiffRow("+", "new")]
    passages: list[Passage] = [
        CallHeading("Edit /home/me/project/src/a.py", "completed", False, False),
        ShownDiff("/home/me/project/src/a.py", rows, 0),
        ShownDiff("/home/me/project/src/b.py", rows, 0),
        ShownDiff("/home/me/projects/c.py", rows, 0),
    ]
    shown = strip_sequences("".join(text for passage in passages for text in look.print(passage)))
    assert shown.split() == ["✓", "Edit", "src/a.py", "+new", "src/b.py", "+new", "/home/me/projects/c.py", "+new"]


def render(parts: list[Part], width: int = 80, *, has_colours: bool = True, full: bool = False) -> str:
    look = RichPrinter(width, has_colours=has_colours)
    return "".join(text for passage in make_passages(parts, full=full) for text in look.print(passage))


def render_plain(parts: list[Part], width: int = 80, *, full: bool = False) -> str:
    return STYLE.sub("", render(parts, width, full=full))


def agent_message(text: str) -> list[Part]:
    return [SpokenMessage("agent", [{"type": "text", "text": text}])]


def test_a_conversation_is_rendered_in_the_width_of_the_terminal() -> None:
    assert render(make_all_parts(), 80) == "\n" + WIDE
    assert render(make_all_parts(), 40, has_colours=False) == "\n" + NARROW


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, render_plain(make_all_parts(), width).splitlines())) <= width


def test_full_does_not_wrap_the_output_of_programs() -> None:
    assert f"    {'x' * 300}\n" in render_plain([ToolCall("1", {"rawOutput": "x" * 300}, True)], 40, full=True)


def test_only_full_shows_a_long_title_of_a_call_whole() -> None:
    call = ToolCall("1", {"title": f"install {'x' * 600} end", "status": "completed"}, True)
    assert render_plain([call], 40) == f"\n✓ install {'x' * 29}…\n"
    shown = render_plain([call], 40, full=True)
    assert shown.count("x") == 600
    assert shown.endswith(" end\n")
    assert max(map(len, shown.splitlines())) <= 40


@pytest.mark.parametrize(
    ("markdown", "seen"),
    [
        ("a <system-reminder>b</system-reminder> &lt;i&gt; <br>", "a <system-reminder>b</system-reminder> <i> <br>"),
        ("<div>\nblock\n</div>", "<div> block </div>"),
        ("[bold red]x[/] [link=https://a]y[/link]", "[bold red]x[/] [link=https://a]y[/link]"),
        (":warning: x", ":warning: x"),
        ("[text](https://example.com/)", "text (https://example.com/)"),
        ("# Title", "Title"),
        ("[Answer]: yes", "[Answer]: yes"),
        ("[a][b] [b]\n\n[b]: c", "[a][b] [b]\n\n  [b]: c"),
        ("```12:15:app/Todo.tsx\ncode\n```", "12:15:app/Todo.tsx\n   code"),
        ("```python title=a.py\nx = 1\n```", "python title=a.py\n   x = 1"),
    ],
)
def test_markdown_keeps_every_character_of_the_text(markdown: str, seen: str) -> None:
    assert render_plain(agent_message(markdown)) == f"\nAgent\n  {seen}\n"


def test_a_table_keeps_every_word_of_its_cells() -> None:
    words = "a-command-with-a-name-longer-than-a-column"
    markdown = f"|name|what it does|\n|-|-|\n|`{words}`|it waits for the other side|\n"
    for width in (30, 40, 60):
        lines = render_plain(agent_message(markdown), width).splitlines()
        assert max(map(len, lines)) <= width
        assert words in "".join(re.split(" {2,}", line.strip())[0] for line in lines)


def test_a_table_with_too_many_columns_becomes_lines() -> None:
    rows = [[f"heading{number}" for number in range(9)], ["-"] * 9, [f"value{number}" for number in range(9)]]
    markdown = "".join(f"|{'|'.join(row)}|\n" for row in rows)
    assert "".join(f"  heading{number}: value{number}\n" for number in range(9)) in render_plain(
        agent_message(markdown), 60
    )
    assert " heading7  heading8" in render_plain(agent_message(markdown), 120)


def test_one_empty_line_is_around_code_and_tables() -> None:
    narrow = f"|{'wide|' * 9}\n|{'-|' * 9}\n|{'cell|' * 9}\n"
    blocks = ["Before.", "```sh\nls\n```", "|a|b|\n|-|-|\n|1|2|", "- one\n- two", "    indented", narrow, "After."]
    for width in (60, 120):
        assert "\n\n\n" not in render_plain(agent_message("\n\n".join(blocks)), width)


def test_a_prompt_keeps_its_lines() -> None:
    parts: list[Part] = [SpokenMessage("user", [{"type": "text", "text": "# a\n  b *c*\n[red]d"}])]
    assert render_plain(parts) == "\nUser\n  # a\n    b *c*\n  [red]d\n"


CONTROLS = [*map(chr, [*range(9), *range(11, 32), *range(127, 160)])]
CONTROLS += ["\u200b", "\u200e", "\u202a", "\u202e", "\u2066", "\u2069", "\u061c", "\u2028", "\ufeff", "\ud800"]
SPELLED = "".join(f"&#{ord(one)}; &#x{ord(one):x};" for one in CONTROLS) + "&ZeroWidthSpace;&rlm;&lrm;&shy;"
SEQUENCES = "\x1b[2J\x1b]0;title\x07\x1b]8;;https://evil\x1b\\link\x1b]8;;\x1b\\\x1bP1;1|x\x1b\\\x9b31m\x1b[6n\x1bc"


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("speaker", ["user", "agent", "thought"])
def test_control_sequences_are_removed_everywhere(speaker: str, width: int) -> None:
    bad = "".join(CONTROLS) + SEQUENCES + SPELLED
    forms = ("# {0}", "`{0}`", "```{0}\n{0}\n```", "[{0}](<{0}>)", "![{0}](x)", "| {0} |\n|--|\n| {0} |", "{0}")
    markdown = "\n\n".join(form.format(bad) for form in forms)
    diff = {"type": "diff", "path": bad, "oldText": bad, "newText": f"{bad}\nx"}
    parts: list[Part] = [
        SpokenMessage("user", [{"type": "text", "text": markdown}, {"type": bad, "name": bad, "uri": bad}]),
        SpokenMessage("agent", [{"type": "text", "text": markdown}]),
        SpokenMessage("thought", [{"type": "text", "text": markdown}]),
        ToolCall(bad, {"title": bad, "status": bad, "content": [diff], "rawInput": {bad: bad}, "rawOutput": bad}, True),
    ]
    text = render_plain(
        [part for part in parts if not isinstance(part, SpokenMessage) or part.speaker == speaker], width, full=True
    )
    assert not set(CONTROLS) & set(text)
    assert "\N{SOFT HYPHEN}" not in text
    assert "\N{REPLACEMENT CHARACTER}[2J" in text


def test_a_long_message_is_rendered_in_pieces_with_its_code_whole() -> None:
    code = "```python\n" + "x = 1\n\n" * 4000 + "```"
    text = "\n\n".join([*(f"Paragraph *{number}* " + "word " * 50 for number in range(200)), code, "The end."])
    [passage] = make_passages(agent_message(text))
    pieces = list(RichPrinter(80, has_colours=True).print(passage))
    assert len(pieces) > 5
    seen = STYLE.sub("", "".join(pieces))
    assert all(f"Paragraph {number} word" in seen for number in range(200))
    assert seen.count("   x = 1\n") == 4000
    assert "```" not in seen
    assert seen.endswith("The end.\n")


def test_text_that_is_not_prose_is_shown_unchanged() -> None:
    text = "[" * 100_000
    assert render_plain(agent_message(text)) == f"\nAgent\n  {text}\n"


SIGNS = ["#", ">", "-", "1.", "```", "~~~", "`", "*", "**", "_", "~~", "[", "](", ")", "![", "|", "---", "===", "\\"]
WORDS = [
    "a",
    "日本",
    "<b>",
    "</b>",
    "<!--",
    "-->",
    "&amp;",
    "&#27;",
    "http://a",
    "<http://a>",
    "[a]:",
    "[^1]",
    "999999999.",
]
SPACES = [" ", "    ", "\n", "\n\n", "\t", "\r\n", "\n|-|-|\n", "\x1b[31m", "\u202e"]
PIECES = [*SIGNS, *WORDS, *SPACES * 2]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES)).map("".join), st.sampled_from([1, 2, 7, 40]))
def test_any_markdown_can_be_shown_at_any_width(text: str, width: int) -> None:
    assert not set(CONTROLS) & set(render_plain(agent_message(text), width))
