"""A replay of streamed messages: weighed and made a record of line by line, however many lines are read at once."""

import os
import threading
from pathlib import Path

import pytest

from acp_proxy.replay.brief import brief
from acp_proxy.replay.telling import Mode, Telling
from acp_proxy.shell.output import WIDE, Output
from acp_proxy.shell.replaying import Ended, Replay
from acp_proxy.transcripts.reading import Reading
from acp_proxy.wire import record
from tests.pipes import held_by, make_hold, needs_wide_pipes
from tests.transcripts import talk

SECONDS = 20.0
WORDS = [f" word{number}" for number in range(300)]
ANSWER = [talk.said(word) for word in WORDS]
TERMINAL = talk.update("tool_call", toolCallId="t", title="T", content=[{"type": "terminal", "terminalId": "1"}])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def replayed(
    path: Path, lines: list[bytes], mode: Mode, weigh: list[bytes] | None = None, *, brief: bool = False
) -> tuple[list[bytes], Ended]:
    path.write_bytes(record.encode_header(talk.header()) + b"".join(lines))
    reads, writes = os.pipe()
    heard: list[bytes] = []

    def listen() -> None:
        with open(reads, "rb") as stream:
            heard.extend(stream)

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    warnings: list[str] = []
    ended: list[Ended] = []

    def telling(mode: Mode = mode) -> Telling:
        return Telling(talk.SESSION, run="run002", mode=mode)

    replay = Replay(
        talk.SESSION, Reading(path), Output(writes, lambda: None), ended.append, warnings.append, telling=telling
    )
    replay.start(None if weigh is None else tuple(weigh), brief=brief)
    replay.join()
    os.close(writes)
    listening.join(SECONDS)
    assert not warnings
    return heard, ended[0]


def messages(lines: list[bytes]) -> list[bytes]:
    """What the agent said, as lines."""
    return [(entry.raw or b"") + b"\n" for line in lines if (entry := record.decode_entry(line)) is not None]


def test_every_update_is_told_with_its_own_bytes(path: Path) -> None:
    heard, ended = replayed(path, [talk.prompt("q"), *ANSWER, talk.answer()], "full")
    assert heard[1:] == messages(ANSWER)
    assert ended.ours


@pytest.mark.parametrize("before", [[], [TERMINAL]], ids=["at once", "held back for a terminal"])
@pytest.mark.parametrize("mode", ["full", "compact"])
def test_what_the_agent_tells_of_it_in_pieces_is_found_in_ours(path: Path, mode: Mode, before: list[bytes]) -> None:
    theirs = messages([ANSWER[3], ANSWER[200]])
    ours = [talk.prompt("q"), *before, *ANSWER, talk.answer()]
    heard, ended = replayed(path, ours, mode, theirs)
    assert ended.ours
    assert (heard, ended) == replayed(path, ours, mode)
    assert replayed(path, ours, mode, [*theirs, *messages([talk.said("else")])]) == ([], Ended([], False, ""))


@pytest.mark.parametrize("mode", ["full", "compact"])
def test_the_record_has_every_word(path: Path, mode: Mode) -> None:
    heard, ended = replayed(path, [talk.prompt("q"), TERMINAL, *ANSWER, talk.answer()], mode, brief=True)
    assert "".join(WORDS) in ended.brief
    assert ended.brief == brief(heard)


@needs_wide_pipes
@pytest.mark.parametrize(("words", "is_widened"), [(10, False), (WIDE // 100, True)])
def test_what_is_long_is_told_through_a_pipe_that_holds_more(path: Path, words: int, is_widened: bool) -> None:
    path.write_bytes(record.encode_header(talk.header()) + talk.said("word") * words)
    reads, writes = os.pipe()
    make_hold(writes, before := 64 * 1024)
    with open(reads, "rb") as heard:
        replay = Replay(
            talk.SESSION,
            Reading(path),
            Output(writes, lambda: None),
            lambda ended: None,
            lambda warning: None,
            telling=lambda: Telling(talk.SESSION, run="run002", mode="compact"),
        )
        replay.start()
        replay.join()  # joined, all of it is one line that fits into any pipe
        assert held_by(writes) == (WIDE if is_widened else before)
        os.close(writes)
        assert heard.read().count(b"word") == words
