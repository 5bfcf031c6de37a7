"""A secret spread over the chunks of a message is masked in each, however it was cut, and nothing else is."""

import json
import random
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.redaction.masking import Masking, apply_changes
from acp_proxy.redaction.split_secrets import OVERLAP, WINDOW, SplitSecretFinder
from tests.redaction.made_up_secrets import RULE_NAMES, plant
from tests.store import transcript_lines

MASKING = Masking()
TOKEN = plant("GitHub token", random.Random(0)).secret


def chunk_line(text: str, kind: str = update_kinds.AGENT_CHUNK, message: str | None = None) -> bytes:
    content = {"type": "text", "text": text}
    if message is None:
        return transcript_lines.update(kind, content=content)
    return transcript_lines.update(kind, content=content, messageId=message)


def redacted(lines: Iterable[bytes], masking: Masking = MASKING) -> list[bytes]:
    """The lines after each was masked, and then what is spread over several."""
    data, at, joined = bytearray(), 0, SplitSecretFinder(masking)
    changes = []
    for line in lines:
        data += masking.mask_lines(line)
        changes += list(joined.add(bytes(data[at:]), at))
        at = len(data)
    changes += list(joined.end())
    return apply_changes(bytes(data), changes).splitlines(keepends=True)


def text_of(line: bytes) -> str:
    return str(json.loads(line)["message"]["params"]["update"]["content"]["text"])


def read_chunk_texts(lines: Iterable[bytes]) -> list[str]:
    return [text_of(line) for line in lines if b"_chunk" in line]


def cut_text(text: str, chance: random.Random, pieces: int) -> list[str]:
    places = sorted(chance.sample(range(1, len(text)), pieces - 1))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def is_masked(text: str, secret: str) -> bool:
    """Whether the text is only marks and stars, as long as the secret's JSON text."""
    for mark in ("[redacted private key]", "[redacted]"):
        text = text.replace(mark, "*" * len(mark))
    return set(text) == {"*"} and len(text) == len(json.dumps(secret)) - 2


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_a_secret_cut_anywhere_is_masked_and_its_neighbours_are_not(rule: str) -> None:
    for number in range(25):
        chance = random.Random(repr((rule, number)))
        example = plant(rule, chance)
        before, after = f"use {example.before}", f"{example.after} in peace"
        parts = cut_text(before + example.secret + after, chance, chance.randint(2, 7))
        told = "".join(read_chunk_texts(redacted(map(chunk_line, parts))))
        assert told.startswith(before), parts
        assert told.endswith(after), parts
        assert is_masked(told[len(before) : -len(after)], example.secret), (parts, told)


def test_a_secret_cut_at_any_place_is_masked() -> None:
    for at in range(1, len(TOKEN)):
        chunk_texts = read_chunk_texts(redacted([chunk_line("a " + TOKEN[:at]), chunk_line(TOKEN[at:] + " b")]))
        assert chunk_texts[0] + chunk_texts[1] in (
            f"a {'*' * len(TOKEN)} b",
            f"a [redacted]{'*' * (len(TOKEN) - 10)} b",
        )


@pytest.mark.parametrize(
    "between",
    [
        transcript_lines.update("usage_update", used=1),
        transcript_lines.update("tool_call_update", toolCallId="1", status="completed"),
        transcript_lines.info(title="a title"),
        transcript_lines.note("closed"),
        b"garbage\n",
        transcript_lines.message({"id": 7, "method": acp.REQUEST_PERMISSION, "params": {"sessionId": "s"}}, Peer.AGENT),
    ],
)
def test_other_entries_may_come_between_the_chunks(between: bytes) -> None:
    lines = redacted([chunk_line(f"a {TOKEN[:9]}"), between, chunk_line(f"{TOKEN[9:]} b")])
    assert read_chunk_texts(lines) == ["a *********", f"[redacted]{'*' * (len(TOKEN) - 19)} b"] or read_chunk_texts(
        lines
    ) == [
        "a *********",
        f"{'*' * (len(TOKEN) - 9)} b",
    ]
    assert lines[1] == between


def test_messages_with_ids_of_their_own_may_be_interleaved() -> None:
    first, second = TOKEN[:12], TOKEN[12:]
    lines = [
        *(
            chunk_line(first, message="1"),
            chunk_line("word ", message="2"),
            chunk_line("w", update_kinds.THOUGHT_CHUNK, "3"),
        ),
        *(
            transcript_lines.update(update_kinds.TOOL_CALL, toolCallId="1"),
            chunk_line(second, message="1"),
            chunk_line("end", message="2"),
        ),
    ]
    assert read_chunk_texts(redacted(lines)) == ["[redacted]**", "word ", "w", "*" * len(second), "end"]


@pytest.mark.parametrize(
    "between",
    [
        chunk_line("I think", update_kinds.THOUGHT_CHUNK),
        transcript_lines.update(update_kinds.TOOL_CALL, toolCallId="1"),
        transcript_lines.prompt_line("go on"),
    ],
)
def test_chunks_that_are_not_one_message_are_not_joined(between: bytes) -> None:
    lines = [chunk_line(TOKEN[:12]), between, chunk_line(TOKEN[12:])]
    assert redacted(lines) == lines


def test_messages_of_two_sessions_or_kinds_or_ids_are_not_joined() -> None:
    halves = TOKEN[:12], TOKEN[12:]
    for second in (
        chunk_line(halves[1], message="2"),
        chunk_line(halves[1], update_kinds.THOUGHT_CHUNK, "1"),
        transcript_lines.update(
            update_kinds.AGENT_CHUNK, session="other", content={"type": "text", "text": halves[1]}, messageId="1"
        ),
    ):
        lines = [chunk_line(halves[0], message="1"), second]
        assert redacted(lines) == lines


def test_a_secret_that_fills_its_chunk_ends_with_it() -> None:
    lines = [chunk_line(f"a {TOKEN}"), chunk_line(" after it"), chunk_line(f"{TOKEN}"), chunk_line(". So")]
    assert read_chunk_texts(redacted(lines))[1::2] == [" after it", ". So"]


def test_a_key_whose_beginning_was_masked_live_is_masked_to_its_end() -> None:
    example = plant("private key (PEM, OpenSSH, PGP)", random.Random(3))
    for at in range(100, len(example.secret) - 1, 37):
        chunk_texts = read_chunk_texts(
            redacted([chunk_line("a " + example.secret[:at]), chunk_line(example.secret[at:] + "\nthe end")])
        )
        assert chunk_texts[1].strip("*") == "\nthe end"


def test_the_rest_of_a_secret_that_was_masked_live_may_contain_dots() -> None:
    chunk_texts = read_chunk_texts(
        redacted([chunk_line("Bearer abcdefghijklmnop1"), chunk_line("Z.GDKf.x"), chunk_line("y. So it is.")])
    )
    assert chunk_texts[1:] == ["********", "*. So it is."]


def test_chunks_that_are_not_text_or_are_truncated_are_skipped() -> None:
    image = transcript_lines.update(
        update_kinds.AGENT_CHUNK, content={"type": "image", "data": "aaaa", "mimeType": "image/png"}
    )
    odd = transcript_lines.update(update_kinds.AGENT_CHUNK, content={"type": "text", "text": 3})
    lines = [chunk_line(TOKEN[:12]), image, odd, b'{"at":"x","_chunk":\n', chunk_line(TOKEN[12:])]
    assert read_chunk_texts([redacted(lines)[-1]]) == ["*" * (len(TOKEN) - 12)]


def test_long_messages_are_searched_in_overlapping_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret lies across each place where a search may end."""
    size = 997
    for shift in range(0, 60, 13):
        text = "x " * ((WINDOW - shift) // 2) + f" {TOKEN} " + "y " * (OVERLAP + 100)
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        told = "".join(read_chunk_texts(redacted(map(chunk_line, parts))))
        start = text.index(TOKEN)
        assert told[:start] == text[:start]
        assert told[start + len(TOKEN) :] == text[start + len(TOKEN) :]
        assert set(told[start : start + len(TOKEN)]) <= set("[redacted]*")


def test_the_text_held_of_a_message_is_limited() -> None:
    joined = SplitSecretFinder(MASKING)
    for number in range(3 * WINDOW // 1000):
        list(joined.add(chunk_line("x" * 1000), number * 2000))
        [message] = joined._messages.values()
        assert message._length == sum(len(piece.text.text) for piece in message._pieces) < WINDOW + 1000


def test_the_number_of_unfinished_messages_held_is_limited() -> None:
    joined = SplitSecretFinder(MASKING)
    for number in range(100):
        list(joined.add(chunk_line("x", message=str(number)), number))
    assert len(joined._messages) <= 16


PIECES = st.lists(st.sampled_from([*'aé😀\n"\\ -', TOKEN, TOKEN[:20], TOKEN[20:]]), max_size=12)


@given(PIECES, st.sampled_from([None, "1"]))
def test_masking_again_changes_nothing_and_every_line_keeps_its_length(parts: list[str], message: Any) -> None:
    lines = [chunk_line(part, message=message) for part in parts]
    once = redacted(lines)
    assert [len(line) for line in once] == [len(line) for line in lines]
    assert not re.search(f"(?<![A-Za-z0-9]){TOKEN}", "".join(read_chunk_texts(once)))
    assert redacted(once) == once
