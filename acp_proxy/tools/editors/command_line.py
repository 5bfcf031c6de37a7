"""Recognise acp-proxy in a command line: where ``run`` is, and whether it is missing."""

import os
import re
import shutil
import sys
import zipfile
from itertools import pairwise, takewhile

from acp_proxy import invocation, shell_quote
from acp_proxy.config import options
from acp_proxy.errors import UsageError
from acp_proxy.tools.registry import PREFIX

_PROXY = re.compile(invocation.NAME + r"((@|==).*)?", re.IGNORECASE)
_RUNNER = re.compile(r"(uvx?|pipx|py|python[\d.]*|env|nice|nohup)(\.exe)?", re.IGNORECASE)
_RUNNER_VERBS = frozenset({"run", "tool"})
_PYTHON = r"(?:python|pypy)[\w.]*(?:\.exe)?"
_OWN_WORDS = re.compile(
    r"(?:.*[/\\])?(?:"
    rf"{invocation.NAME}|{_PYTHON}\n(?:(?:-[PI]\n)?-m\nacp_proxy|(?P<zipapp>(?:.*[/\\])?{invocation.NAME}))"
    rf"|(?:uvx(?:\.exe)?|pipx(?:\.exe)?\nrun)\n{_PROXY.pattern})\n",
    re.IGNORECASE,
)
"""The forms of ``invocation.make_settings_command``, each word with a newline after it."""
_RUN_IN_LINE = re.compile(rf"(?<![\w-]){invocation.NAME}((@|==)\S*)?[\"']?\s+run(?!\S)", re.IGNORECASE)
_PATH_IN_LINE = re.compile(
    r"""(?<!\S)(?P<quote>["']?)(?P<path>(?:[a-z]:)?[/\\][^\s"']*[/\\]"""
    rf"""{invocation.NAME})(?P=quote)\s+run(?!\S)""",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"(?:(?!-)[^=]*[/\\])?(?:ssh|mosh|docker|podman|nerdctl|kubectl|lxc|devcontainer|distrobox|toolbox|chroot|nsenter"
    r"|flatpak-spawn|wsl)(?:\.exe)?",
    re.IGNORECASE,
)
"""Programs that start another one on another machine, or in a container."""
_SAMPLE_BYTES = 4096
_OWN_AGENT = "mock-agent"
OTHER_COMMANDS = ("chain", "mcp")
"""Other commands that programs start."""

SHELL_HOME = "$HOME/"
"""What only a shell replaces by the home directory."""

MISSING_RUN = "run is missing. Write: acp-proxy run, then the agent's command"


def split_line(words: list[str]) -> list[str]:
    """The words of a complete line, if the user gave one. Raises UsageError."""
    line = words[0]
    if len(words) > 1 or len(line.split()) < 2 or os.path.lexists(line) or shutil.which(line) is not None:
        return words
    try:
        return shell_quote.split(line)
    except ValueError as problem:
        raise UsageError(
            f"this is not a valid command line ({problem}): {line}. Close each quotation mark that it opens."
        ) from problem


def find_program_of_line(word: str, path: str | None = None) -> str | None:
    """The program at the beginning of a word that is no program itself, but a line of several words.

    ``path``: as for ``shutil.which``.
    """
    first_word, *more_words = word.split() or [word]
    if not more_words or os.path.lexists(os.path.expanduser(word)) or shutil.which(word, path=path) is not None:
        return None
    is_program = shutil.which(os.path.expanduser(first_word), path=path) is not None or _is_proxy(first_word)
    return first_word if is_program else None


def explain_line(words: list[str], path: str | None) -> str | None:
    """What is wrong with an entry's command that has several words in one; None if it has not."""
    if (program := find_program_of_line(words[0], path)) is not None:
        return f"the words after {program} in its command belong into args, each on its own"
    own_count = count_own_words(words)
    if own_count is not None and "".join(words[own_count : own_count + 1]).startswith("run "):
        return 'the words of "run …" in its args belong there each on its own'
    return None


def expand_home(words: list[str]) -> list[str]:
    """A command whose program does not begin with ``~``: a shell and Zed read it as the home directory, and what
    starts a program elsewhere does not."""
    if not words or not words[0].startswith(("~/", f"~{os.sep}")):
        return words
    return [os.path.normpath(os.path.expanduser(words[0])), *words[1:]]


def find_words_after_run(words: list[str]) -> list[str] | None:
    """The words after ``run``, if this command starts an agent through acp-proxy."""
    for index, (word, next_word) in enumerate(pairwise(words)):
        if next_word == "run" and _is_proxy(word):
            return words[index + 2 :]
    return None


def find_option_after_agent(command: list[str]) -> str | None:
    """An option of ``run`` that the agent gets, because it stands after the agent. It may be the agent's, too, if it
    has one of the same name."""
    names = {f"--{name}" for name in options.OPTIONS if name != "registry"}  # npx has one, too
    words = (word.partition("=")[0] for word in takewhile(lambda word: word != "--", command[1:]))
    return next((word for word in words if word in names), None)


def mentions_proxy(words: list[str]) -> bool:
    """Whether these words start acp-proxy in any way: after other programs too, or in one line for a shell."""
    return bool(words) and (lacks_run(words) or _RUN_IN_LINE.search(" ".join(words)) is not None)


def count_own_words(words: list[str]) -> int | None:
    """How many words start acp-proxy, if they stand first and in a form that ``setup`` writes; else None.

    What has another form may do more than to start acp-proxy, and is its user's.
    """
    match = _OWN_WORDS.match("".join(f"{word}\n" for word in words))
    if match is None or any("\n" in word for word in words):
        return None
    zipapp = match["zipapp"]  # the same words may name a checkout, which Python takes too
    is_other = zipapp is not None and not zipapp.lower().endswith(".pyz") and not zipfile.is_zipfile(zipapp)
    return None if is_other else match[0].count("\n")


def starts_proxy(words: list[str]) -> bool:
    """Whether the command starts acp-proxy, with ``run`` or without, so that ``setup`` puts no other one in front."""
    return find_words_after_run(words) is not None or lacks_run(words)


def lacks_run(words: list[str]) -> bool:
    """Whether the command starts acp-proxy, directly or by a runner, with neither ``run`` nor ``mock-agent``."""
    index = _find_proxy(words)
    return index is not None and words[index + 1 : index + 2] not in (["run"], [_OWN_AGENT])


def find_own_program(words: list[str]) -> str:
    """The file that these words need to start acp-proxy: the program, or what is gone of a zipapp after it, and of an
    acp-proxy after other words, or in a line for a shell."""
    if runs_elsewhere(words):
        return words[0]
    needed = [word for word in words[1:] if word.lower().endswith(".pyz") and _is_proxy(word)]
    if (after_run := find_words_after_run(words)) is not None:
        needed.append(words[len(words) - len(after_run) - 2])
    elif (match := _PATH_IN_LINE.search(" ".join(words))) is not None:
        needed.append(match["path"])
    return next((word for word in needed if os.path.isabs(word) and not os.path.exists(word)), words[0])


def runs_elsewhere(words: list[str]) -> bool:
    """Whether acp-proxy is started on another machine, or in a container, of which nothing can be said here."""
    after_run = find_words_after_run(words)
    if after_run is not None:
        words_before = words[: len(words) - len(after_run) - 2]
    elif (match := _RUN_IN_LINE.search(line := " ".join(words))) is not None:
        words_before = line[: match.start()].split()
    else:
        return False
    return any(  # after a long option, it is a value, such as a directory
        _ELSEWHERE.fullmatch(word) is not None and not previous_word.startswith("--")
        for previous_word, word in pairwise(["", *words_before])
    )


def is_of_this_installation(program: str) -> bool:
    """Whether a program that starts acp-proxy starts this one, which has the same packages. An acp-proxy that a runner
    starts may have others."""
    path = shutil.which(os.path.expanduser(program)) or program
    if os.path.abspath(path) == os.path.abspath(sys.executable):
        return True
    beside_python = shutil.which("acp-proxy", path=os.path.dirname(sys.executable))
    own_programs = [own for own in (sys.argv[0], beside_python) if own]
    return os.path.realpath(path) in [os.path.realpath(own) for own in own_programs]


def may_exist(program: str, path: str | None) -> bool:
    """Whether ``run`` may find the program. ``path``: the editor's own PATH for it, if it sets one.

    A relative path may exist: it begins in a directory that only the editor knows, or contains the editor's variables.
    So may an id of the registry of agents, which ``run`` looks up.
    """
    if program.startswith(PREFIX):
        return True
    if program.startswith(SHELL_HOME):
        return False
    if os.path.dirname(program) and not program.startswith("~"):
        return not os.path.isabs(program) or (os.path.exists(program) and not is_not_executable(program))
    return shutil.which(program, path=path) is not None


def is_not_executable(program: str) -> bool:
    """Whether a program is there, but no system starts it for want of a permission."""
    return os.path.isfile(program) and not os.access(program, os.X_OK)


def _find_proxy(words: list[str]) -> int | None:
    """The position of acp-proxy as the program. After a runner, a path may be a directory, and a word after an option
    may be its value.
    """
    if _is_proxy(words[0]):
        return None if _is_other_program(words[0]) else 0
    if not _RUNNER.fullmatch(_read_base_name(words[0])):
        return None
    for index, word in enumerate(words[1:], 1):
        if not (word.startswith("-") or "=" in word.partition("==")[0] or word in _RUNNER_VERBS):
            is_value = words[index - 1].startswith("-") and words[index - 1] != "-m"
            return index if _PROXY.fullmatch(word) and not is_value else None
    return None


def _is_proxy(word: str) -> bool:
    return _PROXY.fullmatch(_read_base_name(word)) is not None


def _is_other_program(word: str) -> bool:
    """Whether the program is here, and has only the name of acp-proxy: neither its beginning nor its end names our
    package, as a script, a zipapp and Windows' launchers do."""
    path = word if os.path.dirname(word) else shutil.which(word)
    if path is None or not os.path.isfile(path):
        return False
    try:
        if any(os.path.exists(own) and os.path.samefile(path, own) for own in (sys.argv[0], invocation.executable)):
            return False
        with open(path, "rb") as file:
            sample = file.read(_SAMPLE_BYTES)
            file.seek(max(0, os.path.getsize(path) - _SAMPLE_BYTES))
            return b"acp_proxy" not in sample + file.read()
    except OSError:
        return True


def _read_base_name(word: str) -> str:
    return re.split(r"[/\\]", word)[-1]
