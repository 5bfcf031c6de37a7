"""File names are readable, bounded, different for different texts, and never the text itself."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.transcripts.names import command_name, file_name
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
def test_any_text_has_a_short_plain_name(text: str) -> None:
    name = file_name(text)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{16}", name)
    assert len(name) <= 60
    assert name != text


def test_texts_that_differ_at_all_have_different_names_on_any_file_system() -> None:
    assert len({file_name(text).lower() for text in EVIL}) == len(EVIL)


def test_a_name_is_the_same_every_time_and_readable() -> None:
    assert file_name("sess_01HX-Ab") == file_name("sess_01HX-Ab")
    assert file_name("sess_01HX-Ab").startswith("sess-01hx-ab-")
    assert file_name("@scope/claude-agent-acp").startswith("scope-claude-agent-acp-")


def test_the_names_that_transcripts_on_disk_have_already_do_not_change() -> None:
    assert file_name("sess-1") == "sess-1-abe633f3a47a2758"
    assert file_name("") == "session-e3b0c44298fc1c14"
    assert file_name("\ud800") == "session-91a681b998555fb4"


@pytest.mark.parametrize("text", EVIL, ids=lambda text: ascii(text)[:20])
def test_a_file_of_that_name_can_be_made_where_it_belongs(tmp_path: Path, text: str) -> None:
    path = tmp_path / (file_name(text) + ".jsonl")
    path.touch()
    assert os.listdir(tmp_path) == [path.name]
    assert path.resolve().parent == tmp_path.resolve()


@given(texts | st.text(max_size=300))
def test_no_text_at_all_makes_a_name_that_is_not_plain(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{16}", file_name(text))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @scope/claude-agent-acp@0.31", "claude-agent-acp"),
        ("python -m foo.bar", "foo.bar"),
        ("/opt/x/amp --acp", "amp"),
        ("amp", "amp"),
        ("amp@1.2.3", "amp"),
        ("npx @scope/acme", "acme"),
        ("npx --yes acme@latest acp", "acme"),
        ("npx.cmd -y @scope/acme@1", "acme"),
        (r"C:\Program-Files\nodejs\npx.CMD -y @scope/acme@1", "acme"),
        ("npm exec -- @scope/acme@1", "acme"),
        ("npm x -- acme", "acme"),
        ("pnpm dlx acme@2", "acme"),
        ("yarn dlx @scope/acme", "acme"),
        ("bunx acme", "acme"),
        ("bun x acme@1", "acme"),
        ("bun run agent.ts", "agent.ts"),
        ("uvx acme@0.3", "acme"),
        ("uvx acme==0.3", "acme"),
        ("uv tool run acme@0.3", "acme"),
        ("uv run acme", "acme"),
        ("uv run python -m foo.bar", "foo.bar"),
        ("pipx run acme==1.0", "acme"),
        ("node /opt/agent/cli.mjs --acp", "cli"),
        ("node --no-warnings ./agent.js", "agent"),
        ("deno run -A ./agent.js", "agent"),
        ("python3.11 -u -m foo", "foo"),
        ("python3 /opt/agent.py --acp", "agent"),
        ("py -3 -m foo", "foo"),
        ("python -m foo -m bar", "foo"),
        ("python", "python"),
        ("npx", "npx"),
        ("env A=1 B=2 amp --acp", "amp"),
        ("env A=1 npx -y @scope/acme@1", "acme"),
        ("nohup npx -y @scope/acme@1", "acme"),
        ("A=1 amp", "A=1"),
        (r"C:\tools\amp.EXE --acp", "amp"),
        ("./amp.sh", "amp"),
        ("/opt/amp/", "amp"),
        ("@scope/acme@1", "acme"),
        ("@scope", "@scope"),
        ("claude-agent-acp", "claude-agent-acp"),
    ],
)
def test_a_command_is_called_by_its_own_name_without_runner_scope_version_and_path(command: str, name: str) -> None:
    assert command_name(command.split()) == name


@pytest.mark.parametrize("command", [[], [""], ["/"], ["npx", "-y"], ["python", "-m"], ["env", "A=1"], ["npx", ""]])
def test_a_command_without_a_name_is_called_something(command: list[str]) -> None:
    assert command_name(command)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("npx -y @scope/acme@0.31", "npx -y @scope/acme@0.32.1-beta.2"),
        ("npx -y @scope/acme", "npx -y @scope/acme@latest"),
        ("uvx acme==1.0", "uvx acme==2.0"),
        ("/usr/bin/python3.11 -m acme", "/opt/python3.13/bin/python3.13 -m acme"),
        ("/opt/amp-1/amp", "/opt/amp-2/amp"),
    ],
)
def test_an_upgrade_does_not_change_the_name(old: str, new: str) -> None:
    assert command_name(old.split()) == command_name(new.split())


@given(st.lists(texts | st.sampled_from(["npx", "python", "-m", "env", "uv", "tool", "run", "-y", "A=1", "--"])))
def test_no_command_at_all_raises_or_stays_without_a_name(command: list[str]) -> None:
    assert command_name(command)
