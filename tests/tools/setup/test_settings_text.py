"""Edits of settings change what they must, and nothing else."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.tools.editors import jsonc
from acp_proxy.tools.setup import settings_text
from acp_proxy.tools.setup.settings_text import Settings
from tests.tools.setup.formatter import format_settings

OURS = ["/opt/bin/acp-proxy", "run"]
BY_UVX = ["/opt/bin/uvx", "acp-proxy", "run"]

ZED = """\
// Zed settings
{
\t"theme": "One Dark", // dark
\t/* agents */
\t"agent_servers": {
\t\t"Claude": {
\t\t\t"type": "custom",
\t\t\t"command": "npx", // the runner
\t\t\t"args": [
\t\t\t\t"-y", // no questions
\t\t\t\t"@agentclientprotocol/claude-agent-acp",
\t\t\t],
\t\t},
\t\t"bare": { "command": "/usr/bin/\\u0061gent" },
\t\t"empty": {"command": "agent", "args": [ ], "env": {"A": "}"}},
\t\t"from the registry": {"type": "registry"},
\t},
}
"""
PROXIED = """\
// Zed settings
{
\t"theme": "One Dark", // dark
\t/* agents */
\t"agent_servers": {
\t\t"Claude": {
\t\t\t"type": "custom",
\t\t\t"command": "/opt/bin/acp-proxy", // the runner
\t\t\t"args": [
\t\t\t\t"run",
\t\t\t\t"npx",
\t\t\t\t"-y", // no questions
\t\t\t\t"@agentclientprotocol/claude-agent-acp",
\t\t\t],
\t\t},
\t\t"bare": { "command": "/opt/bin/acp-proxy", "args": ["run", "/usr/bin/\\u0061gent"] },
\t\t"empty": {"command": "/opt/bin/acp-proxy", "args": ["run", "agent" ], "env": {"A": "}"}},
\t\t"from the registry": {"type": "registry"},
\t},
}
"""


def put(text: str, names: list[str], ours: list[str] = OURS) -> str:
    for name in names:
        settings = Settings(text)
        entry = settings.find("agent_servers", name)
        assert entry is not None
        text = settings_text.apply(text, settings_text.put_in_front(settings, entry, ours))
    return text


def take(text: str, names: list[str], count: int, without_args: list[str]) -> str:
    for name in names:
        settings = Settings(text)
        entry = settings.find("agent_servers", name)
        assert entry is not None
        edits = settings_text.take_out(settings, entry, count, had_args=name not in without_args)
        text = settings_text.apply(text, edits)
    return text


def test_acp_proxy_is_put_in_front_in_the_style_of_each_entry() -> None:
    assert put(ZED, ["Claude", "bare", "empty"]) == PROXIED


def test_it_is_taken_out_byte_for_byte() -> None:
    assert take(PROXIED, ["empty", "Claude", "bare"], 1, ["bare"]) == ZED


@pytest.mark.parametrize("style", [str, lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
def test_line_ends_and_a_byte_order_mark_stay(style: Callable[[str], str]) -> None:
    assert put(style(ZED), ["Claude", "bare", "empty"]) == style(PROXIED)
    assert take(style(PROXIED), ["Claude", "bare", "empty"], 1, ["bare"]) == style(ZED)


def test_what_the_user_added_around_it_stays() -> None:
    edited = PROXIED.replace('"One Dark"', '"Ayu"').replace('"-y", //', '"-y", "--debug", //')
    assert take(edited, ["Claude", "bare", "empty"], 1, ["bare"]) == ZED.replace('"One Dark"', '"Ayu"').replace(
        '"-y", //', '"-y", "--debug", //'
    )


def test_args_that_are_no_list_of_texts_are_refused() -> None:
    settings = Settings('{"agent_servers": {"a": {"command": "x", "args": "-y"}}}')
    entry = settings.find("agent_servers", "a")
    assert entry is not None
    with pytest.raises(ValueError, match="args"):
        settings_text.put_in_front(settings, entry, OURS)


@pytest.mark.parametrize(("count", "ours"), [(2, BY_UVX[:-1]), (3, BY_UVX)])
def test_words_of_acp_proxy_are_replaced(count: int, ours: list[str]) -> None:
    text = '{"agent_servers": {"a": {"command": "/gone/python", "args": ["-m", "acp_proxy", "run", "agent"]}}}'
    settings = Settings(text)
    entry = settings.find("agent_servers", "a")
    assert entry is not None
    edits = settings_text.replace_words(settings, entry, count, ours)
    assert settings_text.apply(text, edits) == (
        '{"agent_servers": {"a": {"command": "/opt/bin/uvx", "args": ["acp-proxy", "run", "agent"]}}}'
    )


ENTRY = '"New": {\n  "command": "agent",\n  "args": [\n    "x"\n  ]\n}'
WHOLE = '{\n  "agent_servers": {\n    "New": {}\n  }\n}'


ADDED = """\
"agent_servers": {
  "New": {
    "command": "agent",
    "args": [
      "x"
    ]
  }
}"""


def indent_text(text: str, by: str) -> str:
    """The text with this indentation for each step of two blanks, and one step deeper from its second line on."""
    return re.sub(r"(?m)^(?:  )+", lambda found: by * (len(found[0]) // 2), text).replace("\n", "\n" + by)


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("", f"{WHOLE}\n"),
        ("{}", "{\n  " + indent_text(ADDED, "  ") + "\n}"),
        ('{\n    "a": 1\n}\n', "{\n    " + indent_text(ADDED, "    ") + ',\n    "a": 1\n}\n'),
        ('{\r\n\t"a": 1\r\n}', "{\r\n\t" + indent_text(ADDED, "\t").replace("\n", "\r\n") + ',\r\n\t"a": 1\r\n}'),
    ],
)
def test_an_agent_is_added_with_the_indentation_of_the_file(text: str, added: str) -> None:
    settings = Settings(text)
    assert settings_text.apply(text, settings_text.add_entry(settings, ["agent_servers"], ENTRY, WHOLE)) == added


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SPACES = st.sampled_from(["", " ", "\n", "\t", "\r\n  ", " // x ]}\n", '/* " , */', " /* { */ "])


@st.composite
def write_as_person(draw: st.DrawFn, value: Any) -> str:
    """A value as a person may write it: comments and blanks everywhere, commas at the end."""
    parts: list[str]
    if isinstance(value, dict):
        parts = [
            f"{draw(SPACES)}{json.dumps(key)}{draw(SPACES)}:{draw(write_as_person(each))}"
            for key, each in value.items()
        ]
    elif isinstance(value, list):
        parts = [draw(write_as_person(each)) for each in value]
    else:
        return f"{draw(SPACES)}{json.dumps(value, ensure_ascii=draw(st.booleans()))}{draw(SPACES)}"
    comma = draw(st.sampled_from(["", ","])) if parts else ""
    sides = "{}" if isinstance(value, dict) else "[]"
    return f"{draw(SPACES)}{sides[0]}{','.join(parts)}{comma}{draw(SPACES)}{sides[1]}{draw(SPACES)}"


ENTRIES = st.fixed_dictionaries(
    {"command": st.text(max_size=5)},
    optional={"args": st.lists(st.text(max_size=5), max_size=3), "env": JSON, "x": JSON},
)


@st.composite
def settings_files(draw: st.DrawFn) -> tuple[str, dict[str, dict[str, Any]]]:
    agents = draw(st.dictionaries(st.text(max_size=4), ENTRIES, min_size=1, max_size=3))
    around = draw(st.dictionaries(st.text(max_size=3), JSON, max_size=2))
    text = draw(write_as_person({**around, "agent_servers": agents}))
    return draw(st.sampled_from(["", "\ufeff"])) + text, agents


@given(settings_files())
def test_any_settings_say_what_they_should_and_come_back_byte_for_byte(
    made: tuple[str, dict[str, dict[str, Any]]],
) -> None:
    text, agents = made
    proxied = put(text, list(agents), BY_UVX)
    before, after = jsonc.decode(text), jsonc.decode(proxied)
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    for name, entry in agents.items():
        args = [*BY_UVX[1:], entry["command"], *entry.get("args", [])]
        before["agent_servers"][name] |= {"command": BY_UVX[0], "args": args}
    assert after == before
    assert take(proxied, list(agents)[::-1], 2, [name for name in agents if "args" not in agents[name]]) == text


@given(settings_files(), st.booleans())
def test_any_settings_that_a_formatter_lays_out_anew_come_back_with_every_comment(
    made: tuple[str, dict[str, dict[str, Any]]], has_last_commas: bool
) -> None:
    text, agents = made
    proxied = format_settings(put(text, list(agents), BY_UVX), has_last_commas=has_last_commas)
    taken = take(proxied, list(agents), 2, [name for name in agents if "args" not in agents[name]])
    assert jsonc.decode(taken) == jsonc.decode(text)
    assert format_settings(taken, has_last_commas=has_last_commas) == format_settings(
        text, has_last_commas=has_last_commas
    )


@given(settings_files())
def test_an_agent_that_was_added_and_removed_leaves_all_others_as_they_were(
    made: tuple[str, dict[str, dict[str, Any]]],
) -> None:
    text, _ = made
    edits = settings_text.add_entry(Settings(text), ["agent_servers"], '"an added one": {}', "")
    added = settings_text.apply(text, edits)
    settings = Settings(added)
    agents = settings.find("agent_servers")
    assert agents is not None
    removed = settings_text.apply(added, settings_text.remove(settings, agents, "an added one"))
    assert removed == text
