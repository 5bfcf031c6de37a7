"""A command line that may be the proxy's: where ``run`` stands in it, and whether it was forgotten."""

import os
import re
import shlex
import shutil
from itertools import pairwise

from acp_proxy.errors import UsageError

_PROXY = re.compile(r"acp[-_]proxy(\.exe|\.cmd)?((@|==).*)?", re.IGNORECASE)
_RUNNER = re.compile(r"(uvx?|pipx|py|python[\d.]*|env|nice|nohup)(\.exe)?", re.IGNORECASE)
_RUNNER_VERBS = frozenset({"run", "tool"})
_AGENT_OF_OURS = "mock-agent"

MISSING_RUN = "run is missing: the word behind acp-proxy has to be run, and then comes the agent's command"


def spelled_out(words: list[str]) -> list[str]:
    """The words of a whole line, where it was given as one. Raises UsageError."""
    line = words[0]
    if len(words) > 1 or len(line.split()) < 2 or os.path.lexists(line) or shutil.which(line) is not None:
        return words
    try:
        return shlex.split(line, posix=os.name != "nt")
    except ValueError as problem:
        raise UsageError(f"this is no command line ({problem}): {line}") from problem


def behind_run(words: list[str]) -> list[str] | None:
    """What ``run`` reads, where this starts an agent through the proxy."""
    for at, (word, next) in enumerate(pairwise(words)):
        if next == "run" and _is_proxy(word):
            return words[at + 2 :]
    return None


def lacks_run(words: list[str]) -> bool:
    """Whether it starts the proxy, also by a runner, and neither ``run`` nor the agent that plays recordings."""
    at = _proxy(words)
    return at is not None and words[at + 1 : at + 2] not in (["run"], [_AGENT_OF_OURS])


def _proxy(words: list[str]) -> int | None:
    """Where it is the program. Behind a runner, a path may be a directory, and a word behind an option its value."""
    if _is_proxy(words[0]):
        return 0
    if not _RUNNER.fullmatch(_base(words[0])):
        return None
    for at, word in enumerate(words[1:], 1):
        if not (word.startswith("-") or "=" in word.partition("==")[0] or word in _RUNNER_VERBS):
            is_value = words[at - 1].startswith("-") and words[at - 1] != "-m"
            return at if _PROXY.fullmatch(word) and not is_value else None
    return None


def _is_proxy(word: str) -> bool:
    return _PROXY.fullmatch(_base(word)) is not None


def _base(word: str) -> str:
    return re.split(r"[/\\]", word)[-1]
