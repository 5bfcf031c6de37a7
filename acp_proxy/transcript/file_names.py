"""File names for transcripts and agents' folders, made from ids and names that others choose.

A name is readable, limited in length, and safe on every file system. The original text is never used as a file name.
"""

import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from acp_proxy.protocol import proxy_ids

try:  # as the module random does: hashlib loads OpenSSL, which costs milliseconds and half a megabyte at start
    if sys.version_info >= (3, 12):
        from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
    else:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # an interpreter built without this module
    from hashlib import sha256

_SLUG_LENGTH = 40
_HASH_LENGTH = 16
"""The hex digits of a hash: 64 bits are enough within one store."""
_UID_BYTES = 16
ASIDE = "~"
"""Separates a transcript's name from what was added when its file was renamed: a small number if it was set aside
because its id was given to another session, or a time (digits only) if it was soft-deleted."""
SUFFIX = ".jsonl"
COMPRESSED_SUFFIX = ".jsonl.zst"
UNFINISHED = ".new"
"""Suffix of a file that is still being compressed or decompressed."""
FORKED_SUFFIX = SUFFIX + ".fork"
_STAMP_DIGITS = 17
COPY = "copy-"
_COPY_LENGTH = 8
"""The hex digits of a copy's short id."""


def file_name(text: str) -> str:
    """A slug and a hash: texts that differ at all, even only in case, get different names on any file system."""
    return f"{_make_slug(text) or 'session'}-{digest(text)}"


def digest(text: str) -> str:
    """The first 64 bits of the text's SHA-256, as hex digits."""
    return str(sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH])


def make_copy_id(folder: str, name: str, session_id: str) -> str | None:
    """The short id of another agent's session copied into ``folder``; None for any other. The id that a copy has is
    long, and the same in two folders."""
    return (
        COPY + digest(f"{folder}/{name}")[:_COPY_LENGTH]
        if proxy_ids.parse_other_agents_id(session_id) is not None
        else None
    )


def make_selector(folder: str, name: str, session_id: str) -> str:
    """What shows a session and selects it on a command line, deleted or not: a copy's short id, else the id, with the
    number of a transcript that was set aside. ``name``: its transcript's; of a soft-deleted one, the name before."""
    return make_copy_id(folder, name, session_id) or session_id + find_aside_suffix(name)


def make_uid() -> str:
    """A random uid for a new transcript: 128 bits, as hex digits."""
    return os.urandom(_UID_BYTES).hex()


def derive_uid(header: bytes) -> str:
    """The uid of a transcript whose header has none: made from the header's line."""
    return str(sha256(header.rstrip(b"\r\n")).hexdigest()[: 2 * _UID_BYTES])


def _make_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text[:200].lower()).strip("-")[:_SLUG_LENGTH].strip("-")


def may_belong(text: str, name: str) -> bool:
    """Whether a transcript of this name, set aside or not, can belong to the id ``text``. True for every name that
    acp-proxy did not make, because such a name says nothing about the id."""
    name = name.partition(ASIDE)[0]
    return not has_generated_form(name) or name == file_name(text)


def find_aside_suffix(name: str) -> str:
    """The part of a name from the first ``ASIDE`` on, such as ``~1``; empty if the transcript was never renamed."""
    _, mark, suffix = name.partition(ASIDE)
    return mark + suffix


def find_table_digit(name: str) -> str:
    """The last hex digit of a transcript's hash, which selects its search table. One that was set aside keeps it."""
    return name.partition(ASIDE)[0][-1:]


def compressed_path(path: Path) -> Path:
    """The path of a transcript's compressed file."""
    return path.with_name(path.name.removesuffix(SUFFIX) + COMPRESSED_SUFFIX)


def unfinished_path(path: Path) -> Path:
    """The path of a compressed or decompressed file while it is being written."""
    return path.with_name(path.name + UNFINISHED)


def fork_path(path: Path) -> Path:
    """The path of a fork's transcript until the copy of its parent's entries is complete."""
    return path.with_name(path.name.removesuffix(SUFFIX) + FORKED_SUFFIX)


def make_soft_deleted_name(name: str, stamp: str) -> str:
    """The name of a transcript that is soft-deleted at the time ``stamp``."""
    return f"{name}{ASIDE}{''.join(character for character in stamp if character.isdigit())}"


def name_before_delete(name: str) -> str:
    """The name that a soft-deleted transcript had before."""
    return name.rpartition(ASIDE)[0]


def is_soft_deleted_name(name: str) -> bool:
    """Whether this is the name of a soft-deleted transcript."""
    _, mark, number = name.rpartition(ASIDE)
    return mark != "" and len(number) >= _STAMP_DIGITS


def read_deletion_time(name: str) -> str:
    """When a transcript was soft-deleted, read from its name; in the protocol's time format."""
    digits = name.rpartition(ASIDE)[2].rjust(_STAMP_DIGITS, "0")
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}T{digits[8:10]}:{digits[10:12]}:{digits[12:14]}.{digits[14:17]}Z"


def parse_transcript_name(file: str) -> str | None:
    """The name of the transcript in a file, plain or compressed; None if acp-proxy did not name the file."""
    name = file.removesuffix(COMPRESSED_SUFFIX) if file.endswith(COMPRESSED_SUFFIX) else file.removesuffix(SUFFIX)
    return name if name != file and has_generated_form(name) else None


def strip_hash(folder: str) -> str:
    """The slug of a name, without the hash; a name that acp-proxy did not make is returned as it is."""
    return folder.rsplit("-", 1)[0] if has_generated_form(folder) else folder


@cache
def name_agent(folder: str) -> str:
    """The name that people see for an agent's folder: its slug, without the scope of a package name (``@scope/``)."""
    words = strip_hash(folder).split("-")
    for count in range(1, len(words)):  # the slug has lost the "/", but the hash tells where it stood
        if file_name(f"@{'-'.join(words[:count])}/{'-'.join(words[count:])}") == folder:
            return "-".join(words[count:])
    return strip_hash(folder)


def match_agents(folders: Iterable[str], agent_words: str) -> list[str]:
    """The folders that a user means by ``agent_words``: those with exactly this name, with or without its scope, or
    folder; else those in which a word of the name starts with it. Empty ``agent_words`` mean all."""
    all_folders = list(folders)
    return [folder for folder in all_folders if agent_words and _is_called(folder, agent_words)] or [
        folder for folder in all_folders if _has_word_start(folder, agent_words)
    ]


@cache
def _is_called(folder: str, agent_words: str) -> bool:
    lowered = agent_words.lower()
    has_name = not has_generated_form(lowered) and _make_slug(agent_words) in (strip_hash(folder), name_agent(folder))
    return has_name or folder in (lowered, file_name(agent_words))


@cache
def _has_word_start(folder: str, agent_words: str) -> bool:
    lowered, slug = agent_words.lower(), _make_slug(agent_words)
    starts_word = slug != "" and not has_generated_form(lowered) and f"-{slug}" in f"-{strip_hash(folder)}"
    return starts_word or folder.startswith(lowered)


def is_alike(reported_name: str, command: str) -> bool:
    """Whether an agent's own name equals its command's, ignoring scope, case and punctuation."""
    name = reported_name.rpartition("/")[2] if reported_name.startswith("@") else reported_name
    return _fold_letters(name) == _fold_letters(command) != ""


def _fold_letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def has_generated_form(name: str) -> bool:
    """Whether a name has the form of the names made here."""
    return _compile_pattern().fullmatch(name) is not None


@cache
def _compile_pattern() -> re.Pattern[str]:
    return re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{{{_HASH_LENGTH}}}({ASIDE}[0-9]+)*")
