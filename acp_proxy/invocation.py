"""The command lines that start acp-proxy: its own processes, and what editors get in their settings.

acp-proxy may be installed, run from a runner's cache, or be one file: a zipapp, which Python's ``-m`` does not find, or
an executable, whose Python lies in a cache. What starts a file of these two (``packaging/``) fills in ``zipapp`` or
``executable``. Imports almost nothing, because that happens before the agent starts.
"""

import os
import sys

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

zipapp = ""
"""The absolute path of the zipapp from which this process runs, or empty."""
executable = ""
"""The absolute path of the single executable from which this process runs, or empty."""
commands: "Collection[str]" = ()
"""The names of our commands. The command line fills them in."""
words: "Sequence[str]" = ()
"""What the user wrote after ``acp-proxy``, aliases written out. The command line fills it in."""

NAME = r"acp[-_]proxy(-(linux|macos|windows)-\w+)?( ?\(\d+\))?(\.exe|\.cmd|\.pyz)?"
"""A pattern for the file names by which acp-proxy is known in a command line, in any case: a release's files carry
their platform, and a browser numbers what it downloads twice."""

_INSTALL_ADVICE = "uv tool install acp-proxy, or pipx install acp-proxy."
_COMMANDS = frozenset({"acp-proxy", "acp-proxy.exe"})
_TEMPORARY_DIRECTORIES = frozenset({"archive-v0", ".cache", "_npx", "tmp"})
"""Temporary directories, into which ``uvx`` and ``pipx run`` install."""
_RUNNERS = {"archive-v0": ("uvx", "acp-proxy"), "pipx": ("pipx", "run", "acp-proxy")}
"""What starts acp-proxy without installing it: by a part of the path, its own words."""


def make_child_command(module: str, *arguments: str) -> list[str]:
    """The words that start a module of ours, such as ``acp_proxy``, in a process of its own, with this Python."""
    if zipapp:  # it takes -m as Python does: the environment, which agents inherit, stays as the user has it
        return [sys.executable, zipapp, "-m", module, *arguments]
    # Both import nothing from the project in which the process may be started. -I also ignores the user's PYTHONHOME
    # and PYTHONPATH, which are not for the executable's Python.
    return [sys.executable, "-I" if executable else "-P", "-m", module, *arguments]


def make_settings_command() -> tuple[list[str], str | None]:
    """The words for an editor's settings, and advice about them. Their program is an absolute path, because editors
    that are started from a menu have a short PATH, and a link stays one: its target moves with every upgrade."""
    from pathlib import Path
    from shutil import which

    if zipapp:  # its first line may find another Python, or none, in the editor's PATH
        # It needs nothing of a virtual environment, which may be removed sooner than the Python that it was made from.
        return [getattr(sys, "_base_executable", "") or sys.executable, zipapp], _advise_on_name(zipapp)
    if executable:
        return [executable], _advise_on_name(executable)
    invoked = sys.argv[0]
    if Path(invoked).name.lower() not in _COMMANDS:
        advice = f"this starts acp-proxy as a Python module. To get a command: {_INSTALL_ADVICE}"
        return make_child_command("acp_proxy"), advice
    path = os.path.abspath(invoked if os.path.dirname(invoked) else which(invoked) or invoked)
    parts = set(Path(path).parts)
    if not _is_temporary(path):
        return [path], None
    for part, (runner, *runner_arguments) in _RUNNERS.items():
        if part in parts and (runner_path := which(runner)):
            return [runner_path, *runner_arguments], None  # it keeps what it has downloaded
    return [path], f"this path is in a temporary directory. To install it: {_INSTALL_ADVICE}"


def make_typed_command() -> list[str]:
    """The words with which a user starts this acp-proxy in a shell."""
    from shutil import which

    on_path = which("acp-proxy")
    if on_path is not None and not _is_temporary(on_path):
        return ["acp-proxy"]
    words, _ = make_settings_command()
    name = os.path.basename(words[0])
    if os.name == "nt":  # whose users leave it out
        name = name[:-4] if name.lower().endswith(".exe") else name
    return [name if which(name) == words[0] else words[0], *words[1:]]


def find_runner() -> str:
    """``uvx`` or ``pipx run``, if it started this process from a cache, so that nothing is installed; else empty."""
    parts = sys.argv[0].replace("\\", "/").split("/")
    if not _is_temporary(sys.argv[0]):
        return ""
    return next((" ".join(words[:-1]) for part, words in _RUNNERS.items() if part in parts), "")


def write_as_typed(text: str) -> str:
    """A text for people with our commands as this user types them: ``uvx acp-proxy list`` if nothing is installed."""
    if not find_runner() or "acp-proxy" not in text or (typed_words := " ".join(make_typed_command())) == "acp-proxy":
        return text
    import re

    # The text may be written so already, also with --from, and be wrapped.
    runner_words = r"\s+".join(map(re.escape, typed_words.split()[:-1]))
    source = r"""--from\s+(?:'[^']*'|"[^"]*"|\S+)\s+"""
    pattern = rf"({runner_words}\s+(?:{source})?)?(?<![\w./@-])acp-proxy(?=\s+(?:{'|'.join(commands)})\b)"
    return re.sub(pattern, lambda match: match[0] if match[1] else typed_words, text)


def _is_temporary(path: str) -> bool:
    """Whether the path is in a temporary directory. A home directory in one lasts as long as its user's settings."""
    home = os.path.join(os.path.expanduser("~"), "")
    return not _TEMPORARY_DIRECTORIES.isdisjoint(path.removeprefix(home).replace("\\", "/").split("/"))


def _advise_on_name(path: str) -> str | None:
    import re

    if re.fullmatch(NAME, os.path.basename(path), re.IGNORECASE):
        return None
    return "doctor and setup know acp-proxy in an editor's settings by its name. Rename the file to acp-proxy."
