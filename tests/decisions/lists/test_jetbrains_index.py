"""An agent's own index of its sessions: what the client changes there is known here, and what it shows is amended."""

import json
from typing import Any

import pytest

from acp_proxy.decisions.capabilities import AGENT, Modes
from acp_proxy.decisions.effects import AmendList, BeginTranscript, Forward, StoreAgentsChange
from acp_proxy.protocol import proxy_ids
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import (
    AS_USUAL,
    CoreConversation,
    Said,
    SimulatedSession,
    error,
    initialize_answer,
    line,
    notification,
    request,
    result,
    update,
)

LISTS: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"list": {}, "delete": {}, "close": {}}}
PARTS = ["sessionIndex", "sessionRename", "sessionArchive", "sessionBatchGet", "sessionListSubscribe"]


def air(*names: str) -> dict[str, Any]:
    return {"_meta": {"jetbrains": {"air": {"version": 1, "capabilities": list(names)}}}}


def indexing(
    modes: Modes = AS_USUAL, *, declares: tuple[str, ...] = ("sessionIndex",), offers: list[str] = PARTS, **more: Any
) -> CoreConversation:
    """A client and an agent that have agreed on a session index."""
    talk = CoreConversation(modes=modes, **more)
    talk.client.say(request("i", "initialize", {"protocolVersion": 1, "clientCapabilities": air(*declares)}))
    talk.agent.say(initialize_answer("i", LISTS, **air(*offers)))
    return talk.open("s")


def row(session: str, title: str = "The agent's", *, archived: bool = False) -> dict[str, Any]:
    return {"sessionId": session, "cwd": "/w", "title": title, "_meta": {"jetbrains": {"air": {"archived": archived}}}}


def listed_titles(data: bytes, within: str = "result") -> dict[str, tuple[str, bool]]:
    """The title of each session in a line, and whether it is archived."""
    rows = json.loads(data)[within]["sessions"]
    return {each["sessionId"]: (each["title"], each["_meta"]["jetbrains"]["air"]["archived"]) for each in rows}


def listing(id: object, archived: str | None = None) -> dict[str, Any]:
    wanted = {"_meta": {"jetbrains": {"air": {"list": {"archived": archived, "limit": 5}}}}} if archived else {}
    return request(id, "session/list", {"cwd": "/w", **wanted})


CHANGES: list[tuple[dict[str, Any], Any, StoreAgentsChange]] = [
    (
        request(1, "_session/rename", {"sessionId": "s", "title": " The\n user's "}),
        {},
        StoreAgentsChange("s", "The user's"),
    ),
    (request(1, "_session/archive", {"sessionId": "s"}), {}, StoreAgentsChange("s", is_archived=True)),
    (request(1, "_session/unarchive", {"sessionId": "s"}), {}, StoreAgentsChange("s", is_archived=False)),
]


@pytest.mark.parametrize(("asked", "answer", "noted"), CHANGES)
def test_what_the_client_changes_in_the_agent_is_noted_before_the_answer(
    asked: Said, answer: Any, noted: StoreAgentsChange
) -> None:
    talk = indexing()
    assert talk.client.say(asked).done[-1:] == [Forward(Peer.AGENT, line(asked))]
    assert talk.agent.say(result(1, answer)).done == [noted, Forward(Peer.CLIENT, line(result(1, answer)))]


@pytest.mark.parametrize(("asked", "answer", "noted"), CHANGES)
def test_what_the_agent_refuses_is_not_noted(asked: Said, answer: Any, noted: StoreAgentsChange) -> None:
    talk = indexing()
    talk.client.say(asked)
    assert talk.agent.say(error(1, -32002)).done == [Forward(Peer.CLIENT, line(error(1, -32002)))]


def test_a_title_is_noted_as_the_agent_has_it() -> None:
    talk = CoreConversation().initialize({"sessionCapabilities": {"list": {}, "title": {}}}).open("s")
    talk.client.say(request(1, "session/set_title", {"sessionId": "s", "title": "long"}))
    assert talk.agent.say(result(1, {"title": "shorter"})).done[0] == StoreAgentsChange("s", "shorter")


LOOK_UP = request(1, "_session/batch_get", {"sessionIds": ["s", "t"]})
FOUND = result(1, {"sessions": [row("s"), row("t")]})
CHANGED = notification(
    "_session/list/changes", {"subscriptionId": "x", "sessions": [row("s"), row("t")], "removed": []}
)


@pytest.mark.parametrize(
    "parts",
    [
        {"declares": ()},
        {"offers": []},
        {"offers": ["sessionIndex"]},
        {"offers": PARTS[1:]},
        {"records": False},
    ],
)
def test_everything_passes_if_there_is_no_index_for_this_client(parts: Any) -> None:
    talk = indexing(**parts)
    for asked, answer, _ in CHANGES:
        assert talk.client.say(asked).done == [Forward(Peer.AGENT, line(asked))]
        assert talk.agent.say(result(1, answer)).done == [Forward(Peer.CLIENT, line(result(1, answer)))]
    talk.client.say(LOOK_UP)
    assert talk.agent.say(FOUND).done == [Forward(Peer.CLIENT, line(FOUND))]
    assert talk.agent.say(CHANGED).done == [Forward(Peer.CLIENT, line(CHANGED))]


def test_with_the_agents_list_rows_pass_but_changes_are_noted() -> None:
    talk = indexing(Modes(list=AGENT))
    talk.client.say(LOOK_UP)
    assert talk.agent.say(FOUND).done == [Forward(Peer.CLIENT, line(FOUND))]
    assert talk.agent.say(CHANGED).done == [Forward(Peer.CLIENT, line(CHANGED))]
    talk.client.say(CHANGES[0][0])
    assert CHANGES[0][2] in talk.agent.say(result(1, {})).done


@pytest.mark.parametrize("is_looked_up", [True, False])
def test_rows_have_the_users_titles_and_archive_state_and_no_deleted_sessions(is_looked_up: bool) -> None:
    talk = indexing()
    talk.titles, talk.archived = {"s": "Mine"}, frozenset({"s"})
    talk.stored["t"] = SimulatedSession(deleted=True)
    if is_looked_up:
        talk.client.say(LOOK_UP)
    step = talk.agent.say(FOUND if is_looked_up else CHANGED)
    assert listed_titles(step.to_client, "result" if is_looked_up else "params") == {"s": ("Mine", True)}


def test_rows_that_need_no_change_keep_every_byte() -> None:
    talk = indexing()
    talk.client.say(LOOK_UP)
    odd = b' {"id" : 1, "result":{"sessions":[ {"sessionId":"s", "n":1.0} ]}}\n'
    assert talk.agent.say(odd).to_client == odd


def test_what_the_agent_changed_itself_counts_as_the_agent_has_it() -> None:
    """Another client may have changed it again since."""
    talk = indexing()
    for asked, answer, _ in CHANGES[:2]:
        talk.client.say(asked)
        talk.agent.say(result(1, answer))
    talk.client.say(LOOK_UP)
    assert listed_titles(talk.agent.say(FOUND).to_client)["s"] == ("The agent's", False)


def test_a_title_that_the_agent_tells_before_it_answers_a_rename_is_the_new_one() -> None:
    talk = indexing()
    talk.titles = {"s": "Older", "t": "Of another"}
    talk.client.say(request(1, "_session/rename", {"sessionId": "s", "title": "Newer"}))
    info = line(update("s", "session_info_update", title="Newer"))
    assert talk.agent.say(info).to_client == info
    changed = notification("_session/list/changes", {"sessions": [row("s", "Newer"), row("t")]})
    assert listed_titles(talk.agent.say(changed).to_client, "params") == {
        "s": ("Newer", False),
        "t": ("Of another", False),
    }
    talk.agent.say(result(1, {}))
    assert talk.agent.say(info).to_client == info


def test_the_users_title_replaces_the_agents_in_updates() -> None:
    talk = indexing()
    talk.titles = {"s": "Mine"}
    told = talk.agent.say(update("s", "session_info_update", title="The agent's")).to_client
    assert json.loads(told)["params"]["update"]["title"] == "Mine"


# Sessions that the agent knows by another id, and have not been opened here.

NAMING = [
    request(1, "_session/rename", {"sessionId": "s", "title": "Mine"}),
    *(request(1, method, {"sessionId": "s"}) for method in ("_session/archive", "_session/unarchive")),
    *(request(1, method, {"sessionId": "s"}) for method in ("session/fork", "session/close", "session/rewind")),
    request(1, "session/set_mode", {"sessionId": "s", "modeId": "m"}),
    request(1, "_session/steering", {"sessionId": "s", "prompt": []}),
    request(1, "session/prompt", {"sessionId": "s", "prompt": []}),
]


def begin_after_handover() -> CoreConversation:
    """A session was handed over by an earlier process: the agent's id of it is ``n``."""
    talk = indexing()
    talk.stored["old"] = SimulatedSession(alias="n", moved=True)
    talk.aliases["n"] = "old"
    return talk


@pytest.mark.parametrize("named", ["old", "n"])
@pytest.mark.parametrize("asked", NAMING, ids=lambda asked: asked["method"])
def test_a_request_reaches_the_agents_session_and_counts_for_the_one_that_continues_there(
    asked: dict[str, Any], named: str
) -> None:
    talk = begin_after_handover()
    step = talk.client.say(asked | {"params": {**asked["params"], "sessionId": named}})
    assert step.to_agent == line(asked | {"params": {**asked["params"], "sessionId": "n"}})
    step.add(talk.agent.say(result(1, {"sessionId": "f"} if asked["method"] == "session/fork" else {})))
    assert {getattr(record, "session_id", "old") for record in step.kept} <= {"old", "f"}
    assert {each.session_id for each in step.done if isinstance(each, StoreAgentsChange)} <= {"old"}
    assert talk.open_transcripts == []


def test_a_fork_of_a_session_that_was_not_opened_here_begins_with_the_whole_of_it() -> None:
    talk = begin_after_handover()
    talk.client.say(request(1, "session/fork", {"sessionId": "n", "cwd": "/w"}))
    [begun] = [
        record for record in talk.agent.say(result(1, {"sessionId": "f"})).kept if isinstance(record, BeginTranscript)
    ]
    assert (begun.session_id, begun.parent_id) == ("f", "old")


def test_what_the_agent_says_of_such_a_session_has_the_id_that_the_client_used() -> None:
    talk = begin_after_handover()
    talk.client.say(request(1, "_session/rename", {"sessionId": "n", "title": "Mine"}))
    assert StoreAgentsChange("old", "Mine") in talk.agent.say(result(1, {})).done
    talk.titles["old"] = "By our command"
    talk.changed_by_agent = frozenset()
    told = talk.agent.say(update("n", "session_info_update", title="The agent's")).to_client
    assert told == line(update("n", "session_info_update", title="By our command"))


def test_an_unarchive_of_a_session_that_only_acp_proxy_has_archived_is_answered_here() -> None:
    talk = indexing()
    talk.stored["s"] = SimulatedSession()
    talk.archived = frozenset({"s"})
    step = talk.client.say(request(1, "_session/unarchive", {"sessionId": "s"}))
    assert (step.to_agent, step.to_client) == (b"", line(result(1, {})))
    assert talk.archived == frozenset()
    again = request(2, "_session/unarchive", {"sessionId": "s"})
    assert talk.client.say(again).to_agent == line(again)


def test_an_unarchive_of_a_session_that_the_agent_has_archived_reaches_the_agent() -> None:
    talk = indexing()
    talk.stored["s"] = SimulatedSession()
    talk.client.say(CHANGES[1][0])
    talk.agent.say(result(1, {}))
    assert talk.archived == {"s"}
    asked = request(2, "_session/unarchive", {"sessionId": "s"})
    assert talk.client.say(asked).to_agent == line(asked)


# --- the list


def test_a_list_passes_unless_it_wants_only_archived_sessions() -> None:
    talk = indexing()
    for wanted in (None, "unarchived", "all", "unknown"):
        asked = line(listing(1, wanted))
        assert talk.client.say(asked).to_agent == asked
        talk.agent.say(result(1, {"sessions": []}))


def test_sessions_archived_here_or_in_the_agent_are_in_the_list_of_archived_ones() -> None:
    talk = indexing()
    talk.archived = frozenset({"s"})
    assert talk.client.say(listing(1, "archived")).to_agent == line(listing(1, "all"))
    step = talk.agent.say(result(1, {"sessions": [row("s"), row("t"), row("u", archived=True)]}))
    assert listed_titles(step.to_client) == {"s": ("The agent's", True), "u": ("The agent's", True)}


def test_sessions_archived_here_are_left_out_of_the_usual_list_and_marked_in_that_of_all() -> None:
    talk = indexing()
    talk.archived = frozenset({"s"})
    answer = {"sessions": [row("s"), row("t")]}
    talk.client.say(listing(1))
    assert listed_titles(talk.agent.say(result(1, answer)).to_client) == {"t": ("The agent's", False)}
    talk.client.say(listing(2, "all"))
    told = listed_titles(talk.agent.say(result(2, answer)).to_client)
    assert told == {"s": ("The agent's", True), "t": ("The agent's", False)}


def test_a_page_without_archived_sessions_is_followed_by_the_next_one() -> None:
    talk = indexing()
    talk.client.say(listing(1, "archived"))
    step = talk.agent.say(result(1, {"sessions": [row("s")], "nextCursor": "c"}))
    [asked] = [json.loads(each) for each in step.to_agent.splitlines()]
    assert step.to_client == b""
    assert asked["params"] == {**listing(1, "all")["params"], "cursor": "c"}
    step = talk.agent.say(result(asked["id"], {"sessions": [row("t", archived=True)]}))
    assert json.loads(step.to_client)["id"] == 1
    assert listed_titles(step.to_client) == {"t": ("The agent's", True)}


def test_sessions_that_only_acp_proxy_lists_are_renamed_and_archived_here() -> None:
    id = proxy_ids.make_other_agents_id("another-agent", "s")
    talk = indexing()
    talk.stored[id] = SimulatedSession()
    step = talk.client.say(request(1, "_session/rename", {"sessionId": id, "title": "Mine"}))
    assert (step.to_agent, talk.titles) == (b"", {id: "Mine"})
    assert talk.client.say(request(2, "_session/archive", {"sessionId": id})).to_agent == b""
    assert talk.archived == {id}
    assert talk.client.say(request(3, "_session/unarchive", {"sessionId": id})).to_agent == b""
    assert talk.archived == frozenset()


def test_rows_are_amended_by_one_effect() -> None:
    talk = indexing()
    step = talk.agent.say(CHANGED)
    assert step.asked == [
        AmendList(line(CHANGED), archive_filter="include", is_of_jetbrains_index=True, rows_member="params")
    ]
