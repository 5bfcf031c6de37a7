"""Reading a line never raises, ids keep their own text, and our messages are one line of JSON each."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Batch, Notification, Opaque, Peer, Request, RequestId, Response, read_message
from tests.strategies import messages, one_line, spelled, values

DEEP = 100_000

# Every kind of id, as a peer may write it.
IDS = [
    "0",
    "1",
    '"1"',
    "1.0",
    "true",
    "false",
    "null",
    '"null"',
    '""',
    "-1",
    "9007199254740991",
    "9007199254740993",
    "18446744073709551615",
    "1180591620717411303424",
    "1180591620717411303425",
    "-1180591620717411303424",
    "1" * 10_000,
    "1e400",
    "1e401",
    "1E5",
    "0.1",
    '"req-1"',
    '"\\ud800"',
    '"\\udc00"',
    '"\\ud800 and more"',
    '"acp-proxy/1"',
    "[1]",
    "[1180591620717411303424]",
    '{"a":1}',
]


def request(id: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"method":"session/list"}\n' % id.encode()


def id_of(line: bytes) -> RequestId:
    message = read_message(line)
    assert isinstance(message, Request | Response)
    assert message.id is not None
    return message.id


def test_a_request_has_an_id_and_a_method() -> None:
    raw = b'{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"a":[1]}}'
    assert read_message(raw + b"\n") == Request(raw, RequestId("7"), "session/prompt", {"a": [1]})


def test_a_notification_has_a_method_and_no_id() -> None:
    raw = b'{"jsonrpc":"2.0","method":"session/cancel"}'
    assert read_message(raw) == Notification(raw, "session/cancel", None)


def test_a_request_with_a_null_id_is_a_request() -> None:
    message = read_message(b'{"id":null,"method":"x"}')
    assert isinstance(message, Request)
    assert message.id == "null"


def test_a_response_has_a_result_or_an_error_and_no_method() -> None:
    assert read_message(b'{"id":1,"result":null}') == Response(b'{"id":1,"result":null}', RequestId("1"), None, None)
    undefined = b'{"jsonrpc":"2.0","id":1}'  # as JavaScript writes it
    assert read_message(undefined) == Response(undefined, RequestId("1"), None, None)
    failed = read_message(b'{"id":"a","error":{"code":1}}')
    assert failed == Response(b'{"id":"a","error":{"code":1}}', RequestId('"a"'), None, {"code": 1})
    assert read_message(b'{"error":{}}') == Response(b'{"error":{}}', None, None, {})


def test_a_batch_keeps_the_bytes_of_each_of_its_messages() -> None:
    raw = b'[ {"id":1.0, "method":"a"} ,\t{"method":"b"},7,[ ]]'
    message = read_message(raw)
    assert isinstance(message, Batch)
    assert message.raw == raw
    assert message.messages == (
        Request(b'{"id":1.0, "method":"a"}', RequestId("1.0"), "a", None),
        Notification(b'{"method":"b"}', "b", None),
        Opaque(b"7", is_json=False),
        Opaque(b"[ ]", is_json=False),
    )


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[]", b'{"method":7}', b'{"method":null,"result":1}', b'{"id":1}', b'{"jsonrpc":"2.0"}', b'\t{"a":1} \r'],
)
def test_an_object_or_array_that_is_not_a_message_is_still_json(line: bytes) -> None:
    message = read_message(line + b"\n")
    assert message.raw == line
    assert isinstance(message, Batch) or message == Opaque(line, is_json=True)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"\r",
        b"42",
        b"null",
        b'"text"',
        b"npm notice: a new version",
        b"{",
        b'{"method":"x"',
        b'{"method":"x"}}',
        b'{"method":"x"} {"method":"y"}',
        b"{'method':'x'}",
        b'{"method":"a\tb"}',
        b"\0",
        b'{"a":1,}',
    ],
)
def test_anything_but_an_object_or_array_is_not_json(line: bytes) -> None:
    assert read_message(line + b"\n") == Opaque(line, is_json=False)


def test_only_one_newline_is_removed_from_a_line() -> None:
    assert read_message(b"{}\r\n").raw == b"{}\r"
    assert read_message(b"x\n\n").raw == b"x\n"


def test_the_last_of_duplicate_keys_counts() -> None:
    raw = b'{"id":1,"method":"a","id":2.0,"params":{"x":1},"method":"b","params":{"x":2}}'
    assert read_message(raw) == Request(raw, RequestId("2.0"), "b", {"x": 2})


def test_a_byte_order_mark_is_accepted() -> None:
    raw = b'\xef\xbb\xbf{"id":1.50,"method":"a"}'
    assert read_message(raw + b"\n") == Request(raw, RequestId("1.50"), "a", None)
    batch = read_message(b'\xef\xbb\xbf[{"method":"a"}]')
    assert isinstance(batch, Batch)
    assert batch.messages == (Notification(b'{"method":"a"}', "a", None),)


def test_invalid_utf8_is_accepted() -> None:
    message = read_message(b'{"method":"a","params":{"text":"\xff\xe2\x82"}}')
    assert isinstance(message, Notification)
    assert message.method == "a"


@pytest.mark.parametrize("depth", [1000, 1023, 1024, 1025, DEEP])
def test_deep_nesting_passes_as_json(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for line in (nested, b'{"method":"x","params":%s}' % nested, b'{"id":%s,"method":"x"}' % nested):
        message = read_message(line)
        assert message.raw == line
        assert not isinstance(message, Opaque) or message.is_json


@pytest.mark.parametrize("depth", range(960, 1030))
def test_nesting_near_the_limit_of_a_reader_does_not_raise(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for line in (nested, b'{"id":%s,"method":"x"}' % nested, b'{"id":%s,"result":1}' % nested, b"[%s,1.5]" % nested):
        assert read_message(line).raw == line


def test_numbers_of_ten_thousand_digits_are_accepted() -> None:
    digits = b"9" * 10_000
    for number in (digits, b"-" + digits, b"0." + digits, digits + b"e-9999", b"1e" + digits):
        message = read_message(b'{"method":"a","params":{"n":%s}}' % number)
        assert isinstance(message, Notification)
        assert message.method == "a"


# --- ids


def test_ids_of_different_kinds_are_different() -> None:
    assert len({id_of(request(id)) for id in IDS}) == len(IDS)


@pytest.mark.parametrize("id", IDS, ids=lambda id: id[:24])
def test_an_answer_repeats_the_text_of_the_id(id: str) -> None:
    assert jsonrpc.encode_result(id_of(request(id)), {}) == b'{"jsonrpc":"2.0","id":%s,"result":{}}\n' % id.encode()


@pytest.mark.parametrize("id", IDS, ids=lambda id: id[:24])
def test_a_request_and_its_answer_have_the_same_id_whatever_surrounds_it(id: str) -> None:
    asked = id_of(request(id))
    assert asked == id_of(b' { "result" : { "id" : 5.5 } , "id" :\t%s , "x":1.5}' % id.encode())
    assert asked == id_of(b'{"id":99,"error":{},"\\u0069d":%s}' % id.encode())
    [message] = read_one_of_batch(b'[ {"method":"x","id":%s} ]' % id.encode())
    assert isinstance(message, Request)
    assert message.id == asked


def read_one_of_batch(line: bytes) -> tuple[jsonrpc.Message, ...]:
    batch = read_message(line)
    assert isinstance(batch, Batch)
    return batch.messages


@pytest.mark.parametrize(
    ("written", "again"),
    [('"a"', '"\\u0061"'), ('"/"', '"\\/"'), ('"é"', '"\\u00e9"'), ('"\U0001f600"', '"\\ud83d\\ude00"')],
)
def test_two_spellings_of_one_string_are_one_id(written: str, again: str) -> None:
    assert id_of(request(written)) == id_of(request(again))


@pytest.mark.parametrize("id", IDS, ids=lambda id: id[:24])
def test_an_id_within_parameters_is_read_the_same_way(id: str) -> None:
    raw = b'{"method":"$/cancel_request","params":{"requestId":%s}}' % id.encode()
    message = read_message(raw)
    assert isinstance(message, Notification)
    assert isinstance(message.params, dict)
    request_id = jsonrpc.read_request_id(message.params["requestId"], message.raw, "params", "requestId")
    assert request_id == id_of(request(id))


@given(values)
def test_any_value_can_be_an_id(value: Any) -> None:
    text = json.dumps(value)
    answer = jsonrpc.encode_result(id_of(request(text)), None)
    assert json.dumps(json.loads(answer)["id"]) == json.dumps(json.loads(text))


# --- nothing raises


@given(st.binary())
@example(b"\xef\xbb\xbf")
@example(b"[" * 2000)
@example(b'{"id":1e999999999999,"method":"a"}')
@example(b"-" * 5000)
@example(b'{"":' * 600)
def test_any_bytes_are_read_without_raising_and_kept(data: bytes) -> None:
    line = data.replace(b"\n", b"")
    assert read_message(line + b"\n").raw == line


@given(messages | st.lists(messages, max_size=3) | values)
def test_any_json_value_is_classified(value: Any) -> None:
    raw = one_line(value)
    message = read_message(raw + b"\n")
    assert message.raw == raw
    assert_read(message, json.loads(raw))


@given(spelled(messages | st.lists(messages, max_size=3)))
def test_any_json_value_is_classified_in_any_spelling(text: str) -> None:
    message = read_message(text.encode())
    assert message.raw == text.encode()
    assert_read(message, json.loads(text))


def assert_read(message: jsonrpc.Message, value: Any) -> None:
    match value:
        case list():
            assert isinstance(message, Batch)
            assert [json.loads(each.raw) for each in message.messages] == value
            for each, item in zip(message.messages, value, strict=True):
                if isinstance(item, dict):
                    assert_read(each, item)
                else:
                    assert each == Opaque(each.raw, is_json=False)
        case {"method": str(method)}:
            assert isinstance(message, Request if "id" in value else Notification)
            assert isinstance(message, Request | Notification)
            assert message.method == method
        case dict() if "method" not in value and (
            value.keys() & {"result", "error"} or value.keys() >= {"jsonrpc", "id"}
        ):
            assert isinstance(message, Response)
            assert (message.id is None) == ("id" not in value)
            assert (message.error is None) == (value.get("error") is None)
        case _:
            assert message == Opaque(message.raw, is_json=isinstance(value, dict))


@given(st.data(), spelled(messages))
def test_a_damaged_line_is_read_without_raising(data: st.DataObject, text: str) -> None:
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255).filter(lambda byte: byte != 10))
    assert read_message(bytes(raw)).raw == raw


# --- writing


@given(values)
def test_we_write_a_value_as_one_line_of_json(value: Any) -> None:
    written = jsonrpc.dump(value)
    assert b"\n" not in written
    assert json.loads(written) == json.loads(json.dumps(value))


@given(st.lists(values))
def test_a_value_in_our_spelling_has_parts_in_our_spelling(value: list[Any]) -> None:
    for raw in (json.dumps(value, separators=(",", ":")).encode(), jsonrpc.dump(value)):
        if jsonrpc.equals_dump(raw, jsonrpc.parse(raw)):
            assert raw == b"[" + b",".join(map(jsonrpc.dump, value)) + b"]"


def test_a_part_may_be_in_our_spelling_although_the_whole_has_a_lone_surrogate() -> None:
    value = ["\u00e9", "\ud800"]
    assert not jsonrpc.equals_dump(jsonrpc.dump(value), value)
    assert jsonrpc.equals_dump(jsonrpc.dump(value[:1]), value[:1])


def test_numbers_that_json_lacks_are_written_as_null() -> None:
    value = {"surrogate": "\ud800", "numbers": [float("inf"), {"deep": float("nan")}, 1.5]}
    assert json.loads(jsonrpc.dump(value), parse_constant=pytest.fail)["numbers"] == [None, {"deep": None}, 1.5]
    assert jsonrpc.dump([float("inf")]) == b"[null]"


@pytest.mark.parametrize("depth", [200, 300, 1000, 1023])
def test_extremely_deep_values_are_written_as_far_as_possible(depth: int) -> None:
    written = jsonrpc.dump({"modes": jsonrpc.parse(b"[" * depth + b"]" * depth), "cwd": "/project"})
    assert json.loads(written)["cwd"] == "/project"
    assert written.startswith(b'{"modes":[[[[[[[[[[')


def test_our_answers_and_notifications_are_messages() -> None:
    id = RequestId("1e400")
    assert jsonrpc.encode_result(id, {"a": 1}) == b'{"jsonrpc":"2.0","id":1e400,"result":{"a":1}}\n'
    assert jsonrpc.encode_error(id, -32602, 'not "so"') == (
        b'{"jsonrpc":"2.0","id":1e400,"error":{"code":-32602,"message":"not \\"so\\""}}\n'
    )
    assert jsonrpc.encode_notification("session/update", {"x": "é"}) == (
        '{"jsonrpc":"2.0","method":"session/update","params":{"x":"é"}}\n'.encode()
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"a":1}', True),
        (b'{"a":1.0,"a":1180591620717411303424}', True),
        (b'{"a":1}\r', True),
        (b'{"a":"\\ud800"}', False),
        (b"\xef\xbb\xbf{}", False),
        (b'{"a":"\xff"}', False),
        (b'{"a":NaN}', False),
        (b"{", False),
        (b"", False),
        (b'{"a":1},"b":2', False),
        (b"[" * 1023 + b"]" * 1023, True),
        (b"[" * 1024 + b"]" * 1024, False),
        (b"[" * DEEP + b"]" * DEEP, False),
    ],
    ids=lambda value: str(value)[:24],
)
def test_plain_json_can_be_embedded_in_our_lines_and_read_again(raw: bytes, expected: bool) -> None:
    assert jsonrpc.is_embeddable(raw) is expected


def test_the_error_codes_are_those_of_the_protocol() -> None:
    assert jsonrpc.INVALID_REQUEST == -32600
    assert jsonrpc.INVALID_PARAMS == -32602
    assert jsonrpc.INTERNAL_ERROR == -32603
    assert jsonrpc.REQUEST_CANCELLED == -32800
    assert jsonrpc.RESOURCE_NOT_FOUND == -32002


def test_each_peer_has_another() -> None:
    assert Peer.CLIENT.other is Peer.AGENT
    assert Peer.AGENT.other is Peer.CLIENT


def test_foreign_text_cannot_control_a_terminal() -> None:
    printable = jsonrpc.make_printable("a\x1b[31m\x07\u202eb\nc\td é")
    assert printable == "a\ufffd[31m\ufffd\ufffdb\ufffdc\ufffdd é"


@pytest.mark.parametrize("depth", [64, 65, 1100, DEEP])
@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"x":', b"}"), (b'[{"[{\\"":', b"}]")])
def test_the_outer_levels_of_extremely_deep_values_are_read(depth: int, pair: tuple[bytes, bytes]) -> None:
    nested = pair[0] * depth + b"1" + pair[1] * depth
    message = read_message(b'{"id":"a]","result":{"before":"[{\\\\","deep":%s,"after":[{"b":2}]}}' % nested)
    assert isinstance(message, Response)
    assert message.id == '"a]"'
    assert isinstance(message.result, dict)
    assert (message.result["before"], message.result["after"]) == ("[{\\", [{"b": 2}])


def test_an_unclosed_extremely_deep_value_passes_unread() -> None:
    assert read_message(b'{"method":"a","params":' + b"[" * DEEP) == Opaque(
        b'{"method":"a","params":' + b"[" * DEEP, is_json=True
    )
