"""Sessions of different agents never mix; an agent that begins to tell its name goes on with its own."""

import os
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.transcripts.files.names import compressed, file_name
from acp_proxy.transcripts.lives.compressing import Terms
from acp_proxy.transcripts.lives.folders import LOOKED_AT
from acp_proxy.transcripts.store import Store
from tests.transcripts import talk


def keep(store: Store, told: str | None, command: str, session: str = "s") -> Path:
    """A session of an agent that tells this name, or none."""
    agent = store.choose_agent(None, told, command)
    header = talk.header(session).but(agent={"id": agent, "name": told, "version": None})
    transcript = store.begin(agent, header, fresh=True)
    transcript.append(talk.prompt("hello", session=session) + talk.answer())
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
def test_an_agent_that_begins_to_tell_the_name_of_its_command_keeps_its_folder(
    store: Store, told: str, command: str
) -> None:
    before = keep(store, None, command)
    for session in ("then", "and later"):
        assert keep(store, told, command, session).parent == before.parent
    assert keep(store, None, command, "in another editor").parent == before.parent
    assert keep(store, told, "another", "started otherwise").parent == store.root / "transcripts" / file_name(told)


@pytest.mark.parametrize(
    ("told", "command"), [("other", "launch"), ("acme-cli", "cli"), ("@scope/x", "scope"), ("-", "_")]
)
def test_an_agent_of_another_name_does_not_join_who_was_started_by_a_word_that_may_run_either(
    store: Store, told: str, command: str
) -> None:
    keep(store, None, command)
    assert store.choose_agent(None, told, command, may_run_others=True) == file_name(told)
    assert store.choose_agent(None, None, command, may_run_others=True) == file_name(command)


def test_an_agent_that_begins_to_tell_any_name_keeps_the_folder_of_a_command_that_runs_nobody_else(
    store: Store,
) -> None:
    before = keep(store, None, "acme")
    assert keep(store, "Something New", "acme", "later").parent == before.parent
    assert store.choose_agent(None, "Something New", "acme", may_run_others=False) == before.parent.name
    assert store.choose_agent(None, "Something Else", "acme") == file_name("Something Else")


@pytest.mark.parametrize("is_compressed", [False, True])
def test_an_agent_joins_nobody_of_another_name_also_where_the_command_is_called_alike(
    store: Store, is_compressed: bool
) -> None:
    path = keep(store, None, "acme", "first")
    joined = keep(store, "@one/acme", "acme", "second")
    assert joined.parent == path.parent
    if is_compressed:
        store.compress(path.parent.name, joined.stem, Terms(min_size=1, older_than=-60.0))
        assert compressed(joined).exists()
    assert store.choose_agent(None, "@other/acme", "acme") == file_name("@other/acme")
    assert store.choose_agent(None, "@one/acme", "acme") == file_name("acme")


def test_what_is_damaged_or_not_ours_says_nothing_of_an_agent(store: Store) -> None:
    path = keep(store, None, "acme")
    keep(store, None, "acme", "torn").write_bytes(b"\0" * 100)
    keep(store, None, "acme", "newer").write_bytes(b'{"acp-transcript":99}\n')
    (path.parent / "notes.jsonl").write_text("another's")
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("acme")


def test_an_agent_has_a_folder_also_where_nobody_may_look_for_the_one_it_has(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError

    keep(store, None, "acme")
    monkeypatch.setattr(os, "scandir", refuse)
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("@scope/acme")
    monkeypatch.setattr(os, "stat", refuse)
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("@scope/acme")


def test_of_very_many_transcripts_few_are_opened(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        keep(store, None, "acme", str(number))
    opened, really = 0, os.open

    def counted(*arguments: Any, **options: Any) -> int:
        nonlocal opened
        opened += 1
        return really(*arguments, **options)

    monkeypatch.setattr(os, "open", counted)
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("acme")
    assert opened == LOOKED_AT


def test_an_agent_that_has_a_folder_by_its_name_keeps_that(store: Store) -> None:
    talk.keep(store, file_name("@scope/acme"), "s")
    talk.keep(store, file_name("acme"), "s")
    assert store.choose_agent(None, "@scope/acme", "acme") == file_name("@scope/acme")


def test_what_the_user_calls_an_agent_wins_also_to_go_on_with_the_folder_of_its_command(store: Store) -> None:
    before = keep(store, None, "acme")
    assert store.choose_agent("mine", "@scope/acme", "acme") == file_name("mine")
    assert store.choose_agent("acme", "Something New", "acme") == before.parent.name
