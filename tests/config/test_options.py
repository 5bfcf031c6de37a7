"""The options of ``run`` are separated from the agent's command."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given as any_of
from hypothesis import strategies as st

from acp_proxy.config import options
from acp_proxy.errors import UsageError
from tests.strategies import texts

DEFAULTS = {
    "store": "",
    "agent-id": "",
    "no-record": "",
    "no-synthesize": "",
    "list": "auto",
    "load": "auto",
    "delete": "auto",
    "delete-mode": "soft",
    "bin-days": "30",
    "resume": "auto",
    "handover": "auto",
    "recall": "",
    "unstable": "",
    "replay": "compact",
    "replay-tool-limit": "1048576",
    "also-list": "",
    "record-size": "65536",
    "redact": "off",
    "fsync": "turn",
    "compress": "daily",
    "registry": "",
    "grace": "5",
}
SOMETHING_ELSE = {
    "store": "/elsewhere",
    "agent-id": "work",
    "no-record": "1",
    "no-synthesize": "1",
    "list": "agent",
    "load": "store",
    "delete": "agent",
    "delete-mode": "permanent",
    "bin-days": "0",
    "resume": "store",
    "handover": "always",
    "recall": "1",
    "unstable": "1",
    "replay": "full",
    "replay-tool-limit": "0",
    "also-list": "one,other",
    "record-size": "4096",
    "redact": "keys",
    "fsync": "never",
    "compress": "off",
    "registry": "mine.json",
    "grace": "0.5",
}


def parse(*words: str, **environment: str) -> tuple[dict[str, str], list[str]]:
    return options.parse(list(words), environment)


def changed(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if value != DEFAULTS[name]}


def test_every_option_has_a_default() -> None:
    assert parse("agent") == (DEFAULTS, ["agent"])


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_option_may_be_given_on_the_command_line(name: str) -> None:
    value = SOMETHING_ELSE[name]
    words = [f"--{name}"] if value == "1" else [f"--{name}", value]
    given, command = parse(*words, "agent", "--acp")
    assert (changed(given), command) == ({name: value}, ["agent", "--acp"])


@pytest.mark.parametrize("name", [name for name in DEFAULTS if SOMETHING_ELSE[name] != "1"])
def test_a_value_may_follow_an_equals_sign(name: str) -> None:
    value = SOMETHING_ELSE[name]
    assert changed(parse(f"--{name}={value}", "agent")[0]) == {name: value}


def test_every_option_has_a_variable_which_the_command_line_overrides() -> None:
    assert set(options.OPTIONS) == set(DEFAULTS)
    for name, option in options.OPTIONS.items():
        assert changed(parse("agent", **{option.variable: SOMETHING_ELSE[name]})[0]) == {name: SOMETHING_ELSE[name]}
        if not option.is_flag and DEFAULTS[name]:  # an empty value is refused
            given, _ = parse(f"--{name}", DEFAULTS[name], "agent", **{option.variable: SOMETHING_ELSE[name]})
            assert changed(given) == {}


@pytest.mark.parametrize("yes", ["1", "true", "True", "YES", "on", "y"])
def test_the_variable_of_a_flag_accepts_several_words_for_yes(yes: str) -> None:
    assert changed(parse("agent", ACP_PROXY_NO_RECORD=yes)[0]) == {"no-record": "1"}


@pytest.mark.parametrize("no", ["", "0", "false", "No", "OFF", "n"])
def test_the_variable_of_a_flag_accepts_several_words_for_no(no: str) -> None:
    assert changed(parse("agent", ACP_PROXY_NO_RECORD=no)[0]) == {}


@pytest.mark.parametrize("other", ["ja", "y es", "2"])
def test_the_variable_of_a_flag_accepts_no_other_word(other: str) -> None:
    with pytest.raises(UsageError):
        parse("agent", ACP_PROXY_NO_RECORD=other)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["agent", "--store", "x"], ["agent", "--store", "x"]),
        (["--", "agent"], ["agent"]),
        (["--", "--agent"], ["--agent"]),
        (["--", "agent", "--", "x"], ["agent", "--", "x"]),
        (["agent", "--", "x"], ["agent", "--", "x"]),
        (["--no-record", "--", "agent"], ["agent"]),
        (["--store", "--", "agent"], ["agent"]),
    ],
)
def test_options_end_at_the_first_word_that_is_not_an_option(words: list[str], command: list[str]) -> None:
    assert parse(*words)[1] == command


def test_the_last_of_two_values_counts() -> None:
    assert changed(parse("--grace", "1", "--grace", "2", "agent")[0]) == {"grace": "2"}


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--no-record"],
        ["--"],
        ["--store"],
        ["--unknown", "agent"],
        ["-x", "agent"],
        ["-", "agent"],
        ["--no-record=1", "agent"],
        ["--sto", "x", "agent"],
        ["--fsync", "sometimes", "agent"],
        ["--fsync", "", "agent"],
        *([f"--{name}", "", "agent"] for name in ("agent-id", "store", "redact", "also-list", "registry")),
        *([f"--{name}= ", "agent"] for name in ("agent-id", "redact")),
        *(
            [f"--{name}", value, "agent"]
            for name in ("list", "load", "delete", "resume")
            for value in ("always", "none")
        ),
        ["--handover", "agent", "agent"],
        ["--replay", "short", "agent"],
        *(["--replay-tool-limit", value, "agent"] for value in ("", "-1", "1.5", "1M", "\N{SUPERSCRIPT TWO}", "inf")),
        *(["--grace", value, "agent"] for value in ("", "soon", "-1", "nan", "inf", "1e9", "5s")),
        *([f"--{name}", "9" * 5000, "agent"] for name in ("replay-tool-limit", "bin-days", "record-size")),
    ],
)
def test_invalid_command_lines_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(*words)


@pytest.mark.parametrize("asked", ["-h", "--help", "--help-all"])
def test_help_after_another_option_is_refused_with_the_right_command(asked: str) -> None:
    with pytest.raises(UsageError, match=f"acp-proxy run {asked}$"):
        parse("--no-record", asked)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ACP_PROXY_FSYNC", "sometimes"),
        ("ACP_PROXY_GRACE", "soon"),
        ("ACP_PROXY_HANDOVER", "perhaps"),
        ("ACP_PROXY_LOAD", "mine"),
        ("ACP_PROXY_REPLAY_TOOL_LIMIT", "much"),
    ],
)
def test_an_invalid_variable_is_refused(variable: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"^{variable} takes "):
        parse("agent", **{variable: value})


@pytest.mark.parametrize(
    ("variable", "value", "records"),
    [
        ("ACP_PROXY_LOAD", "mine", True),
        ("ACP_PROXY_GRACE", "soon", True),
        ("ACP_PROXY_REDACT", "/no/such/file", False),
        ("ACP_PROXY_NO_RECORD", "perhaps", False),
    ],
)
def test_for_run_an_invalid_variable_counts_as_unset_unless_it_decides_what_is_recorded(
    variable: str, value: str, records: bool
) -> None:
    problems = list[str]()
    values, _ = options.parse(["agent"], {variable: value}, {"load": "agent"}, wrong_variables=problems)
    assert values == DEFAULTS | {"load": "agent", "no-record": "" if records else "1"}
    [text] = problems
    assert text.startswith(f"{variable} takes ")
    assert text.endswith("nothing is recorded.") != records


def test_an_option_on_the_command_line_replaces_an_invalid_variable() -> None:
    assert parse("--redact", "keys", "agent", ACP_PROXY_REDACT="/no/such/file")[0]["redact"] == "keys"
    assert parse("--load", "auto", "agent", ACP_PROXY_LOAD="mine") == (DEFAULTS, ["agent"])


def test_a_word_on_the_command_line_is_named_and_not_the_variable_that_it_replaces() -> None:
    with pytest.raises(UsageError, match=r"^--grace takes "):
        parse("--grace", "soon", "agent", ACP_PROXY_GRACE="5")


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("5", 5.0), (" 2.5 ", 2.5)])
def test_seconds_are_any_number_that_is_not_negative(text: str, value: float) -> None:
    assert options.parse_seconds(text) == value


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("1048576", 1048576), ("007", 7)])
def test_a_size_is_any_number_of_bytes(text: str, value: int) -> None:
    assert options.parse_size(text) == value


def test_an_empty_variable_counts_as_unset() -> None:
    assert parse("agent", **{option.variable: "" for option in options.OPTIONS.values()}) == (DEFAULTS, ["agent"])


@any_of(
    st.lists(st.sampled_from([f"--{name}" for name in DEFAULTS]) | st.sampled_from(["--", "-", "1", "=", ""]) | texts)
)
def test_any_command_line_ends_with_the_agents_command_or_is_refused(words: list[str]) -> None:
    try:
        given, command = parse(*words)
    except UsageError:
        return
    assert command
    assert words[len(words) - len(command) :] == command
    assert given.keys() == DEFAULTS.keys()
    assert options.parse_seconds(given["grace"]) >= 0
    assert options.parse_size(given["replay-tool-limit"]) >= 0


# --- redaction


def test_nothing_is_redacted_by_default() -> None:
    assert [options.read_patterns(text) for text in ("", "off")] == [None, None]
    assert options.read_patterns("keys") == []


def test_a_pattern_file_has_one_pattern_on_each_line(tmp_path: Path) -> None:
    file = tmp_path / "patterns"
    file.write_bytes(b"# a remark\n\nfoo-\\d+\r\n  spaced \n[#]1\xe2\x80\xa8x")
    assert options.read_patterns(str(file)) == [r"foo-\d+", "  spaced ", "[#]1\u2028x"]


@pytest.mark.parametrize("content", [b"good\n(bad\n", b"*", b"\xff", b"a{99999999999999999999}", None])
def test_unusable_patterns_are_a_usage_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "patterns"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match="--redact"):
        parse("--redact", str(file), "agent")
    with pytest.raises(UsageError, match="ACP_PROXY_REDACT"):
        parse("agent", ACP_PROXY_REDACT=str(file))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--recal", "opencode"], "run has no option --recal. Did you mean --recall?"),
        (["--redcat=keys", "opencode"], "run has no option --redcat. Did you mean --redact?"),
        (["--agent", "opencode"], "run has no option --agent. Give the agent without it: acp-proxy run AGENT"),
        (["--stdio", "x"], "run has no option --stdio. Put the agent's own options after its command. To see the "),
    ],
)
def test_an_option_that_run_does_not_have_is_answered_with_the_one_that_was_meant(words: list[str], told: str) -> None:
    with pytest.raises(UsageError) as problem:
        options.parse(words, {})
    assert str(problem.value).startswith(told)


def test_chain_takes_the_options_of_run_and_no_command() -> None:
    given, command = options.parse(["--delete-mode", "permanent"], {"ACP_PROXY_LIST": "store"}, None, options.CHAIN)
    assert changed(given) == {"delete-mode": "permanent", "list": "store"}
    assert command == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["claude", "--acp"], "Remove: claude"),
        (["--", "claude"], "Remove: claude"),
        (["--grace", "3"], "chain has no option --grace. To see the options of chain: acp-proxy chain --help-all"),
        (["--stor", "x"], "chain has no option --stor. Did you mean --store?"),
        (["--store", "x", "--help"], "acp-proxy chain --help"),
    ],
)
def test_what_chain_does_not_take_is_named(words: list[str], told: str) -> None:
    with pytest.raises(UsageError) as problem:
        options.parse(words, {}, None, options.CHAIN)
    assert told in str(problem.value)
