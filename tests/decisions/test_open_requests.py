"""Requests that wait for their answers, in bounded memory."""

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.decisions.open_requests import OPEN_BYTES_LIMIT, OpenRequests
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId
from tests.strategies import scalars


def open_request(id: object, method: str = "some/method") -> Request:
    return Request(b"", RequestId(json.dumps(id)), method, None)


def test_an_answer_closes_its_request() -> None:
    open_requests = OpenRequests()
    open_requests.add(Peer.CLIENT, open_request(1), "s")
    found = open_requests.take(Peer.CLIENT, RequestId("1"))
    assert found is not None
    assert (found.request, found.session_id) == (open_request(1), "s")
    assert open_requests.take(Peer.CLIENT, RequestId("1")) is None


def test_both_peers_may_use_the_same_id() -> None:
    open_requests = OpenRequests()
    open_requests.add(Peer.CLIENT, open_request(0, "from/client"), None)
    open_requests.add(Peer.AGENT, open_request(0, "from/agent"), None)
    for peer in (Peer.AGENT, Peer.CLIENT):
        found = open_requests.take(peer, RequestId("0"))
        assert found is not None
        assert found.request.method == f"from/{peer.value}"


def test_ids_that_python_finds_equal_are_different() -> None:
    open_requests = OpenRequests()
    ids = [1, "1", 1.0, True, None, "null", "", 0, False, "true", "1.0"]
    for id in ids:
        open_requests.add(Peer.CLIENT, open_request(id, f"m/{id!r}"), None)
    for id in ids:
        found = open_requests.take(Peer.CLIENT, RequestId(json.dumps(id)))
        assert found is not None
        assert found.request.method == f"m/{id!r}"


def test_an_id_used_twice_at_once_is_answered_oldest_first() -> None:
    open_requests = OpenRequests()
    first, second = open_request(1, "first"), open_request(1, "second")
    open_requests.add(Peer.CLIENT, first, None)
    open_requests.add(Peer.CLIENT, second, None)
    found = [open_requests.take(Peer.CLIENT, RequestId("1")) for _ in range(3)]
    assert [each and each.request for each in found] == [first, second, None]


@pytest.mark.parametrize("id", [None, RequestId("2"), RequestId('"1"')])
def test_an_answer_to_no_request_finds_nothing(id: RequestId | None) -> None:
    open_requests = OpenRequests()
    open_requests.add(Peer.CLIENT, open_request(1), None)
    assert open_requests.take(Peer.CLIENT, id) is None
    assert open_requests.take(Peer.AGENT, RequestId("1")) is None
    assert [each.request for each in open_requests.list_all(Peer.CLIENT)] == [open_request(1)]


def test_open_requests_can_be_found_by_method() -> None:
    open_requests = OpenRequests()
    open_requests.add(Peer.CLIENT, open_request(1, "session/load"), "s")
    assert open_requests.has_request(Peer.CLIENT, "session/new", "session/load")
    assert not open_requests.has_request(Peer.CLIENT, "session/new")
    assert not open_requests.has_request(Peer.AGENT, "session/load")
    open_requests.add(Peer.CLIENT, open_request(2, "session/load"), None)
    open_requests.take(Peer.CLIENT, RequestId("1"))
    assert open_requests.has_request(Peer.CLIENT, "session/load")
    open_requests.take(Peer.CLIENT, RequestId("2"))
    assert not open_requests.has_request(Peer.CLIENT, "session/load")


def test_only_the_parts_of_a_request_that_its_answer_needs_are_kept() -> None:
    open_requests = OpenRequests()
    for number, method in enumerate(("session/prompt", "session/new", "terminal/output")):
        open_requests.add(Peer.CLIENT, Request(b"long", RequestId(str(number)), method, {"long": True}), "s")
    load = Request(b"long", RequestId("3"), "session/load", {"long": True})
    open_requests.add(Peer.CLIENT, load, "s", keeps_all=True)
    kept = [each.request for each in open_requests.list_all(Peer.CLIENT)]
    assert [each.params for each in kept] == [None, {"long": True}, {"long": True}, {"long": True}]
    assert [each.raw for each in kept[:3]] == [b"", b"", b""]
    assert kept[3] is load


def test_only_the_oldest_requests_of_a_flood_are_forgotten() -> None:
    open_requests = OpenRequests()
    open_requests.add(Peer.CLIENT, open_request("honest", "session/prompt"), "s")
    for number in range(40_000):
        open_requests.add(Peer.CLIENT, open_request(number, f"_flood/{number}"), None)
        open_requests.add(Peer.AGENT, open_request(number, "session/request_permission"), "s")
    assert open_requests.has_request(Peer.CLIENT, "session/prompt")
    left = [*open_requests.list_all(Peer.CLIENT), *open_requests.list_all(Peer.AGENT)]
    assert 1000 < len(left) < OPEN_BYTES_LIMIT / 1024
    assert open_requests.take(Peer.CLIENT, RequestId("0")) is None
    assert open_requests.take(Peer.CLIENT, RequestId("39999")) is not None
    assert open_requests.take(Peer.CLIENT, RequestId('"honest"')) is not None
    assert not open_requests.has_request(Peer.CLIENT, "session/prompt")


def test_long_ids_count_towards_the_limit_by_their_length() -> None:
    open_requests = OpenRequests()
    open_requests.add(Peer.CLIENT, open_request("honest", "session/prompt"), "s")
    for number in range(100):
        open_requests.add(Peer.CLIENT, open_request(f"{number}" + "x" * 1024 * 1024, "_flood"), None)
    assert sum(len(each.request.id) for each in open_requests.list_all(Peer.CLIENT)) < OPEN_BYTES_LIMIT
    assert open_requests.has_request(Peer.CLIENT, "session/prompt")


def test_a_single_request_is_kept_whatever_its_size() -> None:
    open_requests = OpenRequests()
    open_requests.add(Peer.CLIENT, open_request("x" * OPEN_BYTES_LIMIT, "session/new"), None)
    assert open_requests.has_request(Peer.CLIENT, "session/new")


@given(st.lists(st.tuples(st.sampled_from(Peer), scalars)), st.randoms(use_true_random=False))
def test_every_request_is_answered_once_in_any_order(asks: list[tuple[Peer, object]], random: Random) -> None:
    open_requests = OpenRequests()
    keys = [(peer, RequestId(json.dumps(id))) for peer, id in asks]
    for number, (peer, id) in enumerate(keys):
        open_requests.add(peer, Request(b"", id, str(number), None), None)
    answered: Counter[str] = Counter()
    order: dict[tuple[Peer, RequestId], list[int]] = {}
    random.shuffle(keys)
    for key in keys:
        found = open_requests.take(*key)
        assert found is not None
        answered[found.request.method] += 1
        order.setdefault(key, []).append(int(found.request.method))
    assert set(answered.values()) <= {1}
    assert len(answered) == len(asks)
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert [*open_requests.list_all(Peer.CLIENT), *open_requests.list_all(Peer.AGENT)] == []
