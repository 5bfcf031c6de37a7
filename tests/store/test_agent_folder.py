"""Sessions of different agents never mix, and an agent that starts to send its name keeps its sessions."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from acp_proxy.store.agent_folder import HEADERS_READ
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.file_names import compressed_path, file_name
from tests.store import transcript_lines


def store_session_of(store: ProxyStore, told: str | None, command: str, session: str = "s") -> Path:
    """Record a session of an agent that sends this name, or none. The transcript's path."""
    agent = store.choose_agent(None, told, command)
    header = replace(transcript_lines.header(session), agent={"id": agent, "name": told, "version": None})
    transcript = store.open_to_append(agent, header, is_new=True)
    transcript.append(transcript_lines.prompt_line("hello", session=session) + transcript_lines.answer())
    transcript.close()
    return transcript.path


@pytest.mark.parametrize(
    ("told", "command"),
    [
        ("acme", "acme"),
        ("@scope/acme", "acme"),
        ("Acme", "acme"),
        ("Deep Agents", "deepagents"),
        ("deepagents-acp", "deepagents_acp"),
        ("\u6f22\u5b57", "\u6f22\u5b57"),
    ],
)
def test_an_agent_that_starts_to_send_the_name_of_its_command_keeps_its_folder(
    store: ProxyStore, told: str, command: str
) -> None:
    before = store_session_of(store, None, command)
    for session in ("then", "and later"):
        assert store_session_of(store, told, command, session).parent == before.parent
    assert store_session_of(store, None, command, "in another editor").parent == before.parent
    assert store_session_of(
        store, told, "another", "started otherwise"
    ).parent == store.root / "transcripts" / file_name(told)


@pytest.mark.parametrize(
    ("told", "command"), [("other", "launch"), ("acme-cli", "cli"), ("@scope/x", "scope"), ("-", "_")]
)
def test_an_agent_of_another_name_does_not_join_the_folder_of_a_launcher(
    store: ProxyStore, told: str, command: str
) -> None:
    store_session_of(store, None, command)
    assert store.choose_agent(None, told, command, may_run_others=True) == file_name(told)
    assert store.choose_agent(None, None, command, may_run_others=True) == file_name(command)


def test_an_agent_that_starts_to_send_a_name_keeps_the_folder_of_its_proxy_command(
    store: ProxyStore,
) -> None:
    before = store_session_of(store, None, "acme")
    assert store_session_of(store, "Something New", "acme", "later").parent == before.parent
    assert store.choose_agent(None, "Something New", "acme", may_run_others=False) == before.parent.name
    assert store.choose_agent(None, "Something Else", "acme") == file_name("Something Else")


@pytest.mark.parametrize("is_compressed", [False, True])
def test_an_agent_does_not_join_another_agent_of_the_same_command(store: ProxyStore, is_compressed: bool) -> None:
    path = store_session_of(store, None, "acme", "first")
    joined = store_session_of(store, "@one/acme", "acme", "second")
    assert joined.parent == path.parent
    if is_compressed:
        store.compress(path.parent.name, joined.stem, CompressionOptions(min_size=1, older_than=-60.0))
        assert compressed_path(joined).exists()
    assert store.choose_agent(None, "@other/acme", "acme") == file_name("@other/acme")
    assert store.choose_agent(None, "@one/acme", "acme") == file_name("acme")


def test_damaged_and_foreign_files_do_not_identify_an_agent(store: ProxyStore) -> None:
    path = store_session_of(store, None, "acme")
    store_session_of(store, None, "acme", "torn").write_bytes(b"\0" * 100)
    store_session_of(store, None, "acme", "newer").write_bytes(b'{"acp-transcript":99}\n')
    (path.parent / "notes.jsonl").write_text("another's")
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("acme")


def test_an_agent_gets_a_folder_if_its_old_one_cannot_be_searched(
    store: ProxyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError

    store_session_of(store, None, "acme")
    monkeypatch.setattr(os, "scandir", refuse)
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("@scope/acme")
    monkeypatch.setattr(os, "stat", refuse)
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("@scope/acme")


def test_only_a_few_of_many_transcripts_are_opened(store: ProxyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        store_session_of(store, None, "acme", str(number))
    opened, really = 0, os.open

    def counted(*arguments: Any, **options: Any) -> int:
        nonlocal opened
        opened += 1
        return really(*arguments, **options)

    monkeypatch.setattr(os, "open", counted)
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("acme")
    assert opened == HEADERS_READ


def test_the_folder_of_an_agents_name_wins_over_that_of_its_command(store: ProxyStore) -> None:
    transcript_lines.store_lines(store, file_name("@scope/acme"), "s")
    transcript_lines.store_lines(store, file_name("acme"), "s")
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("@scope/acme")


def test_the_users_name_for_an_agent_wins(store: ProxyStore) -> None:
    before = store_session_of(store, None, "acme")
    assert store.choose_agent("mine", "@scope/acme", "acme") == file_name("mine")
    assert store.choose_agent("acme", "Something New", "acme") == before.parent.name
