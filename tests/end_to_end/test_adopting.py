"""A history from before the proxy, adopted from real processes, and what an editor sees of it afterwards."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acp_proxy.protocol import timestamps
from tests import forked
from tests.cli.commands import get_stdout
from tests.end_to_end.proxied import NOT_FOUND, PROXY, Editor, Proxied, conversation, texts
from tests.stored import WholeStore
from tests.tools.adopt.listing_agent import ListingAgent, listed, replay_of
from tests.waiting import SECONDS

ALL = ("--capabilities", "resume,list,load,delete,close")

SDK_AGENT = """
import asyncio, sys
import acp
from acp import schema

SESSIONS = {f"sdk-{number}": f"Question {number}" for number in range(3)}

class Agent:
    def on_connect(self, connection):
        self.connection = connection

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **more):
        sessions = schema.SessionCapabilities(
            list=schema.SessionListCapabilities(), close=schema.SessionCloseCapabilities()
        )
        able = schema.AgentCapabilities(load_session=True, session_capabilities=sessions)
        about = schema.Implementation(name="sdk", version="1.0")
        return schema.InitializeResponse(protocol_version=1, agent_capabilities=able, agent_info=about)

    async def list_sessions(self, cwd=None, cursor=None, **more):
        first = cursor is None
        ids = list(SESSIONS)[:2] if first else list(SESSIONS)[2:]
        found = [schema.SessionInfo(session_id=id, cwd=sys.argv[1], updated_at="2026-01-02T03:04:05Z") for id in ids]
        return schema.ListSessionsResponse(sessions=found, next_cursor="more" if first else None)

    async def load_session(self, cwd, session_id, mcp_servers=None, **more):
        await self.connection.session_update(session_id, acp.update_user_message_text(SESSIONS[session_id]))
        await self.connection.session_update(session_id, acp.update_agent_message_text(f"Answer to {session_id}"))
        return schema.LoadSessionResponse()

    async def close_session(self, session_id, **more):
        return schema.CloseSessionResponse()

asyncio.run(acp.run_agent(Agent()))
"""
WATCHED = """
import os, sys
def watch(event, arguments):
    if event.startswith("socket."):
        print("SOCKET", event, arguments, file=sys.stderr)
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not isinstance(arguments[0], int):
        if sys.argv[3] not in os.fsdecode(arguments[0]) and "__pycache__" not in str(arguments[0]):
            print("WROTE", arguments, file=sys.stderr)
sys.addaudithook(watch)
from acp_proxy.__main__ import main
sys.argv = ["acp-proxy", *sys.argv[1:]]
main()
"""
"""Runs acp-proxy, and says when its process makes or uses a socket, or writes to a file outside the store."""


def adopt(store: Path, command: list[str], *options: str, by: tuple[str, ...] = PROXY) -> str:
    words = [*by, "adopt", "--store", str(store), "--yes", *options, "--", *command]
    result = forked.run(words, text=True, timeout=SECONDS)
    printed = [line for line in result.stderr.splitlines() if not line.startswith("Some agents list only those of")]
    assert (result.returncode, printed) == (0, [])
    return str(result.stdout)


def record_without_proxy(proxied: Proxied, *prompts: str, script: str | Mapping[str, Any] | None = None) -> str:
    """A session of the agent alone."""
    with Editor(proxied.bare_agent(script, ALL)) as editor:
        editor.project = proxied.project
        session = editor.open()
        for text in prompts:
            editor.prompt(session, text)
    return session


def test_an_adopted_session_is_listed_loaded_continued_and_deleted_like_any_other(proxied: Proxied) -> None:
    session = record_without_proxy(proxied, "first", "second")
    record_without_proxy(proxied, "other")
    assert adopt(proxied.store, proxied.bare_agent(agent=ALL)).endswith(": 2 adopted\n")
    since = timestamps.format_now(time.time())
    with proxied.start(agent=ALL) as editor:
        assert len(editor.sessions()) == 2
        loaded = editor.load(session)
        assert texts(loaded.updates, "user_message_chunk") == ["first", "second"]
        editor.prompt(session, "third")
        assert editor.end() == 0
    store = WholeStore(proxied.store)
    [row] = [row for row in store.list_all() if row.session_id == session]
    assert (row.title, row.prompt_count) == ("first", 3)
    turns = json.loads(get_stdout(store, "export", session, "--format", "json"))["turns"]
    assert [turn["startedAt"] < since for turn in turns] == [True, True, False]
    assert adopt(proxied.store, proxied.bare_agent(agent=ALL)).endswith(": 0 adopted, 2 here already\n")
    with proxied.start(agent=ALL) as editor:
        editor.request("session/delete", {"sessionId": session})
        assert editor.load(session).answer["error"]["code"] == NOT_FOUND
    assert [row.session_id for row in store.list_all()] != [session]


def test_the_proxy_shows_an_adopted_session_when_the_agent_has_forgotten_its_words(proxied: Proxied) -> None:
    session = record_without_proxy(proxied, "first")
    adopt(proxied.store, proxied.bare_agent(agent=ALL))
    silent: dict[str, Any] = {"methods": {"session/load": {"before": [], "result": {}}}}
    with proxied.start(silent, agent=ALL) as editor:
        assert texts(editor.load(session).updates, "user_message_chunk") == ["first"]


def test_an_agent_of_the_official_sdk_has_its_history_adopted(proxied: Proxied) -> None:
    command = [sys.executable, "-c", SDK_AGENT, str(proxied.project)]
    assert adopt(proxied.store, command) == "sdk: 3 adopted\n"
    rows = WholeStore(proxied.store).list_all()
    assert {row.session_id: row.title for row in rows} == {f"sdk-{number}": f"Question {number}" for number in range(3)}
    assert {row.updated for row in rows} == {"2026-01-02T03:04:05.000Z"}
    with Editor([*PROXY, "run", "--store", str(proxied.store), "--load", "store", "--", *command]) as editor:
        editor.project = proxied.project
        editor.initialize()
        assert texts(conversation(editor.load("sdk-1").updates)) == ["Answer to sdk-1"]


def test_adopt_sends_nothing_to_anyone_but_the_agent(proxied: Proxied) -> None:
    base = proxied.base / "listing"
    base.mkdir()
    agent = ListingAgent(base)
    agent.plan(
        [listed("s1", proxied.project)], loads={"s1": {"before": replay_of("Mend the login", "Mended."), "asks": 2}}
    )
    watched = (sys.executable, "-c", WATCHED)
    assert adopt(proxied.store, agent.command, by=watched) == "scripted: 1 adopted\n"
    sent = [line["method"] for line in agent.asked() if "method" in line]
    assert sent == ["initialize", "session/list", "session/load", "session/close"]
    assert [set(line) - {"jsonrpc", "id"} for line in agent.asked() if "method" not in line] == [{"error"}] * 2


def test_the_watch_sees_a_socket_and_a_file(tmp_path: Path) -> None:
    source = WATCHED.partition("from acp_proxy")[0] + "import socket; socket.socket().close(); open(sys.argv[4], 'w')"
    words = [sys.executable, "-c", source, "1", "2", "/store", str(tmp_path / "file")]
    result = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert "SOCKET socket.__new__" in result.stderr
    assert "WROTE" in result.stderr
