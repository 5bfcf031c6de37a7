"""What ``setup`` has done to a file is undone after an edit, and what the user has edited stays."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.tools.editors import jsonc
from acp_proxy.tools.editors.configured import find_agents
from acp_proxy.tools.editors.entries import read_words
from acp_proxy.tools.editors.known_editors import EDITORS, Name, SettingsFiles
from acp_proxy.tools.setup.record import Record
from acp_proxy.tools.setup.setup import Wish, plan_file, write_file
from acp_proxy.tools.setup.undo import plan_undo, write_undo
from tests.tools.setup.formatter import format_settings

OURS = ["/home/user/.local/bin/acp-proxy", "run"]


def write_agents(*entries: str) -> str:
    return f'{{"theme": "One Dark", "agent_servers": {{{", ".join(entries)}}}}}\n'


LAID_OUT = """\
// Zed settings
{
  "agent_servers": {
    "A": {
      "type": "custom", // mine
      "command": "npx", // the runner
      "args": [
        // no questions
        "-y",
        "agent", /* the package */
      ],
      "env": { "KEY": "}" },
    },
    "B": {
      "command": "agent" // alone
    },
  },
  "theme": "One Dark",
}
"""
SHAPES = {
    "one line": write_agents('"A": {"command": "agent"}', '"B": {"command": "x", "args": ["y", "z"]}'),
    "no blanks": '{"agent_servers":{"A":{"command":"agent","args":["acp"]},"B":{"command":"b"}},"theme":"One Dark"}',
    "laid out": LAID_OUT,
    "tabs": LAID_OUT.replace("  ", "\t"),
    "CRLF": LAID_OUT.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + LAID_OUT,
    "no final newline": LAID_OUT.rstrip(),
    "empty args": write_agents('"A": {"command": "agent", "args": []}', '"B": {"args": [ ], "command": "x"}'),
    "empty args in two lines": write_agents('"A": {"command": "agent", "args": [\n]}'),
    "comments in args": write_agents('"A": {"command": "agent", "args": [/* a */ "x" /* b */, /* c */ "y" /* d */]}'),
    "a comment in empty args": write_agents('"A": {"command": "agent", "args": [ /* none yet */ ]}'),
    "comments around a command": write_agents('"A": {/* a */ "command" /* b */: /* c */ "x" /* d */}'),
    "last commas": '{"agent_servers":{"A":{"command":"x","args":["y",],},"B":{"command":"z",},},"theme":"One Dark",}',
    "variables": write_agents('"A": {"env": {"args": "x", "command": "y"}, "command": "agent", "args": ["z"]}'),
    "the registry": write_agents('"gemini": {"type": "registry"}', '"A": {"command": "agent"}'),
    "the registry with more": write_agents('"gemini": {"default_mode": "yolo", "type": "registry", "env": {"K": "v"}}'),
    "a name twice": write_agents('"A": {"command": "one"}', '"A": {"command": "two", "args": ["x"]}'),
    "a member twice": write_agents('"A": {"command": "one", "command": "two", "args": ["x"], "args": ["y"]}'),
    "escapes": write_agents('"\\u0041": {"command": "\\u0061gent", "args": ["\\"", "\\\\", "]"]}'),
    "acp-proxy without run": write_agents('"A": {"command": "acp-proxy", "args": ["agent", "x"]}'),
    "acp-proxy by its name": write_agents('"A": {"command": "acp-proxy", "args": ["run", "agent"]}'),
    "an acp-proxy that is gone": write_agents(
        '"A": {"command": "/gone/python3", "args": ["-P", "-m", "acp_proxy", "run", "agent"]}'
    ),
    "nothing to change": write_agents('"A": {"command": "env", "args": ["K=v", "acp-proxy", "run", "agent"]}'),
}


def _add_line(text: str) -> str:
    return text + "\n"


def _change_another_member(text: str) -> str:
    return text.replace("One Dark", "Ayu")


def _format(text: str) -> str:
    return format_settings(text, has_last_commas=False)


def _sort(text: str) -> str:
    """What an editor writes that keeps no comments."""
    return json.dumps(jsonc.decode(text), indent=4, sort_keys=True)


def _format_with_last_commas(text: str) -> str:
    return format_settings(text, has_last_commas=True)


def set_up(path: Path, record: Record) -> None:
    change = plan_file(EDITORS[Name.ZED], path, Wish(OURS, has_id=lambda id: id == "gemini"))
    assert change.problem is None
    if change.entries:
        write_file(change, record)


def undo(path: Path, record: Record) -> None:
    if (file_record := record.files.get(str(path))) is None:
        return
    change = plan_undo(path, file_record)
    assert (change.problem, change.kept) == (None, ())
    write_undo(change, record)


@pytest.fixture(autouse=True)
def without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def write_and_read(path: Path, text: str, edit: Callable[[str], str]) -> str:
    """The text of a file after setup, this edit, and undo."""
    path.write_bytes(text.encode())
    record = Record(path.with_name("setup.json"))
    set_up(path, record)
    path.write_bytes(edit(path.read_bytes().decode()).encode())
    undo(path, record)
    assert not path.with_name("settings.json.before-acp-proxy").exists()
    return path.read_bytes().decode()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("edit", [_add_line, _change_another_member])
def test_an_edit_beside_the_entries_comes_back_with_all_other_bytes(
    shape: str, edit: Callable[[str], str], tmp_path: Path
) -> None:
    assert write_and_read(tmp_path / "settings.json", SHAPES[shape], edit) == edit(SHAPES[shape])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("edit", [_format, _format_with_last_commas])
def test_what_a_formatter_laid_out_anew_says_the_same_as_before_setup(
    shape: str, edit: Callable[[str], str], tmp_path: Path
) -> None:
    """With every comment in its place: the formatter makes the same of both."""
    undone = write_and_read(tmp_path / "settings.json", SHAPES[shape], edit)
    assert jsonc.decode(undone) == jsonc.decode(SHAPES[shape])
    assert edit(undone) == edit(SHAPES[shape])


@pytest.mark.parametrize("shape", SHAPES)
def test_what_an_editor_has_sorted_says_the_same_as_before_setup(shape: str, tmp_path: Path) -> None:
    assert jsonc.decode(write_and_read(tmp_path / "settings.json", SHAPES[shape], _sort)) == jsonc.decode(SHAPES[shape])


@pytest.mark.parametrize("comment", ["// mine\n", "/* mine */"])
@pytest.mark.parametrize("shape", ["one line", "empty args", "the registry", "acp-proxy by its name"])
def test_a_comment_stays_wherever_the_user_has_put_it(shape: str, comment: str, tmp_path: Path) -> None:
    for number in range(60):  # as many tokens as the longest of them has

        def comment_after_token(text: str, number: int = number) -> str:
            tokens = list(re.finditer(r'"[^"]*"|[\[\]{},:]', text))
            token = tokens[number % len(tokens)]
            return text[: token.end()] + comment + text[token.end() :]

        undone = write_and_read(tmp_path / "settings.json", SHAPES[shape], comment_after_token)
        assert jsonc.decode(undone) == jsonc.decode(SHAPES[shape])
        assert undone.count(comment.strip()) == 1, number


OWN_LINES = (OURS[0], "acp[-_]proxy", "uvx acp[-_]proxy", "python3 -m acp_proxy")
WORDS = st.sampled_from(
    [*OURS, "acp-proxy", "uvx", "python3", "-m", "acp_proxy", "env", "K=v", "--redact", "keys", "--recall", "--", "one"]
)


@given(st.dictionaries(st.sampled_from("ABCD"), st.lists(WORDS, min_size=1, max_size=7), min_size=1))
def test_of_any_entry_undo_takes_the_words_of_setup_alone_from_the_front_or_leaves_it(
    agents: dict[str, list[str]],
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "settings.json")
        path.write_text(write_agents('"A": {"command": "one"}'))
        record = Record(path.with_name("setup.json"))
        set_up(path, record)
        entries = (
            f'"{name}": {json.dumps({"command": words[0], "args": words[1:]})}' for name, words in agents.items()
        )
        path.write_text(write_agents(*entries))
        change = plan_undo(path, record.files[str(path)])
    kind = EDITORS[Name.ZED].configured
    assert change.new_content is not None
    assert isinstance(kind, SettingsFiles)
    for name, entry in find_agents(kind, change.new_content.decode()).items():
        words, left = agents[name], read_words(entry)
        taken = " ".join(words[: len(words) - len(left)])
        assert left == words[len(words) - len(left) :]
        assert re.fullmatch(rf"(({'|'.join(OWN_LINES)}) run( --redact keys| --recall)*( --)?)?", taken)
        assert bool(taken) is any(each.name == name for each in change.entries)
