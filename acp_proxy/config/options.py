"""The options of ``run``, in one table: ``parse`` reads the command line by it, and typer makes the help from it.

Imports little, because the agent starts before anything slow is imported.
"""

import os

from acp_proxy.errors import UsageError

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MODES = ("auto", "agent", "store")

# name, variable, choices (None: any text; empty: a flag), default, help
OPTIONS: tuple[tuple[str, str, tuple[str, ...] | None, str, str], ...] = (
    ("store", "ACP_PROXY_STORE", None, "", "Directory of the transcripts. Default: your user data directory."),
    (
        "agent-id",
        "ACP_PROXY_AGENT_ID",
        None,
        "",
        "Your own name for the agent. It keeps sessions apart: one name per account, or per script.",
    ),
    ("no-record", "ACP_PROXY_NO_RECORD", (), "", "Record nothing, and add nothing to the agent."),
    ("no-synthesize", "ACP_PROXY_NO_SYNTHESIZE", (), "", "Record, but add nothing to what the agent offers."),
    ("list", "ACP_PROXY_LIST", _MODES, "auto", "Who answers session/list. auto: the agent, if it can."),
    (
        "load",
        "ACP_PROXY_LOAD",
        _MODES,
        "auto",
        "Whose replay session/load shows. auto: the agent's, unless it is incomplete.",
    ),
    (
        "delete",
        "ACP_PROXY_DELETE",
        _MODES,
        "auto",
        "Who answers session/delete. auto: the agent, if it can; the transcript is deleted as well.",
    ),
    (
        "delete-mode",
        "ACP_PROXY_DELETE_MODE",
        ("hard", "soft"),
        "soft",
        "How to delete a transcript. soft: acp-proxy restore brings it back, for bin-days; hard: at once, for good.",
    ),
    (
        "bin-days",
        "ACP_PROXY_BIN_DAYS",
        None,
        "30",
        "How many days acp-proxy restore can bring a deleted session back. 0: every delete is permanent.",
    ),
    (
        "resume",
        "ACP_PROXY_RESUME",
        _MODES,
        "auto",
        "Who answers session/resume. store: acp-proxy offers it if the agent can only load.",
    ),
    (
        "handover",
        "ACP_PROXY_HANDOVER",
        ("auto", "always", "never"),
        "auto",
        "If the agent can neither load nor resume a session, continue it in a new one, with a record of the old one.",
    ),
    (
        "recall",
        "ACP_PROXY_RECALL",
        (),
        "",
        "Let the agent look up earlier sessions of the same directory, by an MCP server (needs acp-proxy[mcp]).",
    ),
    (
        "also-list",
        "ACP_PROXY_ALSO_LIST",
        None,
        "",
        "Also list the sessions of these agents (NAME,NAME or all). A prompt continues one here, in a copy.",
    ),
    (
        "record-size",
        "ACP_PROXY_RECORD_SIZE",
        None,
        "65536",
        "Maximum bytes of the record that an agent gets when a session continues in a new one.",
    ),
    (
        "unstable",
        "ACP_PROXY_UNSTABLE",
        (),
        "",
        "Also serve drafts of the protocol that the agent lacks: session/set_title, session/archive, session/status.",
    ),
    (
        "replay",
        "ACP_PROXY_REPLAY",
        ("compact", "full"),
        "compact",
        "How to replay a session. compact: join streamed updates; full: send each of them.",
    ),
    (
        "replay-tool-limit",
        "ACP_PROXY_REPLAY_TOOL_LIMIT",
        None,
        "1048576",
        "Maximum bytes of one tool call's output in a compact replay. 0: no limit.",
    ),
    (
        "redact",
        "ACP_PROXY_REDACT",
        None,
        "off",
        "Mask secrets in transcripts. keys: known forms of keys; FILE: also your own patterns.",
    ),
    (
        "fsync",
        "ACP_PROXY_FSYNC",
        ("turn", "always", "never"),
        "turn",
        "When to force a transcript to the disk: after each turn, after each write, or never.",
    ),
    (
        "compress",
        "ACP_PROXY_COMPRESS",
        ("daily", "off"),
        "daily",
        "Compress large transcripts that nobody has used for a week. daily: once a day, when idle.",
    ),
    (
        "registry",
        "ACP_PROXY_REGISTRY",
        None,
        "",
        "Where the registry of agents is, by whose ids an agent may be given: a URL or a file.",
    ),
    ("grace", "ACP_PROXY_GRACE", None, "5", "Seconds the agent has to exit before acp-proxy terminates it."),
)

RENAMED = {"--compact": "--compress"}
"""Former names of options, and their names now."""

_HELP = ("-h", "--help", "--help-all")

_TRUE = ("1", "true", "t", "yes", "y", "on")
_FALSE = ("", "0", "false", "f", "no", "n", "off")

LEAST_RECORD = 1024
"""Bytes: the introduction and the end of a record take half of it."""
MOST_BIN_DAYS = 36500
RUN, CHAIN = "run", "chain"
NOT_IN_CHAIN = ("grace", "registry")
"""Options of ``run`` that ``chain`` lacks, because it starts no agent."""


def parse(
    words: list[str],
    environment: "Mapping[str, str]",
    file: "Mapping[str, str] | None" = None,
    of: str = RUN,
) -> tuple[dict[str, str], list[str]]:
    """Read the words after ``run``. Returns the options by name (without ``--``), and the agent's command.

    ``of``: ``chain``, which takes no agent's command, instead of ``run``.

    Options end at the first word that does not begin with ``-``, or after ``--``. An option on the command line wins
    over its environment variable, and that over ``file``, the values in the configuration file. The value of a flag is
    ``1`` or empty. Raises UsageError.
    """
    table = {f"--{name}": (name, choices) for name, _, choices, _, _ in OPTIONS}
    if of == CHAIN:
        for name in NOT_IN_CHAIN:
            del table[f"--{name}"]
    values = {name: default for name, _, _, default, _ in OPTIONS} | dict(file or {})
    for name, variable, choices, _, _ in OPTIONS:
        if given := environment.get(variable):  # an empty variable counts as unset
            values[name] = _checked(variable, choices, given)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word, equals, value = words[at].partition("=")
        at += 1
        if word == "--" and not equals:
            break
        if word not in table:
            if word in RENAMED:
                raise UsageError(f"{of} has no option {word}. It is called {RENAMED[word]} now.")
            if word in _HELP:
                raise UsageError(f"{word} must be the first option: acp-proxy {of} {word}")
            advice = "Put the agent's own options after its command. " if of == RUN else ""
            raise UsageError(
                f"{of} has no option {word}. {advice}To see the options of {of}: acp-proxy {of} --help-all"
            )
        name, choices = table[word]
        if choices == ():
            if equals:
                raise UsageError(f"{word} takes no value. Remove the = and what follows it.")
            value = "1"
        elif not equals:
            if at == len(words):
                raise UsageError(f"{word} needs a value. To see which: acp-proxy {of} --help-all")
            value = words[at]
            at += 1
        if name == "agent-id" and not value.strip():  # a script's empty variable would mix the sessions of two accounts
            raise UsageError(f"{word} is empty. Give a name, or leave the option out.")
        values[name] = _checked(word, choices, value)
    for name, read in _READERS.items():
        read(values[name])
    if of == CHAIN:
        if at < len(words):
            raise UsageError(f"chain takes no command, because the conductor starts the agent. Remove: {words[at]}")
        return values, []
    if at == len(words):
        raise UsageError("run needs the agent's command: acp-proxy run AGENT [ARGS…]")
    if not words[at]:
        raise UsageError("the agent's command is empty. Check the words after acp-proxy run in your editor's settings.")
    return values, words[at:]


def given(name: str, environment: "Mapping[str, str]", file: "Mapping[str, str]") -> str:
    """The value of an option that is not on the command line: its variable's, else the file's, else the default."""
    variable, default = next((variable, default) for known, variable, _, default, _ in OPTIONS if known == name)
    return environment.get(variable) or file.get(name, default)


def checked(name: str, value: str) -> str:
    """The value of the option with this name. Raises UsageError."""
    choices = next(choices for known, _, choices, _, _ in OPTIONS if known == name)
    value = _checked(f"--{name}", choices, value)
    if name in _READERS:
        _READERS[name](value)
    return value


def seconds(text: str) -> float:
    """Read the value of ``--grace``, in seconds. Raises UsageError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise UsageError(f"--grace takes a number of seconds, not {text!r}")
    return value


def size(text: str) -> int:
    """Read the value of ``--replay-tool-limit``, in bytes. Raises UsageError."""
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--replay-tool-limit takes a number of bytes, not {text!r}")
    return int(text)


def bin_days(text: str) -> int:
    """Read the value of ``--bin-days``. Raises UsageError."""
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_BIN_DAYS):
        raise UsageError(f"--bin-days takes a number of days, at most {MOST_BIN_DAYS}, not {text!r}")
    return int(text)


def record_size(text: str) -> int:
    """Read the value of ``--record-size``, in bytes. Raises UsageError."""
    if not (text.isascii() and text.isdigit() and int(text) >= LEAST_RECORD):
        raise UsageError(f"--record-size takes a number of bytes, at least {LEAST_RECORD}, not {text!r}")
    return int(text)


def patterns(text: str) -> list[str] | None:
    """Read the value of ``--redact``: the user's own patterns, in addition to the known forms of secrets.

    None: redact nothing. Raises UsageError if a file or a pattern is invalid, since a session that is not redacted as
    the user wants is worse than none.
    """
    if text in ("", "off", "keys"):
        return [] if text == "keys" else None
    import re  # only needed for patterns

    try:
        with open(os.path.expanduser(text), encoding="utf-8") as file:
            found = [line for line in file.read().split("\n") if line.strip() and not line.startswith("#")]
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"--redact takes off, keys, or a file of patterns: {text}: {reason}") from problem
    for pattern in found:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as problem:
            raise UsageError(f"--redact {text}: {pattern!r} is not a valid regular expression: {problem}") from problem
    return found


_READERS: "Mapping[str, Callable[[str], object]]" = {
    "grace": seconds,
    "replay-tool-limit": size,
    "record-size": record_size,
    "bin-days": bin_days,
    "redact": patterns,
}
"""Functions that check a value that is not one of a few. They raise UsageError."""


def _checked(word: str, choices: tuple[str, ...] | None, value: str) -> str:
    if choices == ():
        if value.lower() not in (*_TRUE, *_FALSE):  # a misspelt wish not to record must not be ignored
            raise UsageError(f"{word} takes 1 or 0, not {value!r}")
        return "1" if value.lower() in _TRUE else ""
    if choices is not None and value not in choices:
        raise UsageError(f"{word} takes one of {', '.join(choices)}, not {value!r}")
    return value
