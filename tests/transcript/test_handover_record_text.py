"""The handover handover_record is found again in what an agent replays."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.transcript.handover_record_text import (
    ATTACHED,
    END,
    INTRODUCTION,
    LACKING,
    USER,
    HandoverRecordProgress,
)
from acp_proxy.transcript_replay.handover_record import HandoverRecord
from tests.conversation import chunk, line, update

WORDS = st.text(max_size=30) | st.sampled_from([f"\n{END}\nx", "a\n\nb", "> q", "\u2028x", "\r", USER])
SAID = st.one_of(
    st.builds(chunk, st.just("s"), WORDS, st.sampled_from(["user_message_chunk", "agent_message_chunk"])),
    st.builds(lambda id, title: update("s", "tool_call", toolCallId=id, title=title, status="failed"), WORDS, WORDS),
    st.builds(lambda text: update("s", "plan", entries=[{"content": text, "status": "pending"}]), WORDS),
)
HANDOVER_RECORD = f"{INTRODUCTION}\n\n{USER}\n> mend it\n\n{END}\n"


def read(pieces: list[str]) -> tuple[int | None, HandoverRecordProgress | None]:
    """How many letters of the pieces belong to a handover_record, and what was read last."""
    handover_record: HandoverRecordProgress | None = HandoverRecordProgress()
    before = 0
    for piece in pieces:
        handover_record = handover_record.read(piece) if handover_record is not None else None
        if handover_record is None:
            return None, None
        if handover_record.end is not None:
            return before + handover_record.end, handover_record
        before += len(piece)
    return None, handover_record


@given(
    said=st.lists(SAID, max_size=8),
    limit=st.sampled_from([400, 2000, 64 * 1024]),
    begins=st.sampled_from([INTRODUCTION, LACKING]),
    cuts=st.lists(st.integers(0, 3000), max_size=5),
    words=st.text(max_size=10),
)
def test_the_end_of_every_record_is_found_however_it_is_cut(
    said: list[dict[str, Any]], limit: int, begins: str, cuts: list[int], words: str
) -> None:
    made = HandoverRecord(limit, introduction=begins)
    for each in said:
        made.add(line(each))
    if made.is_empty:
        return
    handover_record = made.make_text()
    text = handover_record + words
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    end, _ = read([text[a:b] for a, b in pairwise(places)])
    assert end is not None
    assert text[:end].rstrip("\n") == handover_record.rstrip("\n")


@pytest.mark.parametrize(
    "text",
    [
        "mend it",
        INTRODUCTION.replace("earlier", "old"),
        f" {HANDOVER_RECORD}",
        f"{INTRODUCTION}\nand I say:\n> mend it\n\n{END}\n",
        HANDOVER_RECORD.replace(f"{END}\n", f"{END} Really.\n"),
        HANDOVER_RECORD.replace("> mend it", "mend it"),
    ],
)
def test_what_only_looks_like_a_record_is_none(text: str) -> None:
    assert HandoverRecordProgress().read(text) is None


@pytest.mark.parametrize("end", range(1, len(HANDOVER_RECORD) - 1))
def test_the_beginning_of_a_record_may_go_on(end: int) -> None:
    handover_record = HandoverRecordProgress().read(HANDOVER_RECORD[:end])
    assert handover_record is not None
    assert handover_record.end is None


def test_a_record_says_how_many_blocks_follow_it() -> None:
    end, handover_record = read([HANDOVER_RECORD.replace(END, f"{ATTACHED}image 1, resource 2.\n\n{END}")])
    assert end is not None
    assert handover_record is not None
    assert handover_record.attached == 2
