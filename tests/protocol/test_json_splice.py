"""Values are found with their places, and replacing one leaves every other byte alone."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_proxy.protocol import json_splice
from tests.strategies import spelled, texts, values

DEEP = 100_000

objects = st.dictionaries(texts, values, min_size=1, max_size=5)
arrays = st.lists(values, max_size=5)


@given(st.binary())
@example(b"\xff\xe2\x82")
@example("\ud800".encode("utf-8", "surrogatepass"))
def test_any_bytes_survive_decoding_and_encoding(data: bytes) -> None:
    assert json_splice.encode(json_splice.decode(data)) == data


@given(spelled(objects))
def test_the_members_of_an_object_are_those_that_json_reads(text: str) -> None:
    spans = json_splice.find_members(text)
    seen = json.loads(text)
    assert spans.keys() == seen.keys()
    for key, (start, end) in spans.items():
        assert json.dumps(json.loads(text[start:end])) == json.dumps(seen[key])
        assert text[start:end] == text[start:end].strip()


@given(spelled(arrays))
def test_the_elements_of_an_array_are_those_that_json_reads(text: str) -> None:
    found = [json.loads(text[start:end]) for start, end in json_splice.find_elements(text)]
    assert json.dumps(found) == json.dumps(json.loads(text))


@given(spelled(values))
def test_the_whole_is_the_value_without_surrounding_white_space(text: str) -> None:
    start, end = json_splice.find_value(text)
    assert text[start:end] == text.strip(" \t")


def test_a_result_is_replaced_and_the_other_bytes_stay() -> None:
    raw = b'{"result" :null, "id":1.0,"result": null ,"_x":"\xff"}'
    assert json_splice.with_value(raw, "{}", "result") == b'{"result" :null, "id":1.0,"result": {} ,"_x":"\xff"}'


def test_a_value_is_found_by_the_keys_that_lead_to_it() -> None:
    text = '\ufeff {"a":{"b":1},"a":{"b" : [2] ,"c":3}}'
    assert [text[slice(*json_splice.find_span(text, *path))] for path in ((), ("a", "b"), ("a", "c"))] == [
        text[2:],
        "[2]",
        "3",
    ]
    for path, error in ((("a", "d"), KeyError), (("a", "b", "c"), ValueError)):
        with pytest.raises(error):
            json_splice.find_span(text, *path)


@given(st.data(), spelled(objects), values)
def test_replacing_a_value_changes_no_other_byte_and_json_reads_the_new_value(
    data: st.DataObject, text: str, value: Any
) -> None:
    key, (start, end) = data.draw(st.sampled_from(sorted(json_splice.find_members(text).items())))
    raw, new = json_splice.encode(text), json.dumps(value)
    changed = json_splice.encode(json_splice.replace_spans(json_splice.decode(raw), [((start, end), new)]))
    before, after = json_splice.encode(text[:start]), json_splice.encode(text[end:])
    assert (changed[: len(before)], changed[-len(after) :]) == (raw[: len(before)], raw[-len(after) :])
    assert changed == before + new.encode() + after
    expected = json.loads(text) | {key: json.loads(new)}
    assert json.dumps(json.loads(changed)) == json.dumps(expected)


@given(st.data(), spelled(arrays.filter(bool)))
def test_several_changes_at_once_do_not_disturb_one_another(data: st.DataObject, text: str) -> None:
    spans = json_splice.find_elements(text)
    chosen = data.draw(st.sets(st.sampled_from(range(len(spans)))))
    changes = [(spans[number], json.dumps(f"new {number}")) for number in chosen]
    changed = json_splice.replace_spans(text, data.draw(st.permutations(changes)))
    expected = [f"new {at}" if at in chosen else item for at, item in enumerate(json.loads(text))]
    assert json.dumps(json.loads(changed)) == json.dumps(expected)


def test_an_empty_span_inserts() -> None:
    assert json_splice.replace_spans('{"a":1}', [((6, 6), ',"b":2')]) == '{"a":1,"b":2}'
    assert json_splice.replace_spans("{}", [((1, 1), '"b":2')]) == '{"b":2}'


def test_the_last_of_duplicate_keys_counts_even_if_it_is_escaped() -> None:
    text = '{"a":1,"\\u0061":[2], "b":{"a":3}}'
    start, end = json_splice.find_members(text)["a"]
    assert text[start:end] == "[2]"


def test_a_byte_order_mark_and_white_space_before_the_value_are_skipped() -> None:
    assert json_splice.find_value('\ufeff \t{"a":1}\r') == (3, 10)
    assert json_splice.find_members("\r\n\t {}") == {}
    assert json_splice.find_elements(" [ ]") == []


def test_an_object_is_found_within_another() -> None:
    text = '{"params":{ "cwd" : "/x" },"id":1}'
    start, _ = json_splice.find_members(text)["params"]
    inner, end = json_splice.find_members(text, start)["cwd"]
    assert text[inner:end] == '"/x"'


def test_values_that_python_cannot_hold_are_measured_too() -> None:
    number = "1" * 10_000
    text = f'{{"a":{number},"b":-{number}.5e-{number},"c":"\\ud800","d":1e400}}'
    spans = json_splice.find_members(text)
    assert {key: text[start:end] for key, (start, end) in spans.items()} == {
        "a": number,
        "b": f"-{number}.5e-{number}",
        "c": '"\\ud800"',
        "d": "1e400",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\ufeff",
        "{",
        "}",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{1:2}",
        '{"a"}',
        '{"a":}',
        '{"a":1',
        '{"a":1,}',
        '{"a":1 "b":2}',
        '{"a',
        '{"a":"b',
        "{'a':1}",
        "nul",
        "{} {}",
        "[]]",
        "\u00a0{}",
        "1 2",
        "[" * DEEP + "]" * DEEP,
        '{"a":' * DEEP + "1" + "}" * DEEP,
    ],
    ids=lambda text: repr(text)[:20],
)
def test_text_that_is_not_one_json_value_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        json_splice.find_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        '"{}"',
        '{"a":1',
        '{"a":1,}',
        "{'a':1}",
        '{"a" 1}',
        '{"a":[1}',
        '{"',
        '["a":1}',
        '{"a"x1}',
        '{"a":1x"b":2}',
    ],
)
def test_text_that_is_not_an_object_has_no_members(text: str) -> None:
    with pytest.raises(ValueError):
        json_splice.find_members(text)


@pytest.mark.parametrize("text", ["", "{}", "1", '"[]"', "[1", "[1,]", "[1}", "[", "{1]", "[1 22]", "[1x2]"])
def test_text_that_is_not_an_array_has_no_elements(text: str) -> None:
    with pytest.raises(ValueError):
        json_splice.find_elements(text)


@given(st.text(st.sampled_from('{}[]",:\\ \t0x1.eEu"-nul'), max_size=40) | texts)
def test_text_that_only_looks_like_json_is_a_value_error_or_is_read_by_json_too(text: str) -> None:
    try:
        start, end = json_splice.find_value(text)
    except ValueError:
        with pytest.raises(ValueError):
            json.loads(text)
    else:
        json.loads(text[start:end], strict=False)


def test_thousands_of_changes_can_be_made_in_a_large_text() -> None:
    text = json.dumps(["x" * 100] * 20_000)
    changes = [(span, '"y"') for span in json_splice.find_elements(text)]
    assert json_splice.replace_spans(text, changes) == json.dumps(["y"] * 20_000)
