"""What was taken back of a conversation, and where its messages stand."""

from typing import Any

import pytest
from msgspec.structs import replace

from acp_proxy.protocol.jsonrpc import Peer, dump
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript.rewinds import UNCLEAR, Messages, Point, Rewinds, fit_fork_point, parse_fork_point

RUN = "k3f9a1"


def entry(message: dict[str, Any], peer: Peer = Peer.AGENT, of: str | None = None, protocol: int = 1) -> Entry:
    line = file_format.encode_message(
        "2026-11-20T09:15:02.123Z", RUN, peer, dump(message), of, protocol_version=protocol
    )
    found = file_format.decode_entry(line)
    assert found is not None
    return found


def request(id: int, method: str, **params: Any) -> Entry:
    return entry({"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": "s", **params}}, Peer.CLIENT)


def prompt_entry(id: int = 1) -> Entry:
    return request(id, "session/prompt", prompt=[{"type": "text", "text": "do"}])


def note(run: str = RUN, **members: Any) -> Entry:
    found = file_format.decode_entry(file_format.encode_note("2026-11-20T09:15:02.123Z", run, members))
    assert found is not None
    return found


def of_run(run: str, *entries: Entry) -> list[Entry]:
    return [replace(each, run=run) for each in entries]


def answer(id: int = 1, of: str = "session/prompt", protocol: int = 1, **result: Any) -> Entry:
    return entry({"jsonrpc": "2.0", "id": id, "result": result}, of=of, protocol=protocol)


def update(kind: str, protocol: int = 1, **members: Any) -> Entry:
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **members}}
    return entry({"jsonrpc": "2.0", "method": "session/update", "params": params}, protocol=protocol)


def agent_chunk(id: str | None = None, kind: str = "agent_message_chunk", protocol: int = 1) -> Entry:
    return update(kind, protocol, content={"type": "text", "text": "x"}, **({"messageId": id} if id else {}))


CALL = update("tool_call", toolCallId="c", title="Look")
USAGE = update("usage_update", used=1, size=2)


def lay_out(*entries: Entry) -> Messages:
    """The n-th entry is line n, from offset 10 n - 10 to 10 n."""
    messages = Messages()
    for number, each in enumerate(entries, 1):
        messages.add(number, 10 * number - 10, 10 * number, each)
    return messages


def standing(*entries: Entry) -> list[int]:
    """The numbers of the entries that were not taken back."""
    rewinds = Rewinds()
    for number, each in enumerate(entries, 1):
        rewinds.add(number, 10 * number - 10, 10 * number, each)
    return [number for number, each in enumerate(entries, 1) if not rewinds.has_taken_back(10 * number, each)]


# --- where a message ends


def test_a_message_ends_after_its_last_chunk() -> None:
    assert lay_out(prompt_entry(), agent_chunk("m"), agent_chunk("m"), agent_chunk("n")).find_offset(Point("m")) == 30


def test_the_end_of_its_turn_belongs_to_the_last_message_of_it() -> None:
    assert (
        lay_out(prompt_entry(), agent_chunk("m"), USAGE, answer(), USAGE, prompt_entry(2)).find_offset(Point("m")) == 40
    )
    assert lay_out(prompt_entry(), agent_chunk("m"), CALL, answer()).find_offset(Point("m")) == 20
    assert lay_out(prompt_entry(), agent_chunk("m"), agent_chunk(), answer()).find_offset(Point("m")) == 20


def test_a_whole_turn_ends_with_its_answer() -> None:
    messages = lay_out(
        prompt_entry(), agent_chunk("m"), CALL, agent_chunk("n"), answer(), prompt_entry(2), agent_chunk("o"), answer(2)
    )
    assert messages.find_offset(Point("m", is_whole_turn=True)) == 50


def test_an_id_that_comes_again_in_a_later_turn_is_another_message() -> None:
    assert (
        lay_out(prompt_entry(), agent_chunk("m"), answer(), prompt_entry(2), agent_chunk("m"), answer(2)).find_offset(
            Point("m")
        )
        == 60
    )


def test_an_id_with_a_segment_is_the_message_unless_it_is_one_of_its_own() -> None:
    assert lay_out(prompt_entry(), agent_chunk("m"), agent_chunk("n")).find_offset(Point("m:segment:2")) == 20
    assert (
        lay_out(prompt_entry(), agent_chunk("m"), agent_chunk("m:segment:2"), agent_chunk("n")).find_offset(
            Point("m:segment:2")
        )
        == 30
    )


@pytest.mark.parametrize(
    ("id", "turn"),
    [
        (f"acp-proxy-{RUN}-1", [prompt_entry(), agent_chunk("m")]),
        ("u", [prompt_entry(), agent_chunk("u", "user_message_chunk"), agent_chunk("m")]),
        ("u", [prompt_entry(), agent_chunk("u", "user_message", protocol=2), agent_chunk("m", protocol=2)]),
        ("u", [prompt_entry(), answer(messageId="u", protocol=2), agent_chunk("m", protocol=2)]),
        ("u", [prompt_entry(), agent_chunk("m"), answer(userMessageId="u")]),
    ],
)
def test_a_prompt_has_the_ids_of_its_echo_its_answer_and_our_replay(id: str, turn: list[Entry]) -> None:
    assert lay_out(*turn).find_offset(Point(id, stays=False)) == 0


def test_what_the_user_says_later_in_a_turn_is_a_message_of_its_own() -> None:
    steered = request(7, "_session/steering", prompt=[])
    messages = lay_out(
        prompt_entry(), agent_chunk("m"), agent_chunk("u", "user_message_chunk"), steered, agent_chunk("n")
    )
    assert messages.find_offset(Point("u", stays=False)) == 20
    assert messages.find_offset(Point(f"acp-proxy-{RUN}-4", stays=False)) == 30


def test_in_version_2_a_turn_ends_when_nothing_is_under_way() -> None:
    idle = update("state_update", 2, state="idle", stopReason="end_turn")
    accepted = answer(messageId="u", protocol=2)
    assert lay_out(prompt_entry(), accepted, agent_chunk("m", protocol=2), idle).find_offset(Point("m")) == 40


# --- what was taken back


def test_what_follows_the_message_is_taken_back_up_to_the_request() -> None:
    rewind = request(9, "session/rewind", toMessageId="m")
    turns = [prompt_entry(), agent_chunk("m"), answer(), prompt_entry(2), agent_chunk("n"), answer(2)]
    assert standing(*turns, rewind, answer(9, "session/rewind"), prompt_entry(3), agent_chunk("o")) == [1, 2, 3, 9, 10]


TWO_TURNS = [
    prompt_entry(),
    agent_chunk("m"),
    answer(),
    prompt_entry(2),
    agent_chunk("u", "user_message_chunk"),
    agent_chunk("n"),
    answer(2),
]


@pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("session/rewind", {"toMessageId": "m"}, {"lastMessageId": "m"}),
        ("_session/rewind", {"beforeMessage": {"messageId": "u"}}, {"rewound": True}),
        ("_session/rewind", {"messageId": "u", "mode": "both"}, {"conversation": {"rewound": True}}),
    ],
)
def test_each_way_to_rewind_takes_back(method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
    rewind = [request(9, method, **params), answer(9, method, **result)]
    assert standing(*TWO_TURNS, *rewind, prompt_entry(3)) == [1, 2, 3, 10]


@pytest.mark.parametrize(
    ("method", "answered"),
    [
        ("session/rewind", {"error": {"code": -32602, "message": "no"}}),
        ("_session/rewind", {"result": {"rewound": False}}),
        ("_session/rewind", {"result": {"files": {"canRewind": True}}}),
    ],
)
def test_a_rewind_that_the_agent_did_not_make_takes_nothing_back(method: str, answered: dict[str, Any]) -> None:
    answers = entry({"jsonrpc": "2.0", "id": 9, **answered}, of=method)
    rewind = [request(9, method, messageId="u", toMessageId="m"), answers]
    assert standing(*TWO_TURNS, *rewind, prompt_entry(3))[:7] == [1, 2, 3, 4, 5, 6, 7]


def test_a_prompt_that_did_not_wait_for_the_answer_stays() -> None:
    rewind, done = request(9, "session/rewind", toMessageId="m"), answer(9, "session/rewind")
    assert standing(
        prompt_entry(),
        agent_chunk("m"),
        answer(),
        prompt_entry(2),
        agent_chunk("n"),
        rewind,
        agent_chunk("n"),
        prompt_entry(3),
        done,
    ) == [
        1,
        2,
        3,
        8,
    ]


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_prompt_that_waited_for_the_end_of_that_turn_is_taken_back(is_answered: bool) -> None:
    rewind, steered = request(9, "session/rewind", toMessageId="m"), request(3, "_session/steering", prompt=[])
    turns = [
        prompt_entry(),
        prompt_entry(2),
        steered,
        agent_chunk("m"),
        answer(),
        agent_chunk("n"),
        *([answer(2)] if is_answered else [USAGE]),
    ]
    stay = [1, 3, 4, 5] if is_answered else [1, 3, 4, 5, 7]
    assert standing(*turns, rewind, answer(9, "session/rewind")) == stay


def test_a_prompt_stays_if_nobody_knows_that_it_waited_for_that_turn() -> None:
    rewind = request(9, "session/rewind", toMessageId="m")
    crashed, later = (
        [prompt_entry(), agent_chunk("l")],
        [prompt_entry(2), prompt_entry(3), agent_chunk("m"), agent_chunk("n")],
    )
    assert standing(*crashed, *later, rewind, answer(9, "session/rewind")) == [1, 2, 3, 4, 5]
    assert standing(*crashed, *later, answer(2), answer(3), rewind, answer(9, "session/rewind")) == [1, 2, 3, 5, 7]


def test_notes_and_states_stay() -> None:
    truncated = update("history_truncated", lastMessageId="m")
    assert standing(prompt_entry(), agent_chunk("m"), agent_chunk("n"), USAGE, note(type="closed"), truncated) == [
        1,
        2,
        4,
        5,
    ]


def test_a_message_that_was_taken_back_is_no_point_any_more() -> None:
    first, second = (update("history_truncated", lastMessageId=id) for id in "mn")
    assert standing(prompt_entry(), agent_chunk("m"), agent_chunk("n"), first, agent_chunk("o"), second) == [1, 2, 5, 6]


def test_the_answer_to_a_prompt_that_stays_is_not_taken_back() -> None:
    rewind = [request(9, "session/rewind", toMessageId="m"), answer(9, "session/rewind")]
    assert standing(
        prompt_entry(), agent_chunk("m"), CALL, answer(), prompt_entry(2), agent_chunk("n"), answer(2), *rewind
    ) == [
        1,
        2,
        4,
    ]


HANDED_OVER = [
    note("other1", type="opened", method="session/load", anew=True),
    *of_run("other1", prompt_entry(2), agent_chunk("n")),
    note("other1", type="handover", to="s2"),
    *of_run("other1", answer(2)),
]
TRUNCATED = update("history_truncated", lastMessageId="m")


def test_a_rewind_takes_back_nothing_of_another_session_of_the_agent() -> None:
    turns = [
        prompt_entry(),
        agent_chunk("m"),
        answer(),
        *HANDED_OVER,
        prompt_entry(3),
        agent_chunk("o"),
    ]  # other1 has lines 4 to 8
    assert standing(*turns, TRUNCATED) == [1, 2, 3, 4, 5, 6, 7, 8]
    later = [note("later1", type="opened", method="session/load"), *of_run("later1", prompt_entry(4), agent_chunk("p"))]
    end = of_run("later1", update("history_truncated", lastMessageId="n"))
    assert standing(*turns, *later, *end) == [*range(1, 12)], "another process goes on in the new one"


def test_a_rewind_takes_back_what_may_be_of_its_session_of_the_agent() -> None:
    turns = [prompt_entry(), agent_chunk("m"), answer(), *HANDED_OVER]
    again = [
        note(type="opened", method="session/load"),
        prompt_entry(3),
        agent_chunk("o"),
    ]  # the agent may have refused the new one
    assert standing(*turns, *again, TRUNCATED) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("members", [{}, {"lastMessageId": "nobody"}, {"messageId": 1}])
def test_a_rewind_to_an_unknown_point_stays_and_takes_nothing_back(members: dict[str, Any]) -> None:
    assert standing(prompt_entry(), agent_chunk("m"), agent_chunk("n"), update("history_truncated", **members)) == [
        1,
        2,
        3,
        4,
    ]


# --- forks


@pytest.mark.parametrize(
    ("params", "point"),
    [
        ({"sessionId": "s", "cwd": "/w", "mcpServers": [], "_meta": {"traceparent": "00-1"}}, None),
        ({"_meta": {"claudeCode": {"options": {"resume": "x", "maxTurns": 3}}}}, None),
        ({"_meta": {"jetbrains": {"air": {"fork": {"version": 1, "messageId": " m "}}}}}, Point("m")),
        ({"_meta": {"jetbrains": {"air": {"fork": {"version": 2, "messageId": "m"}}}}}, UNCLEAR),
        ({"_meta": {"claudeCode": {"rewindTo": "m"}}}, Point("m")),
        ({"messageId": "m"}, Point("m")),
        ({"messageId": 5}, UNCLEAR),
        ({"atCheckpointId": "m"}, UNCLEAR),
        ({"_meta": {"vendor": {"upToTurn": 3}}}, UNCLEAR),
        (None, None),
        ([1], None),
    ],
)
def test_a_forks_point(params: object, point: Point | None) -> None:
    assert parse_fork_point(params) == point


def test_codex_forks_after_the_turn() -> None:
    assert fit_fork_point(Point("m"), "@agentclientprotocol/codex-acp") == Point("m", is_whole_turn=True)
    assert fit_fork_point(Point("m"), None) == fit_fork_point(Point("m"), "codex") == Point("m")


def test_a_prompt_on_the_damaged_line_of_a_rewind_stays() -> None:
    """The newline between them was lost."""
    entries = [prompt_entry(), agent_chunk("m"), agent_chunk("n"), answer()]
    truncation, next_prompt = update("history_truncated", messageId="m"), prompt_entry(2)
    rewinds = Rewinds()
    for number, each in enumerate(entries, 1):
        rewinds.add(number, 10 * number - 10, 10 * number, each)
    for each in (truncation, next_prompt):
        rewinds.add(5, 40, 50, each)
    assert rewinds.has_taken_back(50, truncation)
    assert not rewinds.has_taken_back(50, next_prompt)
