"""File names for somebody else's text: readable, bounded, and never the text itself."""

import re
import sys
from functools import cache
from pathlib import Path

try:  # as ``random`` does: hashlib brings OpenSSL, milliseconds and half a megabyte beside the first answer
    if sys.version_info >= (3, 12):
        from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
    else:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # an interpreter that was built without
    from hashlib import sha256

_SLUG_LENGTH = 40
_HASH_LENGTH = 16  # hex digits: 64 bits, for texts of one store
ASIDE = "~"
"""Stands before the number of a transcript that was set aside, since its id was given to another session; and before
the time (all digits) at which one was deleted softly."""
SUFFIX = ".jsonl"
PACKED_SUFFIX = ".jsonl.zst"
UNFINISHED = ".new"
"""Stands behind the name of a file that is being packed or unpacked."""


def file_name(text: str) -> str:
    """A slug and a hash: two texts that differ at all (also only in case) have different names on any file system."""
    slug = re.sub(r"[^a-z0-9]+", "-", text[:200].lower()).strip("-")[:_SLUG_LENGTH].strip("-") or "session"
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{slug}-{digest}"


def fits(text: str, name: str) -> bool:
    """Whether a file of this name (also one that was set aside) may be this text's: only names of ours can tell."""
    name = name.partition(ASIDE)[0]
    return not is_ours(name) or name == file_name(text)


def digit(name: str) -> str:
    """The last digit of a transcript's name, also of one that was set aside: a sixteenth of them have the same."""
    return name.partition(ASIDE)[0][-1:]


def packed(path: Path) -> Path:
    """Where a transcript lies once it is packed."""
    return path.with_name(path.name.removesuffix(SUFFIX) + PACKED_SUFFIX)


def plain(path: Path) -> Path:
    """Where a transcript lies that is not packed."""
    return path.with_name(path.name.removesuffix(PACKED_SUFFIX).removesuffix(SUFFIX) + SUFFIX)


def unfinished(path: Path) -> Path:
    """What a packed or unpacked form is called until it is whole."""
    return path.with_name(path.name + UNFINISHED)


def kept_as(name: str, stamp: str) -> str:
    """What a transcript is called while it is deleted softly, by the time of that."""
    return f"{name}{ASIDE}{''.join(one for one in stamp if one.isdigit())}"


def kept_name(name: str) -> str:
    """What a softly deleted transcript was called before."""
    return name.rpartition(ASIDE)[0]


def kept_at(name: str) -> str:
    """The time in the name of a softly deleted transcript, as the protocol writes times."""
    at = name.rpartition(ASIDE)[2].rjust(17, "0")
    return f"{at[:4]}-{at[4:6]}-{at[6:8]}T{at[8:10]}:{at[10:12]}:{at[12:14]}.{at[14:17]}Z"


def transcript_in(file: str) -> str | None:
    """The transcript that a file holds, whether packed or not, by the file's name. None: it is none of ours."""
    name = file.removesuffix(PACKED_SUFFIX) if file.endswith(PACKED_SUFFIX) else file.removesuffix(SUFFIX)
    return name if name != file and is_ours(name) else None


def readable(folder: str) -> str:
    """The slug of a name of ours, without its hash."""
    return folder.rsplit("-", 1)[0] if is_ours(folder) else folder


def is_ours(name: str) -> bool:
    """Whether a name has the form of those that are made here."""
    return _ours().fullmatch(name) is not None


@cache
def _ours() -> re.Pattern[str]:
    return re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{{{_HASH_LENGTH}}}({ASIDE}[0-9]+)*")


def command_name(command: list[str]) -> str:
    """What an agent is called by its command alone: no runner, no scope, no version, no path.

    ``npx -y @scope/claude-agent-acp@0.31`` is ``claude-agent-acp``; ``python -m foo.bar`` is ``foo.bar``.
    """
    words = list(command)
    name = _base(words[0]) if words else ""
    while words := _run_by(name, words):
        name = _base(words[0])
    return name[:1] + name[1:].partition("@")[0].partition("==")[0] or "agent"


_RUNNERS = frozenset(
    {"npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "bun", "node", "deno", "uvx", "uv", "pipx", "env", "nice", "nohup"}
)
_RUNNER_VERBS = frozenset({"exec", "dlx", "run", "x", "tool"})
_KINDS = frozenset({"exe", "cmd", "bat", "ps1", "py", "mjs", "cjs", "js", "sh"})


def _run_by(runner: str, words: list[str]) -> list[str]:
    """The command that a runner runs; empty where there is none."""
    if runner == "py" or (runner.startswith("python") and not runner[6:].strip("0123456789.")):
        return words[words.index("-m") + 1 :] if "-m" in words[:-1] else _operands(words[1:])
    if runner not in _RUNNERS:
        return []
    words = _operands(words[1:])
    while words and words[0] in _RUNNER_VERBS:
        words = _operands(words[1:])
    return words


def _operands(words: list[str]) -> list[str]:
    """What is left behind options and assignments."""
    at = 0
    while at < len(words) and (words[at].startswith("-") or _assigns(words[at])):
        at += 1
    return words[at:]


def _assigns(word: str) -> bool:
    """Whether it sets a variable; ``package==1.2`` does not."""
    name, equals, value = word.partition("=")
    return equals != "" and name.replace("_", "0").isalnum() and not value.startswith("=")


def _base(word: str) -> str:
    name = word.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    stem, dot, kind = name.rpartition(".")
    return stem if dot and kind.lower() in _KINDS else name
