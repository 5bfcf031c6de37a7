"""Two ids for one session: lines are rewritten both ways, and nothing else in them changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.decisions.aliases import Aliases, ClientIds, with_result_session
from acp_proxy.decisions.effects import Forward
from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import Said, chunk, line, notification, permission, prompt, result
from tests.strategies import messages, one_line, spelled, texts, values


def names(*pairs: tuple[str, str]) -> Aliases:
    aliases = Aliases()
    for client, agent in pairs or [("old", "new")]:
        aliases.add(client, agent)
    return aliases


def to_agent(aliases: Aliases, said: bytes) -> bytes:
    return aliases.rewrite_for_agent(said, jsonrpc.read_message(said))


def to_client(aliases: Aliases, said: bytes) -> bytes:
    return aliases.rewrite_from_agent(said, jsonrpc.read_message(said))


def test_requests_and_notifications_are_rewritten_both_ways() -> None:
    for said in (
        prompt(1, "old"),
        permission("x", "old"),
        chunk("old", "old new"),
        notification("_x", {"sessionId": "old"}),
    ):
        there = line(said).replace(b'"sessionId":"old"', b'"sessionId":"new"')
        assert to_agent(names(), line(said)) == there
        assert to_client(names(), there) == line(said)


def test_answers_other_sessions_and_ids_elsewhere_are_not_rewritten() -> None:
    others: list[Said] = [
        result(1, {"sessionId": "old"}),
        prompt(1, "other"),
        {"method": "x", "sessionId": "old"},
        {"method": "x", "params": {"inner": {"sessionId": "old"}, "sessionId": 5}},
        {"method": "x", "params": ["old"]},
        [],
        {},
    ]
    for said in others:
        assert to_agent(names(), line(said)) == line(said)


def test_only_the_session_id_changes_in_a_line() -> None:
    before = (
        b'\xef\xbb\xbf { "params" :{"n":1.0,"big":12345678901234567890123, '
        b'"sessionId"\t: "\\u006fld","s":"\\ud800\xff"},"method":"x"}\r\n'
    )
    after = before.replace(b'"\\u006fld"', b'"new"')
    assert to_agent(names(), before) == after


def test_the_last_duplicate_key_counts() -> None:
    said = b'{"method":"x","params":{"sessionId":"old","sessionId":"other"}}\n'
    assert to_agent(names(), said) == said
    said = b'{"method":"x","params":{"sessionId":"other","sessionId":"old"}}\n'
    assert to_agent(names(), said) == b'{"method":"x","params":{"sessionId":"other","sessionId":"new"}}\n'


def test_messages_in_a_batch_are_rewritten() -> None:
    said = (
        b'[ {"method":"x","params":{"sessionId":"old"}} ,5,{"method":"x","params":{"sessionId":"t"}}, '
        b'{"id":1.0,"method":"y","params":{"sessionId": "old"}}]\n'
    )
    assert to_agent(names(), said) == said.replace(b'"old"', b'"new"')


def test_a_deeply_nested_line_is_rewritten_or_passes() -> None:
    for depth in (500, 200_000):
        deep = b"[" * depth + b"]" * depth
        said = b'{"method":"x","params":{"sessionId":"old","deep":' + deep + b"}}\n"
        assert to_agent(names(), said) in (said, said.replace(b'"old"', b'"new"'))
        batch = b"[" + said[:-1] + b"]\n"
        assert to_agent(names(), batch) in (batch, batch.replace(b'"old"', b'"new"'))


def test_a_session_id_may_be_any_text() -> None:
    old, new = 'a"\\\n\u2028', "\ud800é\x00"
    there = to_agent(names((old, new)), line(prompt(1, old)))
    assert json.loads(there) == prompt(1, new)
    assert there.count(b"\n") == 1
    assert json.loads(to_client(names((old, new)), there)) == prompt(1, old)


def test_two_sessions_may_have_swapped_ids() -> None:
    swapped = names(("1", "2"), ("2", "1"))
    assert to_agent(swapped, line(prompt(1, "1"))) == line(prompt(1, "2"))
    assert to_client(swapped, line(chunk("1", "x"))) == line(chunk("2", "x"))


def test_a_session_with_two_agent_ids_is_heard_under_both_and_addressed_by_the_last() -> None:
    moved = names(("old", "one"), ("old", "two"))
    assert to_agent(moved, line(prompt(1, "old"))) == line(prompt(1, "two"))
    assert (
        to_client(moved, line(chunk("one", "x")))
        == to_client(moved, line(chunk("two", "x")))
        == line(chunk("old", "x"))
    )


def test_an_agent_may_give_one_id_to_two_sessions() -> None:
    one = names(("a", "x"), ("b", "x"), ("a", "y"), ("b", "z"))
    assert to_agent(
        one,
        line(
            prompt(1, "a"),
        ),
    ) == line(prompt(1, "y"))
    assert to_agent(one, line(prompt(1, "b"))) == line(prompt(1, "z"))


def test_without_aliases_nothing_is_rewritten() -> None:
    assert not Aliases()
    assert names()
    assert to_agent(Aliases(), line(prompt(1, "old"))) == line(prompt(1, "old"))


@pytest.mark.parametrize(
    "said", [b'{"id":1,"result":{"sessionId":"new","n":1.0} }\r\n', b'{"id":1,"result":{ "sessionId" : "\\u006eew"}}\n']
)
def test_only_the_session_id_changes_in_an_answer(said: bytes) -> None:
    renamed = with_result_session(said, "old")
    assert renamed in (said.replace(b'"new"', b'"old"'), said.replace(b'"\\u006eew"', b'"old"'))
    assert renamed != said


@pytest.mark.parametrize("said", [b'{"id":1,"result":null}\n', b'{"id":1}\n', b'{"id":1,"result":{}}\n', b"x"])
def test_an_answer_without_a_session_id_passes_unchanged(said: bytes) -> None:
    assert with_result_session(said, "old") == said


PARAMS = st.dictionaries(texts, values, max_size=3)
ABOUT = st.builds(
    lambda params, session: {"id": 1, "method": "m", "params": params | {"sessionId": session}},
    PARAMS,
    st.sampled_from(["old", "t"]),
)


@given(spelled(ABOUT | st.lists(ABOUT, max_size=3)))
def test_rewriting_there_and_back_changes_only_the_spelling_of_the_id(text: str) -> None:
    said = text.encode() + b"\n"
    there = to_agent(names(), said)
    assert json.dumps(json.loads(there)) == json.dumps(_with("new", json.loads(said)))
    back = to_client(names(), there)
    assert to_agent(names(), back) == there
    assert json.dumps(json.loads(back)) == json.dumps(json.loads(said))


def _with(new: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_with(new, item) for item in value]
    if value["params"]["sessionId"] == "old":
        return value | {"params": {key: new if key == "sessionId" else item for key, item in value["params"].items()}}
    return value


@given(messages.map(one_line) | spelled(messages).map(str.encode) | st.binary(max_size=40))
def test_rewriting_never_raises(said: bytes) -> None:
    to_agent(names(), said)
    to_client(names(("s", "t"), ("", "x")), said)
    with_result_session(said, "s")


# --- ids by which the client opened a session that continues there


def test_the_client_gets_the_id_of_a_session_that_it_used_last() -> None:
    shown = ClientIds()
    shown.add("ours", "theirs")

    def used(session: str) -> bytes:
        said = line(prompt(1, session))
        return shown.track_and_rewrite_from_client(said, jsonrpc.read_message(said))

    def sent(*said: Said) -> list[Any]:
        return shown.rewrite_effects([Forward(Peer.CLIENT, line(*said)), Forward(Peer.AGENT, line(*said))])

    both = chunk("ours", "a"), chunk("other", "b")
    as_they_came = [Forward(Peer.CLIENT, line(*both)), Forward(Peer.AGENT, line(*both))]
    for session, theirs in (("theirs", "theirs"), ("ours", "ours"), ("other", "ours"), ("theirs", "theirs")):
        assert used(session) == line(prompt(1, "other" if session == "other" else "ours"))
        assert shown.find_client_id("ours") == (theirs if theirs != "ours" else None)
        assert sent(*both) == [Forward(Peer.CLIENT, line(chunk(theirs, "a"), both[1])), as_they_came[1]]
