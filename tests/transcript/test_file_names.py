"""File names are readable, bounded, different for different texts, and never the text itself."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.transcript.file_names import file_name, match_agents, name_agent
from tests.strategies import texts

EVIL = [
    "",
    ".",
    "..",
    "/",
    "../../etc/passwd",
    "..\\..\\windows",
    "/absolute",
    "C:\\x",
    "CON",
    "con",
    "NUL.jsonl",
    "a" * 4000,
    "a" * 4000 + "b",
    "Session",
    "session",
    "sESSION",
    "nul\0byte",
    "nul",
    "line\nbreak",
    "\x1b[31mred",
    "tab\there",
    "trailing.",
    "trailing ",
    "trailing",
    "~1",
    "s~1",
    "-rf",
    '*?<>|":',
    "\ud800",
    "\udc00",
    "\udcff",
    "\ufffd",
    "é",
    "e\u0301",
    "ß",
    "SS",
    "日本語",
    "😀",
    "\u202e",
    "state",
    "@scope/x",
    "@scope-x",
    "%2e%2e",
]


@pytest.mark.parametrize("text", EVIL, ids=lambda text: ascii(text)[:20])
def test_any_text_gets_a_short_plain_name(text: str) -> None:
    name = file_name(text)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{16}", name)
    assert len(name) <= 60
    assert name != text


def test_different_texts_get_names_that_differ_without_case() -> None:
    assert len({file_name(text).lower() for text in EVIL}) == len(EVIL)


def test_a_name_is_stable_and_readable() -> None:
    assert file_name("sess_01HX-Ab") == file_name("sess_01HX-Ab")
    assert file_name("sess_01HX-Ab").startswith("sess-01hx-ab-")
    assert file_name("@scope/claude-agent-acp").startswith("scope-claude-agent-acp-")


def test_names_of_existing_transcripts_do_not_change() -> None:
    assert file_name("sess-1") == "sess-1-abe633f3a47a2758"
    assert file_name("") == "session-e3b0c44298fc1c14"
    assert file_name("\ud800") == "session-91a681b998555fb4"


@pytest.mark.parametrize("text", EVIL, ids=lambda text: ascii(text)[:20])
def test_a_file_with_any_name_can_be_created(tmp_path: Path, text: str) -> None:
    path = tmp_path / (file_name(text) + ".jsonl")
    path.touch()
    assert os.listdir(tmp_path) == [path.name]
    assert path.resolve().parent == tmp_path.resolve()


@given(texts | st.text(max_size=300))
def test_every_name_is_plain(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{16}", file_name(text))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("@agentclientprotocol/claude-agent-acp", "claude-agent-acp"),
        ("@zed-industries/claude-code-acp", "claude-code-acp"),
        ("claude-agent-acp", "claude-agent-acp"),
        ("agentclientprotocol/claude-agent-acp", "agentclientprotocol-claude-agent-acp"),
        ("GitHub Copilot", "github-copilot"),
        ("@x", "x"),
        ("", "session"),
    ],
)
def test_an_agent_is_shown_without_its_scope(name: str, shown: str) -> None:
    assert name_agent(file_name(name)) == shown


def test_a_name_without_a_hash_is_shown_unchanged() -> None:
    assert name_agent("a-b") == "a-b"


@pytest.mark.parametrize("said", ["@mistralai/mistral-vibe", "mistral-vibe", "vibe", "MISTRAL", "mistralai-m", ""])
def test_an_agent_matches_the_beginning_of_its_name_or_of_a_word(said: str) -> None:
    assert match_agents([file_name("@mistralai/mistral-vibe")], said)


@pytest.mark.parametrize("said", ["ibe", "vibes", "@", "-", "\u6f22", "vibe-mistral", "mistralai-mistral-vibe-0"])
def test_an_agent_matches_nothing_else(said: str) -> None:
    assert not match_agents([file_name("@mistralai/mistral-vibe")], said)


@pytest.mark.parametrize("said", ["work", "WORK", "@scope/work", file_name("@scope/work")])
def test_a_complete_name_matches_only_that_agent(said: str) -> None:
    folders = [file_name("claude-work"), file_name("@scope/work"), file_name("workbench")]
    assert match_agents(folders, said) == [file_name("@scope/work")]
    assert match_agents(folders, "wor") == folders
    assert match_agents(folders, "") == folders


@given(texts)
def test_every_agent_matches_its_name_and_its_folder(name: str) -> None:
    assert match_agents([file_name(name)], name)
    assert match_agents([file_name(name)], file_name(name))
