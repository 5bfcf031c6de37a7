"""Why an agent ended, by the usual messages of shells, runtimes and agents. Pure."""

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from acp_proxy.relay.agent_process import NOT_EXECUTABLE, NOT_FOUND

ARGUMENTS = "Check its arguments: many agents speak the protocol only with --acp or acp."


@dataclass(frozen=True, slots=True)
class _Cause:
    """Why an agent ended. ``pattern``: what a message contains then; its group, if it has one, replaces ``{0}`` in
    ``meaning`` and ``advice``. ``beside``: what another message contains then."""

    pattern: re.Pattern[str]
    meaning: str
    advice: str
    beside: re.Pattern[str] = re.compile("")


def _make_program_cause(sign: str) -> _Cause:
    return _Cause(
        re.compile(sign),
        "the program {0} was not found",
        "Install it, or add its directory to PATH, also to your editor's PATH.",
    )


_WORDS_OF_LACK = r"\b(?:not|no|missing|invalid|expired|failed|unset|undefined|requires?d?|needs?|must|please|set)\b"
_KEY = re.compile(rf"(?i:(?=.*{_WORDS_OF_LACK})).*?\b([A-Z][A-Z0-9_]*_(?:KEY|TOKEN))\b|^KeyError: '([A-Z][A-Z0-9_]*)'")
_LOGIN = re.compile(
    rf"(?i)(?=.*{_WORDS_OF_LACK}).*\b(?:api[ _-]?keys?|credentials?|auth|authenticat\w+|log(?:ged)?[ -]?in"
    r"|sign(?:ed)?[ -]?in)\b"
    r"|\b(?:unauthorized|unauthenticated)\b"
)

_OLD_NODE = re.compile(r"^Node\.js v1?\d\.|\(internal/modules/")
"""Its version, which it writes since 17, or a place in its own code, as it called them up to 14."""

_CAUSES = (
    _make_program_cause(
        r"^(?:\S*/)?env: (?:can't execute )?['\u2018]?([^'\u2019:]+)['\u2019]?: No such file or directory"
    ),
    _make_program_cause(r"(?:^|[ :])([^\s:]+): command not found$"),
    _make_program_cause(r"(?:: (?:line )?\d+: |\bsh: )(?:exec: )?([^\s:]+): not found$"),
    _make_program_cause(r"\bcommand not found: (\S+)$"),
    _make_program_cause(r"^'([^']+)' is not recognized as an internal or external command"),
    _make_program_cause(r"\bspawn (\S+) ENOENT"),
    _Cause(
        _KEY,
        "a key is missing or not valid",
        'Set {0}: here, to try it, and for your editor in the "env" of the agent\'s entry.',
    ),
    _Cause(
        _LOGIN,
        "the agent needs a login or a key",
        "Log in with its own command, or set the variable that its documentation names.",
    ),
    _Cause(
        re.compile(r"(?:Cannot find (?:module|package)|No module named) '([^']+)'"),
        "{0} is missing",
        "Correct its path, or install the agent again.",
    ),
    _Cause(
        re.compile(r"(?i)\brequires? (?:at least )?(?:a )?(node|python|bun|deno)(?:\.?js)?\b[^.]*\d"),
        "it needs another version of {0}",
        "Install that version.",
    ),
    _Cause(
        re.compile(r"^npm (?:error|ERR!) 404 +Not Found\b"),
        "npm does not find the package",
        "Correct its name or its version.",
    ),
    _Cause(
        re.compile(r"^npm (?:error|ERR!) notarget No matching version found for (\S+?)@[^@\s]*$"),
        "npm does not find this version of {0}",
        "Correct its version, or take the newest, also in place of an id: npx -y {0}.",
    ),
    _Cause(
        re.compile(r"^npm (?:error|ERR!) (?:notarget No matching version\b|code ETARGET\b)"),
        "npm does not find this version of the package",
        "Correct its version.",
    ),
    _Cause(
        re.compile(r"^SyntaxError: "),
        "Node.js is probably too old for it",
        "Install a newer Node.js.",
        beside=_OLD_NODE,
    ),
    _Cause(
        re.compile(r"\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH)\b"),
        "it cannot reach a server",
        "Check the network and its proxy settings.",
    ),
    _Cause(re.compile(r"(?i)\b(?:permission denied|EACCES)\b"), "it may not use a file", "Check the file's rights."),
    _Cause(
        re.compile(
            r"(?i)\b(?:unknown|unrecognized|unexpected|invalid|no such) (?:option|argument|flag|(?:sub)?command)s?\b"
            r"|^usage:"
        ),
        "it does not understand its arguments",
        ARGUMENTS,
    ),
    _Cause(
        re.compile(r"(?i)\bnot a (?:terminal|tty)\b|\braw mode is not supported\b"),
        "it wants a terminal, and so does not speak the protocol",
        ARGUMENTS,
    ),
)

_SHELL_SIGNAL = 128
"""A shell exits with this and the number of the signal that ended its program."""

_MEANING_BY_STATUS = {
    NOT_FOUND: ("a program that it needs was not found", "Install it, or add its directory to PATH."),
    NOT_EXECUTABLE: ("a program that it needs cannot be executed", "Check that program's rights, or install it again."),
    -signal.SIGSEGV: ("it crashed", "Update it, or install it again."),
    -signal.SIGILL: ("it crashed; it may be made for another processor", "Install the version for this machine."),
    -signal.SIGABRT: ("it crashed", "Update it, or install it again."),
}
if hasattr(signal, "SIGKILL"):
    _MEANING_BY_STATUS[-signal.SIGKILL] = (
        "another program or the system ended it",
        "Check whether memory has run out.",
    )


def explain_exit(status: int | None, messages: Iterable[str]) -> str | None:
    """The cause and what to do, as sentences; None if nothing is known. ``status``: as in subprocess, None if the agent
    has not ended. ``messages``: its last lines, the latest last.
    """
    lines = [line.strip() for line in messages][::-1]
    for cause in _CAUSES:
        if not any(map(cause.beside.search, lines)):
            continue
        for line in lines:
            if match := cause.pattern.search(line):
                name = match[match.lastindex or 0]
                return f'The message "{line}" means: {cause.meaning.format(name)}. {cause.advice.format(name)}'
    if status is not None and status > _SHELL_SIGNAL:
        status = _SHELL_SIGNAL - status
    if status in _MEANING_BY_STATUS:
        meaning, advice = _MEANING_BY_STATUS[status]
        return f"This means: {meaning}. {advice}"
    return None
