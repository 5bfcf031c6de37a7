"""The list as a table of any width, and as lines for programs."""

import re
import unicodedata
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from acp_proxy.protocol import proxy_ids
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import file_name, match_agents
from acp_proxy.views import session_lines, session_table
from acp_proxy.views.session_table import ListLook

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ROW = ListedSession(
    agent_folder="claude-agent-acp-4f1c2a3b4c5d6e7f",
    name="x",
    session_id="0198c5de-1111-7000",
    cwd="/home/me/src/acp-proxy",
    title="Fix the login",
    updated="2026-11-20T10:00:00.000Z",
    prompt_count=12,
    reply_count=12,
    has_failed=False,
    is_running=False,
    directories=[],
    meta={},
    size=34_567,
    created="2026-11-19T10:00:00.000Z",
)
OTHER = replace(
    ROW,
    agent_folder="opencode-0123456789abcdef",
    session_id="ses_4f3a2b1c",
    cwd="/srv/a/very/long/way/down/to/the/project",
    title="Why does the index of the store forget what was deleted while another process had it open?",
    updated="2026-11-18T10:00:00.000Z",
    prompt_count=3,
    size=1_234_567,
)
WIDE = replace(
    ROW, session_id="漢字-1", title="日本語のタイトルは二倍の幅 👨‍👩‍👧 ❤️ 🇩🇪 👍🏽 e\u0301", cwd="/home/me/プロジェクト"
)
NO_TITLE = replace(ROW, session_id="abc", title=None, cwd=None, agent_folder="a-0123456789abcdef", updated="")
ROWS = [ROW, OTHER, WIDE, NO_TITLE]
IDS = {"0198c5de-1111-7000": "0198c5de", "ses_4f3a2b1c": "ses_4f3a2", "漢字-1": "漢字-1", "abc": "abc"}


def draw_table(width: int, *some: ListedSession, has_colours: bool = False) -> list[str]:
    look = ListLook(width, has_colours, NOW, "/home/me")
    table = session_table.make_table(some or ROWS, IDS, look)
    return [table.format_heading(), *table.format_rows(some or ROWS, IDS)]


def cells(text: str) -> int:
    """The text's width in terminal columns, by the Unicode tables."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def test_a_wide_terminal_gets_every_column() -> None:
    assert draw_table(100) == [
        "ID         TITLE                                       AGENT             DIRECTORY     WHEN    TURNS",
        "0198c5de   Fix the login                               claude-agent-acp  …/acp-proxy   2h         12",
        "ses_4f3a2  Why does the index of the store forget wh…  opencode          …/project     18 Nov      3",
        "漢字-1     日本語のタイトルは二倍の幅 👨👩👧 ❤ 🇩🇪 👍…  claude-agent-acp  …ロジェクト   2h         12",
        "abc        (no title)                                  a                                          12",
    ]


def test_a_list_with_what_sessions_used_has_the_same_columns_and_more() -> None:
    for width in (100, 140):
        table = session_table.make_table(ROWS, IDS, ListLook(width, False, NOW, "/home/me"), {})
        heading = ["ID", "TITLE", "AGENT", "DIRECTORY", "WHEN", "TURNS", "TOKENS", "COST", "SIZE"]
        assert table.format_heading().split() == heading
        assert all(cells(row) <= width for row in table.format_rows(ROWS, IDS, {}))


@pytest.mark.parametrize("width", [100, 120])
def test_the_columns_are_the_same_whatever_the_rows_have(width: int) -> None:
    long = [replace(OTHER, title="t" * 200, cwd="/" + "d" * 200, agent_folder=file_name("a" * 60))]
    assert draw_table(width, ROW)[0].split() == draw_table(width)[0].split() == draw_table(width, *long, ROW)[0].split()


def test_pinned_sessions_and_copies_are_marked() -> None:
    assert "  pinned · Fix the login  " in draw_table(100, replace(ROW, is_pinned=True))[1]
    assert (
        "  copy · Fix the login  "
        in draw_table(100, replace(ROW, session_id=proxy_ids.make_other_agents_id("other", "s1")))[1]
    )


def test_an_agent_is_shown_whole_before_other_columns_grow() -> None:
    row = replace(ROW, agent_folder=file_name("acp-proxy-demo-agent"), title="t" * 32, cwd="/tmp/" + "directory/" * 9)
    assert "  acp-proxy-demo-agent  " in draw_table(100, row)[1]


def test_an_unknown_use_is_a_dash() -> None:
    table = session_table.make_table([ROW], IDS, ListLook(140, False, NOW), {})
    assert next(table.format_rows([ROW], IDS, {})).split()[-4:] == ["-", "-", "34.6", "kB"]


@pytest.mark.parametrize(
    ("cwd", "cut"),
    [
        ("/srv/the-name-of-a-directory-that-is-long/zoo", "…/zoo"),
        ("/tmp/user-of-a-machine-corua3_1/src/shop", "…/src/shop"),
        ("/srv/a-name-that-alone-is-longer-than-its-column", "…is-longer-than-its-column"),
    ],
)
def test_a_directory_is_cut_only_where_there_is_no_room_and_before_a_whole_name(cwd: str, cut: str) -> None:
    row = replace(ROW, cwd=cwd)
    assert f"  {row.cwd}  " in draw_table(132, row)[1]
    assert f"  {cut} " in draw_table(82, row)[1]


def test_a_usual_terminal_gets_the_columns_that_fit() -> None:
    assert draw_table(80, ROW, replace(OTHER, agent_folder=ROW.agent_folder)) == [
        "ID         TITLE                                            DIRECTORY     WHEN",
        "0198c5de   Fix the login                                    …/acp-proxy   2h",
        "ses_4f3a2  Why does the index of the store forget what wa…  …/project     18 Nov",
    ]


def test_sessions_of_several_agents_show_the_agent_rather_than_the_directory() -> None:
    assert draw_table(80) == [
        "ID         TITLE                                        AGENT             WHEN",
        "0198c5de   Fix the login                                claude-agent-acp  2h",
        "ses_4f3a2  Why does the index of the store forget wha…  opencode          18 Nov",
        "漢字-1     日本語のタイトルは二倍の幅 👨👩👧 ❤ 🇩🇪 👍 é  claude-agent-acp  2h",
        "abc        (no title)                                   a",
    ]


def test_a_narrow_terminal_gets_the_most_important_columns() -> None:
    assert draw_table(40) == [
        "ID         TITLE                  WHEN",
        "0198c5de   Fix the login          2h",
        "ses_4f3a2  Why does the index o…  18 Nov",
        "漢字-1     日本語のタイトルは二…  2h",
        "abc        (no title)",
    ]


@pytest.mark.parametrize("width", [*range(1, 130), 200, 500])
def test_no_line_is_wider_than_the_terminal_and_columns_are_aligned(width: int) -> None:
    lines = draw_table(width)
    assert all(0 < cells(line) <= width for line in lines)
    for heading in ("TITLE", "AGENT", "DIRECTORY", "WHEN"):
        if f"  {heading}" in lines[0]:
            at = lines[0].index(heading)
            assert {before(line, at) for line in lines if cells(line) > at} == {" "}


def before(text: str, at: int) -> str:
    """The character in front of a column; a wide one takes two."""
    return "".join(one * max(cells(one), 1) for one in text if cells(one))[at - 1]


def test_wide_characters_are_measured_as_terminals_do() -> None:
    [_, one] = draw_table(200, WIDE)
    assert "日本語のタイトルは二倍の幅 👨👩👧 ❤ 🇩🇪 👍 e\u0301" in one


def test_a_running_session_is_marked_where_its_time_would_be() -> None:
    running = replace(ROW, is_running=True)
    assert "…/acp-proxy   running  " in draw_table(105, running, OTHER)[1]
    assert draw_table(40, running)[1].endswith("  running")
    assert session_lines.format_tab_separated(running).split("\t")[-1] == "running"
    assert session_lines.format_short_lines([running], IDS)[0].endswith("Fix the login (running)")


def test_longer_ids_in_later_rows_are_not_cut() -> None:
    look = ListLook(60, False, NOW)
    table = session_table.make_table([ROW], {ROW.session_id: "0198c5de"}, look)
    [later] = table.format_rows([OTHER], {OTHER.session_id: "ses_4f3a2b1c"})
    assert later.startswith("ses_4f3a2b1c  Why")
    assert cells(later) <= 60


def test_colours_do_not_change_the_text() -> None:
    plain, coloured = draw_table(80), draw_table(80, has_colours=True)
    assert plain != coloured
    assert [re.sub(r"\x1b\[[0-9]*m", "", one).rstrip() for one in coloured] == plain


def test_lines_for_programs_are_not_cut() -> None:
    assert session_lines.format_tab_separated(OTHER) == "\t".join(
        (OTHER.session_id, OTHER.title or "", OTHER.agent_folder, OTHER.cwd or "", OTHER.updated, "3", "1234567", "")
    )
    assert session_lines.format_tab_separated(NO_TITLE) == "abc\t\ta-0123456789abcdef\t\t\t12\t34567\t"
    assert session_lines.format_tab_separated(replace(ROW, title="a\tb\nc\x1b", cwd="/x\ty")).split("\t")[1::2] == [
        "a       b c\N{REPLACEMENT CHARACTER}",
        "/x      y",
        "12",
        "",
    ]


HOSTILE = "".join(map(chr, [*range(32), *range(127, 160)])) + "\u202e\u2066\u200b\u2028\u061c\ud800\U000e0041\ufeff\xad"


@pytest.mark.parametrize("width", [20, 80, 400])
def test_hostile_text_cannot_control_the_terminal(width: int) -> None:
    text = f"a{HOSTILE}b"
    row = replace(ROW, session_id=text, title=text, cwd=f"/{text}", agent_folder=f"{text}-x")
    look = ListLook(width, False, NOW)
    table = session_table.make_table([row], {text: text}, look)
    printed = [
        table.format_heading(),
        *table.format_rows([row], {text: text}),
        session_lines.format_tab_separated(row),
        *session_lines.format_short_lines([row], {text: text}),
    ]
    assert not set(HOSTILE) - set(" \t") & set("".join(printed))
    assert all(cells(one) <= width for one in printed[:2])


def test_agents_with_one_name_are_shown_by_more_of_it() -> None:
    folders = [file_name(name) for name in ("@github/copilot", "@other/copilot", "codex")]
    assert session_lines.make_distinct_names(folders) == dict(
        zip(folders, ("github-copilot", "other-copilot", "codex"), strict=True)
    )
    one, two = file_name("a b"), file_name("a-b")
    names = {one: f"a-b-{one[4:8]}", two: f"a-b-{two[4:8]}"}
    assert session_lines.make_distinct_names([one, two]) == names
    assert all(match_agents([one, two], name) == [folder] for folder, name in names.items())
    assert session_lines.make_distinct_names([one, f"{one[:-1]}x"]) == {one: "a-b", f"{one[:-1]}x": f"{one[:-1]}x"}
    look = ListLook(100, False, NOW, agents={ROW.agent_folder: "github-claude"})
    assert "github-claude" in next(session_table.make_table([ROW], IDS, look).format_rows([ROW], IDS))
    look = ListLook(80, False, NOW, agents={ROW.agent_folder: "a-very-long-name-80f0"})
    assert "  a-very-long-na…-80f0  " in next(session_table.make_table([ROW], IDS, look).format_rows([ROW], IDS))


def test_an_id_that_begins_with_another_makes_room_only_in_its_own_row() -> None:
    long = replace(ROW, session_id="0198c5de-1111-7000-and-much-more-of-it")
    ids = {**IDS, long.session_id: long.session_id}
    table = session_table.make_table([ROW, long], ids, ListLook(160, False, NOW, "/home/me"))
    first, second = table.format_rows([ROW, long], ids)
    assert first.index("Fix the login") < 20
    assert second.startswith(f"{long.session_id}  Fix ")
    assert "claude" in first
    assert "claude" in second


@pytest.mark.parametrize(("width", "others"), [(100, ROWS), (80, [OTHER]), (80, ROWS)])
def test_no_column_goes_because_a_copy_has_a_long_id(width: int, others: list[ListedSession]) -> None:
    copy = replace(ROW, session_id="copy-504e9903", agent_folder=others[0].agent_folder, title="t" * 80)
    ids = {**IDS, copy.session_id: copy.session_id}
    look = ListLook(width, False, NOW, "/home/me")
    table = session_table.make_table([*others, copy], ids, look)
    assert table.format_heading().split() == draw_table(width, *others)[0].split()
    *_, last = table.format_rows([*others, copy], ids)
    assert last.startswith("copy-504e9903  ttt")
    assert cells(last) <= width


def test_titles_are_shown_without_marks_of_markdown() -> None:
    marked = replace(ROW, title="## Fix **the** `login`")
    assert "  Fix the login  " in draw_table(120, marked)[1]
