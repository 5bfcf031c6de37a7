"""browse in a real terminal: what its screen shows after each key, and what the store has then."""

import base64
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.transcript.file_names import file_name
from tests.cli.commands import run
from tests.cli.terminal import run_on_terminal, run_with_stderr_on_terminal
from tests.cli.typing_user import TypingUser
from tests.stored import WholeStore, store_running_session, store_session

UP, DOWN, ENTER, ESCAPE, F1 = "\x1b[A", "\x1b[B", "\r", "\x1b", "\x1bOP"


def control(letter: str) -> str:
    return chr(ord(letter) & 0x1F)


@pytest.fixture
def store(tmp_path: Path) -> WholeStore:
    store = WholeStore(tmp_path / "store")
    answer = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "A cookie was missing."}}
    store_session(store, "s-login", ("Mend the login", [answer]), cwd="/work/site", at=3000.0)
    store_session(store, "s-index", ("Rebuild the index", []), cwd="/work/search", at=2000.0)
    store_session(store, "s-deploy", ("Deploy it", []), cwd="/work/site", at=1000.0)
    return store


@pytest.fixture
def screens(store: WholeStore, tmp_path: Path) -> Iterator[list[TypingUser]]:
    started: list[TypingUser] = []
    yield started
    for screen in started:
        screen.close()


def start_browse(screens: list[TypingUser], store: WholeStore, *words: str) -> TypingUser:
    screen = TypingUser("browse", "--store", store.root, *words, folder=store.root.parent)
    screens.append(screen)
    screen.until("Filter:")
    return screen


def titles_by_id(store: WholeStore) -> dict[str, str | None]:
    return {row.session_id: row.title for row in CommandStore(store.root).list_newest(archived=False)}


def test_the_list_the_preview_and_the_keys_are_shown(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    shown = screen.until("3 of 3", "A cookie was missing.", "s-login")
    assert [line.split("  ")[0] for line in shown.split("\n")[2:5]] == ["> Mend the login", "", ""]
    assert "Enter read" in shown
    screen.press(DOWN)
    screen.until("> Rebuild the index", "s-index", gone="A cookie")
    screen.press(UP + ESCAPE)
    assert screen.ended() == (0, True)
    assert screen.raw.rstrip().endswith(b"\x1b[?25h")


def test_typing_filters_by_title_then_by_directory_then_by_the_words_said(
    store: WholeStore, screens: list[TypingUser]
) -> None:
    screen = start_browse(screens, store)
    screen.press("index")
    screen.until("1 of 3", "> Rebuild the index", gone="Deploy")
    screen.press(control("u") + "site")
    screen.until("2 of 3", "> Mend the login", "Deploy it")
    screen.press(control("u") + "cooki")
    screen.until("1 of 3", "> Mend the login", "turn 1:")
    screen.press(control("u") + "nothing at all")
    screen.until("Nothing matches")
    screen.press(ESCAPE)
    screen.until("3 of 3")


def test_the_line_above_the_preview_shows_the_words_that_were_found(
    store: WholeStore, screens: list[TypingUser]
) -> None:
    words = "What shines over there, behind the hill and the river, is a lantern."
    answer = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": words}}
    store_session(store, "s-far", ("What is it?", [answer]))
    screen = start_browse(screens, store)
    screen.press("lantern")
    screen.until("─── turn 1: …", "lantern. ──")


def test_the_preview_begins_where_the_words_were_said(store: WholeStore, screens: list[TypingUser]) -> None:
    answer = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "A lantern."}}
    store_session(store, "s-late", ("What is it?", []), ("And that?", [answer]), at=4000.0)
    screen = start_browse(screens, store)
    screen.press("lantern")
    screen.until("turn 2:", "Turn 2 ", "A lantern.", gone="Turn 1 ")


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_the_pager_begins_where_the_words_were_said(store: WholeStore, tmp_path: Path) -> None:
    def say(text: str) -> list[dict[str, object]]:
        return [{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}]

    long = "\n\n".join(map(str, range(40)))
    store_session(store, "s-late", ("What?", say(long)), ("And that?", say("A lantern.")), ("So?", say(long)), at=4e3)
    screen = TypingUser("browse", "--store", store.root, folder=tmp_path, ACP_PROXY_PAGER="less")
    try:
        screen.until("4 of 4")
        screen.press("lantern")
        screen.until("turn 2:")
        screen.press(ENTER)
        shown = screen.until("A lantern.", "Turn 3", gone="turn 2:")  # less wipes the list line by line
        assert shown.startswith("Turn 2")
        screen.press("n")
        assert screen.until("So?", gone="A lantern.").startswith("Turn 3")
        screen.press("g")
        screen.until("s-late", "Turn 1")
    finally:
        screen.close()


def test_enter_reads_and_comes_back_to_the_same_list(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3")
    screen.press(DOWN + DOWN + ENTER)
    screen.until("Deploy it", "Turn 1", "Press Enter to go back.", gone="Filter:")
    screen.press(ENTER)
    screen.until("Filter:", "> Deploy it")
    screen.press(control("c"))
    assert screen.ended() == (0, True)


def test_ctrl_f_shows_what_a_session_changed_and_comes_back(store: WholeStore, screens: list[TypingUser]) -> None:
    diff = {"type": "diff", "path": "login.py", "oldText": "cookie = 0\n", "newText": "cookie = 1\n"}
    call = {"sessionUpdate": "tool_call", "toolCallId": "1", "status": "completed", "kind": "edit", "content": [diff]}
    store_session(store, "s-edit", ("Edit it", [call]), cwd="/work/site", at=4000.0)
    screen = start_browse(screens, store)
    screen.until("4 of 4")
    screen.press(control("f"))
    screen.until("-cookie = 0", "+cookie = 1", "Press Enter to go back.", gone="Filter:")
    screen.press(ENTER)
    screen.until("Filter:", "> Edit it")
    screen.press(DOWN + control("f"))
    screen.until("No changed files: no tool call", "Press Enter to go back.", gone="Filter:")
    screen.press(ENTER)
    screen.until("Filter:", "> ")


def test_a_session_is_renamed_archived_and_deleted(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3")
    screen.press(control("r"))
    screen.until("New title (empty: the agent's): Mend the login")
    screen.press(control("u") + "Mine" + ENTER)
    screen.until("Renamed.", "> Mine")
    assert titles_by_id(store)["s-login"] == "Mine"
    screen.press(control("a"))
    screen.until("Archived. ^X undoes it", "2 of 2", gone="Mine")
    screen.press(control("x"))
    screen.until('"Mine" is back.', "3 of 3", "> Mine")
    screen.press(UP + UP + control("a"))
    screen.until("Archived. ^X undoes it", "2 of 2", gone="Mine")
    assert list(titles_by_id(store)) == ["s-index", "s-deploy"]
    screen.press(control("d"))
    screen.until('"? [y: 30 days to restore it; p: permanently; n: no]')
    screen.press("n")
    screen.until("Enter read")
    assert list(titles_by_id(store)) == ["s-index", "s-deploy"]
    screen.press(control("d"))
    screen.until("permanently; n: no]")
    screen.press("p")
    screen.until('"Rebuild the index" permanently? [y/n]')
    screen.press("y")
    screen.until("Deleted permanently.", "1 of 1", gone="Rebuild")
    assert list(titles_by_id(store)) == ["s-deploy"]
    screen.press(control("t"))
    screen.until("1 of 1 archived", "> Mine", "^A unarchive")
    screen.press(control("a"))
    screen.until("Unarchived.", "0 of 0")
    assert list(titles_by_id(store)) == ["s-login", "s-deploy"]


def test_a_soft_delete_says_how_to_undo_it(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3")
    screen.press(control("d"))
    screen.until("permanently; n: no]")
    screen.press("y")
    screen.until("Deleted. Undo: ^X, or within 30 days: acp-proxy restore s-login --store", "2 of 2")
    assert run(store, "restore", "s-login").exit_code == 0
    assert "s-login" in titles_by_id(store)


def test_what_is_recorded_meanwhile_appears(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3")
    screen.press(DOWN)
    screen.until("> Rebuild the index")
    store_session(store, "s-new", ("Write the page", []), cwd="/work/site", at=4000.0)
    screen.until("Write the page", "4 of 4", "> Rebuild the index")
    screen.press("deploy")
    screen.until("1 of 4")
    store_session(store, "s-again", ("Deploy it again", []), cwd="/work/site", at=5000.0)
    screen.until("2 of 5", "> Deploy it ")


def test_a_soft_delete_is_undone_by_a_key(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3")
    screen.press(control("x"))
    screen.until("There is nothing to undo.")
    screen.press(control("d"))
    screen.until("permanently; n: no]")
    screen.press("y")
    screen.until("Undo: ^X", "2 of 2", "> Rebuild the index")
    screen.press(control("x"))
    screen.until('"Mend the login" is back.', "3 of 3", "> Mend the login")
    assert "s-login" in titles_by_id(store)
    screen.press(control("a"))
    screen.until("Archived.", "> Rebuild the index")
    screen.press(control("x"))
    screen.until('"Mend the login" is back.', "3 of 3", "> Mend the login")


def test_several_deletes_are_undone_one_after_the_other(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    for number in (3, 2):
        screen.until(f"{number} of {number}")
        screen.press(control("d"))
        screen.until("permanently; n: no]")
        screen.press("y")
        screen.until("Deleted. Undo: ^X", f"{number - 1} of {number - 1}")
    screen.press(control("x"))
    screen.until('"Rebuild the index" is back. ^X undoes the one before.', "2 of 2")
    screen.press(control("x"))
    screen.until('"Mend the login" is back.', "3 of 3", "> Mend the login")
    screen.press(control("x"))
    screen.until("There is nothing to undo.", "acp-proxy restore")
    assert sorted(titles_by_id(store)) == ["s-deploy", "s-index", "s-login"]


def test_emptying_a_title_says_whether_it_was_the_users(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3")
    screen.press(control("r") + control("u") + ENTER)
    screen.until("The title stays", "> Mend the login")
    screen.press(control("r") + control("u") + "Mine" + ENTER)
    screen.until("Renamed.", "> Mine")
    screen.press(control("r") + control("u") + ENTER)
    screen.until("Your title is removed.", "> Mend the login")


def test_words_are_the_filter_to_begin_with(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store, "site", "cookie")
    screen.until("Filter: site cookie", "1 of 3", "> Mend the login", gone="Deploy")
    screen.press(ESCAPE)
    screen.until("3 of 3")


def test_without_options_it_browses_the_usual_store(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = TypingUser("browse", ACP_PROXY_STORE=str(store.root))
    screens.append(screen)
    screen.until("3 of 3")
    screen.press(control("d"))
    screen.until("permanently; n: no]")
    screen.press("y")
    screen.until("acp-proxy restore s-login", gone="--store")
    screen.press(control("c"))
    assert screen.ended() == (0, True)


def test_without_options_it_says_the_same_of_a_store_that_is_not_there(
    screens: list[TypingUser], tmp_path: Path
) -> None:
    screen = TypingUser("browse", ACP_PROXY_STORE=str(tmp_path / "none"))
    screens.append(screen)
    screen.until("acp-proxy: there is no store")
    assert screen.ended()[0] == 1


def test_all_sessions_with_a_word_are_found(store: WholeStore, screens: list[TypingUser]) -> None:
    answer = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "A pebble."}}
    for number in range(450):
        store_session(store, f"many-{number}", ("What is it?", [answer]), at=10.0 + number)
    screen = start_browse(screens, store)
    screen.press("pebble")
    screen.until("450 of 453", gone="searching")


def test_a_question_mark_or_f1_explains_the_keys(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    for key, typed in (("?", ""), (F1, "login")):
        screen.press(typed)
        screen.until("F1 keys" if typed else "? keys", "> Mend the login")
        screen.press(key)
        screen.until("Ctrl-T", "show the archived sessions", "Press any key to go back.", gone="Filter:")
        screen.press(ENTER)
        screen.until("Filter:", "> Mend the login")


def test_a_running_session_is_not_deleted(store: WholeStore, screens: list[TypingUser]) -> None:
    with store_running_session(store, "busy", "Work on"):
        screen = start_browse(screens, store)
        screen.until("> Work on", "running", "4 of 4")
        screen.press(control("d"))
        screen.until("Its turn is running, so it was not deleted.")
    assert "busy" in titles_by_id(store)


def test_a_session_is_exported_and_its_id_copied(store: WholeStore, screens: list[TypingUser], tmp_path: Path) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3")
    screen.press(control("e"))
    screen.until("Export to: mend-the-login.md")
    (tmp_path / "mend-the-login.md").touch()
    screen.press(ESCAPE)
    screen.until("Enter read", gone="Export to")
    screen.press(control("e"))
    screen.until("Export to: mend-the-login-")
    screen.press(control("u") + "out.html" + ENTER)
    screen.until("Exported to")
    assert (tmp_path / "out.html").read_text().startswith("<!DOCTYPE html>")
    screen.press(control("e"))
    screen.until("Export to:")
    screen.press(control("u") + "out.html" + ENTER)
    screen.until("exists", "Export to: out.html")
    screen.press(control("u") + "other.html" + ENTER)
    screen.until("Exported to", gone="Export to:")
    assert (tmp_path / "other.html").is_file()
    screen.press(control("y"))
    screen.until("Copied, if your terminal allows that: s-login")
    screen.wait_for("\x1b]52;c;cy1sb2dpbg==\a")


def test_of_a_copy_the_short_id_is_copied(store: WholeStore, screens: list[TypingUser]) -> None:
    [original] = store.find_named("s-login")
    [copy] = store.find_named(store.copy_for_agent(original, file_name("other"), {}))
    screen = start_browse(screens, store, "--agent", "other")
    screen.until("1 of 1", "copy · Mend the login")
    screen.press(control("y"))
    screen.until(f"Copied, if your terminal allows that: {copy.selector}")
    assert copy.selector.startswith("copy-")


def test_code_blocks_are_copied_from_the_last_one_on(store: WholeStore, screens: list[TypingUser]) -> None:
    words = ["Do this:\n\n```sh\nmake te", "st\n```\n\nor that:\n\n~~~\nmake check\n~~~\n"]
    chunks = [{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}} for text in words]
    store_session(store, "s-code", ("How?", chunks), at=4000.0)
    screen = start_browse(screens, store)
    screen.until("4 of 4")
    for number, text, times in ((2, "make check\n", 1), (1, "make test\n", 1), (2, "make check\n", 2)):
        screen.press(control("k"))
        screen.until(f"Copied block {number} of 2, if your terminal allows that: {text.strip()}")
        screen.wait_for(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a", times)
    screen.press(DOWN + control("k"))
    screen.until("no code block")


def test_it_says_how_to_continue_and_pins(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3")
    screen.press(control("o"))
    screen.until("agent's sessions in /work/site.", "acp-proxy continue", "--with AGENT")
    screen.press(ESCAPE)
    screen.until("3 of 3", "Enter read", gone="--with AGENT")
    screen.press(control("b"))
    screen.until("Pinned: prune leaves it alone.", "> pinned · Mend the login")
    screen.press(control("b"))
    screen.until("Unpinned.", "> Mend the login")


def test_it_follows_the_size_of_the_terminal(store: WholeStore, screens: list[TypingUser]) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3", "A cookie was missing.")
    screen.resize(50, 10)
    shown = screen.until("3 of 3", "Enter read", gone="A cookie was missing.")
    assert len(shown.split("\n")) == 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(store: WholeStore, screens: list[TypingUser], number: signal.Signals) -> None:
    screen = start_browse(screens, store)
    screen.until("3 of 3", "A cookie was missing.")
    screen.process.send_signal(number)
    assert screen.ended() == (128 + number, True)
    assert screen.raw.rindex(b"\x1b[?1049l") > screen.raw.rindex(b"\x1b[?1049h")
    assert b"Traceback" not in screen.raw


def test_without_a_terminal_it_says_what_to_use(store: WholeStore) -> None:
    text, told = run_with_stderr_on_terminal("browse", "--store", str(store.root), status=2)
    assert (text, "acp-proxy list" in told) == ("", True)


def test_an_empty_store_is_not_browsed(tmp_path: Path) -> None:
    root = WholeStore(tmp_path / "empty").root
    assert "No sessions are recorded yet." in run_on_terminal("browse", "--store", str(root))
