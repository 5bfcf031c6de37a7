"""A conversation as a Markdown document, whose structure no recorded text breaks."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from acp_proxy.tools.export import markdown
from acp_proxy.transcript.file_names import file_name
from acp_proxy.views import document
from acp_proxy.views.conversation import Item, Note, OtherUpdate, Plan, Speaker
from acp_proxy.views.document import Choices, Head, Tools
from tests.views.turns import HEAD, call, diff, message, put_everywhere, text, turn

OURS = frozenset({"<details>", "<summary>", "</summary>", "<code>", "</code>", "</details>"})


def write_markdown(*items: Item, tools: Tools = "summary", thoughts: bool = False) -> str:
    choices = Choices(tools, thoughts)
    text = "".join(markdown.write_document(HEAD, document.select_turns([turn(*items)], choices), choices))
    return text.partition("\n## ")[2].partition("\n")[2].strip("\n")


def tokens(text: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark", {"html": True, "maxNesting": 100}).enable("table").parse(text):
        yield token
        yield from token.children or ()


def check(text: str) -> None:
    """Check that a parser finds only our headings and balanced tags in the text."""
    tags: list[str] = []
    headings = []
    for token in tokens(text):
        if token.type == "html_inline":
            tags.append(token.content)
        elif token.type == "html_block":
            line = token.content.strip()
            tags += ["</details>"] if line == "</details>" else ["<details>", "<summary>", "</summary>"]
            assert line == "</details>" or (line.startswith("<details><summary>") and line.endswith("</summary>"))
            inside = line.removeprefix("<details><summary>").removesuffix("</summary>")
            assert line == "</details>" or "<" not in inside.replace("<code>", "").replace("</code>", "")
        elif token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2"):
            headings.append(token.tag)
    assert set(tags) <= OURS
    assert tags.count("<details>") == tags.count("</details>")
    assert headings == ["h1", *["h2"] * (len(headings) - 1)]


def test_a_copy_names_the_agent_that_it_was_copied_from() -> None:
    head = replace(HEAD, agent={"id": file_name("other agent"), "name": None}, copied_from="my-agent")
    about = "".join(markdown.write_document(head, [], Choices())).split("\n")[2]
    assert about.startswith("other-agent · copy from my-agent · 2026-11-20 ")


def test_a_conversation_is_written_as_a_document() -> None:
    first = turn(
        message("user", "Fix it\n\nplease"),
        message("thought", "hm"),
        message("agent", "# Done\n\nSee `a.py`."),
        call("Edit /home/me/project/a.py", diff("/home/me/project/a.py", "x\n", "y\n"), kind="edit"),
        call("pytest", text("1 passed"), kind="execute", status="failed"),
        Plan([{"content": "look", "status": "completed"}, {"content": "mend", "status": "pending"}]),
    )
    second = turn(message("user", "Thanks"), message("agent", "Bye."), number=2, stop="cancelled")
    choices = Choices("summary", thoughts=False)
    turns = document.select_turns([first, second], choices)
    assert "".join(markdown.write_document(HEAD, turns, choices)) == (
        "# Fix the login\n\nmy-agent 1.2.0 · 2026-11-20 09:15 UTC · `/home/me/project`\n"
        "\n## 1. Fix it\n\n> Fix it\n>\n> please\n"
        "\n### Done\n\nSee `a.py`.\n"
        "\n* ✓ `Edit a.py` +1 -1\n* ✗ execute `pytest`\n"
        "\n- [x] look\n- [ ] mend\n"
        "\n## 2. Thanks\n\nBye.\n\n> **The turn was cancelled.**\n"
    )


def test_unknown_facts_of_a_session_are_left_out() -> None:
    nothing = Head("s", {}, None, None, "", "", "partial")
    assert "".join(markdown.write_document(nothing, [], Choices())) == "# (no title)\n\nagent\n"


def test_a_full_tool_call_is_folded() -> None:
    told = write_markdown(call("Edit a", diff("/home/me/project/a", "x\n```\n", "y\n```\n"), text("ok")), tools="full")
    assert told == (
        "<details><summary>✓ <code>Edit a</code> +1 -1</summary>\n\n"
        "`a`\n\n````diff\n@@ -1,2 +1,2 @@\n-x\n+y\n ```\n````\n\n```\nok\n```\n\n</details>"
    )


def test_tools_and_thoughts_may_be_left_out() -> None:
    items = (message("agent", "one"), call("Edit a"), message("thought", "hm"), message("agent", "two"))
    assert write_markdown(*items, tools="none") == "one\n\ntwo"
    assert write_markdown(*items, tools="none", thoughts=True) == "one\n\n> *Thought:*\n>\n> hm\n\ntwo"


def test_images_and_resources_are_named() -> None:
    png = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
    link = {"type": "resource_link", "name": "a`.py", "uri": "file:///a.py"}
    inside = {"type": "resource", "resource": {"uri": "file:///b.py", "text": "x = 1"}}
    told = write_markdown(message("agent", "see", png, link, inside))
    assert told == (
        "see\n\n*[image: image/png, 8 B]*\n\n``a`.py``\n\n"
        "<details><summary><code>file:///b.py</code></summary>\n\n```\nx = 1\n```\n\n</details>"
    )


def test_gaps_are_reported_and_unknown_updates_left_out() -> None:
    told = write_markdown(message("agent", "x"), Note("gap", "ENOSPC"), OtherUpdate({"sessionUpdate": "new"}))
    assert told == "x\n\n> **Something is missing here: the recording was interrupted (ENOSPC).**"


@pytest.mark.parametrize(
    ("words", "contained"),
    [
        ("```py\nopen", "```py\nopen\n```"),
        ("```\nopen\n    ```", "```\nopen\n    ```\n```"),
        ("~~~~\nopen\n~~~", "~~~~\nopen\n~~~\n~~~~"),
        ("# a\n\nb\n=\n\n##### c", "### a\n\n### b\n\n\n###### c"),
        ("a <b> and `<b>` and <https://x>", "a &lt;b> and `<b>` and <https://x>"),
        ("\t<details>", "    <details>"),
        ("<details>\nx", "&lt;details>\nx"),
        ("(~/a) (~/b) `~/c` https://x/~/y ~~d~~", "(\\~/a) (\\~/b) `~/c` https://x/~/y ~~d~~"),
        ("|`a<b>`|\n|-|\n|`x | <i>`|", "|`a<b>`|\n|-|\n|`x | &lt;i>`|"),
        ("\\<b> \\`<b>\\`", "\\<b> \\`&lt;b>\\`"),
        ("    <b>\n\n```\n<b> # x\n```", "    <b>\n\n```\n<b> # x\n```"),
    ],
)
def test_markdown_of_a_message_is_closed_at_its_end(words: str, contained: str) -> None:
    assert write_markdown(message("agent", words)) == contained
    check("".join(markdown.write_document(HEAD, [turn(message("agent", words))], Choices())))


PIECES = ["<details>", "</details>", "<!--", "-->", "<b", ">", "`", "```", "~~~", "\n", "\n\n", "|", "|-|", "# ", "> "]
PIECES += [
    "- ",
    "1. ",
    "    ",
    "\t",
    "\\",
    "<https://x",
    "a",
    " ",
    "=\n",
    "---",
    "&lt;",
    "[a]",
    "(b)",
    "<?",
    "<![CDATA[",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_no_text_breaks_the_structure_of_the_document(words: str) -> None:
    item = call(words, text(words), diff(words, words, f"{words}x"))
    for items in ([message("agent", words), call("x")], [message("user", words)], [message("thought", words), item]):
        check("".join(markdown.write_document(HEAD, [turn(*items), turn(number=2)], Choices())))
    head, turns = put_everywhere(words)
    check("".join(markdown.write_document(head, turns, Choices())))


@pytest.mark.parametrize("speaker", ["agent", "thought"])
def test_an_answer_with_the_words_of_the_prompt_is_written(speaker: Speaker) -> None:
    assert "ping" in write_markdown(message("user", "ping"), message(speaker, "ping"), thoughts=True)


def test_a_prompt_that_is_its_heading_is_not_repeated() -> None:
    written = "".join(markdown.write_document(HEAD, [turn(message("user", "Fix the login"))], Choices("summary")))
    assert written.count("login") == 2  # the title, and the turn's heading
    written = "".join(markdown.write_document(HEAD, [turn(message("user", "Match a **b** c"))], Choices("summary")))
    assert "> Match a **b** c" in written  # the heading has no marks
    written = "".join(markdown.write_document(HEAD, [turn(message("user", "Fix `it`\n\nnow"))], Choices("summary")))
    assert "> Fix `it`" in written
