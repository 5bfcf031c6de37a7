"""``replay`` shows a conversation as it streamed: plain text, or with keys on a terminal."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from acp_proxy.views import formatting
from tests.cli.commands import invoke
from tests.cli.typing_user import TypingUser
from tests.posix import termios
from tests.store import transcript_lines
from tests.store.compressible import compress_now, store_compressible
from tests.stored import WholeStore, store_session
from tests.tools.mock_agent.recording import call_line

NIGHT = 10 * 3600  # seconds


def write_recording(tmp_path: Path, *lines: bytes) -> Path:
    path = tmp_path / "login.jsonl"
    store = WholeStore(tmp_path / "store")
    transcript_lines.store_lines(store, "agent", transcript_lines.SESSION, *lines)
    return next(store.root.glob("transcripts/agent/*.jsonl")).rename(path)


def run_replay(*words: str | Path) -> Result:
    return invoke("replay", *map(str, words))


def turn(number: int, *, at: int = 0, pause: int = 0) -> list[bytes]:
    """A prompt, words, and more words after a pause."""
    words = [
        transcript_lines.agent_chunk(f"begin {number}. ", at=at),
        transcript_lines.agent_chunk(f"end {number}.", at=at + pause),
    ]
    return [transcript_lines.prompt_line(f"prompt {number}", at=at), *words, transcript_lines.answer(at=at + pause)]


# --- without a terminal


def test_a_file_is_shown_plainly_with_a_heading_on_stderr(tmp_path: Path) -> None:
    path = write_recording(tmp_path, *turn(1), call_line("pending"), call_line("completed"))
    result = run_replay(path, "--speed", "0")
    began = formatting.format_local_time(transcript_lines.time(0))
    assert (result.exit_code, result.stderr) == (0, f"{transcript_lines.SESSION}  {transcript_lines.CWD}  {began}\n")
    lines = result.stdout.splitlines()
    assert lines[1:] == ["> prompt 1", "", "begin 1. end 1.", "", "○ pending: Edit", "✓ Edit"]


def test_the_heading_of_a_stored_session_begins_with_its_title(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    store_session(store, "s", ("Mend it", []), cwd="/here")
    title, about = run_replay("last", "--speed", "0", "--store", store.root).stderr.splitlines()
    assert (title, about.split("  ")[:3]) == ("Mend it", ["s", "agent", "/here"])


def test_a_session_is_shown_compressed_or_not(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    store_compressible(store, chunks=100)
    plain = run_replay("last", "--speed", "0", "--store", store.root)
    compressed = compress_now(store)
    assert "word1" in plain.stdout
    assert run_replay("last", "--speed", "0", "--store", store.root).stdout == plain.stdout
    assert run_replay(compressed, "--speed", "0").stdout == plain.stdout


@pytest.mark.parametrize(("words", "numbers"), [("2", "2"), ("2-", "23"), ("-1", "3"), ("1-2", "12")])
def test_some_turns_are_shown(tmp_path: Path, words: str, numbers: str) -> None:
    path = write_recording(tmp_path, *(line for n in (1, 2, 3) for line in turn(n, at=n)))
    stdout = run_replay(path, "--speed", "0", "--turn", words).stdout
    assert stdout.startswith("Turn ")
    assert re.findall(r"> prompt (\d)", stdout) == re.findall(r"end (\d)", stdout) == [*numbers]
    assert "there is no such turn" in run_replay(path, "--turn", "4").stderr


class Clock:
    """A clock that advances only while something waits for it."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waited.append(round(seconds, 3))


@pytest.mark.parametrize(
    ("options", "waited"),
    [
        ((), [2.0, 1.0, 2.0]),
        (("--max-pause", "1"), [1.0, 1.0, 1.0]),
        (("--max-pause", "1000000"), [NIGHT, 1.0, 5.0]),
        (("--speed", "4"), [0.5, 0.25, 0.5]),
        (("--speed", "0"), []),
        (("--speed", "nan"), []),
    ],
)
def test_pauses_are_shortened_and_made_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], waited: list[float]
) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "sleep", clock.sleep)
    lines = [
        transcript_lines.prompt_line("go", at=5),
        transcript_lines.agent_chunk("a", at=5 + NIGHT),
        transcript_lines.agent_chunk("b", at=6 + NIGHT),
        transcript_lines.answer(at=6 + NIGHT),
    ]
    run_replay(write_recording(tmp_path, *lines, transcript_lines.prompt_line("on", at=11 + NIGHT)), *options)
    assert [seconds for seconds in clock.waited if seconds] == waited


@pytest.mark.parametrize(("words", "status", "said"), [
    (["none.jsonl"], 1, "none.jsonl"),
    (["--speed", "-1", "last"], 2, "--speed"),
    ([], 2, " is missing: "),
])  # fmt: skip
def test_a_file_that_cannot_be_shown_is_an_error(words: list[str], status: int, said: str) -> None:
    result = run_replay(*words)
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr


# --- in a terminal


@pytest.fixture
def three_turns(tmp_path: Path) -> Path:
    """Three turns, each with a pause of a night."""
    return write_recording(tmp_path, *(line for n in (1, 2, 3) for line in turn(n, at=n * 2 * NIGHT, pause=NIGHT)))


@pytest.fixture
def terminals() -> Iterator[list[TypingUser]]:
    started: list[TypingUser] = []
    yield started
    for terminal in started:
        terminal.close()


def start(terminals: list[TypingUser], *words: Any, **environment: Any) -> TypingUser:
    terminals.append(TypingUser("replay", *words, "--max-pause", str(NIGHT), **environment))
    return terminals[-1]


def test_n_and_the_arrow_skip_to_the_next_turn_and_the_last_turn_to_the_end(
    three_turns: Path, terminals: list[TypingUser]
) -> None:
    terminal = start(terminals, three_turns)
    terminal.wait_for("begin 1.")
    terminal.press("n")
    terminal.wait_for("begin 2.")
    terminal.press("\x1b[C")
    terminal.wait_for("begin 3.")
    terminal.press("n")
    assert terminal.ended() == (0, True)
    assert re.findall(r"end (\d)", terminal.text) == ["3"]
    assert "  begin 1.\r\nTurn 1 of 3  space: pause" in terminal.text
    assert [terminal.text.count(f"Turn {n} ·") for n in (1, 2, 3)] == [1, 1, 1]


def test_n_in_the_last_turn_that_was_chosen_shows_its_rest(three_turns: Path, terminals: list[TypingUser]) -> None:
    terminal = start(terminals, three_turns, "--turn", "2")
    terminal.wait_for("Turn 1 of 3")
    terminal.press("n")
    terminal.wait_for("begin 2.")
    terminal.press("n")
    assert terminal.ended() == (0, True)
    assert (re.findall(r"end (\d)", terminal.text), "Turn 3" in terminal.text) == (["2"], False)


@pytest.mark.parametrize("options", [(), ("--turn", "2")])
def test_one_empty_line_is_below_the_heading(
    three_turns: Path, terminals: list[TypingUser], options: tuple[str, ...]
) -> None:
    terminal = start(terminals, three_turns, *options, "--speed", "0")
    assert terminal.ended() == (0, True)
    assert re.search(r"\d\r\n\r\n\x1b\[JTurn [12] ·", terminal.text), terminal.text


def test_p_and_the_arrow_go_back_to_the_previous_turn(three_turns: Path, terminals: list[TypingUser]) -> None:
    terminal = start(terminals, three_turns)
    terminal.wait_for("begin 1.")
    terminal.press("n")
    terminal.wait_for("begin 2.")
    terminal.press("p")
    terminal.wait_for("begin 1.", 2)
    terminal.press("\x1b[D")
    terminal.wait_for("begin 1.", 3)
    terminal.press("nn")
    terminal.wait_for("begin 3.")
    terminal.press("q")
    assert terminal.ended() == (0, True)
    assert terminal.text.count("Turn 1 ·") == 3


def test_space_pauses_and_continues(tmp_path: Path, terminals: list[TypingUser]) -> None:
    words = [transcript_lines.agent_chunk(f"{number} ", at=NIGHT) for number in range(3)]
    terminal = start(
        terminals,
        write_recording(tmp_path, transcript_lines.prompt_line("go"), transcript_lines.agent_chunk("begin"), *words),
    )
    terminal.wait_for("begin")
    terminal.press("  ")  # the current pause ends with the signal
    terminal.wait_for("0 1 2")
    assert terminal.ended() == (0, True)


def test_other_keys_work_during_a_pause(three_turns: Path, terminals: list[TypingUser]) -> None:
    terminal = start(terminals, three_turns)
    terminal.wait_for("begin 1.")
    terminal.press(" x")
    terminal.wait_for("Turn 1 of 3, paused  space: continue")
    terminal.press("n")
    terminal.wait_for("begin 2.")
    terminal.press(" q")
    assert terminal.ended() == (0, True)


def test_ctrl_c_restores_the_modes_of_the_terminal(three_turns: Path, terminals: list[TypingUser]) -> None:
    terminal = start(terminals, three_turns)
    terminal.wait_for("begin 1.")
    assert termios.tcgetattr(terminal.theirs) != terminal.before
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == (130, True)
    assert "Traceback" not in terminal.text
    assert terminal.text.endswith("\r\x1b[J\r\n")  # the status is gone


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_restores_the_modes_of_the_terminal(three_turns: Path, terminals: list[TypingUser], name: str) -> None:
    number = signal.Signals[name]
    terminal = start(terminals, three_turns)
    terminal.wait_for("begin 1.")
    terminal.process.send_signal(number)
    assert terminal.ended() == (128 + number, True)
    assert "Traceback" not in terminal.text


def test_keys_work_again_after_the_shell_had_the_terminal(three_turns: Path, terminals: list[TypingUser]) -> None:
    terminal = start(terminals, three_turns)
    terminal.wait_for("begin 1.")
    termios.tcsetattr(terminal.theirs, termios.TCSANOW, terminal.before)
    terminal.process.send_signal(signal.SIGCONT)
    terminal.press("n")
    terminal.wait_for("begin 2.")
    terminal.press("q")
    assert terminal.ended() == (0, True)


def test_the_line_of_a_call_is_updated_in_place(tmp_path: Path, terminals: list[TypingUser]) -> None:
    path = write_recording(
        tmp_path, transcript_lines.prompt_line("go"), call_line("pending"), call_line("completed", at=NIGHT)
    )
    terminal = start(terminals, path)
    terminal.wait_for("○ pending: Edit\r\nTurn 1 of 1")
    terminal.press("  ")  # the current pause ends with the signal
    assert terminal.ended() == (0, True)
    assert "\x1b[1A\r\x1b[J✓ Edit\r\n" in terminal.text


def test_thoughts_are_dimmed_and_without_colours_nothing_has_one(tmp_path: Path, terminals: list[TypingUser]) -> None:
    thought = transcript_lines.update("agent_thought_chunk", content={"type": "text", "text": "Hm"})
    path = write_recording(tmp_path, transcript_lines.prompt_line("go"), thought, call_line("completed"))
    coloured, plain = start(terminals, path), start(terminals, path, NO_COLOR="1")
    for terminal in (coloured, plain):
        assert terminal.ended() == (0, True)
    assert "\x1b[2;3mHm\x1b[0m" in coloured.styled
    assert "\x1b[32m✓ Edit" in coloured.styled
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain.styled)
