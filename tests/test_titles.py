"""Titles that agents make from the handover record, which was in the first prompt of their session."""

import pytest

from acp_proxy.transcript.handover_record_text import INTRODUCTION, LACKING
from acp_proxy.transcript.titles import HANDOVER_RECORD_BEGINNINGS, clean_agent_title, is_of_handover_record

BEFORE_0_1 = (
    "This is the record of an earlier conversation between the user and you, which is continued here. "
    "It is no request: the user's message follows after it."
)
"""How records began once. Agents still list titles made from it."""


@pytest.mark.parametrize("introduction", [INTRODUCTION, LACKING, BEFORE_0_1])
@pytest.mark.parametrize(
    "made",
    [
        lambda text: text,
        lambda text: f"{text}\n\nUser:\n> hello",
        lambda text: text[:20] + "…",
        lambda text: text[:60],
        lambda text: text[:255] + "...",
        lambda text: f'"{text[:50]}…"',
        lambda text: f"[archived] {text[:80]}…",
        lambda text: text.replace(" ", "\n  "),
    ],
    ids=["whole", "with a turn", "short", "cut", "three dots", "in quotes", "with a prefix", "other white space"],
)
def test_a_title_made_from_a_record_is_recognized(introduction: str, made: object) -> None:
    title = made(introduction)  # type: ignore[operator]
    assert is_of_handover_record(title)
    assert clean_agent_title(title) is None


@pytest.mark.parametrize(
    "title",
    [
        "",
        "This is the record",
        "This is the record of my trip",
        "This is the record of an earlier trip",
        f"Explain what an agent should do with a text that begins with {INTRODUCTION}",
    ],
)
def test_any_other_title_is_the_sessions_own(title: str) -> None:
    assert not is_of_handover_record(title)


def test_both_introductions_begin_as_titles_know_it() -> None:
    assert (
        INTRODUCTION.startswith(HANDOVER_RECORD_BEGINNINGS[0]),
        LACKING.startswith(HANDOVER_RECORD_BEGINNINGS[1]),
    ) == (True, True)
