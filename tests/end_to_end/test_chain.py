"""``acp-proxy chain`` as a conductor runs it: a small one of the tests, and the official one if it is built."""

import json
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.client import NO_ANSWER, Client, OutputEnded, RequestFailed
from tests.end_to_end.proxied import (
    ASK,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PROXY,
    Editor,
    Permission,
    Proxied,
    conversation,
    entries,
    say,
    texts,
)
from tests.waiting import wait_until

SMALL = [sys.executable, "-m", "tests.conductor"]
OFFICIAL = "agent-client-protocol-conductor"
BUILT = Path(__file__).parents[2] / ".venv" / "conductor" / "bin" / f"{OFFICIAL}{'.exe' * (sys.platform == 'win32')}"
ONCE, TWICE = 1, 2


class Chained(Proxied):
    """Commands run a conductor with ``count`` of us in front of the agent."""

    def __init__(self, base: Path, conductor: Sequence[str], count: int) -> None:
        super().__init__(base)
        self.conductor = conductor
        self.count = count
        self.apart = False
        """Whether each of us has a store of its own."""

    def command(self, script: Any = None, *, options: Sequence[str] = (), agent: Sequence[str] = ()) -> list[str]:
        stores = [self.base / f"store-{place}" if self.apart and place else self.store for place in range(self.count)]
        ours = [shlex.join([*PROXY, "chain", "--store", str(store), *options]) for store in stores]
        return [*self.conductor, "agent", *ours, shlex.join(self.bare_agent(script, agent))]


@pytest.fixture(params=["small", "official"])
def conductor(request: pytest.FixtureRequest) -> list[str]:
    """The conductor's command."""
    if request.param == "small":
        return SMALL
    found = str(BUILT) if BUILT.exists() else shutil.which(OFFICIAL)
    if found is None:
        pytest.skip("the official conductor is not built; run: make conductor")
    return [found]


alone_and_chained = pytest.mark.parametrize("chained", [ONCE, TWICE], ids=["one of us", "two of us"], indirect=True)


@pytest.fixture
def chained(tmp_path: Path, conductor: list[str], request: pytest.FixtureRequest) -> Iterator[Chained]:
    """Two of us, if the test does not say how many."""
    place = Chained(tmp_path, conductor, getattr(request, "param", TWICE))
    yield place
    place.close()


@pytest.fixture
def in_small(tmp_path: Path) -> Iterator[Chained]:
    """Two of us and the small conductor, which goes on when a component has exited."""
    place = Chained(tmp_path, SMALL, TWICE)
    yield place
    place.close()


class ByHand(Client):
    """A test that plays the conductor."""

    def initialize(self, capabilities: Any = None, **about: Any) -> Any:
        """Play both sides of ``proxy/initialize``; returns the answer."""
        asked = self.start_request("proxy/initialize", {"protocolVersion": 1})
        passed = self.wait_for_method("proxy/successor")
        assert passed["params"] == {"method": "initialize", "params": {"protocolVersion": 1}}
        answer = {"protocolVersion": 1, "agentCapabilities": capabilities or {}, **about}
        self.send({"jsonrpc": "2.0", "id": passed["id"], "result": answer})
        return self.wait_for_result(asked)


def by_hand(store: Path, *options: str) -> ByHand:
    return ByHand([*PROXY, "chain", "--store", str(store), *options], on_request=lambda _: NO_ANSWER)


def proxies_of(editor: Editor) -> list[psutil.Process]:
    """The running ``acp-proxy chain`` processes, the first in the chain first."""
    found = [child for child in psutil.Process(editor.pid).children() if "chain" in child.cmdline()]
    return sorted(found, key=lambda process: (process.create_time(), process.pid))


# --- the main job


@alone_and_chained
def test_a_session_is_recorded_once_listed_loaded_continued_and_deleted(chained: Chained) -> None:
    session = chained.recorded("mend it")
    [path] = chained.transcripts()
    assert len({line["run"] for line in entries(path)[1:]}) == 1
    editor = chained.start("conversation")
    [listed] = editor.sessions()
    assert (listed["sessionId"], listed["title"], listed["_meta"]["messageCount"]) == (session, "mend it", 2)
    loaded = editor.load(session)
    assert loaded.answer["result"] == {}
    assert texts(loaded.updates, "user_message_chunk") == ["mend it"]
    assert "I read both files. " in texts(loaded.updates)
    assert "I remember 1 earlier prompt; the first was: mend it" in texts(editor.prompt(session, "and now?"))
    assert editor.request("session/delete", {"sessionId": session}) == {}
    assert (editor.sessions(), chained.transcripts()) == ([], [])
    assert editor.end() == 0


def test_the_client_sees_what_the_agent_sends_without_us(chained: Chained) -> None:
    with Editor(chained.bare_agent("conversation")) as bare:
        bare.project = chained.project
        alone = conversation(bare.prompt(bare.open(), "mend it"))
    editor = chained.start("conversation")
    assert conversation(editor.prompt(editor.new_session(), "mend it")) == alone


def test_two_of_us_with_stores_of_their_own_both_record(chained: Chained) -> None:
    chained.apart = True
    chained.recorded("mend it")
    stores = [chained.store, chained.base / "store-1"][: chained.count]
    transcripts = [
        [path for path in store.glob("transcripts/*/*.jsonl") if path.name != "state.jsonl"] for store in stores
    ]
    assert [len(found) for found in transcripts] == [1] * chained.count


def test_a_proxy_with_the_same_store_nearer_to_the_agent_is_reported_once(in_small: Chained) -> None:
    editor = in_small.start(inherit_stderr=False)
    editor.prompt(editor.new_session(), "mend it")
    assert editor.end() == 0
    [said] = [line for line in editor.read_stderr().splitlines() if line.startswith("acp-proxy:")]
    assert said == (
        "acp-proxy: nothing is recorded: another acp-proxy, nearer to the agent, has the same store. Remove one."
    )


def test_large_messages_pass_in_both_directions(chained: Chained) -> None:
    large = "word " * 600_000
    editor = chained.start({"turns": [[{"echo_prompt": True}, say("done")]]})
    live = editor.prompt(editor.new_session(), large)
    assert texts(live, "user_message_chunk") == [large]
    assert editor.end() == 0


# --- cancellation


def test_a_cancelled_request_is_cancelled_at_the_agent_through_every_hop(chained: Chained) -> None:
    session = chained.recorded("mend it")
    editor = chained.start("late-on-resume")
    pending = editor.start_load(session)
    editor.prompt(editor.new_session(), "meanwhile")
    editor.notify("$/cancel_request", {"requestId": pending})
    assert editor.wait_for_answer(pending)["error"]["code"] == CANCELLED
    # The agent answers the resume only when it is cancelled, and then has the session open.
    assert "I remember 1 earlier prompt; the first was: mend it" in texts(editor.prompt(session, "and now?"))
    assert editor.end() == 0
    assert len(editor.answers_to(pending)) == 1


def test_a_cancelled_turn_ends(chained: Chained) -> None:
    editor = chained.start("cancel")
    session = editor.new_session()
    turn = editor.start_prompt(session, "go")
    editor.wait_for_update("tool_call")
    editor.notify("session/cancel", {"sessionId": session})
    assert editor.wait_for_result(turn) == {"stopReason": "cancelled"}
    assert texts(editor.prompt(session, "again"))


def test_the_agents_requests_reach_the_client_while_a_prompt_is_open(chained: Chained) -> None:
    permission = Permission()
    editor = chained.start({"turns": [[ASK, {"say_answer": True}]]}, on_request=permission)
    turn = editor.start_prompt(editor.new_session(), "go")
    editor.wait_for_method("session/request_permission")
    permission.grant()
    assert editor.wait_for_result(turn) == {"stopReason": "end_turn"}
    assert [json.loads(text)["outcome"]["optionId"] for text in texts(editor.list_updates())] == ["yes"]


# --- something ends


def test_a_session_survives_an_agent_that_exits(chained: Chained) -> None:
    editor = chained.start("crash")
    session = editor.new_session()
    editor.prompt(session, "one")
    with pytest.raises((RequestFailed, OutputEnded)):  # the official conductor ends with its agent
        editor.wait_for_result(editor.start_prompt(session, "two"))
    editor.close_stdin()
    editor.wait()
    after = chained.start("conversation")
    assert [listed["sessionId"] for listed in after.sessions()] == [session]
    assert texts(after.load(session).updates, "user_message_chunk") == ["one", "two"]


def test_history_is_served_after_the_agent_has_exited(in_small: Chained) -> None:
    editor = in_small.start("crash")
    session = editor.new_session()
    editor.prompt(session, "one")
    failed = editor.wait_for_answer(editor.start_prompt(session, "two"))
    assert failed["error"] == {"code": INTERNAL_ERROR, "message": "the agent has exited"}
    assert [listed["sessionId"] for listed in editor.sessions()] == [session]
    assert editor.load(session).answer["error"]["message"] == "the agent has exited"
    assert editor.request("session/delete", {"sessionId": session}) == {}
    assert editor.end() == 0


@alone_and_chained
def test_what_was_said_survives_a_proxy_that_dies(chained: Chained) -> None:
    editor = chained.start({"turns": [[say("before"), {"wait_cancel": True}]]})
    session = editor.new_session()
    turn = editor.start_prompt(session, "mend it")
    editor.wait_for_text("before")
    # A SIGKILL may lose the last read.
    wait_until(lambda: any("before" in path.read_text() for path in chained.transcripts()))
    proxies_of(editor)[-1].kill()
    with pytest.raises((RequestFailed, OutputEnded)):
        editor.wait_for_result(turn)
    editor.close_stdin()
    editor.wait()
    loaded = chained.start("conversation").load(session)
    assert texts(loaded.updates, "user_message_chunk") == ["mend it"]
    assert "before" in "".join(texts(loaded.updates))


def test_the_proxy_before_one_that_died_passes_its_errors_on_and_ends_in_order(in_small: Chained) -> None:
    editor = in_small.start()
    first, second = proxies_of(editor)
    second.kill()
    with pytest.raises(RequestFailed, match="proxy 1 has exited"):
        editor.new_session()
    assert first.is_running()
    assert editor.end() == 0
    assert "did not end" not in editor.read_stderr()


# --- the protocol, by hand


def test_the_answer_to_proxy_initialize_has_what_we_add(tmp_path: Path) -> None:
    with by_hand(tmp_path) as conductor:
        answer = conductor.initialize({"loadSession": True}, agentInfo={"name": "known", "version": "1"})
        assert answer["agentCapabilities"]["_meta"]["acp-proxy"]["serves"] == ["list", "delete"]
        conductor.close_stdin()
        assert conductor.wait() == 0


def test_a_conductor_that_takes_us_for_the_agent_is_told(tmp_path: Path) -> None:
    with by_hand(tmp_path) as conductor:
        refused = conductor.wait_for_answer(conductor.start_request("initialize", {"protocolVersion": 1}))["error"]
        assert refused["code"] == INVALID_REQUEST
        assert "acp-proxy run AGENT" in refused["message"]


@pytest.mark.parametrize(
    ("options", "about", "folder"),
    [
        ((), {"agentInfo": {"name": "known", "version": "1"}}, "known"),
        ((), {}, "agent"),
        (("--agent-id", "mine"), {}, "mine"),
    ],
    ids=["its name", "no name", "the user's name"],
)
def test_an_agent_is_known_by_its_name_since_its_command_is_not(
    tmp_path: Path, options: tuple[str, ...], about: dict[str, Any], folder: str
) -> None:
    with by_hand(tmp_path, *options) as conductor:
        conductor.initialize(**about)
        opened = conductor.start_request("session/new", {"cwd": "/w", "mcpServers": []})
        passed = conductor.wait_for(lambda one: one.get("params", {}).get("method") == "session/new").message
        conductor.send({"jsonrpc": "2.0", "id": passed["id"], "result": {"sessionId": "s"}})
        conductor.wait_for_result(opened)
        prompted = conductor.start_request("session/prompt", {"sessionId": "s", "prompt": []})
        conductor.wait_for(lambda message: message.get("params", {}).get("method") == "session/prompt")
        conductor.close_stdin()
        assert conductor.wait() == 0
        said = conductor.wait_for_answer(prompted)["error"]["message"]
        assert said == "agent is out of reach: the conductor has ended the chain"
    [path] = tmp_path.glob("transcripts/*/s-*.jsonl")
    assert path.parent.name.startswith(f"{folder}-")


def test_a_signal_ends_us_although_the_conductor_does_not_read(tmp_path: Path) -> None:
    with by_hand(tmp_path) as conductor:
        conductor.initialize()
        conductor.pause()
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 100_000}}
        inner = {"method": "session/update", "params": {"sessionId": "s", "update": update}}
        for _ in range(4):
            conductor.notify("proxy/successor", inner)
        conductor.process.terminate()
        assert conductor.wait() == 128 + signal.SIGTERM
