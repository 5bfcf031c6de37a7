"""Each key of browse: the next state, and what is to be done."""

from dataclasses import replace

import pytest
from msgspec import structs

from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.browse import state as browse_state
from acp_proxy.tools.browse.state import Action, BrowseState, TextHit


def row(name: str, title: str | None = None, cwd: str = "/project", running: bool = False) -> ListedSession:
    return ListedSession("agent", name, name, cwd, title or name, "", 1, 1, False, running, [], {}, 0, "")


LOGIN, INDEX, DEPLOY = row("1", "Mend the login"), row("2", "Rebuild the index"), row("3", "Deploy", "/srv/login")
STATE = BrowseState((LOGIN, INDEX, DEPLOY), is_complete=True, bin_days=30)
MANY = BrowseState(tuple(row(str(number)) for number in range(30)), is_complete=True)


def pressed(state: BrowseState, *keys: str) -> tuple[BrowseState, Action | None]:
    action = None
    for key in keys:
        state, action = browse_state.handle_key(state, key, 10, lambda row: f"{row.name}.md")
    return state, action


def after(state: BrowseState, *keys: str) -> BrowseState:
    return pressed(state, *keys)[0]


@pytest.mark.parametrize(
    ("keys", "at", "top"),
    [
        (("down",), 1, 0),
        (("c-n", "c-n", "c-p"), 1, 0),
        (("up",), 0, 0),
        (("pagedown",), 10, 1),
        (("pagedown", "pagedown", "pagedown", "pagedown"), 29, 20),
        (("end",), 29, 20),
        (("end", "pageup"), 19, 19),
        (("end", "up"), 28, 20),
        (("end", "home"), 0, 0),
    ],
)
def test_keys_move_the_selection_and_the_view_follows(keys: tuple[str, ...], at: int, top: int) -> None:
    state = after(MANY, *keys)
    assert (state.selected, state.top) == (at, top)


@pytest.mark.parametrize(
    ("keys", "typed"),
    [
        (("l", "o", "g"), "log"),
        (("log in",), "log in"),
        (("two\nlines\t",), "two lines "),
        (("log", "backspace"), "lo"),
        (("backspace",), ""),
        (("mend the", "c-w"), "mend"),
        (("mend", "c-u"), ""),
        (("mend", "escape"), ""),
        (("mend", "down", "up"), "mend"),
    ],
)
def test_typing_edits_the_filter(keys: tuple[str, ...], typed: str) -> None:
    state, action = pressed(STATE, *keys)
    assert (state.typed, action) == (typed, None)


def test_the_filter_finds_words_of_titles_directories_and_agents_in_any_case_and_order() -> None:
    assert after(STATE, "LOGIN").matching_rows == (LOGIN, DEPLOY)
    assert after(STATE, "login mend").matching_rows == (LOGIN,)
    assert after(STATE, "login mend AGENT").matching_rows == (LOGIN,)
    assert after(STATE, " ").matching_rows == STATE.rows
    assert after(STATE, "nobody").matching_rows == ()
    assert after(STATE, "end", "login").selected == 0


def test_the_filter_finds_the_marks_of_a_row() -> None:
    state = BrowseState((LOGIN, structs.replace(INDEX, is_pinned=True), row("4", running=True)))
    assert [row.name for row in after(state, "pinned").matching_rows] == ["2"]
    assert [row.name for row in after(state, "running").matching_rows] == ["4"]


def test_sessions_in_which_the_words_were_said_follow_with_their_place() -> None:
    state = after(STATE, "login")
    assert state.is_searching
    found = browse_state.replace_hits(
        state, "login", [TextHit(LOGIN, "turn 1: login"), TextHit(INDEX, "turn 2: the login")]
    )
    assert not found.is_searching
    assert found.matching_rows == (LOGIN, DEPLOY, INDEX)
    assert found.excerpt == ""
    assert after(found, "end").excerpt == "turn 2: the login"
    assert after(found, "x").matching_rows == (LOGIN, INDEX)  # until the longer filter is searched
    assert after(found, "backspace").matching_rows == (LOGIN, DEPLOY)


def test_enter_reads_from_the_turn_that_was_found() -> None:
    found = browse_state.replace_hits(after(STATE, "lantern"), "lantern", [TextHit(INDEX, "turn 2: A lantern.", 2)])
    assert pressed(found, "enter")[1] == Action("read", INDEX, turn=2)


def test_a_search_that_began_before_a_delete_does_not_bring_the_session_back() -> None:
    hits = [TextHit(INDEX, "turn 1: a lantern"), TextHit(DEPLOY, "turn 1: a lantern")]
    found = browse_state.replace_hits(after(STATE, "lantern"), "lantern", hits)
    late = browse_state.replace_hits(browse_state.remove_row(found, INDEX), "lantern", hits)
    assert late.matching_rows == (DEPLOY,)
    begun = browse_state.replace_hits(after(BrowseState((LOGIN,)), "lantern"), "lantern", hits)
    assert begun.matching_rows == (INDEX, DEPLOY)  # the list is not read yet


def test_the_first_results_are_shown_while_more_are_searched() -> None:
    some = browse_state.replace_hits(after(STATE, "login"), "login", [], is_all=False)
    assert some.is_searching
    more = browse_state.replace_hits(some, "login", [TextHit(INDEX, "turn 1: login")], is_all=False)
    assert (more.is_searching, INDEX in more.matching_rows) == (True, True)
    assert not browse_state.replace_hits(more, "login", more.hits).is_searching


def test_a_late_result_of_an_earlier_filter_is_dropped() -> None:
    state = after(STATE, "login", "s")
    assert browse_state.replace_hits(state, "login", [TextHit(INDEX, "")]) is state


@pytest.mark.parametrize(
    ("keys", "action"),
    [
        (("down", "enter"), Action("read", INDEX)),
        (("c-a",), Action("archive", LOGIN)),
        (("c-y",), Action("copy", LOGIN)),
        (("c-k",), Action("copy code", LOGIN)),
        (("c-o",), Action("continue", LOGIN)),
        (("c-b",), Action("pin", LOGIN)),
        (("c-f",), Action("files", LOGIN)),
        (("c-t",), Action("switch")),
        (("c-z",), Action("suspend")),
        (("c-c",), Action("quit")),
        (("escape",), Action("quit")),
        (("x", "escape", "escape"), Action("quit")),
        (("c-r", "c-u", "Mine", "enter"), Action("rename", LOGIN, "Mine")),
        (("c-r", "c-u", "enter"), Action("rename", LOGIN, "")),
        (("c-r", "backspace", "escape"), None),
        (("c-e", "enter"), Action("export", LOGIN, "1.md")),
        (("c-e", "c-u", "enter"), None),
        (("c-d",), None),
        (("c-d", "y"), Action("delete", LOGIN, is_soft=True)),
        (("c-d", "Y"), Action("delete", LOGIN, is_soft=True)),
        (("c-d", "p"), None),
        (("c-d", "p", "y"), Action("delete", LOGIN)),
        (("c-d", "p", "p"), None),
        (("c-d", "p", "n"), None),
        (("c-d", "p", "enter"), None),
        (("c-d", "p", "escape"), None),
        (("c-d", "n"), None),
        (("c-d", "enter"), None),
        (("c-d", "yes, please"), None),
        (("c-d", "backspace"), None),
        (("c-d", "escape"), None),
    ],
)
def test_keys_on_a_session(keys: tuple[str, ...], action: Action | None) -> None:
    assert pressed(STATE, *keys)[1] == action


@pytest.mark.parametrize("key", ["enter", "c-r", "c-d", "c-e", "c-a", "c-y", "c-f"])
def test_without_a_session_these_keys_do_nothing(key: str) -> None:
    assert pressed(BrowseState(), key) == (BrowseState(), None)


def test_a_running_session_is_not_deleted() -> None:
    state, action = pressed(BrowseState((row("1", running=True),)), "c-d", "y")
    assert (state.question, action) == (None, None)
    assert after(BrowseState((row("1", running=True),)), "c-d").message == browse_state.TURN_IS_RUNNING


def test_with_bin_days_0_a_delete_is_permanent() -> None:
    state = replace(STATE, bin_days=0)
    assert pressed(state, "c-d", "y")[1] == Action("delete", LOGIN)
    assert pressed(state, "c-d", "p")[1] is None


def test_a_delete_or_an_export_that_is_not_done_says_why() -> None:
    assert after(STATE, "c-d", "maybe").message == browse_state.NOT_DELETED
    assert after(STATE, "c-d", "n") == after(STATE, "c-d", "enter") == STATE
    asked = after(STATE, "c-e", "c-u", " ", "enter")
    assert (asked.question, asked.message) == ("export", browse_state.NO_NAME)
    assert pressed(asked, "x.md", "enter")[1] == Action("export", LOGIN, "x.md")


def test_an_export_that_failed_is_asked_about_again() -> None:
    state, action = pressed(STATE, "c-e", "enter")
    assert action is not None
    again = browse_state.ask_again(replace(state, message="It exists."), action)
    assert (again.question, again.answer, again.message) == ("export", "1.md", "It exists.")
    assert browse_state.ask_again(after(state, "down"), action).question is None
    assert browse_state.ask_again(after(state, "c-d"), action).question == "delete"


def test_f1_explains_the_keys_until_any_key() -> None:
    told = replace(STATE, message="Exported.")
    assert after(STATE, "f1").has_help
    for key in ("f1", "enter", "escape", "c-c", "x"):
        assert pressed(STATE, "f1", key) == (STATE, None)
        assert pressed(replace(told, has_help=True), key) == (told, None)


def test_a_question_mark_explains_the_keys_unless_it_belongs_to_a_filter() -> None:
    assert after(STATE, "?").has_help
    assert after(STATE, "w", "?") == after(STATE, "w?")


def test_a_message_stays_until_the_next_key() -> None:
    assert after(replace(STATE, message="Renamed."), "down").message == ""


def test_the_same_session_stays_selected_when_the_rows_are_read_again() -> None:
    state = after(STATE, "down")
    newer = browse_state.replace_rows(state, [row("4"), structs.replace(LOGIN, title="other"), INDEX, DEPLOY])
    assert newer.chosen == INDEX
    remove_row = browse_state.remove_row(state, INDEX)
    assert (remove_row.rows, remove_row.chosen) == ((LOGIN, DEPLOY), DEPLOY)
    assert browse_state.remove_row(after(STATE, "end"), DEPLOY).chosen == INDEX
    assert browse_state.remove_row(BrowseState((LOGIN,)), LOGIN).chosen is None


def test_a_session_that_comes_back_is_selected_where_the_list_has_it_until_the_next_key() -> None:
    coming = replace(after(STATE, "end"), awaited=browse_state.make_key(INDEX))
    some = browse_state.replace_rows(coming, [LOGIN, DEPLOY])
    assert some.chosen == DEPLOY
    back = browse_state.replace_rows(some, STATE.rows)
    assert (back.chosen, back.awaited) == (INDEX, None)
    assert browse_state.replace_rows(after(some, "up"), STATE.rows).chosen == LOGIN
    asked = replace(some, question="delete")
    assert browse_state.replace_rows(asked, STATE.rows).chosen == DEPLOY


def test_a_question_about_a_session_that_is_gone_is_not_asked_any_more() -> None:
    state = after(STATE, "c-d")
    assert browse_state.replace_rows(state, [LOGIN, INDEX]).question == "delete"
    assert browse_state.replace_rows(state, [INDEX, DEPLOY]).question is None
    assert browse_state.replace_rows(state, []).question is None
