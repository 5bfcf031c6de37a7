"""``run``'s options: one table, from which the fast path reads the command line and typer makes its command.

Imports next to nothing: the agent is started before anything slow is loaded.
"""

import os

from acp_proxy.errors import UsageError

_MODES = ("auto", "agent", "store")

# name, variable, choices (None: any text; empty: a flag), default, help
OPTIONS: tuple[tuple[str, str, tuple[str, ...] | None, str, str], ...] = (
    ("store", "ACP_PROXY_STORE", None, "", "Where transcripts are kept. Default: your user data directory."),
    (
        "agent-id",
        "ACP_PROXY_AGENT_ID",
        None,
        "",
        "A name of your own for the agent, to keep its sessions apart: one per account, one behind each script.",
    ),
    ("no-record", "ACP_PROXY_NO_RECORD", (), "", "Record nothing; then nothing is added to the agent either."),
    ("no-synthesize", "ACP_PROXY_NO_SYNTHESIZE", (), "", "Record, but add nothing to what the agent offers."),
    ("list", "ACP_PROXY_LIST", _MODES, "auto", "Who answers session/list; auto: the agent, where it can."),
    (
        "load",
        "ACP_PROXY_LOAD",
        _MODES,
        "auto",
        "Whose replay a load shows; auto: the agent's, if it lacks nothing.",
    ),
    (
        "delete",
        "ACP_PROXY_DELETE",
        _MODES,
        "auto",
        "Who answers session/delete; auto: the agent, where it can, and what is kept here goes too.",
    ),
    (
        "delete-mode",
        "ACP_PROXY_DELETE_MODE",
        ("hard", "soft"),
        "hard",
        "What becomes of what is kept of a deleted session; soft: acp-proxy sessions restore brings it back.",
    ),
    (
        "resume",
        "ACP_PROXY_RESUME",
        _MODES,
        "auto",
        "Who answers session/resume; store: offered on top of the agent's load.",
    ),
    (
        "handover",
        "ACP_PROXY_HANDOVER",
        ("auto", "always", "never"),
        "auto",
        "Continue a session that the agent cannot restore in a new one of it, with a record of the old.",
    ),
    ("replay", "ACP_PROXY_REPLAY", ("compact", "full"), "compact", "How much of what was streamed is told again."),
    (
        "replay-tool-limit",
        "ACP_PROXY_REPLAY_TOOL_LIMIT",
        None,
        "1048576",
        "Bytes of one tool call's output that a compact replay tells; 0: all.",
    ),
    (
        "redact",
        "ACP_PROXY_REDACT",
        None,
        "off",
        "What is masked in transcripts: off; keys: known forms of keys; or a file of your own patterns: both.",
    ),
    ("fsync", "ACP_PROXY_FSYNC", ("turn", "always", "never"), "turn", "When transcripts are forced to the disk."),
    (
        "compress",
        "ACP_PROXY_COMPRESS",
        ("daily", "off"),
        "daily",
        "When large transcripts are compressed that nobody has used for a week: once a day, in idle minutes, or not.",
    ),
    ("grace", "ACP_PROXY_GRACE", None, "5", "Seconds that the agent gets to end by itself before it is told to."),
)

RENAMED = {"--compact": "--compress"}
"""What an option was called once."""

_TRUE = ("1", "true", "t", "yes", "y", "on")
_FALSE = ("", "0", "false", "f", "no", "n", "off")


def parse(words: list[str], environment: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """``run``'s words to (options, the agent's command). Options end at the first word that is not one.

    Flags are ``1`` or the empty string. Raises UsageError.
    """
    table = {f"--{name}": (name, choices) for name, _, choices, _, _ in OPTIONS}
    values = {name: default for name, _, _, default, _ in OPTIONS}
    for name, variable, choices, _, _ in OPTIONS:
        if given := environment.get(variable):  # an empty one is as good as none
            values[name] = _checked(variable, choices, given)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word, equals, value = words[at].partition("=")
        at += 1
        if word == "--" and not equals:
            break
        if word not in table:
            if word in RENAMED:
                raise UsageError(f"run has no option {word}. It is called {RENAMED[word]} now.")
            raise UsageError(
                f"run has no option {word}. Options of the agent stand behind its name; see: acp-proxy run --help"
            )
        name, choices = table[word]
        if choices == ():
            if equals:
                raise UsageError(f"{word} takes no value")
            value = "1"
        elif not equals:
            if at == len(words):
                raise UsageError(f"{word} needs a value")
            value = words[at]
            at += 1
        values[name] = _checked(word, choices, value)
    seconds(values["grace"])
    size(values["replay-tool-limit"])
    patterns(values["redact"])
    if at == len(words):
        raise UsageError("run needs the agent's command: acp-proxy run AGENT [ARGS…]")
    if not words[at]:
        raise UsageError("the agent's command is empty. Check what stands behind acp-proxy run in your editor.")
    return values, words[at:]


def seconds(text: str) -> float:
    """Raises UsageError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise UsageError(f"--grace takes a number of seconds, not {text!r}")
    return value


def size(text: str) -> int:
    """Raises UsageError."""
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--replay-tool-limit takes a number of bytes, not {text!r}")
    return int(text)


def patterns(text: str) -> list[str] | None:
    """What ``--redact`` asks for: the user's own patterns, beside the well-known ones; None for nothing at all.

    Raises UsageError: better no session than one that is not redacted as it was wished.
    """
    if text in ("", "off", "keys"):
        return [] if text == "keys" else None
    import re  # only where somebody has patterns

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
            raise UsageError(f"--redact {text}: {pattern!r} is not a pattern of Python's re: {problem}") from problem
    return found


def _checked(word: str, choices: tuple[str, ...] | None, value: str) -> str:
    if choices == ():
        if value.lower() not in (*_TRUE, *_FALSE):  # a wish not to be recorded must not be overheard
            raise UsageError(f"{word} takes 1 or 0, not {value!r}")
        return "1" if value.lower() in _TRUE else ""
    if choices is not None and value not in choices:
        raise UsageError(f"{word} takes one of {', '.join(choices)}, not {value!r}")
    return value
