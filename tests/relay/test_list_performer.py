"""Titles in the agent's own list, which every agent of protocol version 2 has."""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.errors import Unreadable
from acp_proxy.store.proxy_store import ProxyStore
from tests.relay.relay_conversation import RelayConversation
from tests.waiting import SECONDS

UNTITLED = {"sessionId": "s", "cwd": "/project"}
TITLED = {"sessionId": "t", "cwd": "/project", "title": "Its own"}


class AskedStore(ProxyStore):
    """Remembers what it is asked for titles of."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[list[str]] = []

    def find_generated_titles(self, agent: str, sessions: Iterable[str]) -> dict[str, str]:
        self.asked.append(list(sessions))
        return super().find_generated_titles(agent, sessions)


class BrokenStore(ProxyStore):
    def find_generated_titles(self, agent: str, sessions: Iterable[str]) -> dict[str, str]:
        raise Unreadable("EIO")


class SlowStore(ProxyStore):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.goes_on = threading.Event()

    def find_generated_titles(self, agent: str, sessions: Iterable[str]) -> dict[str, str]:
        assert self.goes_on.wait(SECONDS)
        return super().find_generated_titles(agent, sessions)


def begin_talk(store: ProxyStore, version: int = 2) -> RelayConversation:
    """A talk with a session that has had a turn."""
    talk = RelayConversation(store)
    offers = {"capabilities": {"session": {}}, "agentCapabilities": {"sessionCapabilities": {"list": {}}}}
    talk.exchange("initialize", {"protocolVersion": version}, {"protocolVersion": version, **offers})
    talk.exchange("session/new", {"cwd": "/project", "mcpServers": []}, {"sessionId": "s"})
    talk.turn("mend it")
    return talk


def amend_list(talk: RelayConversation, *rows: Any) -> Any:
    return talk.exchange("session/list", {}, {"sessions": list(rows)})["result"]["sessions"]


def test_sessions_without_a_title_get_the_indexs_with_one_question_a_page(tmp_path: Path) -> None:
    store = AskedStore(tmp_path / "store")
    talk = begin_talk(store)
    unknown = {"sessionId": "unknown", "cwd": "/project"}
    assert amend_list(talk, UNTITLED, TITLED, unknown) == [{**UNTITLED, "title": "mend it"}, TITLED, unknown]
    assert amend_list(talk, TITLED) == [TITLED]
    assert store.asked == [["s", "unknown"]]
    talk.end()


def test_the_users_title_wins(tmp_path: Path) -> None:
    talk = begin_talk(ProxyStore(tmp_path / "store"))
    talk.store.set_title(talk.recorder.find_agent_folder(), "s", "Mine")
    assert amend_list(talk, UNTITLED, TITLED) == [{**UNTITLED, "title": "Mine"}, TITLED]
    talk.end()


def test_in_version_1_nothing_is_asked_or_changed(tmp_path: Path) -> None:
    store = AskedStore(tmp_path / "store")
    talk = begin_talk(store, version=1)
    assert amend_list(talk, UNTITLED) == [UNTITLED]
    assert store.asked == []
    talk.end()


@pytest.mark.parametrize("make", [BrokenStore, SlowStore])
def test_an_index_that_fails_or_hangs_leaves_the_list_as_it_is(tmp_path: Path, make: type[ProxyStore]) -> None:
    store = make(tmp_path / "store")
    talk = begin_talk(store)
    assert amend_list(talk, UNTITLED) == [UNTITLED]
    if isinstance(store, SlowStore):
        store.goes_on.set()
    talk.end()
