"""The first exchange: it passes while modules are imported, as the relay would have passed it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.config import options
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.proxy.capabilities import Modes, Settings
from acp_proxy.proxy.connection import Connection
from acp_proxy.proxy.effects import Forward
from acp_proxy.proxy.events import LinesRead
from acp_proxy.run import greeting
from acp_proxy.run.greeting import Greeting

SECONDS = 20.0
SETTINGS = Settings(records=True, serves=True, release="0", store="ours")
ASKED = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
COUNTS = """
import json, sys
for count, line in enumerate(sys.stdin, 1):
    answer = {"protocolVersion": 1, "count": count}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": answer}), flush=True)
"""
WAITS_BEFORE_THE_RELAY = """
import sys
from acp_proxy.run import start as launch

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "acp_proxy.run.relay":
            greeting = sys.meta_path[0]
            while not greeting.answered:
                greeting.look()

sys.meta_path.insert(0, Finder())
launch.launch(sys.argv[1:])
"""


class Ends:
    """A greeting, and the ends of the pipes around it."""

    def __init__(self, settings: Settings) -> None:
        client_in, self.client = os.pipe()
        self.at_client, client_out = os.pipe()
        self.at_agent, agent_in = os.pipe()
        agent_out, self.agent = os.pipe()
        self.open = [client_in, self.client, self.at_client, client_out, self.at_agent, agent_in, agent_out, self.agent]
        self.greeting = Greeting(settings, client_in, client_out, agent_in, agent_out)
        for end in (self.at_client, self.at_agent):
            os.set_blocking(end, False)

    def say(self, to: int, line: bytes) -> None:
        os.write(to, line)
        self.greeting.look()


@pytest.fixture
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    made = Ends(getattr(request, "param", SETTINGS))
    yield made
    for end in made.open:
        os.close(end)


def heard(end: int) -> bytes:
    try:
        return os.read(end, 65536)
    except BlockingIOError:
        return b""


def answer(result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).encode() + b"\n"


@pytest.mark.parametrize(
    "ends",
    [
        SETTINGS,
        Settings(records=False, serves=True, release="0"),
        Settings(records=True, serves=False, release="0", store="ours"),
        Settings(True, True, "0", Modes(list="store", load="agent", unstable=True), "ours"),
    ],
    indirect=True,
)
@pytest.mark.parametrize(
    "line",
    [
        answer({"protocolVersion": 1}),
        answer({"protocolVersion": 1, "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"list": {}}}}),
        answer({"protocolVersion": 2, "capabilities": {"session": {}}}),
        answer({"protocolVersion": 3}),
        answer({"protocolVersion": 1, "agentCapabilities": {"_meta": {"acp-proxy": {"store": "ours"}}}}),
        answer(None),
        b'{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"no"}}\n',
    ],
)
def test_the_exchange_passes_as_the_relay_would_have_passed_it(ends: Ends, line: bytes) -> None:
    ends.say(ends.client, ASKED)
    assert heard(ends.at_agent) == ASKED
    ends.say(ends.agent, line)
    core = Connection(ends.greeting._settings)
    core.handle(LinesRead(Peer.CLIENT, [ASKED]))
    effects = core.handle(LinesRead(Peer.AGENT, [line]))
    assert [heard(ends.at_client)] == [effect.data for effect in effects if isinstance(effect, Forward)]
    passed = ends.greeting
    assert (passed.asked, passed.from_client, passed.answered, passed.from_agent) == (ASKED, b"", line, b"")
    ends.say(ends.agent, b"later\n")
    assert heard(ends.at_client) == b""


@pytest.mark.parametrize(
    "data", [ASKED[:-1], ASKED + b"{}\n", ASKED.replace(b"initialize", b"session/list"), b"[" + ASKED[:-1] + b"]\n"]
)
def test_what_does_not_begin_with_initialize_alone_waits_for_the_relay(ends: Ends, data: bytes) -> None:
    ends.say(ends.client, data)
    ends.say(ends.client, ASKED)
    assert (ends.greeting.asked, ends.greeting.from_client, heard(ends.at_agent)) == (b"", data, b"")


@pytest.mark.parametrize(
    "data", [b'{"jsonrpc"', b"started\n", answer({}).replace(b": 0", b": 1"), answer({}) + b"{}\n"]
)
def test_what_is_not_the_answer_alone_waits_for_the_relay(ends: Ends, data: bytes) -> None:
    ends.say(ends.client, ASKED)
    ends.say(ends.agent, data)
    ends.say(ends.agent, answer({}))
    assert (ends.greeting.answered, ends.greeting.from_agent, heard(ends.at_client)) == (b"", data, b"")


def test_an_import_in_another_thread_reads_nothing(ends: Ends) -> None:
    os.write(ends.client, ASKED)
    importing = threading.Thread(target=ends.greeting.find_spec, args=("json", None))
    importing.start()
    importing.join()
    assert heard(ends.at_agent) == b""
    ends.greeting.find_spec("json", None)
    assert heard(ends.at_agent) == ASKED


def test_an_agents_first_answer_does_not_wait_for_the_relay_which_goes_on_after_it(tmp_path: Path) -> None:
    command = ["--store", str(tmp_path / "store"), "--", sys.executable, "-c", COUNTS]
    talk = ASKED, b'{"jsonrpc":"2.0","id":1,"method":"_count","params":{}}\n'
    with subprocess.Popen(
        [sys.executable, "-c", WAITS_BEFORE_THE_RELAY, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        proxy.stdin.write(talk[0])
        proxy.stdin.flush()
        first = json.loads(proxy.stdout.readline())["result"]
        said, _ = proxy.communicate(talk[1], timeout=SECONDS)
    assert first["agentCapabilities"]["_meta"]["acp-proxy"]["serves"] == ["list", "delete", "load"]
    assert [first["count"], json.loads(said)["result"]["count"]] == [1, 2]


def test_a_store_that_hangs_at_the_start_is_named_and_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    given, _ = options.parse(["--store", "/far/away", "agent"], {}, {}, options.RUN)
    comes_back, said = threading.Event(), list[str]()
    monkeypatch.setattr(greeting, "StoreBase", lambda root: comes_back.wait())
    monkeypatch.setattr(greeting, "_OPENING_SECONDS", 0.01)
    monkeypatch.setattr(greeting, "warn", said.append)
    assert greeting._opened(given) is None
    comes_back.set()
    [warning] = said
    assert "away does not answer. Choose another place with --store." in warning
