"""No output of a command on sessions can control the terminal."""

import re
from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import get_stdout, run
from tests.cli.terminal import run_on_terminal
from tests.stored import EPOCH, chunk, store_session

ESC, BEL, CSI, RIGHT_TO_LEFT = "\x1b", "\x07", "\u009b", "\u202e"
STEERING = f"{ESC}[2J{BEL}{CSI}31m{RIGHT_TO_LEFT}\r\x00\u2066\u200b\u2028\u061c\x9d\x85\x7f"
NEVER_PRINTED = set(STEERING) - set("[2J31m")
COLOUR = re.compile("\x1b\\[[0-9;]*m")


def store_spoiled_sessions(store: ProxyStore) -> None:
    """A session with control sequences in every text that is shown."""
    words = f"Mend{STEERING}it"
    updates: list[dict[str, Any]] = [
        chunk(words),
        chunk(words, "agent_thought_chunk"),
        {"sessionUpdate": "plan", "entries": [{"content": words, "status": words}]},
        {"sessionUpdate": "tool_call", "toolCallId": words, "title": words, "status": words},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": words}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "name": words, "uri": words}},
        {"sessionUpdate": "session_info_update", "title": words},
    ]
    for number in range(2):
        store_session(
            store,
            f"id{number}{STEERING}",
            (words, updates),
            agent=words,
            cwd=f"/{words}",
            at=EPOCH + number,
            error={"code": 1, "message": words},
            notes=[{"type": "gap", "reason": words}, {"type": "failed", "message": words}],
        )


def said_about_spoiled_sessions(store: ProxyStore, *words: str) -> str:
    """What a command prints about such sessions, without anything that could control the terminal."""
    store_spoiled_sessions(store)
    result = run(store, *words)
    text = result.stdout + result.stderr
    assert text
    assert not NEVER_PRINTED & set(text)
    return text


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--json"),
        ("show", "last"),
        ("show", "last", "--json"),
        ("show", "id"),
        ("delete", "last", "--yes"),
        ("delete", "last", "--soft", "--yes"),
        ("delete", "id"),
        ("rename", "last", "--clear"),
        ("rename", "last", f"Mend{STEERING}it"),
        ("prune", "--keep", "0", "--dry-run"),
        ("prune", "--keep", "0", "--dry-run", "--json"),
        ("prune", "--keep", "0", "--yes"),
    ],
)
def test_control_sequences_are_not_printed(store: ProxyStore, words: tuple[str, ...]) -> None:
    assert "Mend" in said_about_spoiled_sessions(store, *words)


@pytest.mark.parametrize(
    "words",
    [
        ("show", f"nobody{STEERING}"),
        ("restore", f"nobody{STEERING}"),
        ("stats",),
        ("stats", "--json"),
    ],
)
def test_control_sequences_are_not_printed_where_no_title_is_shown(store: ProxyStore, words: tuple[str, ...]) -> None:
    assert "Mend" not in said_about_spoiled_sessions(store, *words)


def test_control_sequences_of_deleted_sessions_are_not_printed(store: ProxyStore) -> None:
    store_spoiled_sessions(store)
    get_stdout(store, "rename", "last", f"Mend{STEERING}it")
    assert "Mend" in get_stdout(store, "delete", "last", "--soft", "--yes")
    listed, told = get_stdout(store, "restore"), get_stdout(store, "restore", "--json")
    result = run(store, "delete", "id1", "--permanent", answer="n\n")
    restored = run(store, "restore", "last").stderr
    for text in (listed, told, result.stderr, restored):
        assert "Mend" in text
        assert not NEVER_PRINTED & set(text)


def test_removed_characters_leave_a_visible_mark(store: ProxyStore) -> None:
    store_spoiled_sessions(store)
    assert "\ufffd[2J\ufffd\ufffd31m\ufffd" in get_stdout(store, "show", "last")


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("words", [("list",), ("show", "last"), ("delete", "last", "--yes"), ("show", "id")])
def test_control_sequences_are_not_printed_to_a_real_terminal(
    store: ProxyStore, words: tuple[str, ...], columns: int, term: str
) -> None:
    store_spoiled_sessions(store)
    text = run_on_terminal(
        *words,
        "--store",
        str(store.root),
        columns=columns,
        status=1 if words == ("show", "id") else 0,
        settings={"TERM": term},
    )
    assert "Mend" in text or "matches several sessions" in text
    assert not NEVER_PRINTED & set(text if term == "dumb" else COLOUR.sub("", text))
