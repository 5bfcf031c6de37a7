"""A terminal recording shows the conversation at its own pace, and nothing of it controls the player."""

import json
import re
from pathlib import Path
from typing import Any

import pyte
import pytest

from acp_proxy.tools.export.cast import encode_recording
from acp_proxy.tools.export.hide_home import HomeHider
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.views.document import Head
from tests.store import transcript_lines

HEAD = Head(
    "s",
    {"name": "agent"},
    "In /home/ada/x",
    "/home/ada/x",
    transcript_lines.time(0),
    transcript_lines.time(9),
    "recorded",
)


def record_cast(*lines: bytes) -> tuple[dict[str, Any], list[list[Any]]]:
    entries = [entry for line in lines if (entry := file_format.decode_entry(line)) is not None]
    assert len(entries) == len(lines)
    return events(entries)


def events(entries: list[Entry]) -> tuple[dict[str, Any], list[list[Any]]]:
    hider = HomeHider("/home/ada/x", "/home/me")
    first, *rest = map(json.loads, encode_recording(hider.hide_in_head(HEAD), entries, hider))
    return first, rest


def screen(rest: list[list[Any]]) -> str:
    terminal = pyte.Screen(80, 24)
    stream = pyte.Stream(terminal)
    for _, kind, data in rest:
        assert kind == "o"
        stream.feed(data)
    return "\n".join(line.rstrip() for line in terminal.display).rstrip()


def call_line(status: str, at: int) -> bytes:
    return transcript_lines.update("tool_call", at=at, toolCallId="1", title="Edit /home/ada/x/a.py", status=status)


def test_the_screen_is_that_of_a_replay_and_times_count_from_the_first_words() -> None:
    header, rest = record_cast(
        transcript_lines.prompt_line("Mend it", at=5), call_line("pending", 6), call_line("completed", 8),
        transcript_lines.agent_chunk("do", at=9),
        transcript_lines.agent_chunk("ne", at=7), transcript_lines.answer(at=10),
    )  # fmt: skip
    assert (header["version"], header["width"], header["height"], header["idle_time_limit"]) == (2, 80, 24, 2)
    assert header["timestamp"] > 0
    assert [at for at, _, _ in rest] == [0, 1, 3, 4, 4, 4]
    lines = screen(rest).split("\n")
    assert lines[0].startswith("Turn 1 · ")
    assert lines[1:] == ["> Mend it", "", "✓ Edit ~/x/a.py", "", "done"]


def test_home_directories_are_hidden_also_across_chunks() -> None:
    header, rest = record_cast(
        transcript_lines.prompt_line("see /home/ada/x", at=1), transcript_lines.agent_chunk("in /ho", at=2),
        transcript_lines.agent_chunk("me/ada/x and", at=3),
        transcript_lines.agent_chunk(" /home/me", at=4),
    )  # fmt: skip
    assert "ada" not in json.dumps([header, rest])
    assert screen(rest).endswith("> see ~/x\n\nin ~/x and ~")


@pytest.mark.parametrize("text", ["\x1b[2J", "\x1b]0;title\a", "\r\x08", "\u202e"])
def test_recorded_text_does_not_control_the_player(text: str) -> None:
    _, rest = record_cast(transcript_lines.prompt_line(text), transcript_lines.agent_chunk(text))
    data = re.sub(r"\x1b\[[0-9;]*m|\r\n", "", "".join(event[2] for event in rest))
    assert data.isprintable()


def test_a_conversation_without_words_has_only_a_header() -> None:
    assert events([])[1] == []


def test_the_fixture_becomes_a_recording(tmp_path: Path) -> None:
    lines = (Path(__file__).parents[3] / "fixtures/conversations/login.jsonl").read_bytes().splitlines(True)
    _, rest = record_cast(*lines[1:])
    assert len(rest) > 50
    assert "Turn 3" in "".join(event[2] for event in rest)
