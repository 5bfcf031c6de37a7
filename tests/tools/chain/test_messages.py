"""Which side a conductor's line is from, and how a line for a side is written."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.tools.chain.messages import Envelopes, SidedLine
from tests.conversation import cancel, chunk, error, line, notification, permission, prompt, request, result
from tests.decisions.load.loading import DEEP
from tests.strategies import chosen_messages, messages, one_line, spelled

INVALID_REQUEST = -32600
LARGE = b'{"big":12345678901234567890123, "twice":1.0,"twice":2 ,"text":"\xe2\x80\xa8\\u00e9"}'


def wrap_message(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A message as a conductor sends it for the successor."""
    inner = {key: message[key] for key in ("method", "params") if key in message}
    return {**message, "method": "proxy/successor", "params": inner | more}


def parsed(found: list[SidedLine]) -> list[tuple[Peer | None, Any]]:
    return [(side, json.loads(data)) for side, data in found]


def refuse_message(envelopes: Envelopes, message: Any) -> tuple[object, int]:
    """The id and the code of the error that answers a message, which must go no further."""
    [(side, answer)] = parsed(envelopes.open(line(message)))
    assert side is None
    return answer["id"], answer["error"]["code"]


def test_plain_messages_are_the_clients_and_keep_their_bytes() -> None:
    for message in (prompt(1, "s"), notification("session/cancel", {"sessionId": "s"}), request("x", "_any/method")):
        odd = b" " + line(message)
        assert Envelopes().open(odd) == [(Peer.CLIENT, odd)]


def test_a_message_in_an_envelope_is_the_agents_and_its_parameters_keep_their_bytes() -> None:
    envelope = (
        b'{"params":{"_meta":{"hop":1},"params": %b,"method":"a\\/b"}, "id": "\\u0061" ,"method":"proxy/successor"}\n'
    )
    [(side, found)] = Envelopes().open(envelope % LARGE)
    assert side is Peer.AGENT
    assert found == b'{"jsonrpc":"2.0","id":"a","method":"a\\/b","params":' + LARGE + b"}\n"


@pytest.mark.parametrize(
    "message", [chunk("s", "hello"), notification("_any/news", {"a": []})], ids=["update", "other"]
)
@pytest.mark.parametrize("more", [{}, {"_meta": {"hop": {}}}], ids=["alone", "with _meta"])
def test_a_notification_in_an_envelope_is_the_agents(message: dict[str, Any], more: dict[str, Any]) -> None:
    assert parsed(Envelopes().open(line(wrap_message(message, **more)))) == [(Peer.AGENT, message)]


@pytest.mark.parametrize("after", [b',"id":{}', b',"_meta":{"x":{"y":{}}}', b',"params":{"sessionId":"other"}'])
def test_an_update_with_something_after_its_parameters_is_read_whole(after: bytes) -> None:
    head = b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"sessionId":"s"}'
    for envelope in (head + b"}" + after + b"}\n", head + after + b"}}\n"):
        for _, found in parsed(Envelopes().open(envelope)):
            whole = json.loads(envelope)
            assert (
                found
                == {
                    "jsonrpc": "2.0",
                    **({"id": whole["id"]} if "id" in whole else {}),
                    **{key: whole["params"].get(key) for key in ("method", "params")},
                }
                or "method" not in whole["params"]
            )


@pytest.mark.parametrize("params", [{}, {"params": None}])
def test_a_message_without_parameters_stays_one(params: dict[str, Any]) -> None:
    envelope = request(1, "proxy/successor", {"method": "_any/method"} | params)
    assert parsed(Envelopes().open(line(envelope))) == [
        (Peer.AGENT, {"jsonrpc": "2.0", "id": 1, "method": "_any/method"})
    ]


def test_what_goes_to_the_agent_is_wrapped_and_its_parameters_keep_their_bytes() -> None:
    asked = Envelopes().wrap(Peer.AGENT, b'{"id":1, "params":%b,"method":"session/new"}\n' % LARGE)
    assert asked == (
        b'{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"session/new","params":'
        + LARGE
        + b"}}\n"
    )
    told = notification("session/cancel", {"sessionId": "s"})
    assert json.loads(Envelopes().wrap(Peer.AGENT, line(told))) == wrap_message(told)


def test_what_goes_to_the_client_is_plain() -> None:
    for message in (chunk("s", "hello"), permission(1, "s"), result(1, {}), error(2, -32000)):
        assert Envelopes().wrap(Peer.CLIENT, line(message)) == line(message)


def test_proxy_initialize_is_an_initialize_of_the_client_and_its_answer_is_plain() -> None:
    envelopes = Envelopes()
    [(side, asked)] = envelopes.open(line(request(1, "proxy/initialize", {"protocolVersion": 1})))
    assert (side, json.loads(asked)) == (Peer.CLIENT, request(1, "initialize", {"protocolVersion": 1}))
    passed = envelopes.wrap(Peer.AGENT, asked)
    assert json.loads(passed) == wrap_message(json.loads(asked))
    answer = line(result(1, {"protocolVersion": 1}))
    assert envelopes.open(answer) == [(Peer.AGENT, answer)]
    assert envelopes.wrap(Peer.CLIENT, answer) == answer


def test_an_answer_is_from_the_side_that_was_asked() -> None:
    envelopes = Envelopes()
    envelopes.wrap(Peer.AGENT, line(prompt(1, "s")))
    envelopes.wrap(Peer.CLIENT, line(permission(2, "s")))
    for id, side in ((2, Peer.CLIENT), (1, Peer.AGENT)):
        answer = line(result(id, {}))
        assert envelopes.open(answer) == [(side, answer)]
        assert envelopes.open(answer) == []  # nobody asked this again


def test_answers_are_never_wrapped() -> None:
    for side in Peer:
        assert Envelopes().wrap(side, line(result(1, {}))) == line(result(1, {}))


def test_a_cancellation_is_from_the_side_whose_request_it_names() -> None:
    envelopes = Envelopes()
    envelopes.open(line(prompt(1, "s")))
    envelopes.open(line(wrap_message(permission("1", "s"))))
    for id, side in ((1, Peer.CLIENT), ("1", Peer.AGENT)):
        assert envelopes.open(line(cancel(id))) == [(side, line(cancel(id)))]
        envelopes.wrap(side, line(result(id, {})))
        assert envelopes.open(line(cancel(id))) == []  # it is answered


def test_a_cancellation_is_sent_plain_while_its_request_is_open() -> None:
    envelopes = Envelopes()
    assert envelopes.wrap(Peer.AGENT, line(cancel(1))) == b""
    envelopes.wrap(Peer.AGENT, line(prompt(1, "s")))
    assert envelopes.wrap(Peer.CLIENT, line(cancel(1))) == b""
    assert envelopes.wrap(Peer.AGENT, line(cancel(1))) == line(cancel(1))
    envelopes.open(line(result(1, {})))
    assert envelopes.wrap(Peer.AGENT, line(cancel(1))) == b""


@pytest.mark.parametrize("params", [None, {}, [], "x", {"requestId": None}, {"requestId": {"a": []}}])
def test_a_cancellation_of_nothing_goes_nowhere(params: object) -> None:
    sent = line(notification("$/cancel_request", params))
    assert Envelopes().open(sent) == []
    assert [Envelopes().wrap(side, sent) for side in Peer] == [b"", b""]


def test_a_cancellation_in_an_envelope_goes_nowhere() -> None:
    envelopes = Envelopes()
    envelopes.open(line(wrap_message(permission(1, "s"))))
    assert envelopes.open(line(wrap_message(cancel(1)))) == []


def test_a_plain_initialize_is_refused_because_the_conductor_takes_us_for_the_agent() -> None:
    assert refuse_message(Envelopes(), request(7, "initialize", {"protocolVersion": 1})) == (7, INVALID_REQUEST)


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"method": 1},
        {"method": "proxy/successor", "params": {"method": "x"}},
        {"method": "proxy/initialize"},
    ],
)
def test_an_envelope_without_a_message_for_us_is_refused(params: object) -> None:
    assert refuse_message(Envelopes(), request(7, "proxy/successor", params)) == (7, INVALID_REQUEST)
    assert Envelopes().open(line(notification("proxy/successor", params))) == []


def test_what_is_no_message_is_refused_and_an_empty_line_is_not() -> None:
    wrong: list[Any] = [{}, 1, [1]]
    for each in wrong:
        assert refuse_message(Envelopes(), each) == (None, INVALID_REQUEST)
    assert Envelopes().open(b"\n") == Envelopes().open(b" \r\n") == []


def test_a_batch_is_taken_apart() -> None:
    batch = [prompt(1, "s"), wrap_message(chunk("s", "hello"))]
    assert parsed(Envelopes().open(line(batch))) == [(Peer.CLIENT, batch[0]), (Peer.AGENT, chunk("s", "hello"))]


def test_a_message_nested_too_deeply_is_lost() -> None:
    deep = b'{"id":1,"method":"proxy/successor","params":{"method":"m","params":%b}}\n' % (b"[" * DEEP + b"]" * DEEP)
    assert Envelopes().open(deep) == []
    assert Envelopes().wrap(Peer.AGENT, deep) == b""


@given(messages | chosen_messages, st.sampled_from(Peer))
def test_a_message_for_a_side_comes_back_from_that_side(message: Any, side: Peer) -> None:
    """What one proxy sends to its successor, the successor gets; here it is the same one."""
    sent = Envelopes().wrap(side, one_line(message) + b"\n")
    for found, back in Envelopes().open(sent) if sent else ():
        assert found is None or json.loads(back)["method"] == message["method"]


@given(
    st.lists(
        spelled(messages | st.builds(wrap_message, messages.filter(lambda one: isinstance(one, dict)))), max_size=5
    )
)
def test_nothing_raises(spellings: list[str]) -> None:
    envelopes = Envelopes()
    for text in spellings:
        data = text.encode("utf-8", "surrogatepass") + b"\n"
        for side, found in envelopes.open(data):
            assert found.endswith(b"\n")
            assert envelopes.wrap(side or Peer.CLIENT, found) in (found, b"") or side is not Peer.CLIENT
        for peer in Peer:
            envelopes.wrap(peer, data)
