"""File names for somebody else's text: readable, bounded, and never the text itself."""

import re
import sys
from collections.abc import Iterable
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
FORKED_SUFFIX = SUFFIX + ".fork"


def file_name(text: str) -> str:
    """A slug and a hash: two texts that differ at all (also only in case) have different names on any file system."""
    return f"{_slug(text) or 'session'}-{digest(text)}"


def digest(text: str) -> str:
    """64 bits of it, as hex digits."""
    return str(sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH])


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text[:200].lower()).strip("-")[:_SLUG_LENGTH].strip("-")


def fits(text: str, name: str) -> bool:
    """Whether a file of this name (also one that was set aside) may be this text's: only names of ours can tell."""
    name = name.partition(ASIDE)[0]
    return not is_ours(name) or name == file_name(text)


def aside(name: str) -> str:
    """What stands behind the hash of a transcript that was set aside, or deleted softly: ``~1``."""
    _, mark, behind = name.partition(ASIDE)
    return mark + behind


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


def forked(path: Path) -> Path:
    """Where a fork's transcript lies until it begins with all of its parent's."""
    return path.with_name(path.name.removesuffix(SUFFIX) + FORKED_SUFFIX)


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


@cache
def called(folder: str) -> str:
    """What an agent's folder is called for people: the slug without the scope that the agent's name begins with."""
    words = readable(folder).split("-")
    for at in range(1, len(words)):  # the hash tells where the scope ends, of names in the form that packages have
        if file_name(f"@{'-'.join(words[:at])}/{'-'.join(words[at:])}") == folder:
            return "-".join(words[at:])
    return readable(folder)


def meant(folders: Iterable[str], agent: str) -> list[str]:
    """Those of these agents that a person means who says this: by the whole name, with or without its scope, or the
    folder's; if that is nobody's, by how any word of it begins. Everybody is meant by nothing."""
    known = list(folders)
    return [folder for folder in known if agent and _is_called(folder, agent)] or [
        folder for folder in known if _begins(folder, agent)
    ]


@cache
def _is_called(folder: str, agent: str) -> bool:
    said = agent.lower()
    is_so = not is_ours(said) and _slug(agent) in (readable(folder), called(folder))
    return is_so or folder in (said, file_name(agent))


@cache
def _begins(folder: str, agent: str) -> bool:
    said, slug = agent.lower(), _slug(agent)
    begins = slug != "" and not is_ours(said) and f"-{slug}" in f"-{readable(folder)}"
    return begins or folder.startswith(said)


def is_alike(told: str, command: str) -> bool:
    """Whether an agent calls itself as its command is called, but for a scope, case and punctuation."""
    name = told.rpartition("/")[2] if told.startswith("@") else told
    return _letters(name) == _letters(command) != ""


def _letters(text: str) -> str:
    return "".join(one for one in text.casefold() if one.isalnum())


def is_ours(name: str) -> bool:
    """Whether a name has the form of those that are made here."""
    return _ours().fullmatch(name) is not None


@cache
def _ours() -> re.Pattern[str]:
    return re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{{{_HASH_LENGTH}}}({ASIDE}[0-9]+)*")
