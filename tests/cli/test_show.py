"""``show``: a conversation for people and for programs."""

import base64
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import Command
from tests.cli.terminal import run_on_terminal, write_pager
from tests.cli.typing_user import TypingUser
from tests.pipes import SMALL
from tests.stored import chunk, store_session

PIXELS = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
IMAGE = {"type": "image", "data": base64.b64encode(PIXELS).decode(), "mimeType": "image/png"}
TURN: list[dict[str, Any]] = [
    chunk("a thought", "agent_thought_chunk"),
    {"sessionUpdate": "plan", "entries": [{"content": "the plan", "status": "pending", "priority": "high"}]},
    {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "the tool", "status": "pending"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "rawOutput": {"lines": 3}},
    chunk("the "),
    chunk("*answer*"),
    {"sessionUpdate": "agent_message_chunk", "content": IMAGE},
    {"sessionUpdate": "something_new", "content": {"type": "text", "text": "unknown"}},
]


command = Command("show")
run, get_stdout = command.run, command.get_stdout


def store_questions(store: ProxyStore, count: int) -> None:
    store_session(store, "s", *((f"question {number}", [chunk("ok")]) for number in range(1, count + 1)))


def list_shown_questions(store: ProxyStore, *words: str) -> list[int]:
    """The numbers of the questions in the output."""
    text = get_stdout(store, "s", *words)
    numbers = [int(line.split()[-1]) for line in text.splitlines() if line.startswith("  question ")]
    assert [int(line.split()[2][:-1]) for line in text.splitlines() if line.startswith("--- Turn ")] == numbers
    return numbers


def test_a_conversation_is_shown_in_order_with_its_title(store: ProxyStore) -> None:
    store_session(
        store,
        "s",
        ("Mend it\nplease", TURN),
        ("more", []),
        error={"code": -32000, "message": "no login"},
        notes=[{"type": "gap", "reason": "ENOSPC"}, {"type": "opened"}],
    )
    assert (
        get_stdout(store, "s")
        == """\
Mend it
s  agent  /project  2023-11-14T22:13:20.000Z

--- Turn 1, 2023-11-14T22:13:20.000Z ---

User:
  Mend it
  please

Thought:
  a thought

Plan:
  [ ] the plan

Tool: the tool [completed]

Agent:
  the *answer*
  [image: image/png, 264 B; to save it: --turn 1 --extract DIR]

--- Turn 2, 2023-11-14T22:13:20.000Z ---

User:
  more

Note: Something is missing here: the recording was interrupted (ENOSPC).

Error: no login
"""
    )


def test_full_includes_the_content_of_tool_calls_and_unknown_updates(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", TURN))
    text = get_stdout(store, "s", "--full")
    assert '  output:\n    {\n      "lines": 3\n    }\n' in text
    assert "[something_new]" in text


def test_a_failed_call_shows_the_end_of_what_it_said(store: ProxyStore) -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "make", "status": "failed"}
    lines = [f"line {number}" for number in range(1, 13)]
    store_session(store, "s", ("Mend it", [{**call, "rawOutput": "\n".join(lines)}]))
    store_session(store, "short", ("Mend it", [{**call, "rawOutput": "denied"}]))
    shown = "".join(f"    {line}\n" for line in ("(only its end: --full shows all)", *lines[2:]))
    assert get_stdout(store, "s").endswith(f"Tool: make [failed]\n{shown}")
    assert "line 1\n" in get_stdout(store, "s", "--full")
    assert get_stdout(store, "short").endswith("Tool: make [failed]\n    denied\n")
    assert get_stdout(store, "short", "--full").count("denied") == 1


def test_json_has_every_message(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", TURN))
    messages = [json.loads(line) for line in get_stdout(store, "s", "--json").splitlines()]
    assert messages[0]["params"]["prompt"][0]["text"] == "Mend it"
    assert [message["params"]["update"] for message in messages[1:-1]] == TURN
    assert messages[-1]["result"] == {"stopReason": "end_turn"}


def test_raw_has_every_byte(store: ProxyStore) -> None:
    path = store_session(store, "s", ("Mend it", TURN))
    path.write_bytes(path.read_bytes() + b'\0\0\xff\x1b[2J\n{"at":"torn')
    result = run(store, "s", "--raw")
    assert (result.exit_code, result.stdout_bytes) == (0, path.read_bytes())


def test_raw_cannot_control_the_terminal(store: ProxyStore) -> None:
    path = store_session(store, "s", ("Mend it", []))
    path.write_bytes(path.read_bytes() + b'\0\0\xff\x1b[2J\n{"at":"torn\xc2\x9b')
    text = run_on_terminal("show", "s", "--raw", "--store", str(store.root), columns=2000)
    assert text.startswith(path.read_text(errors="replace").split("\0")[0])
    assert not set("\0\x1b\x9b") & set(text)


@pytest.mark.parametrize(
    ("wanted", "turns"),
    [("1", [1]), ("3", [3]), ("2-4", [2, 3, 4]), ("4-", [4, 5]), ("4-99", [4, 5]), ("-1", [5]), ("-5", [1])],
)
def test_only_some_turns_are_shown(store: ProxyStore, wanted: str, turns: list[int]) -> None:
    store_questions(store, 5)
    assert list_shown_questions(store, "--turn", wanted) == turns
    assert list_shown_questions(store) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("wanted", "turns"), [("2-3", [2, 3]), ("4-", [4, 5]), ("-1", [5]), ("1-", [1, 2, 3, 4, 5])])
def test_json_may_have_only_some_turns(store: ProxyStore, wanted: str, turns: list[int]) -> None:
    store_questions(store, 5)
    messages = [json.loads(line) for line in get_stdout(store, "s", "--json", "--turn", wanted).splitlines()]
    assert [message["id"] for message in messages if "id" in message] == sorted([*turns, *turns])  # prompt and answer
    assert len(messages) == 3 * len(turns)


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("wanted", ["6", "-6", "9-"])
def test_an_unknown_turn_is_an_error(store: ProxyStore, wanted: str, options: tuple[str, ...]) -> None:
    store_questions(store, 5)
    result = run(store, "s", "--turn", wanted, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "5" in result.stderr


@pytest.mark.parametrize(
    "words", [("--turn", "0"), ("--turn", "x"), ("--turn", "-2-"), ("--turn", "1-2-3"), ("--turn", "4-2")]
)
def test_a_wrong_turn_is_wrong_usage(store: ProxyStore, words: tuple[str, ...]) -> None:
    store_questions(store, 1)
    assert run(store, "s", *words).exit_code == 2


@pytest.mark.parametrize(
    "words", [("--raw", "--json"), ("--raw", "--turn", "1"), ("--json", "--full"), ("--raw", "--extract", "x")]
)
def test_contradictory_options_are_wrong_usage(store: ProxyStore, words: tuple[str, ...]) -> None:
    store_questions(store, 1)
    assert run(store, "s", *words).exit_code == 2


# --- images and files


def test_images_and_files_are_saved_and_named(store: ProxyStore, tmp_path: Path) -> None:
    pdf = {"uri": "file:///../../x.pdf", "mimeType": "application/pdf", "blob": base64.b64encode(b"%PDF").decode()}
    shown = [{"type": "content", "content": {"type": "resource", "resource": pdf}}]
    call = {"sessionUpdate": "tool_call", "toolCallId": "2", "title": "t", "content": shown}
    store_session(store, "s", ("one", TURN), ("two", [call, *TURN]))
    folder = tmp_path / "a" / "b"
    names = ["turn-1-1.png", "turn-2-1.pdf", "turn-2-2.png"]
    assert get_stdout(store, "s", "--extract", str(folder)).splitlines() == [str(folder / name) for name in names]
    assert [(folder / name).read_bytes() for name in names] == [PIXELS, b"%PDF", PIXELS]
    assert get_stdout(store, "s", "--extract", str(folder), "--turn", "2").splitlines() == [
        str(folder / name) for name in names[1:]
    ]


def test_the_text_of_a_resource_that_a_tool_returns_is_shown_in_full(store: ProxyStore) -> None:
    resource = {"type": "resource", "resource": {"uri": "file:///x.md", "text": "xylophone"}}
    content = [{"type": "content", "content": resource}]
    store_session(store, "s", ("one", [{"sessionUpdate": "tool_call", "toolCallId": "2", "content": content}]))
    assert "xylophone" in get_stdout(store, "s", "--full")


def test_saved_images_are_private(store: ProxyStore, tmp_path: Path) -> None:
    store_session(store, "s", ("one", TURN))
    [saved] = get_stdout(store, "s", "--extract", str(tmp_path)).splitlines()
    assert stat.S_IMODE(Path(saved).stat().st_mode) == 0o600


def test_nothing_is_overwritten_when_images_are_saved(store: ProxyStore, tmp_path: Path) -> None:
    store_session(store, "s", ("one", TURN))
    mine = tmp_path / "turn-1-1.png"
    mine.write_bytes(b"mine")
    result = run(store, "s", "--extract", str(tmp_path))
    assert (result.exit_code, result.stdout, mine.read_bytes()) == (1, "", b"mine")
    assert str(mine) in result.stderr


def test_nothing_to_save_is_reported(store: ProxyStore, tmp_path: Path) -> None:
    broken = {"sessionUpdate": "agent_message_chunk", "content": {**IMAGE, "data": "no base64!"}}
    store_session(store, "s", ("one", [broken]), ("two", []))
    for turn in ("1", "2"):
        result = run(store, "s", "--extract", str(tmp_path / "x"), "--turn", turn)
        assert (result.exit_code, result.stdout) == (1, "")
        assert ("damaged" in result.stderr) == (turn == "1")
    assert not (tmp_path / "x").exists()


# --- on a terminal


def test_a_terminal_gets_rendered_text_through_the_pager(store: ProxyStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Mend it", TURN))
    words = ("show", "s", "--store", str(store.root))
    copies = write_pager(tmp_path, "import sys; print('PAGED:'); print(sys.stdin.read(), end='')")
    text = run_on_terminal(*words, settings={"ACP_PROXY_PAGER": copies})
    assert text.startswith("PAGED:\n\x1b[1mMend it\x1b[0m\n")
    assert "\n\x1b[32m✓ \x1b[0mthe tool\n" in text
    assert "\n  the \x1b[3manswer\x1b[0m\n" in text
    assert "\x1b]" not in text
    plain = run_on_terminal(*words, settings={"TERM": "dumb"})
    assert plain == get_stdout(store, "s")


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_n_jumps_to_the_next_turn_in_less(store: ProxyStore) -> None:
    store_session(store, "long", *((f"Prompt {number}", TURN * 20) for number in (1, 2, 3)))
    screen = TypingUser("show", "long", "--store", str(store.root), ACP_PROXY_PAGER="less", LESS="FRX")
    screen.until("Prompt 1\nlong  ", "Turn 1 ·")  # the title: it begins at the start
    for number in (1, 2, 3):
        screen.press("n")
        shown = screen.until(f"Prompt {number}\n", gone=f"Turn {number - 1} ·")
        if number == 1:
            shown = screen.until("Turn 1 ·", gone="long  ")
        if "...skipping..." in shown:  # less writes this first, then the rest of the screen
            shown = screen.until(f"Turn {number} ·", gone="...skipping...")
        assert shown.startswith(f"Turn {number} ·")
    screen.press("N")
    screen.until("Turn 2 ·", "Prompt 2")
    screen.press("q")
    assert screen.ended()[0] == 0


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_less_ends_by_itself_if_the_conversation_fits_the_screen(store: ProxyStore) -> None:
    store_session(store, "short", ("Mend it", []))
    screen = run_on_terminal("show", "short", "--store", str(store.root), settings={"ACP_PROXY_PAGER": "less"})
    assert "Mend it" in screen


def test_a_terminal_shows_local_times(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", TURN))
    text = run_on_terminal("show", "s", "--store", str(store.root), settings={"TZ": "UTC-3"})
    assert "/project  2023-11-15 01:13:20\n" in text
    assert "Turn 1 · 2023-11-15 01:13:20" in text


def test_a_terminal_without_colours_still_shows_emphasis(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", TURN))
    words = ("show", "s", "--store", str(store.root))
    text = run_on_terminal(*words, settings={"NO_COLOR": "1"})
    assert "\n✓ the tool\n" in text
    assert "\x1b[3manswer" in text
    assert run_on_terminal(*words, settings={"CLICOLOR": "0"}) == text


def test_another_program_gets_colours_only_if_they_are_forced(
    store: ProxyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_session(store, "s", ("Mend it", TURN))
    assert "\x1b" not in get_stdout(store, "s")
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        with monkeypatch.context() as here:
            here.setenv("TERM", "xterm-256color")
            here.setenv(name, "1")
            assert "\x1b[32m✓ \x1b[0mthe tool" in get_stdout(store, "s")


# --- long conversations


def test_the_output_begins_before_a_long_conversation_is_read(store: ProxyStore) -> None:
    """The output is not read further, so the conversation cannot have been read to its end by then."""
    store_session(store, "s", *((f"question {number}", [chunk("answer " * 2000)]) for number in range(60)))
    command = [sys.executable, "-m", "acp_proxy", "show", "s", "--store", str(store.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pipesize=SMALL) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = os.read(process.stdout.fileno(), 65536)
        assert first.startswith(b"question 0\n")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141  # as ls and git: 1 would mean that there is no such session


def test_a_file_outside_of_the_store_is_shown(store: ProxyStore, tmp_path: Path) -> None:
    path = store_session(store, "s", ("Mend it", TURN), ("more", []))
    moved = tmp_path / "mine.jsonl"
    path.rename(moved)
    text = get_stdout(store, str(moved), "--turn", "1")
    assert text.startswith("Mend it\ns  agent  /project  ")
    assert "*answer*" in text
    assert "more" not in text
    assert get_stdout(store, str(moved), "--raw") == moved.read_text()
    result = run(store, str(moved), "--follow")
    assert (result.exit_code, f"acp-proxy replay {moved}" in result.stderr) == (2, True)


def test_the_heading_of_a_file_has_the_short_id_on_a_terminal(store: ProxyStore, tmp_path: Path) -> None:
    session = "0198c5de-1111-7000-8000-123456789abc"
    moved = tmp_path / "mine.jsonl"
    store_session(store, session, ("Mend it", [])).rename(moved)
    for command in ("show", "replay"):
        told = run_on_terminal(command, str(moved))
        assert ("0198c5de  " in told, session in told) == (True, False)
    assert f"{session}  " in get_stdout(store, str(moved))


def test_a_terminal_shows_the_home_directory_as_list_does(store: ProxyStore) -> None:
    store_session(store, "s", ("Mend it", []), cwd="/home/eve/project")
    screen = run_on_terminal("show", "s", "--store", str(store.root), settings={"HOME": "/home/eve"})
    assert "s  agent  ~/project  " in screen
    assert "  /home/eve/project  " in get_stdout(store, "s")
