"""Drafts of the protocol: titles by the user, archived sessions and status, with and without the agent's own list."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from acp_proxy.decisions.capabilities import AGENT, NEVER, STORE, Modes
from acp_proxy.decisions.effects import AnswerStatus, Forward, SetArchived, SetTitle
from acp_proxy.decisions.lists import agent_list
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    SimulatedSession,
    Step,
    chunk,
    error,
    initialize_answer,
    line,
    make_request_id,
    notification,
    prompt,
    prompt_answer,
    request,
    result,
    title_update,
    update,
)
from tests.listed import make_row

UNSTABLE = Modes(unstable=True)
LISTS: dict[str, Any] = {"sessionCapabilities": {"list": {}, "resume": {}, "close": {}}}
DRAFTS = ("title", "archive", "status")


def talk(capabilities: Any = RESUMES, modes: Modes = UNSTABLE) -> CoreConversation:
    return CoreConversation(modes=modes).initialize(capabilities)


def set_title(id: object, session: str, title: object) -> dict[str, Any]:
    return request(id, "session/set_title", {"sessionId": session, "title": title})


def archive(id: object, session: str) -> dict[str, Any]:
    return request(id, "session/archive", {"sessionId": session})


def unarchive(id: object, session: str) -> dict[str, Any]:
    return request(id, "session/unarchive", {"sessionId": session})


def status(id: object, session: str) -> dict[str, Any]:
    return request(id, "session/status", {"sessionId": session})


def client_messages(step: Step) -> list[Any]:
    return [json.loads(one) for one in step.to_client.split(b"\n") if one]


REQUESTS = [set_title(1, "s", "t"), archive(1, "s"), unarchive(1, "s"), status(1, "s")]


# --- what is offered


@pytest.mark.parametrize(
    ("served_by_agent", "modes", "added"),
    [
        ((), UNSTABLE, {"title", "archive", "status"}),
        (("list",), UNSTABLE, {"title", "archive", "status"}),
        (("title",), UNSTABLE, {"archive", "status"}),
        (("list", "archive"), UNSTABLE, {"title", "status"}),
        (("status",), UNSTABLE, {"title", "archive"}),
        (("list", *DRAFTS), UNSTABLE, set()),
        (("list", *DRAFTS), replace(UNSTABLE, list=STORE), {"archive"}),
        (("list",), replace(UNSTABLE, list=AGENT), {"status"}),
        ((), replace(UNSTABLE, list=AGENT), {"status"}),
        ((), replace(UNSTABLE, handover=NEVER), {"title", "archive"}),
        ((), Modes(), set()),
        (("list",), Modes(), set()),
    ],
)
def test_a_draft_is_offered_if_the_agent_lacks_it_and_acp_proxy_can_serve_it(
    served_by_agent: tuple[str, ...], modes: Modes, added: set[str]
) -> None:
    offered = talk({"sessionCapabilities": {name: {} for name in served_by_agent}}, modes)
    capabilities = client_messages(offered.all)[0]["result"]["agentCapabilities"]
    serves = capabilities.get("_meta", {}).get("acp-proxy", {}).get("serves", [])
    assert {name for name in serves if name in DRAFTS} == added
    assert {name for name in capabilities["sessionCapabilities"] if name in DRAFTS} == added | (
        set(served_by_agent) & set(DRAFTS)
    )


@pytest.mark.parametrize("asked", REQUESTS)
@pytest.mark.parametrize(
    ("capabilities", "modes"),
    [(RESUMES, Modes()), ({"sessionCapabilities": {name: {} for name in ("list", *DRAFTS)}}, UNSTABLE)],
)
def test_requests_for_drafts_that_acp_proxy_does_not_serve_pass(
    asked: dict[str, Any], capabilities: Any, modes: Modes
) -> None:
    editor = talk(capabilities, modes).open("s")
    assert editor.client.say(asked).done[-1:] == [Forward(Peer.AGENT, line(asked))]
    answer = line(error(1, -32601))
    assert editor.agent.say(answer).done == [Forward(Peer.CLIENT, answer)]


def test_without_the_option_a_list_and_its_answer_stay_as_they_are() -> None:
    editor = CoreConversation().initialize(LISTS)
    editor.archived = frozenset({"a"})
    asked = request(1, "session/list", {"archived": "only", "cursor": None})
    assert editor.client.say(asked).to_agent == line(asked)
    answer = result(1, {"sessions": [{"sessionId": "a", "cwd": "/"}], "nextCursor": "c"})
    assert editor.agent.say(answer).to_client == line(answer)


# --- titles


def test_the_stored_title_is_returned_and_an_update_follows() -> None:
    editor = talk().open("s")
    step = editor.client.say(set_title(1, "s", "  My \x1b[31mtitle\n"))
    assert step.asked == [SetTitle(make_request_id(1), "s", True, "My title")]
    assert step.to_client == line(result(1, {"title": "My title"}), title_update("s", "My title"))
    assert step.to_agent == b""


@pytest.mark.parametrize(
    "asked", [set_title(1, "s", " \n"), set_title(1, "s", None), set_title(1, "s", 3), request(1, "session/set_title")]
)
def test_a_title_that_is_empty_or_no_text_is_refused(asked: dict[str, Any]) -> None:
    assert talk().open("s").client.say(asked).refusals == [(1, -32602)]


@pytest.mark.parametrize("asked", REQUESTS)
def test_an_unknown_session_is_not_found_and_named(asked: dict[str, Any]) -> None:
    [answer] = client_messages(talk().client.say(asked))
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32002, {"sessionId": "s"})


@pytest.mark.parametrize("asked", REQUESTS)
def test_a_deleted_session_is_not_found(asked: dict[str, Any]) -> None:
    editor = talk().open("s")
    editor.client.say(request(0, "session/delete", {"sessionId": "s"}))
    assert editor.client.say(asked).refusals == [(1, -32002)]


@pytest.mark.parametrize("asked", REQUESTS)
def test_a_session_need_not_be_open(asked: dict[str, Any]) -> None:
    editor = talk()
    editor.stored["s"] = SimulatedSession()
    assert "result" in client_messages(editor.client.say(asked))[0]


def test_the_users_title_wins_over_later_titles() -> None:
    editor = talk().open("s", "other")
    editor.client.say(set_title(1, "s", "Mine"))
    info = update("s", "session_info_update", title="theirs", updatedAt="2026-11-20T09:15:02Z")
    step = editor.agent.say(info, title_update("other", "theirs"), update("s", "session_info_update", updatedAt=None))
    assert step.to_client == line(info).replace(b"theirs", b"Mine") + line(
        title_update("other", "theirs"), update("s", "session_info_update", updatedAt=None)
    )
    assert line(info).strip() in [getattr(kept, "raw", None) for kept in step.kept], "the agent's words are recorded"
    editor.client.say(prompt(2, "s", "a prompt for a title"))
    answered = editor.agent.say(prompt_answer(2))
    assert answered.to_client.count(b"a prompt for a title") == 0


def test_text_that_names_the_update_is_left_alone() -> None:
    editor = talk().open("s")
    editor.client.say(set_title(1, "s", "Mine"))
    said = chunk("s", 'a "session_info_update" with a "title"')
    assert editor.agent.say(said).to_client == line(said)


# --- archived sessions


def test_archiving_hides_a_session_until_it_is_unarchived() -> None:
    editor = talk().open("s")
    assert editor.client.say(archive(1, "s")).to_client == line(result(1, {}))
    assert editor.archived == {"s"}
    assert editor.client.say(archive(2, "s")).to_client == line(result(2, {}))
    assert editor.client.say(unarchive(3, "s")).to_client == line(result(3, {}))
    assert editor.archived == set()
    assert editor.client.say(unarchive(4, "s")).to_client == line(result(4, {}))


@pytest.mark.parametrize(
    ("wanted", "listed"),
    [
        ({}, {"a": False}),
        ({"archived": None}, {"a": False}),
        ({"archived": "exclude"}, {"a": False}),
        ({"archived": "include"}, {"a": False, "b": True}),
        ({"archived": "only"}, {"b": True}),
    ],
)
@pytest.mark.parametrize("capabilities", [RESUMES, LISTS])
def test_a_list_filters_archived_sessions_and_marks_every_session(
    capabilities: Any, wanted: dict[str, Any], listed: dict[str, bool]
) -> None:
    editor = talk(capabilities)
    editor.rows, editor.archived = [make_row("a"), make_row("b", is_archived=True)], frozenset({"b"})
    step = editor.client.say(request(1, "session/list", {"cwd": "/w", **wanted}))
    if capabilities is LISTS:
        assert b"archived" not in step.to_agent
        assert json.loads(step.to_agent)["params"] == {"cwd": "/w"}
        rows = [{"sessionId": "a", "cwd": "/w"}, {"sessionId": "b", "cwd": "/w", "archived": "odd"}]
        step = editor.agent.say(result(1, {"sessions": rows}))
    sessions = client_messages(step)[0]["result"]["sessions"]
    assert {row["sessionId"]: row["archived"] for row in sessions} == listed


@pytest.mark.parametrize("capabilities", [RESUMES, LISTS])
@pytest.mark.parametrize("wanted", ["odd", "", 1, True])
def test_an_unknown_filter_is_refused(capabilities: Any, wanted: object) -> None:
    step = talk(capabilities).client.say(request(1, "session/list", {"archived": wanted}))
    assert (step.refusals, step.to_agent) == ([(1, -32602)], b"")


def test_an_open_session_is_cancelled_and_closed_before_it_is_archived() -> None:
    editor = talk(LISTS).open("s")
    editor.client.say(prompt(1, "s"))
    step = editor.client.say(archive(2, "s"))
    cancel, close = (json.loads(one) for one in step.to_agent.split(b"\n") if one)
    assert cancel == notification("session/cancel", {"sessionId": "s"})
    assert (close["method"], close["params"]) == ("session/close", {"sessionId": "s"})
    assert step.asked == []
    assert editor.agent.say(prompt_answer(1, "cancelled")).to_client.endswith(line(prompt_answer(1, "cancelled")))
    closed = editor.agent.say(result(close["id"], {}))
    assert closed.asked == [SetArchived(make_request_id(2), "s", True, True)]
    assert closed.to_client == line(result(2, {}))
    assert [note.note["type"] for note in closed.kept if hasattr(note, "note")] == ["closed"]
    assert client_messages(editor.client.say(status(3, "s")))[0]["result"] == {"status": "saved"}


def test_a_session_is_archived_even_if_the_agent_cannot_close_it() -> None:
    editor = talk(LISTS).open("s")
    close = json.loads(editor.client.say(archive(1, "s")).to_agent)
    assert editor.agent.say(error(close["id"], -32603)).to_client == line(result(1, {}))
    assert editor.archived == {"s"}
    assert client_messages(editor.client.say(status(2, "s")))[0]["result"] == {"status": "open"}


def test_a_session_is_archived_if_the_agent_ends_before_it_is_closed() -> None:
    editor = talk(LISTS).open("s")
    editor.client.say(archive(1, "s"))
    assert editor.end_agent().to_client == line(result(1, {}))


def test_an_agent_without_close_is_asked_to_cancel_only() -> None:
    editor = talk(RESUMES).open("s")
    editor.client.say(prompt(1, "s"))
    step = editor.client.say(archive(2, "s"))
    assert step.to_agent == line(notification("session/cancel", {"sessionId": "s"}))
    assert editor.archived == {"s"}


def test_a_session_that_is_not_open_is_neither_cancelled_nor_closed() -> None:
    editor = talk(LISTS)
    editor.stored["s"] = SimulatedSession()
    step = editor.client.say(archive(1, "s"))
    assert (step.to_agent, step.asked[-1]) == (b"", SetArchived(make_request_id(1), "s", False, True))


# --- the agent's own list


def page(id: object, *sessions: str, cursor: str | None = None) -> dict[str, Any]:
    listed = {"sessions": [{"sessionId": session, "cwd": "/w"} for session in sessions]}
    return result(id, listed | ({"nextCursor": cursor} if cursor is not None else {}))


def test_a_session_that_the_agent_has_listed_exists() -> None:
    editor = talk(LISTS)
    assert editor.client.say(set_title(1, "a", "Mine")).refusals == [(1, -32002)]
    editor.client.say(request(2, "session/list"))
    editor.agent.say(page(2, "a"))
    assert "result" in client_messages(editor.client.say(set_title(3, "a", "Mine")))[0]
    assert editor.client.say(status(4, "a")).asked[-1] == AnswerStatus(make_request_id(4), "a", True, False)


def test_listed_ids_take_limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_list, "LISTED_LIMIT", 600)
    editor = talk(LISTS)
    editor.client.say(request(1, "session/list"))
    editor.agent.say(page(1, "a", "b", "c"))
    assert editor.client.say(status(2, "a")).refusals == [(2, -32002)]
    assert "result" in client_messages(editor.client.say(status(3, "c")))[0]


def test_a_page_of_which_nothing_is_left_is_skipped_and_cursors_stay() -> None:
    editor = talk(LISTS)
    editor.archived = frozenset({"c"})
    asked = request("l", "session/list", {"archived": "only", "cwd": "/w", "_meta": {"x": 1.0}})
    editor.client.say(asked)
    second = json.loads(editor.agent.say(page("l", "a", cursor="two")).to_agent)
    assert second["params"] == {"cwd": "/w", "_meta": {"x": 1.0}, "cursor": "two"}
    third = json.loads(editor.agent.say(page(second["id"], "b", cursor="three")).to_agent)
    assert third["params"]["cursor"] == "three"
    [answer] = client_messages(editor.agent.say(page(third["id"], "c", "d", cursor="four")))
    assert (answer["id"], answer["result"]["nextCursor"]) == ("l", "four")
    assert answer["result"]["sessions"] == [{"sessionId": "c", "archived": True, "cwd": "/w"}]


def test_the_last_page_is_sent_even_if_it_is_empty() -> None:
    editor = talk(LISTS)
    editor.client.say(request(1, "session/list", {"archived": "only"}))
    second = json.loads(editor.agent.say(page(1, "a", cursor="c")).to_agent)
    assert editor.agent.say(page(second["id"], "b")).to_client == line(result(1, {"sessions": []}))


def test_an_empty_page_of_the_agents_own_is_sent() -> None:
    editor = talk(LISTS)
    editor.client.say(request(1, "session/list"))
    assert editor.agent.say(page(1, cursor="c")).to_client == line(page(1, cursor="c"))


def test_an_error_for_a_later_page_answers_the_client() -> None:
    editor = talk(LISTS)
    editor.client.say(request(1, "session/list", {"archived": "only"}))
    second = json.loads(editor.agent.say(page(1, "a", cursor="c")).to_agent)
    assert editor.agent.say(error(second["id"], -32602, "odd")).to_client == line(error(1, -32602, "odd"))


def test_the_agents_end_answers_a_list_that_asked_for_a_later_page() -> None:
    editor = talk(LISTS)
    editor.client.say(request(1, "session/list", {"archived": "only"}))
    editor.agent.say(page(1, "a", cursor="c"))
    assert editor.end_agent().refusals == [(1, -32603)]


def test_an_agent_whose_pages_never_end_is_asked_for_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_list, "PAGE_LIMIT", 3)
    editor = talk(LISTS)
    editor.client.say(request(1, "session/list", {"archived": "only"}))
    step, id = editor.agent.say(page(1, "a", cursor="c")), None
    for _ in range(2):
        id = json.loads(step.to_agent)["id"]
        step = editor.agent.say(page(id, "a", cursor="c"))
    assert step.to_client == line(result(1, {"sessions": [], "nextCursor": "c"}))


# --- status


def test_status_tells_open_and_saved_without_asking_the_agent() -> None:
    editor = talk(LISTS).open("s")
    editor.stored["old"] = SimulatedSession()
    said = [
        client_messages(editor.client.say(status(n, session)))[0]["result"] for n, session in enumerate(("s", "old"))
    ]
    assert said == [{"status": "open"}, {"status": "saved"}]
    editor.client.say(request(9, "session/close", {"sessionId": "s"}))
    editor.agent.say(result(9, {}))
    step = editor.client.say(status(10, "s"))
    assert (client_messages(step)[0]["result"], step.to_agent) == ({"status": "saved"}, b"")
    editor.client.say(request(11, "session/resume", {"sessionId": "s", "cwd": "/w", "mcpServers": []}))
    editor.agent.say(result(11, {}))
    assert client_messages(editor.client.say(status(12, "s")))[0]["result"] == {"status": "open"}


def test_an_agent_of_another_version_gets_every_request() -> None:
    editor = CoreConversation(modes=UNSTABLE)
    editor.client.say(request(0, "initialize", {"protocolVersion": 2}))
    editor.agent.say(initialize_answer(0, LOADS, protocolVersion=2))
    for asked in REQUESTS:
        assert editor.client.say(asked).to_agent == line(asked)
