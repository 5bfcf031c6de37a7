"""The options of ``run``, in one table: ``parse`` reads the command line by it, and typer makes the help from it.

Imports little, because the agent starts before anything slow is imported.
"""

import os

from acp_proxy.errors import UsageError

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MODES = ("auto", "agent", "store")


class RunOption:
    """An option of ``run``, given by ``--name``, by its environment variable, or in the configuration file."""

    def __init__(
        self,
        name: str,
        help_text: str,
        *,
        default: str = "",
        choices: tuple[str, ...] = (),
        is_flag: bool = False,
    ) -> None:
        """``choices``: the values that it takes; empty: any text, or what ``_CHECKS`` checks. ``is_flag``: it has
        no value on the command line; its value is ``1`` or empty."""
        self.name, self.help_text, self.default = name, help_text, default
        self.choices, self.is_flag = choices, is_flag

    @property
    def variable(self) -> str:
        return f"ACP_PROXY_{self.name.upper().replace('-', '_')}"


OPTIONS: "Mapping[str, RunOption]" = {
    option.name: option
    for option in (
        RunOption("store", "Directory of the transcripts. Default: your user data directory."),
        RunOption(
            "agent-id", "Your own name for the agent. It keeps sessions apart: one name per account, or per script."
        ),
        RunOption("no-record", "Record nothing, and add nothing to the agent.", is_flag=True),
        RunOption("no-synthesize", "Record, but add nothing to what the agent offers.", is_flag=True),
        RunOption("list", "Who answers session/list. auto: the agent, if it can.", default="auto", choices=_MODES),
        RunOption(
            "load",
            "Whose replay session/load shows. auto: the agent's, unless it is incomplete.",
            default="auto",
            choices=_MODES,
        ),
        RunOption(
            "delete",
            "Who answers session/delete. auto: the agent, if it can; the transcript is deleted as well.",
            default="auto",
            choices=_MODES,
        ),
        RunOption(
            "delete-mode",
            "How to delete a transcript. soft: acp-proxy restore brings it back, for bin-days; permanent: at "
            "once, for good.",
            default="soft",
            choices=("permanent", "soft"),
        ),
        RunOption(
            "bin-days",
            "How many days acp-proxy restore can bring a deleted session back. 0: every delete is permanent.",
            default="30",
        ),
        RunOption(
            "resume",
            "Who answers session/resume. store: acp-proxy offers it if the agent can only load.",
            default="auto",
            choices=_MODES,
        ),
        RunOption(
            "handover",
            "If the agent can neither load nor resume a session, continue it in a new one, with a record of the "
            "old one.",
            default="auto",
            choices=("auto", "always", "never"),
        ),
        RunOption(
            "recall",
            "Let the agent look up earlier sessions of the same directory, by an MCP server (needs acp-proxy[mcp]).",
            is_flag=True,
        ),
        RunOption(
            "also-list",
            "Also list the sessions of these agents (NAME,NAME or all). A prompt continues one here, in a copy.",
        ),
        RunOption(
            "record-size",
            "Maximum bytes of the record that an agent gets when a session continues in a new one.",
            default="65536",
        ),
        RunOption(
            "unstable",
            "Also serve drafts of the protocol that the agent lacks: session/set_title, session/archive, "
            "session/status.",
            is_flag=True,
        ),
        RunOption(
            "replay",
            "How to replay a session. compact: join streamed updates; full: send each of them.",
            default="compact",
            choices=("compact", "full"),
        ),
        RunOption(
            "replay-tool-limit",
            "Maximum bytes of one tool call's output in a compact replay. 0: no limit.",
            default="1048576",
        ),
        RunOption(
            "redact",
            "Mask secrets in transcripts. keys: known forms of keys; FILE: also your own patterns.",
            default="off",
        ),
        RunOption(
            "fsync",
            "When to force a transcript to the disk: after each turn, after each write, or never.",
            default="turn",
            choices=("turn", "always", "never"),
        ),
        RunOption(
            "compress",
            "Compress large transcripts that nobody has used for a week. daily: once a day, when idle.",
            default="daily",
            choices=("daily", "off"),
        ),
        RunOption("registry", "Where the registry of agents is, by whose ids an agent may be given: a URL or a file."),
        RunOption("grace", "Seconds the agent has to exit before acp-proxy terminates it.", default="5"),
    )
}
"""By name, in the order in which ``acp-proxy config`` shows them."""

_LEAST_LIKENESS = 0.7
"""How alike a wrong option and one of ours have to be: with less, an agent's ``--stdio`` is like ``--store``."""

_HELP_WORDS = ("-h", "--help", "--help-all")

_TRUE = ("1", "true", "t", "yes", "y", "on")
_FALSE = ("", "0", "false", "f", "no", "n", "off")

DECIDE_RECORDING = ("redact", "no-record")
"""The options that decide what is recorded. If the user's wish for one is not known, nothing may be: a secret in a
transcript cannot be taken back."""
STOPS_RECORDING = "nothing is recorded."
"""The end of each message about a fault for which ``no-record`` is added."""
NOTHING_IS_RECORDED = f"Until it is correct, {STOPS_RECORDING}"
LEAST_HANDOVER_RECORD = 1024
"""Bytes: the introduction and the end of a record take half of it."""
MOST_BIN_DAYS = 36500
_MOST_DIGITS = 18
"""Of a number. Python reads none of more than 4,300."""
RUN, CHAIN = "run", "chain"
NOT_IN_CHAIN = ("grace", "registry")
"""Options of ``run`` that ``chain`` lacks, because it starts no agent."""


def parse(
    words: list[str],
    environment: "Mapping[str, str]",
    file: "Mapping[str, str] | None" = None,
    subcommand: str = RUN,
    wrong_variables: "list[str] | None" = None,
) -> tuple[dict[str, str], list[str]]:
    """Read the words after ``run``. Returns the options by name (without ``--``), and the agent's command.

    ``subcommand``: ``chain``, which takes no agent's command, instead of ``run``.

    Options end at the first word that does not begin with ``-``, or after ``--``. An option on the command line wins
    over its environment variable, and that over ``file``, the values in the configuration file. The value of a flag is
    ``1`` or empty.

    ``wrong_variables``: what is wrong with a variable is added to it, and the variable counts as unset; if it decides
    what is recorded, nothing is. Without this list, it is wrong usage. Raises UsageError.
    """
    table = {f"--{name}": option for name, option in OPTIONS.items() if subcommand == RUN or name not in NOT_IN_CHAIN}
    values = {name: option.default for name, option in OPTIONS.items()} | dict(file or {})
    sources = {name: f"--{name}" for name in OPTIONS}
    problems: dict[str, str] = {}
    for name, option in OPTIONS.items():
        if value_given := environment.get(option.variable):  # an empty variable counts as unset
            sources[name] = option.variable
            try:
                values[name] = _normalize(option.variable, option, value_given)
            except UsageError as problem:
                problems[name] = str(problem)
    index = 0
    while index < len(words) and words[index].startswith("-"):
        word, equals, value = words[index].partition("=")
        index += 1
        if word == "--" and not equals:
            break
        if word not in table:
            if word in _HELP_WORDS:
                raise UsageError(f"{word} must be the first option: acp-proxy {subcommand} {word}")
            if word == "--agent" and subcommand == RUN:  # an option of other commands
                raise UsageError(f"{subcommand} has no option {word}. Give the agent without it: acp-proxy run AGENT")
            from difflib import get_close_matches  # few command lines are wrong

            if near_names := get_close_matches(word[2:], [name[2:] for name in table], 1, _LEAST_LIKENESS):
                raise UsageError(f"{subcommand} has no option {word}. Did you mean --{near_names[0]}?")
            advice = "Put the agent's own options after its command. " if subcommand == RUN else ""
            raise UsageError(
                f"{subcommand} has no option {word}. {advice}To see the options of {subcommand}:"
                f" acp-proxy {subcommand} --help-all"
            )
        option = table[word]
        if option.is_flag:
            if equals:
                raise UsageError(f"{word} takes no value. Remove the = and what follows it.")
            value = "1"
        elif not equals:
            if index == len(words):
                raise UsageError(f"{word} needs a value. To see which: acp-proxy {subcommand} --help-all")
            value = words[index]
            index += 1
        # With a script's variable that is not set, nothing would be masked, or two accounts' sessions would be mixed.
        if not option.is_flag and not value.strip():
            raise UsageError(f"{word} is empty. Give it a value, or leave it out.")
        values[option.name] = _normalize(word, option, value)
        sources[option.name] = word
        problems.pop(option.name, None)
    for name, check in _CHECKS.items():
        try:
            check(values[name])
        except UsageError as problem:
            problems[name] = str(problem).replace(f"--{name}", sources[name], 1)
    for name, text in problems.items():
        if wrong_variables is None or sources[name] != OPTIONS[name].variable:
            raise UsageError(text)
        values[name] = (file or {}).get(name, OPTIONS[name].default)
        must_hold = name in DECIDE_RECORDING
        wrong_variables.append(f"{text}.{f' {NOTHING_IS_RECORDED}' if must_hold else ''}")
    if not problems.keys().isdisjoint(DECIDE_RECORDING):
        values["no-record"] = "1"
    if subcommand == CHAIN:
        if index < len(words):
            raise UsageError(f"chain takes no command, because the conductor starts the agent. Remove: {words[index]}")
        return values, []
    if index == len(words):
        raise UsageError("run needs the agent's command: acp-proxy run AGENT [ARGS…]")
    if not words[index].strip():
        raise UsageError("the agent's command is empty. Put its program there; in an editor's settings, after run.")
    return values, words[index:]


def check_value(name: str, value: str) -> str:
    """The value of the option with this name, as ``parse`` has it. Raises UsageError."""
    value = _normalize(f"--{name}", OPTIONS[name], value)
    if name in _CHECKS:
        _CHECKS[name](value)
    return value


def parse_seconds(text: str) -> float:
    """Read the value of ``--grace``, in seconds. Raises UsageError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise UsageError(f"--grace takes a number of seconds, not {text!r}")
    return value


def parse_size(text: str) -> int:
    """Read the value of ``--replay-tool-limit``, in bytes. Raises UsageError."""
    if (size := _read_number(text)) is None:
        raise UsageError(f"--replay-tool-limit takes a number of bytes, not {text!r}")
    return size


def parse_bin_days(text: str) -> int:
    """Read the value of ``--bin-days``. Raises UsageError."""
    if (days := _read_number(text)) is None or days > MOST_BIN_DAYS:
        raise UsageError(f"--bin-days takes a number of days, at most {MOST_BIN_DAYS}, not {text!r}")
    return days


def parse_handover_record_size(text: str) -> int:
    """Read the value of ``--record-size``, in bytes. Raises UsageError."""
    if (size := _read_number(text)) is None or size < LEAST_HANDOVER_RECORD:
        raise UsageError(f"--record-size takes a number of bytes, at least {LEAST_HANDOVER_RECORD}, not {text!r}")
    return size


def _read_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def read_patterns(text: str) -> list[str] | None:
    """Read the value of ``--redact``: the user's own patterns, in addition to the known forms of secrets.

    None: redact nothing. Raises UsageError if a file or a pattern is invalid, since a session that is not redacted as
    the user wants is worse than none.
    """
    if text in ("", "off", "keys"):
        return [] if text == "keys" else None
    import re  # only needed for patterns

    try:
        with open(os.path.expanduser(text), encoding="utf-8") as file:
            patterns = [line for line in file.read().split("\n") if line.strip() and not line.startswith("#")]
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"--redact takes off, keys, or a file of patterns: {text}: {reason}") from problem
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as problem:
            raise UsageError(f"--redact {text}: {pattern!r} is not a valid regular expression: {problem}") from problem
    return patterns


_CHECKS: "Mapping[str, Callable[[str], object]]" = {
    "grace": parse_seconds,
    "replay-tool-limit": parse_size,
    "record-size": parse_handover_record_size,
    "bin-days": parse_bin_days,
    "redact": read_patterns,
}
"""Functions that check a value that is not one of a few. They raise UsageError."""


def _normalize(word: str, option: RunOption, value: str) -> str:
    """The value in the one form that the rest of the program knows. ``word``: what a message calls the option."""
    if option.is_flag:
        if value.lower() not in (*_TRUE, *_FALSE):  # a misspelt wish not to record must not be ignored
            raise UsageError(f"{word} takes 1 or 0, not {value!r}")
        return "1" if value.lower() in _TRUE else ""
    if option.choices and value not in option.choices:
        raise UsageError(f"{word} takes one of {', '.join(option.choices)}, not {value!r}")
    return value
