"""Parameters from either side are read without trusting them; lines that are changed keep their other bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import acp, json_splice
from acp_proxy.protocol.acp import InvalidParams
from acp_proxy.protocol.jsonrpc import RequestId
from tests.strategies import messages, spelled, texts, values

UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{}}}\n'


def test_a_member_is_found_only_in_an_object() -> None:
    assert acp.member({"a": {"b": 1}}, "a") == {"b": 1}
    others: list[object] = [None, [], ["a"], "a", 1, True, {}]
    assert [acp.member(value, "a") for value in others] == [None] * 7


def test_only_strings_are_text() -> None:
    assert acp.text({"a": "x"}, "a") == "x"
    assert [acp.text({"a": value}, "a") for value in (1, None, ["x"], {"x": 1}, True)] == [None] * 5
    assert acp.session_id({"sessionId": "s"}) == "s"
    assert acp.session_id({"sessionId": 1}) is acp.session_id("s") is acp.session_id(None) is None


def test_only_the_strings_of_a_list_are_taken() -> None:
    assert acp.strings({"a": ["x", 1, None, "y", ["z"]]}, "a") == ["x", "y"]
    assert [acp.strings({"a": value}, "a") for value in ("xy", 1, None, {"x": 1})] == [[]] * 4
    assert acp.strings(None, "a") == []


@pytest.mark.parametrize("params", [None, {}, {"cwd": None}, {"cursor": "x"}])
def test_absent_and_null_parameters_are_none(params: object) -> None:
    assert acp.optional_text(params, "cwd") is None
    with pytest.raises(InvalidParams):
        acp.required_text(params, "cwd")


@pytest.mark.parametrize(
    "params", [[], ["/x"], "x", 1, True, False, 0, "", {"cwd": 1}, {"cwd": ["/x"]}, {"cwd": False}]
)
def test_parameters_of_the_wrong_type_are_invalid(params: object) -> None:
    with pytest.raises(InvalidParams):
        acp.optional_text(params, "cwd")
    with pytest.raises(InvalidParams):
        acp.required_text(params, "cwd")


def test_a_parameter_is_taken_even_if_it_is_empty() -> None:
    assert acp.optional_text({"cwd": ""}, "cwd") == ""
    assert acp.required_text({"sessionId": "s"}, "sessionId") == "s"


@pytest.mark.parametrize("marker", [True, {}, {"x": 1}, [], 0, "", "yes"])
def test_a_capability_is_offered_when_its_marker_is_present(marker: object) -> None:
    assert acp.has_capability({"list": marker}, "list")


@pytest.mark.parametrize("capabilities", [None, {}, {"list": None}, {"list": False}, [], "list", {"load": {}}])
def test_a_capability_is_not_offered_when_its_marker_is_absent_null_or_false(capabilities: object) -> None:
    assert not acp.has_capability(capabilities, "list")


@pytest.mark.parametrize("path", ["/", "/home/me", "C:\\x", "c:/x", "\\\\server\\share", "//x", "/\0"])
def test_absolute_paths_of_any_system_are_absolute(path: str) -> None:
    assert acp.is_absolute(path)


@pytest.mark.parametrize("path", ["", ".", "x", "./x", "../x", "~", "C:x", "C:", "\\x", "file:///x", " /x", "1:/x"])
def test_other_paths_are_not_absolute(path: str) -> None:
    assert not acp.is_absolute(path)


def test_the_kind_of_an_update_is_a_string_or_none() -> None:
    assert acp.update_kind({"sessionUpdate": "plan"}) == "plan"
    assert acp.update_kind({"sessionUpdate": 1}) is acp.update_kind("plan") is None


# --- updates recognised by their beginning


@pytest.mark.parametrize("id", [b"s-1", b"", b"a b/c:d", "é\u2028😀".encode(), b"\xff"])
def test_an_update_as_sdks_write_it_is_recognised_by_its_beginning(id: bytes) -> None:
    assert acp.find_plain_session_id(UPDATE.replace(b"s-1", id)) == id


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b" " + UPDATE,
        UPDATE.replace(b"s-1", b"\\u0073-1"),
        UPDATE.replace(b"s-1", b's\\"1'),
        UPDATE.replace(b'"s-1"', b"1"),
        UPDATE.replace(b'":"2', b'": "2'),
        UPDATE.replace(b"session/update", b"session/updates"),
        b'{"id":1,"jsonrpc":"2.0","method":"session/prompt","params":{"x":"' + UPDATE,
        acp.UPDATE_PREFIX,
        acp.UPDATE_PREFIX + b"torn",
    ],
)
def test_any_other_line_has_to_be_parsed(line: bytes) -> None:
    assert acp.find_plain_session_id(line) is None


@given(texts, values)
def test_the_session_found_by_the_beginning_is_the_parsed_one(session: str, update: Any) -> None:
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}
    line = json.dumps(message, separators=(",", ":")).encode()
    plain_session_id = acp.find_plain_session_id(line)
    assert plain_session_id == (None if "\\" in json.dumps(session) else session.encode())


# --- lines that are changed


def test_a_request_gets_another_method_and_keeps_its_other_bytes() -> None:
    raw = b'\xef\xbb\xbf { "method" : "x","params":{"method":"y","n":1.0},"id":1e400, "m\\u0065thod":"session/load" }\r'
    assert acp.with_method(raw, acp.RESUME) == raw.replace(b"session/load", b"session/resume")


@given(spelled(messages.map(lambda value: value | {"method": "session/load", "result": None})))
def test_only_the_replaced_value_changes(text: str) -> None:
    assert json.loads(acp.with_method(text.encode(), "new")) == json.loads(text) | {"method": "new"}
    assert json.loads(json_splice.with_value(text.encode(), "[1]", "result")) == json.loads(text) | {"result": [1]}


@given(texts, texts, spelled())
def test_a_block_of_a_prompt_becomes_an_update_recognised_by_its_beginning(
    session: str, message_id: str, block: str
) -> None:
    line = acp.encode_user_chunk(session, block.encode(), message_id)
    assert line.startswith(acp.UPDATE_PREFIX)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert block.encode() in line
    params = json.loads(line)["params"]
    assert json.dumps(params["sessionId"]) == json.dumps(json.loads(json.dumps(session)))
    assert params["update"] == {
        "sessionUpdate": "user_message_chunk",
        "content": json.loads(block),
        "messageId": json.loads(json.dumps(message_id)),
    }


@given(st.data(), values)
def test_reading_parameters_never_raises(data: st.DataObject, value: Any) -> None:
    for key in (data.draw(texts), "sessionId"):
        assert acp.text(value, key) is None or isinstance(acp.text(value, key), str)
        assert all(isinstance(item, str) for item in acp.strings(value, key))
        assert acp.has_capability(value, key) in (True, False)
    acp.update_kind(value)


@pytest.mark.parametrize(
    ("line", "id", "wanted"),
    [
        (b'{"id":1,"result":{"id":2}}', "7", b'{"id":7,"result":{"id":2}}'),
        (b' { "result" : 1.0 , "id" : "a" }\n', '"b"', b' { "result" : 1.0 , "id" : "b" }\n'),
    ],
)
def test_a_line_gets_another_id_and_keeps_every_other_byte(line: bytes, id: str, wanted: bytes) -> None:
    assert acp.with_id(line, RequestId(id)) == wanted


def test_a_line_without_an_id_cannot_get_another() -> None:
    with pytest.raises(KeyError):
        acp.with_id(b'{"result":{}}', RequestId("1"))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"code": 1, "message": "no"}, "no"),
        ({"code": 1, "message": "no", "data": "why"}, "no: why"),
        ({"code": 1, "message": "no", "data": {"reason": "less", "details": "why"}}, "no: why"),
        ({"code": 1, "message": "no", "data": {"details": "", "message": 1, "reason": "why"}}, "no: why"),
        ({"code": 1, "message": "no, that is why", "data": "why"}, "no, that is why"),
        ({"code": 1, "message": "", "data": "why"}, "why"),
        ({"code": 1, "data": {"other": "why"}}, None),
        (None, None),
    ],
)
def test_an_error_has_its_message_and_what_its_data_says_more(error: object, reason: str | None) -> None:
    assert acp.read_error(error) == reason
