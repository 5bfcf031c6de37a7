"""The updates that a client gets in a replay."""

import json
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from tests.conversation import (
    STATES,
    Said,
    chunk,
    commands,
    error,
    line,
    notification,
    permission,
    prompt,
    prompt_answer,
    raw,
    request,
    respell,
    result,
    update,
)
from tests.strategies import messages, one_line, spelled, texts, values

RUN, LATER = "k3f9a1", "a later one"
IN_BOTH_MODES = pytest.mark.parametrize("mode", get_args(Mode))


def entry(said: Said, peer: Peer = Peer.AGENT, of: str | None = None) -> Entry:
    data = raw(said)
    return Entry("2026-11-20T09:15:02.123Z", RUN, peer, of, raw=data, value=jsonrpc.parse(data))


def prompt_entry(said: Said) -> Entry:
    return entry(said, Peer.CLIENT)


def blocks(*content: object) -> dict[str, Any]:
    """A prompt of these blocks."""
    return request(1, "session/prompt", {"sessionId": "s", "prompt": list(content)})


def text(words: str, **more: object) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


IMAGE: dict[str, Any] = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
LINK: dict[str, Any] = {"type": "resource_link", "uri": "file:///w/a.py", "name": "a.py"}


def user(content: object, message_id: str | None = None) -> dict[str, Any]:
    """A user chunk that the agent sent."""
    more = {"messageId": message_id} if message_id is not None else {}
    return update("s", "user_message_chunk", content=content, **more)


def own(content: object, number: int) -> bytes:
    """The user chunk that we send for a block of the prompt with this entry number."""
    return line(user(content, f"acp-proxy-{RUN}-{number}"))


def replay_all(*entries: Entry, mode: Mode = "full") -> list[bytes]:
    """The whole replay of a transcript; the header is entry number 0."""
    replayer = Replayer("s", run_id=LATER, mode=mode)
    lines = [one for number, each in enumerate(entries, 1) for one in replayer.add(number, each)]
    return lines + replayer.end()


# --- prompts


@IN_BOTH_MODES
def test_a_prompt_is_replayed_block_by_block_under_an_id_of_its_own(mode: Mode) -> None:
    assert replay_all(prompt_entry(blocks(text("see"), IMAGE, LINK)), mode=mode) == [
        own(text("see"), 1),
        own(IMAGE, 1),
        own(LINK, 1),
    ]


@IN_BOTH_MODES
def test_two_prompts_in_a_row_stay_two_messages_in_every_replay(mode: Mode) -> None:
    entries = prompt_entry(prompt(1, "s", "one")), prompt_entry(prompt(2, "s", "two"))
    assert (
        replay_all(*entries, mode=mode) == replay_all(*entries, mode=mode) == [own(text("one"), 1), own(text("two"), 2)]
    )


@IN_BOTH_MODES
def test_a_prompts_blocks_keep_their_bytes(mode: Mode) -> None:
    said = (
        b'{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[ {"type" : "text",'
        b'"text":"\\u0061\\ud800","n":1.0,"n":12345678901234567890123} , {"type":"image","data":"\xe2\x80\xa8\xff"}]}}'
    )
    head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":'
    assert replay_all(prompt_entry(said), mode=mode) == [
        head + b'"user_message_chunk","content":' + block + b',"messageId":"acp-proxy-k3f9a1-1"}}}\n'
        for block in (
            b'{"type" : "text","text":"\\u0061\\ud800","n":1.0,"n":12345678901234567890123}',
            b'{"type":"image","data":"\xe2\x80\xa8\xff"}',
        )
    ]


MEMBERS = st.dictionaries(texts, values, max_size=3)


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


@IN_BOTH_MODES
@given(st.lists(MEMBERS, max_size=4), st.data())
def test_a_prompts_blocks_keep_their_bytes_however_they_are_written(
    mode: Mode, content: list[dict[str, Any]], data: st.DataObject
) -> None:
    write = data.draw(
        st.sampled_from(
            [compact, lambda value: jsonrpc.dump(value).decode(), lambda value: data.draw(spelled(st.just(value)))]
        )
    )
    blocks = [write(block | {"type": "image"}).strip() for block in content]
    params = f'{{"sessionId":"s","prompt":[{",".join(blocks)}]}}'
    lines = replay_all(prompt_entry(f'{{"id":1,"method":"session/prompt","params":{params}}}'.encode()), mode=mode)
    assert [line[line.index(b'"content":') : line.rindex(b',"messageId":')] for line in lines] == [
        f'"content":{block}'.encode() for block in blocks
    ]


@IN_BOTH_MODES
@given(texts, st.lists(st.builds(lambda block, kind: block | {"type": kind}, MEMBERS, texts), max_size=4))
def test_any_blocks_of_any_session_are_replayed_as_one_line_each(
    mode: Mode, session: str, content: list[dict[str, Any]]
) -> None:
    replayer = Replayer(session, run_id=LATER, mode=mode)
    prompted = request(1, "session/prompt", {"sessionId": session, "prompt": content})
    lines = replayer.add(1, prompt_entry(prompted)) + replayer.end()
    assert all(one.endswith(b"\n") and one.count(b"\n") == 1 for one in lines)
    said = [json.loads(one)["params"] for one in lines]
    assert [row["sessionId"] for row in said] == [session] * len(content)
    assert json.dumps([each["update"]["content"] for each in said]) == json.dumps(content)


@IN_BOTH_MODES
@pytest.mark.parametrize("content", [None, [], {}, "x", [5, "x", None, []]])
def test_a_prompt_without_blocks_is_not_replayed(content: object, mode: Mode) -> None:
    assert (
        replay_all(prompt_entry(request(1, "session/prompt", {"sessionId": "s", "prompt": content})), mode=mode) == []
    )


@IN_BOTH_MODES
def test_a_failed_prompt_is_replayed(mode: Mode) -> None:
    failed = entry(error(1, -32000), of="session/prompt")
    assert replay_all(prompt_entry(prompt(1, "s", "one")), failed, mode=mode) == [own(text("one"), 1)]


# --- updates


@pytest.mark.parametrize(
    "kind",
    [
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "plan",
        "a_kind_nobody_knows",
        "",
    ],
)
def test_every_update_of_the_conversation_is_replayed_unchanged(kind: str) -> None:
    shape = {"toolCallId": "c", "title": "x", "status": "completed"} if kind == "tool_call" else {"content": text("x")}
    said = respell(update("s", kind, **shape, entries=[], n=1.0, none=None))
    assert replay_all(entry(said)) == [said]


def test_updates_are_replayed_in_order_and_as_early_as_possible() -> None:
    replayer = Replayer("s", run_id=LATER, mode="full")
    said = [chunk("s", "a"), update("s", "tool_call", toolCallId="c", title="x", status="completed"), chunk("s", "b")]
    assert [replayer.add(number, entry(each)) for number, each in enumerate(said, 1)] == [[line(each)] for each in said]
    assert replayer.add(4, prompt_entry(prompt(1, "s", "go"))) == []
    assert replayer.add(5, entry(said[0])) == [own(text("go"), 4), line(said[0])]
    assert replayer.end() == []


def test_a_prompt_is_replayed_once_its_turn_is_over() -> None:
    replayer = Replayer("s", run_id=LATER, mode="full")
    assert replayer.add(1, prompt_entry(prompt(1, "s", "one"))) == []
    assert replayer.add(2, entry(prompt_answer(1), of="session/prompt")) == [own(text("one"), 1)]
    assert replayer.add(3, prompt_entry(prompt(2, "s", "two"))) == []
    assert replayer.end() == [own(text("two"), 3)]
    assert replayer.end() == []


@pytest.mark.parametrize("kind", STATES)
def test_state_updates_are_not_replayed_in_between(kind: str) -> None:
    assert replay_all(entry(update("s", kind)), entry(chunk("s", "a"))) == [line(chunk("s", "a"))]


def test_the_latest_commands_and_usage_are_sent_at_the_end() -> None:
    replayer = Replayer("s", run_id=LATER, mode="full")
    old, new = commands("s", "old"), respell(commands("s", "new"))
    used = update("s", "usage_update", used=2)
    said: list[Said] = [update("s", "usage_update", used=1), old, used, commands("other", "x"), new]
    for number, each in enumerate(said, 1):
        assert replayer.add(number, entry(each)) == []
    assert replayer.end() == []
    assert replayer.list_states() == [new, line(used)]


@pytest.mark.parametrize("kind", ["current_mode_update", "config_option_update", "notice", "session_info_update"])
def test_no_other_state_is_sent_at_the_end(kind: str) -> None:
    replayer = Replayer("s", run_id=LATER, mode="full")
    replayer.add(1, entry(update("s", kind)))
    assert replayer.list_states() == []


def test_without_state_updates_nothing_is_sent_at_the_end() -> None:
    assert Replayer("s", run_id=LATER, mode="full").list_states() == []


@pytest.mark.parametrize(
    "other",
    [
        entry(permission(0, "s")),
        prompt_entry(result(0, {"outcome": {"outcome": "selected", "optionId": "x"}})),
        prompt_entry(notification("session/cancel", {"sessionId": "s"})),
        prompt_entry(request(2, "session/set_mode", {"sessionId": "s"})),
        entry(result(2, {}), of="session/set_mode"),
        entry(prompt_answer(1), of="session/prompt"),
        prompt_entry(chunk("s", "from the client")),
        entry(prompt(1, "s", "from the agent")),
        entry(chunk("another", "x")),
        entry(notification("session/update", {"update": {"sessionUpdate": "plan"}})),
        entry(notification("_vendor/update", {"sessionId": "s", "update": {"sessionUpdate": "plan"}})),
        Entry("", RUN, None, note={"type": "gap"}),
        Entry("", RUN, None, note={"type": "opened", "method": "session/new"}),
    ],
)
def test_nothing_else_is_replayed(other: Entry) -> None:
    a, b = chunk("s", "a"), chunk("s", "b")
    assert replay_all(entry(a), other, entry(b)) == [line(a), line(b)]


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {"sessionId": "s"},
        {"sessionId": "s", "update": None},
        {"sessionId": "s", "update": []},
        {"sessionId": "s", "update": "plan"},
        {"sessionId": "s", "update": {}},
        {"sessionId": "s", "update": {"sessionUpdate": None}},
        {"sessionId": "s", "update": {"sessionUpdate": 5}},
    ],
)
def test_an_invalid_update_is_skipped(params: object) -> None:
    assert replay_all(entry(notification("session/update", params))) == []


def test_a_line_that_is_not_strict_json_is_replayed_too() -> None:
    said = b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"odd","x":"\\ud800\xff"}}}'
    assert replay_all(entry(said)) == [said + b"\n"]


# Any entries.

KINDS = st.sampled_from(["user_message_chunk", "plan", "usage_update", "notice", "available_commands_update"])
UPDATES = st.fixed_dictionaries({}, optional={"sessionUpdate": KINDS | values, "content": values})
PARAMS = st.fixed_dictionaries(
    {"sessionId": st.just("s") | values}, optional={"update": UPDATES | values, "prompt": values | st.lists(values)}
)
SAID = messages | st.fixed_dictionaries(
    {"method": st.sampled_from(["session/prompt", "session/update"]), "params": PARAMS | values}
)
ENTRIES = st.builds(
    entry,
    SAID.map(one_line) | spelled(SAID).map(str.encode),
    st.sampled_from(Peer),
    st.sampled_from([None, "session/prompt"]),
)


def all_told(entries: Iterable[Entry], mode: Mode) -> bytes:
    """The whole replay and the states."""
    replayer = Replayer("s", run_id=LATER, mode=mode)
    lines = [one for number, each in enumerate(entries, 1) for one in replayer.add(number, each)]
    return b"".join([*lines, *replayer.end(), *replayer.list_states()])


@IN_BOTH_MODES
@given(st.lists(ENTRIES | st.just(Entry("", RUN, None, note={})), max_size=10))
def test_any_entries_are_replayed_the_same_every_time(mode: Mode, entries: list[Entry]) -> None:
    lines = all_told(entries, mode)
    assert lines == all_told(entries, mode)
    for one in lines.split(b"\n")[:-1]:
        value = json.loads(one)
        assert value["method"] == "session/update"
        assert value["params"]["sessionId"] == "s"
        assert isinstance(value["params"]["update"]["sessionUpdate"], str)
