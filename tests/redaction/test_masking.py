"""A masked line keeps its length and all its other text, and has nothing left of the secret."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import acp, json_splice
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.redaction.masking import PROTECTED, DecodedText, Masking, apply_changes
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header
from tests.redaction.made_up_secrets import RULE_NAMES, plant
from tests.strategies import spelled, values

ROOT = Path(__file__).parents[2]
AT, RUN = "2026-11-20T09:15:02.123Z", "k3f9a1"
TOKEN = plant("GitHub token", random.Random(0)).secret
MASK = "[redacted]" + "*" * (len(TOKEN) - 10)
MASKING = Masking()


def entry_line(message: bytes) -> bytes:
    return file_format.encode_message(AT, RUN, Peer.AGENT, message)


def mask_value(value: Any) -> Any:
    """The masked message, as a value."""
    line = MASKING.mask_lines(entry_line(json.dumps(value).encode()))
    return json.loads(line)["message"]


def escape_text(text: str, which: str, chance: random.Random) -> str:
    """The inside of a JSON string with this text."""
    if which == "every":
        return "".join(f"\\u{unit:04X}" for unit in units(text))
    if which == "some":
        return "".join(
            f"\\u{ord(one):04x}" if one < "\x80" and chance.random() < 0.3 else json.dumps(one)[1:-1] for one in text
        )
    if which == "slashes":
        return json.dumps(text)[1:-1].replace("/", "\\/")
    return json.dumps(text, ensure_ascii=which == "ascii")[1:-1]


def units(text: str) -> list[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]


ESCAPES = ("none", "ascii", "every", "some", "slashes")


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("rule", RULE_NAMES)
def test_every_secret_is_masked_in_every_spelling_and_nothing_else_is(rule: str, escape: str) -> None:
    chance = random.Random(repr((rule, escape)))
    example = plant(rule, chance)
    before, inside, after = (
        escape_text(text, escape, chance) for text in (f"é 😀\n{example.before}", example.secret, example.after)
    )
    start = entry_line(b"%b")[: -len(b"%b}\n")] + b'{"k":[{"text":"' + before.encode()
    end = after.encode() + b' \xc3\xa9","n":1.0}]}}\n'
    line = start + inside.encode() + end
    done = MASKING.mask_lines(line)
    assert len(done) == len(line)
    assert (done[: len(start)], done[-len(end) :]) == (start, end)
    assert done[len(start) : -len(end)].strip(b"*") in (b"[redacted]", b"[redacted private key]", b"")
    assert MASKING.mask_lines(done) == done


@given(st.data())
def test_a_secret_anywhere_in_any_value_is_masked_and_the_rest_stays(data: st.DataObject) -> None:
    found = data.draw(spelled(places_for("\ue000")))
    plain = json.loads(found.replace("\ue000", "").replace("\\ue000", ""))
    line = entry_line(
        found.replace("\ue000", f" {TOKEN} ").replace("\\ue000", f" {TOKEN} ").encode("utf-8", "surrogatepass")
    )
    done = MASKING.mask_lines(line)
    assert len(done) == len(line)
    assert TOKEN.encode() not in done
    told = done[len(entry_line(b"")) - 2 : -2].decode("utf-8", "surrogatepass")
    assert told.replace(f" {MASK} ", "") == found.replace("\ue000", "").replace("\\ue000", "")
    assert repr(json.loads(told.replace(f" {MASK} ", ""))) == repr(plain)


def places_for(place: str) -> st.SearchStrategy[Any]:
    """Any value with a string somewhere that contains this character."""
    around = st.text(st.characters(exclude_characters=place), max_size=5)
    string = st.builds(lambda before, after: before + place + after, around, around)
    keys = st.text(st.characters(exclude_characters=place), max_size=9).filter(lambda key: key not in PROTECTED)
    other = values.filter(lambda value: place not in json.dumps(value, ensure_ascii=False))
    return st.recursive(
        string,
        lambda inner: (
            st.builds(lambda a, one, b: [a, one, b], other, inner, other)
            | st.builds(lambda key, one: {key: one}, keys, inner)
        ),
        max_leaves=1,
    )


@given(st.binary() | spelled().map(lambda text: text.encode("utf-8", "surrogatepass")), st.booleans())
def test_without_a_secret_nothing_is_raised_and_nothing_changes(data: bytes, has_patterns: bool) -> None:
    masking = Masking(["no such text"] if has_patterns else [])
    assert masking.mask_lines(data) == data
    assert masking.mask_lines(entry_line(data)) == entry_line(data)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_secret_between_any_bytes_is_masked(before: bytes, after: bytes) -> None:
    line = before.replace(b"\n", b"") + b" " + TOKEN.encode() + b" " + after.replace(b"\n", b"") + b"\n"
    done = MASKING.mask_lines(line)
    assert (len(done), done.count(b"\n")) == (len(line), 1)
    assert TOKEN.encode() not in done or is_key(line)


def is_key(line: bytes) -> bool:
    """Whether the line is JSON: then the secret may be a key, or in a place that is not masked."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("key", sorted(PROTECTED))
def test_protected_members_are_kept_except_within_free_form_values(key: str) -> None:
    value = {"params": {key: TOKEN, "x": [{key: [TOKEN]}], "rawInput": {key: TOKEN, "y": [{key: TOKEN}]}, "z": TOKEN}}
    assert mask_value(value)["params"] == {
        key: TOKEN,
        "x": [{key: [TOKEN]}],
        "z": MASK,
        "rawInput": {key: MASK, "y": [{key: MASK}]},
    }


def test_keys_are_kept_and_help_to_find_secret_values() -> None:
    secret = plant("AWS secret access key, after its name", random.Random(0)).secret
    value = {TOKEN: 1, "env": {"AWS_SECRET_ACCESS_KEY": secret, "OTHER": secret}}
    assert mask_value(value) == {TOKEN: 1, "env": {"AWS_SECRET_ACCESS_KEY": "[redacted]" + "*" * 30, "OTHER": secret}}


def test_the_header_is_kept() -> None:
    header = file_format.encode_header(Header("s", f"/home/{TOKEN}", file_format.RECORDED, AT))
    assert MASKING.mask_lines(header) == header


@pytest.mark.parametrize(
    "broken", [b'{"text":"\\ud800 %b"}', b'{"text":"\\n%b', b"%b\xff", b'\xef\xbb\xbf{"t":"\\n%b"}']
)
def test_a_line_recorded_as_a_string_is_masked_within_the_string(broken: bytes) -> None:
    line = file_format.encode_message(AT, RUN, Peer.CLIENT, broken.replace(b"%b", TOKEN.encode()), is_plain=False)
    masked = file_format.decode_entry(MASKING.mask_lines(line))
    assert masked is not None
    assert masked.raw == broken.replace(b"%b", MASK.encode())


def test_escapes_in_a_line_recorded_as_a_string_are_decoded() -> None:
    raw = b'{"text":"\\ud800 ' + escape_text(TOKEN, "every", random.Random(0)).encode() + b'"}'
    line = file_format.encode_message(AT, RUN, Peer.CLIENT, raw, is_plain=False)
    done = MASKING.mask_lines(line)
    assert len(done) == len(line)
    masked = file_format.decode_entry(done)
    assert masked is not None
    assert masked.value == {"text": "\ud800 [redacted]" + "*" * (7 * len(TOKEN) - 10)}


def test_a_truncated_line_and_what_is_attached_to_it_are_masked() -> None:
    whole = entry_line(json.dumps({"sessionId": TOKEN, "text": f"a\n{TOKEN}"}).encode())
    torn = b'{"at":"2026","message":{"text":"b\\n' + TOKEN.encode()
    done = MASKING.mask_lines(torn + b"\n" + torn + whole)
    assert done == torn.replace(TOKEN.encode(), MASK.encode()) + b"\n" + torn.replace(
        TOKEN.encode(), MASK.encode()
    ) + whole.replace(b"\\n" + TOKEN.encode(), b"\\n" + MASK.encode())


def test_a_pattern_that_matches_the_words_of_a_mask_leaves_it_whole() -> None:
    line = b'{"text":"[redacted]***** and [redacted private key], an act"}'
    masked = Masking(["act", "private"]).mask_lines(line)
    assert masked == b'{"text":"[redacted]***** and [redacted private key], an ***"}'


def test_several_secrets_are_masked_and_masking_again_changes_nothing() -> None:
    text = f"{TOKEN} and {TOKEN}, https://me:{'x' * 9}@host"
    lines = entry_line(json.dumps({"text": text}).encode()) * 2 + entry_line(b'{"text":"no"}')
    done = MASKING.mask_lines(lines)
    assert done.count(MASK.encode()) == 4
    assert done.count(b"https://me:*********@host") == 2
    assert MASKING.mask_lines(done) == done


def test_user_patterns_match_the_decoded_text() -> None:
    masking = Masking(["(?i)straße \\d+", "^secret$"])
    line = entry_line(b'{"a":"Stra\\u00dfe 12, STRA\xc3\x9fE 3","b":"\\u0073ecret","c":"no secret"}')
    assert json.loads(masking.mask_lines(line))["message"] == {
        "a": "[redacted]****, *********",
        "b": "[redacted]*",
        "c": "no secret",
    }


def test_a_pattern_that_matches_everything_leaves_a_readable_transcript() -> None:
    lines = (ROOT / "fixtures" / "transcripts" / "v1" / "conversation.jsonl").read_bytes()
    masked = Masking(["(?s).+"]).mask_lines(lines)
    assert masked.count(b"[redacted]") > 5
    for line, done in zip(lines.splitlines()[1:], masked.splitlines()[1:], strict=True):
        before, after = file_format.decode_entry(line), file_format.decode_entry(done)
        assert before is not None
        assert after is not None
        assert (after.at, after.run, after.peer, after.answered_method) == (
            before.at,
            before.run,
            before.peer,
            before.answered_method,
        )
        assert read(after.value) == read(before.value)
        assert (after.note or {}).get("type") == (before.note or {}).get("type")


def read(value: object) -> list[object]:
    """The members that distinguish messages."""
    params = acp.member(value, "params")
    update = acp.member(params, "update")
    keys = ("sessionUpdate", "messageId", "toolCallId", "status", "kind")
    return [
        acp.member(value, "id"),
        acp.text(value, "method"),
        acp.session_id(params),
        *(acp.text(update, key) for key in keys),
    ]


@given(spelled(st.text(st.characters())), st.data())
def test_every_position_in_a_text_is_known_in_its_bytes(literal: str, data: st.DataObject) -> None:
    raw = json_splice.encode(literal.strip(" \t")[1:-1])
    text = DecodedText(raw)
    assert text.text == json.loads(b'"' + raw + b'"')
    start = data.draw(st.integers(0, len(text.text)))
    end = data.draw(st.integers(start, len(text.text)))
    assert DecodedText(raw[text.find_raw_position(start) : text.find_raw_position(end)]).text == text.text[start:end]


def test_changes_name_their_rule_and_make_the_masked_line() -> None:
    line = entry_line(json.dumps({"text": TOKEN}).encode())
    changes = MASKING.find_changes(line)
    assert [change.rule for change in changes] == ["GitHub token"]
    assert apply_changes(line, changes) == MASKING.mask_lines(line)
