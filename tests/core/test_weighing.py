"""Loads of the agent's own: weighed against ours, imported, swallowed, or passed."""

import json
from typing import Any

import pytest

from acp_proxy.core.capabilities import STORE, Modes
from acp_proxy.core.effects import (
    Begin,
    BeginTurn,
    FindSession,
    ForgetReplay,
    Keep,
    KeepNote,
    ReleaseHeld,
    StartReplay,
    StopReplay,
)
from acp_proxy.core.restoring import HELD_LIMIT
from acp_proxy.wire import record
from acp_proxy.wire.jsonrpc import Peer
from tests.conversation import (
    AS_USUAL,
    LOADS,
    RESUMES,
    Said,
    Stored,
    Talk,
    cancel,
    chunk,
    commands,
    delete,
    error,
    line,
    load,
    new,
    opened_note,
    permission,
    prompt,
    raw,
    request,
    requested,
    result,
    resume,
    spaced,
    stopped,
    titled,
    update,
)

ONE = requested(1)
TOLD: list[Said] = [
    chunk("s", "a", "user_message_chunk"),
    spaced(chunk("s", "b")),
    commands("s", "x"),
    update("s", "plan"),
]
KEPT_OPENING = [Begin("s", "/w", [], record.PARTIAL), KeepNote("s", opened_note("session/load"))]


def loading(stored: Stored | None = None, modes: Modes = AS_USUAL, capabilities: object = None) -> Talk:
    talk = Talk(modes=modes).begins(capabilities or LOADS)
    talk.stored["s"] = stored or Stored()
    talk.client(load(1, "s"))
    return talk


def weighing() -> Talk:
    talk = loading()
    talk.agent(*TOLD)
    talk.agent(result(1, {"x": 1.0}))
    assert talk.replays_running == [ONE]
    return talk


def agent_kept(session: str, said: Said) -> Keep:
    return Keep(session, Peer.AGENT, raw(said))


# The fuller of two.


def test_the_agents_telling_is_held_and_weighed_once_it_has_answered() -> None:
    talk = Talk().begins(LOADS)
    talk.stored["s"] = Stored()
    step = talk.client(spaced(load(1, "s")))
    assert step.asked == [FindSession(ONE, "s", only_here=False, searches=True)]
    assert step.to_agent == spaced(load(1, "s"))
    for said in TOLD:
        assert talk.agent(said).to_client == b""
    step = talk.agent(result(1, {}))
    conversation = tuple(line(said) for said in TOLD if b"available_commands" not in line(said))
    assert (step.to_client, step.asked) == (b"", [StartReplay(ONE, conversation)])
    assert step.kept == [*KEPT_OPENING, agent_kept("s", TOLD[2])]


def test_where_theirs_is_the_fuller_it_is_sent_as_it_came_states_in_their_places() -> None:
    talk = weighing()
    talk.agent(chunk("s", "live"))
    step = talk.replay_ends(1, ours=False)
    assert step.to_client == line(*TOLD, result(1, {"x": 1.0}), chunk("s", "live"))
    assert talk.replays_left == []


def test_where_ours_is_the_fuller_the_answer_and_the_live_states_follow_it() -> None:
    talk = weighing()
    talk.tells(1, chunk("s", "ours"))
    talk.agent(chunk("s", "live"))
    step = talk.replay_ends(1, commands("s", "stored"))
    assert step.to_client == line(
        result(1, {"x": 1.0}), commands("s", "stored"), commands("s", "x"), chunk("s", "live")
    )


def test_the_answer_of_a_native_load_is_passed_as_it_came() -> None:
    talk = loading()
    answer = b' {"result":null,"id":1 ,"n":1.0}\r\n'
    talk.agent(answer)
    assert talk.replay_ends(1, ours=False).to_client == answer


def test_an_error_follows_what_was_held() -> None:
    talk = loading()
    talk.agent(*TOLD)
    step = talk.agent(error(1, -32603))
    assert (step.to_client, step.kept) == (line(*TOLD, error(1, -32603)), [])
    assert talk.replays_left == []


def test_what_was_held_is_not_lost_with_the_agent() -> None:
    talk = loading()
    talk.agent(*TOLD)
    step = talk.agent_ends()
    assert step.to_client.startswith(line(*TOLD))
    told = json.loads(step.to_client.removeprefix(line(*TOLD)))
    assert (told["id"], told["error"]["code"]) == (1, -32603)
    assert talk.replays_left == []


def test_too_much_is_let_go_and_is_the_agents_telling() -> None:
    talk = loading()
    big = line(update("s", "plan", x="?")).replace(b"?", b"x" * (HELD_LIMIT // 4))
    said: list[Said] = [commands("s", "x"), big, big, big]
    for each in said:
        assert talk.agent(each).to_client == b""
    assert talk.agent(big).to_client == line(*said, big)
    assert talk.agent(chunk("s", "more"), commands("s", "y")).to_client == line(chunk("s", "more"), commands("s", "y"))
    step = talk.agent(result(1, {}))
    assert (step.to_client, step.asked) == (line(result(1, {})), [ForgetReplay(ONE)])


@pytest.mark.parametrize("stored", [Stored(complete=False), Stored(trouble="EIO")])
def test_where_ours_cannot_be_the_fuller_the_load_passes(stored: Stored) -> None:
    talk = loading(stored)
    assert talk.all.to_agent.endswith(line(load(1, "s")))
    assert talk.agent(*TOLD).to_client == line(*TOLD)
    assert talk.agent(result(1, None)).to_client == line(result(1, None))
    assert talk.replays_left == []


def test_a_load_during_a_turn_passes_at_once() -> None:
    talk = Talk().begins(LOADS).opens("s")
    talk.client(prompt(5, "s"), load(1, "s"))
    said: list[Said] = [chunk("s", "a"), permission(0, "s"), result(1, {}), chunk("s", "b")]
    assert talk.agent(*said).to_client == line(*said)
    assert agent_kept("s", chunk("s", "a")) in talk.all.kept
    assert talk.replays_left == []


def test_a_cancel_is_answered_at_once_and_the_rest_is_swallowed() -> None:
    talk = loading()
    talk.agent(chunk("s", "a"))
    assert talk.client(cancel(1)).refusals == [(1, -32800)]
    assert talk.agent(chunk("s", "b"), result(1, {})).to_client == b""
    talk = weighing()
    step = talk.client(cancel(1))
    assert (step.asked, step.refusals) == ([StopReplay(ONE), ReleaseHeld(ONE)], [(1, -32800)])
    assert talk.replay_ends(1, ours=False).to_client == b""


def test_loading_again_and_again_records_nothing_twice() -> None:
    talk = Talk().begins(LOADS).opens("s")
    for id in (1, 2, 3):
        talk.client(load(id, "s"))
        talk.agent(chunk("s", "told"), result(id, {}))
        talk.replay_ends(id, ours=False)
    assert not [each for each in talk.all.kept if isinstance(each, Keep)]


def test_a_load_without_a_session_passes() -> None:
    talk = Talk().begins(LOADS)
    said = request(1, "session/load", {"sessionId": 5})
    assert talk.client(said).to_agent == line(said)


def test_a_deleted_session_is_not_asked_for() -> None:
    talk = Talk().begins(LOADS)
    talk.client(delete(2, "s"))
    step = talk.client(load(1, "s"))
    assert (step.to_agent, step.refusals) == (b"", [(1, -32002)])


# Imported.


def importing() -> Talk:
    return loading(Stored(held=False))


def test_the_telling_of_a_session_that_we_lack_passes_at_once_and_begins_its_transcript() -> None:
    talk = importing()
    for said in TOLD:
        step = talk.agent(said)
        assert (step.to_client, step.kept) == (line(said), [])
    step = talk.agent(result(1, None))
    assert (step.to_client, step.warnings) == (line(result(1, None)), [])
    assert step.kept == [
        Begin("s", "/w", [], record.IMPORTED),
        *(agent_kept("s", said) for said in TOLD),
        KeepNote("s", opened_note("session/load")),
    ]
    assert talk.client(prompt(2, "s")).kept == [BeginTurn("s"), Keep("s", Peer.CLIENT, raw(prompt(2, "s")))]


def test_a_session_is_imported_once() -> None:
    talk = importing()
    talk.agent(*TOLD, result(1, {}))
    before = len(talk.all.kept)
    talk.client(load(2, "s"))
    assert talk.agent(*TOLD).to_client == line(*TOLD)
    talk.agent(result(2, {}))
    again = [each for each in talk.all.kept[before:] if isinstance(each, Keep)]
    assert again == [agent_kept("s", TOLD[2])]


def test_an_error_imports_nothing() -> None:
    talk = importing()
    talk.agent(*TOLD)
    step = talk.agent(error(1, -32603))
    assert (step.to_client, talk.all.kept[1:]) == (line(error(1, -32603)), [])


def test_a_turn_behind_a_load_is_not_put_before_what_is_imported() -> None:
    talk = importing()
    talk.agent(TOLD[0])
    talk.client(prompt(2, "s"))
    talk.agent(chunk("s", "live"), result(1, {}))
    kept = [each for each in talk.all.kept if isinstance(each, Keep)]
    assert kept == [Keep("s", Peer.CLIENT, raw(prompt(2, "s"))), agent_kept("s", chunk("s", "live"))]


# The store's, on request.


def test_a_native_load_is_swallowed_where_ours_is_wanted() -> None:
    talk = loading(modes=Modes(load=STORE))
    assert talk.agent(*TOLD).to_client == b""
    assert talk.agent(result(1, None)).asked == [StartReplay(ONE)]
    assert talk.replay_ends(1).to_client == line(result(1, {}), commands("s", "x"))


def test_of_what_is_swallowed_nothing_is_too_much() -> None:
    talk = loading(modes=Modes(load=STORE))
    big = line(update("s", "agent_message_chunk", x="?")).replace(b"?", b"x" * (HELD_LIMIT // 8))
    for _ in range(9):
        assert talk.agent(big).to_client == b""
    assert talk.agent(result(1, {})).asked == [StartReplay(ONE)]


def test_where_ours_is_wanted_a_resume_is_preferred() -> None:
    both = LOADS | RESUMES
    assert loading(modes=Modes(load=STORE), capabilities=both).all.to_agent.endswith(line(resume(1, "s")))


@pytest.mark.parametrize("stored", [Stored(), Stored(complete=False), Stored(held=False)])
def test_a_resume_on_top_of_a_load_tells_nothing(stored: Stored) -> None:
    talk = Talk(modes=Modes(resume=STORE)).begins(LOADS)
    talk.stored["s"] = stored
    assert talk.client(resume(1, "s")).to_agent == line(load(1, "s"))
    assert talk.agent(*TOLD).to_client == b""
    step = talk.agent(result(1, None))
    assert step.to_client == line(result(1, {}), TOLD[2])
    assert (step.warnings, talk.replays_left) == ([], [])


def test_list_and_delete_of_an_agent_that_has_both_are_the_stores_on_request() -> None:
    capabilities: dict[str, Any] = {"sessionCapabilities": {"list": {}, "delete": {}}}
    talk = Talk(modes=Modes(list=STORE, delete=STORE)).begins(capabilities)
    for asked in (request(1, "session/list"), delete(2, "s")):
        step = talk.client(asked)
        assert step.to_agent == b""
        assert b'"result"' in step.to_client


# Ids that change.


def test_a_session_that_is_restored_under_another_id_keeps_the_one_that_the_client_knows() -> None:
    talk = Talk().begins(RESUMES)
    talk.stored["s"] = Stored()
    talk.client(load(1, "s"))
    talk.agent(b'{"id":1,"result":{"sessionId":"n","n":1.0}}\n')
    assert talk.replay_ends(1).to_client == b'{"id":1,"result":{"sessionId":"s","n":1.0}}\n'
    assert talk.client(prompt(2, "s")).to_agent == line(prompt(2, "n"))
    step = talk.agent(chunk("n", "a"), stopped(2))
    assert step.to_client == line(chunk("s", "a"), stopped(2))
    assert step.kept[0] == agent_kept("s", chunk("s", "a"))
    assert talk.client(load(3, "s")).to_agent == line(resume(3, "n"))


# Titles.


def test_a_title_is_announced_once_before_the_first_answer_and_not_recorded() -> None:
    talk = Talk().begins().opens("s")
    talk.client(prompt(1, "s", "/go\nmend it"))
    talk.agent(chunk("s", "a"))
    step = talk.agent(stopped(1))
    assert step.to_client == line(titled("s", "/go"), stopped(1))
    assert not any(isinstance(each, Keep) and b"session_info_update" in each.raw for each in step.kept)
    talk.client(prompt(2, "s", "and that"))
    assert talk.agent(stopped(2)).to_client == line(stopped(2))


@pytest.mark.parametrize("spelling", [line, spaced])
@pytest.mark.parametrize("when", ["before the answer to new", "before the prompt", "in the turn"])
def test_a_title_of_the_agents_own_is_not_talked_over(when: str, spelling: Any) -> None:
    own = spelling(update("s", "session_info_update", title="Its own"))
    talk = Talk().begins()
    talk.client(new(0))
    moments = {
        "before the answer to new": result(0, {"sessionId": "s"}),
        "before the prompt": None,
        "in the turn": None,
    }
    for moment, said in moments.items():
        if moment == "in the turn":
            talk.client(prompt(1, "s"))
        if moment == when:
            talk.agent(own)
        if said is not None:
            talk.agent(said)
    assert talk.agent(stopped(1)).to_client == line(stopped(1))


def test_an_update_without_a_title_does_not_keep_ours_back() -> None:
    talk = Talk().begins().opens("s")
    talk.client(prompt(1, "s"))
    talk.agent(update("s", "session_info_update", title=None), update("s", "session_info_update", updatedAt="x"))
    assert talk.agent(stopped(1)).to_client == line(titled("s"), stopped(1))


@pytest.mark.parametrize(
    "talk",
    [
        lambda: Talk().begins({"sessionCapabilities": {"list": {}}}),
        lambda: Talk(serves=False).begins(),
        lambda: Talk(records=False).begins(),
        lambda: Talk(modes=Modes(list="agent")).begins(),
    ],
)
def test_no_title_is_announced_where_the_list_is_not_ours(talk: Any) -> None:
    begun = talk().opens("s")
    begun.client(prompt(1, "s"))
    assert begun.agent(stopped(1)).to_client == line(stopped(1))


def test_a_native_list_that_is_the_stores_on_request_has_our_titles() -> None:
    talk = Talk(modes=Modes(list=STORE)).begins({"sessionCapabilities": {"list": {}}}).opens("s")
    talk.client(prompt(1, "s"))
    assert talk.agent(stopped(1)).to_client == line(titled("s"), stopped(1))


def test_a_session_that_is_not_new_or_without_words_is_not_named() -> None:
    talk = Talk().begins().opens("t")
    talk.client(prompt(1, "s"), request(2, "session/prompt", {"sessionId": "t", "prompt": []}))
    assert talk.agent(stopped(1), stopped(2)).to_client == line(stopped(1), stopped(2))
