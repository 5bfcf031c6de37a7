"""The screen of browse has exactly the terminal's lines and columns, and shows other people's text harmlessly."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs
from rich.cells import cell_len

from acp_proxy import shell_quote
from acp_proxy.cli.stdio import find_ascii_forms
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.browse.frame import FrameLook, draw_frame
from acp_proxy.tools.browse.state import BrowseState, TextHit

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ROW = ListedSession(
    "claude-4f1c2a3b4c5d6e7f", "x", "s1", "/home/me/src/proxy", "Fix the login", "2026-11-20T10:00:00.000Z", 2, 2,
    False, False, [], {}, 10, "2026-11-19T10:00:00.000Z",
)  # fmt: skip
LOOK = FrameLook(80, 24, NOW, "/home/me")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def draw_lines(state: BrowseState, look: FrameLook = LOOK, preview: tuple[str, ...] = ()) -> list[str]:
    lines = [STYLE.sub("", text) for text in draw_frame(state, preview, look)]
    assert len(lines) == look.height
    assert all(cell_len(text) <= look.width for text in lines)
    return lines


def test_the_selected_session_is_marked_and_described() -> None:
    lines = draw_lines(
        BrowseState((ROW, structs.replace(ROW, name="y")), is_complete=True), preview=("User", "  hello")
    )
    assert lines[0].startswith("Filter: ")
    assert lines[0].endswith("2 of 2")
    assert lines[1].split() == ["TITLE", "AGENT", "DIRECTORY", "WHEN"]
    assert lines[2].startswith("> Fix the login ")
    assert "  claude  ~/src" in lines[2]
    assert lines[2].endswith("~/src/proxy    2h")
    assert lines[1].index("DIRECTORY") == lines[2].index("~/src")
    assert lines[3].startswith("  Fix the login ")
    assert lines[12].startswith("─── claude · s1 · 2 turns ──")
    assert lines[13:15] == ["User", "  hello"]
    assert lines[-1].startswith("Enter read  ^R rename")


def test_agents_with_one_name_are_told_apart() -> None:
    lines = draw_lines(BrowseState((ROW,), is_complete=True), replace(LOOK, agents={ROW.agent_folder: "claude-4f1c"}))
    assert "  claude-4f1c  ~/src" in lines[2]
    assert lines[12].startswith("─── claude-4f1c · s1 ")


@pytest.mark.parametrize(("width", "height"), [(200, 50), (80, 24), (40, 10), (20, 5)])
@pytest.mark.parametrize("asked", [None, "rename", "delete", "export"])
def test_it_fits_the_terminal(width: int, height: int, asked: str | None) -> None:
    odd = structs.replace(ROW, title="標題" * 60 + "\x1b[2J\n", cwd="/a/" + "long/" * 50)
    state = BrowseState((odd,) * 40, typed="標" * 90, answer="a" * 300, question=asked, message="m" * 300)  # type: ignore[arg-type]
    draw_lines(replace(state, typed=""), FrameLook(width, height, NOW))
    draw_lines(state, FrameLook(width, height, NOW))


def test_a_tiny_terminal_has_no_lines_too_many() -> None:
    for width, height in ((20, 5), (1, 1), (0, 0)):
        assert len(draw_frame(BrowseState((ROW,) * 40, typed="a"), ["x"] * 9, FrameLook(width, height, NOW))) == max(
            height, 1
        )


def test_no_text_of_a_session_controls_the_terminal() -> None:
    bad = "\x1b[2J\x07\r\u202e"
    state = BrowseState(
        (structs.replace(ROW, title=bad, cwd=bad, session_id=bad, agent_folder=bad),), answer=bad, message=bad
    )
    for each in (state, replace(state, question="rename"), replace(state, question="delete")):
        assert not re.search("[\x00-\x1f\u202e]", "".join(draw_lines(each)))


@pytest.mark.parametrize(
    ("state", "hits"),
    [
        (BrowseState(is_complete=True, archived=True), "No session is archived"),
        (BrowseState(is_complete=True), "No sessions"),
        (BrowseState(is_complete=True, typed="x", searched="x"), "Nothing matches"),
        (BrowseState(is_complete=True, typed="x"), ", searching"),
        (BrowseState(is_complete=True, typed="x"), "No title, directory or agent matches. Searching the words said."),
        (BrowseState(typed="x"), "Reading the sessions."),
        (BrowseState((ROW,), typed="zz"), "0 of 1, reading…, searching"),
        (BrowseState((ROW,)), "  1, reading…"),
        (BrowseState((ROW,), archived=True), "^A unarchive"),
        (BrowseState((ROW,), message="Renamed."), "Renamed."),
        (BrowseState((structs.replace(ROW, is_running=True),)), "running"),
        (BrowseState((ROW,), question="delete"), 'Delete "Fix the login" permanently? [y/n]'),
        (
            BrowseState((ROW,), question="delete", bin_days=30),
            'Delete "Fix the login"? [y: 30 days to restore it; p: permanently; n: no]',
        ),
        (BrowseState((ROW,), question="permanent delete", bin_days=30), 'Delete "Fix the login" permanently? [y/n]'),
        (BrowseState((ROW,), question="export", answer="x.md", message="It exists."), "It exists.\nExport to: x.md"),
        (BrowseState((ROW,), typed="said", searched="said", hits=(TextHit(ROW, "turn 2: said"),)), "turn 2: said"),
    ],
)
def test_it_says_what_is_going_on(state: BrowseState, hits: str) -> None:
    assert hits in "\n".join(draw_lines(state))


@pytest.mark.parametrize("width", [80, 60, 40])
def test_the_advice_after_a_filter_without_matches_is_never_cut(width: int) -> None:
    typed = "x y&z"
    lines = draw_lines(BrowseState(is_complete=True, typed=typed, searched=typed), replace(LOOK, width=width))
    command = f"acp-proxy search x {shell_quote.quote('y&z')} --in output"
    assert f"In what tools printed: {command}" in " ".join(map(str.strip, lines[1:5]))


def test_marks_have_ascii_forms() -> None:
    class Ascii:
        encoding = "ascii"

    look = replace(LOOK, forms=find_ascii_forms(Ascii()))  # type: ignore[arg-type]
    assert "".join(draw_lines(BrowseState((ROW, structs.replace(ROW, title="x" * 200))), look, ("─ …",))).isascii()


@pytest.mark.parametrize("archived", [False, True])
def test_80_columns_show_the_most_important_keys(archived: bool) -> None:
    keys = draw_lines(BrowseState((ROW,), archived=archived))[-1]
    tidy = "^A unarchive  ^D delete  ^T others" if archived else "^A archive  ^D delete  ^T archived"
    assert keys == f"Enter read  ^R rename  {tidy}  ? keys  Esc quit"
    typed = draw_lines(BrowseState((ROW,), archived=archived, typed="fix"))[-1]
    assert typed.endswith("F1 keys  Esc clear")


def test_a_narrow_terminal_has_room_for_the_title_before_the_agent() -> None:
    row = structs.replace(ROW, title="Fix the login of the site again")
    assert "claude" not in draw_lines(BrowseState((row,)), replace(LOOK, width=41))[2]
    long = structs.replace(ROW, agent_folder="an-agent-with-a-long-name-4f1c2a3b4c5d6e7f")
    assert "  an-agent-wi…  ~" in draw_lines(BrowseState((long,)))[2]
    assert "  an-agent-with-a-lon…  ~" in draw_lines(BrowseState((long,)), replace(LOOK, width=100))[2]


@pytest.mark.parametrize(("width", "keys"), [(40, "Enter read  ^R rename  ? keys  Esc quit"), (20, "? keys  Esc quit")])
def test_a_narrow_terminal_shows_how_to_see_all_keys(width: int, keys: str) -> None:
    assert draw_lines(BrowseState((ROW,)), replace(LOOK, width=width))[-1] == keys


def test_the_preview_marks_the_words_of_the_filter() -> None:
    state = BrowseState((ROW,), is_complete=True, typed="login m*")
    shown = draw_frame(state, ["\x1b[1mLogin\x1b[0m: mend the relogin, (more)"], LOOK)
    assert "\x1b[1m\x1b[7mLogin\x1b[27m\x1b[0m: \x1b[7mm\x1b[27mend the relogin, (\x1b[7mm\x1b[27more)" in shown


def test_every_key_is_explained() -> None:
    text = "\n".join(draw_lines(BrowseState((ROW,), has_help=True)))
    for key in ("Enter ", "Esc ", *(f"Ctrl-{letter} " for letter in "RABDXEFKOYTUZC")):
        assert f"\n{key}" in text
    draw_lines(BrowseState((ROW,), has_help=True), FrameLook(20, 5, NOW))


def test_a_window_with_few_lines_explains_every_key_too() -> None:
    text = "\n".join(draw_lines(BrowseState((ROW,), has_help=True), replace(LOOK, height=16)))
    for key in ("Enter:", "Esc:", "?:", *(f"Ctrl-{letter}:" for letter in "RABDXEFKOYTUZC")):
        assert key in text


def test_a_small_window_has_no_headings() -> None:
    assert draw_lines(BrowseState((ROW,)), replace(LOOK, height=11))[1].startswith("> Fix the login ")
    assert "TITLE" not in "".join(draw_lines(BrowseState((), is_complete=True)))


def test_a_long_message_is_wrapped_and_ends_with_what_to_do() -> None:
    lines = draw_lines(BrowseState((ROW,), message=f"The file {'a/' * 60} exists. Give another name."))
    assert lines[-1].endswith("Give another name.")
    assert "The file a/" in " ".join(lines[-4:])


def test_the_answer_to_a_question_is_shown() -> None:
    asked = BrowseState((ROW,), question="rename", answer="Mine")
    assert draw_lines(asked)[-1] == "New title (empty: the agent's): Mine "
    asked = BrowseState((ROW,), question="delete", bin_days=30)
    question = 'Delete "Fix the login"? [y: yes, can be restored for 30 days; p: permanently; n: no]'
    assert draw_lines(asked, replace(LOOK, width=100))[-1].rstrip() == question
    assert draw_lines(asked, replace(LOOK, width=50))[-1] == 'Delete "Fix the login"? [y/n; p: permanently]  '


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (BrowseState((ROW,), question="rename", answer="Mine"), ["New title: Mine"]),
        (BrowseState((ROW,), question="rename", answer="Fix the login"), ["Title: ix the login"]),
        (BrowseState((ROW,), question="export", answer="long-name.md"), ["To: long-name.md"]),
        (
            BrowseState((ROW,), question="delete", bin_days=30),
            ['Delete "Fix the', 'login"? [y/n; p:', "permanently]"],
        ),
        (BrowseState((ROW,), question="delete"), ['Delete "Fix the', 'login" permanently?', "[y/n]"]),
    ],
)
def test_a_narrow_window_shows_what_is_typed_or_deleted_and_how(state: BrowseState, expected: list[str]) -> None:
    lines = draw_lines(state, replace(LOOK, width=20, height=5))
    assert [line.rstrip() for line in lines[-len(expected) :]] == expected


def test_a_question_shortens_its_own_words_before_the_title() -> None:
    row = structs.replace(ROW, title="Why are users signed out after a few hours?")
    asked = BrowseState((row,), question="delete", bin_days=30)
    whole = 'Delete "Why are users signed out after a few hours?"? [y: 30 days to restore it; p: permanently; n: no]'
    assert draw_lines(asked, replace(LOOK, width=110))[-1].rstrip() == whole
    assert draw_lines(asked, replace(LOOK, width=50))[-1].rstrip().startswith('Delete "Why are users s…"? [y/n')
