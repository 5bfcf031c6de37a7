"""What setup did on this machine: ``setup.json`` beside acp-proxy's configuration file, and a copy beside each file.

A copy has its name only when it is complete. It and its part of the record go only after undo has put back, or taken
out, what they are about.
"""

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import msgspec

from acp_proxy.config import config_file, options
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.tools.editors.config_dirs import find_machine
from acp_proxy.tools.editors.entries import Kind, read_entry
from acp_proxy.tools.editors.known_editors import EDITORS, SettingsFiles
from acp_proxy.tools.editors.own_files import (
    NotOurs,
    find_temporary,
    follow_link,
    make_move,
    make_removal,
    replace_file,
)
from acp_proxy.transcript import file_access

COPY_SUFFIX = ".before-acp-proxy"
"""The end of the name of a copy."""
PUT_IN_FRONT, NAMED, ADDED, REPLACED = "put in front", "named", "added", "replaced"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class EntryChange:
    """What was done to the entry of one agent: acp-proxy was put in front, an entry of the editor's own registry was
    given a command, the entry was added, or acp-proxy's own words were replaced because they do not start it.

    ``had_args``: whether the entry had arguments before. ``new_words``: what starts acp-proxy there now, up to ``run``.
    ``old_words``: what started it before. The agent's command is not kept, since it may have secrets. ``added``: the
    digest of an entry that was added; empty if the user has changed it since, or an early record does not say.
    """

    name: str
    how: str
    had_args: bool = True
    old_words: Sequence[str] = ()
    new_words: Sequence[str] = ()
    added: str = ""


@dataclass(slots=True)
class FileRecord:
    """What setup did to one file. ``copy``: the name of the copy beside it, or its path; None: there was no file.
    ``written``: the digest of what was written last; empty if the user had edited the file between two writes, so that
    the copy is not what it was before. ``entries``: the changes that were made. ``copied``: the digest of the copy.
    ``made_directories``: how many of the directories above the file setup has made.
    """

    copy: str | None
    written: str
    entries: list[EntryChange] = field(default_factory=list)
    copied: str = ""
    made_directories: int = 0

    def is_right_copy(self, data: bytes) -> bool:
        """Whether the copy is as setup wrote it. An early record does not say."""
        return self.copied in ("", digest(data))


class RecordStays(Exception):
    """Undo has done its work on a file, and could not note it: the record stays, and the copy. The text says why."""


class Record:
    """The record of one user, in memory and on the disk. A file below the home directory is found after this moves."""

    def __init__(self, path: Path) -> None:
        """Raises AcpProxyError if the file is there and cannot be read."""
        self.path = path
        self.files: dict[str, FileRecord] = {}
        self._read()

    def _read(self) -> None:
        self.files = {}
        named = f"{self.path}, in which setup notes what it changed"
        try:
            content = json.loads(self.path.read_bytes())
            version = content["version"]
            if isinstance(version, int) and version > _VERSION:
                raise AcpProxyError(f"{named}, was made by a newer acp-proxy. Upgrade acp-proxy.")
            files = msgspec.convert(content["files"], dict[str, FileRecord])
            self.files = dict(_follow(Path(name).expanduser(), file_record) for name, file_record in files.items())
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise AcpProxyError(f"{named}, cannot be read: {problem.strerror}. Check its permissions.") from problem
        except (ValueError, KeyError, TypeError, msgspec.ValidationError) as problem:
            raise AcpProxyError(
                f"{named}, is damaged. What to do:",
                f"  1. Where you want the settings as they were, bring back the copy, which ends with {COPY_SUFFIX}:",
                *(f"     {make_move(copy_path, path)}" for path, copy_path in _list_all_copies()),
                f"  2. Remove the record: {make_removal(self.path)}",
            ) from problem

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other setups from checking, writing and recording at the same time, and read what they have recorded.

        Raises OSError, AcpProxyError.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file_to_lock = self.path.with_name("setup.lock")
        if os.name == "posix":  # a directory can be locked, so that no other file is needed
            fd = os.open(self.path.parent, os.O_RDONLY)
        else:
            fd = os.open(file_to_lock, os.O_RDWR | os.O_CREAT)
        try:
            file_access.lock(fd, wait=True)
            self._read()
            yield
        finally:
            os.close(fd)
            with contextlib.suppress(OSError):  # Windows removes no file that another setup has open
                file_to_lock.unlink(missing_ok=True)

    def save(self) -> None:
        """Write it, or remove it if it has nothing. Raises OSError."""
        if not self.files:
            self.path.unlink(missing_ok=True)
            return
        home = os.path.join(Path.home(), "")
        files = {
            f"~/{name.removeprefix(home)}" if name.startswith(home) else name: asdict(file)
            for name, file in self.files.items()
        }
        content = {"version": _VERSION, "files": files}
        replace_file(self.path, json.dumps(content, indent=2).encode() + b"\n")

    def find_copy(self, path: Path) -> Path | None:
        """Where the copy of a file is. None: there is none."""
        file_record = self.files.get(str(path))
        copy = file_record.copy if file_record is not None else None
        return path.parent / copy if copy is not None and (path.parent / copy).exists() else None

    def forget(self, path: Path) -> None:
        """Remove the copy of a file that has nothing of setup any more, and its part of the record. Raises OSError."""
        if (file_record := self.files.pop(str(path), None)) is None:
            return
        copy_content = read_copy(path, file_record)
        self.save()
        if file_record.copy is not None and copy_content is not None and file_record.is_right_copy(copy_content):
            (path.parent / file_record.copy).unlink(missing_ok=True)
        for written_path in (path, path.with_name(path.name + COPY_SUFFIX)):  # what a setup that was killed has left
            find_temporary(written_path).unlink(missing_ok=True)


def _follow(path: Path, file_record: FileRecord) -> tuple[str, FileRecord]:
    """A file's path and its part of the record; where the user has moved the file since, and left a link in its place,
    those of the file to which this leads. The copy may have moved with it."""
    if (target := follow_link(path)) != path:
        copy = file_record.copy
        if copy is not None and (path.parent / copy).exists():
            copy = str(path.parent / copy)
        file_record = replace(file_record, copy=copy, made_directories=0)
    return str(target), file_record


def open_record(environment: Mapping[str, str]) -> Record:
    """The record of this user. Raises AcpProxyError."""
    environment_without_config = {name: value for name, value in environment.items() if name != config_file.VARIABLE}
    return Record(Path(config_file.find_path(environment_without_config)).with_name("setup.json"))


def read_copy(path: Path, file_record: FileRecord) -> bytes | None:
    """The copy of a file as it is now. None: there is none. Raises OSError."""
    if file_record.copy is None:
        return None
    try:
        return (path.parent / file_record.copy).read_bytes()
    except (FileNotFoundError, NotADirectoryError):  # the user has removed it
        return None


def write_copy(path: Path, data: bytes) -> Path:
    """A copy beside the file, with its permissions, under a name that is free, or that has this very copy: a setup that
    was killed may have left it. Raises OSError, NotOurs."""
    for number in range(1, 1000):
        copy_path = path.with_name(path.name + COPY_SUFFIX + ("" if number == 1 else f"-{number}"))
        if os.path.lexists(copy_path):
            if copy_path.is_file() and not copy_path.is_symlink() and copy_path.read_bytes() == data:
                return copy_path
            continue
        replace_file(copy_path, data, stat.S_IMODE(path.stat().st_mode))
        return copy_path
    raise NotOurs(f"there are too many copies beside it: {path}{COPY_SUFFIX}-*. Remove those that you do not need")


def list_copies(path: Path) -> list[Path]:
    """The copies beside a file, of any setup."""
    try:
        return sorted(copy for copy in path.parent.iterdir() if copy.name.startswith(path.name + COPY_SUFFIX))
    except OSError:
        return []


def _list_all_copies() -> list[tuple[Path, Path]]:
    """The settings files of all editors here that have a copy beside them, each with the copy."""
    machine, kinds = find_machine(), [editor.configured for editor in EDITORS.values()]
    paths = [path for kind in kinds if isinstance(kind, SettingsFiles) for path in kind.find_files(machine)]
    return [(path, copy_path) for path in paths for copy_path in list_copies(path)]


def explain_copy(path: Path, copy_path: Path) -> str:
    """How to bring a copy back."""
    return f"To bring back what it was before setup: {make_move(copy_path, path)}"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_entry(value: object) -> str:
    """The digest of an entry, however it is laid out, and whatever options of ``run`` it has: users add some."""
    return digest(json.dumps(_drop_options(value), sort_keys=True).encode())


def _drop_options(value: object) -> object:
    """An entry without options of ``run``; as it is if these cannot be told."""
    entry = read_entry("", value)
    if not isinstance(value, dict) or entry.kind is not Kind.PROXIED or entry.words_after_run is None:
        return value
    try:
        _, agent = options.parse([*entry.words_after_run], {})
    except UsageError:
        return value
    words = [*entry.words[: len(entry.words) - len(entry.words_after_run)], *agent]
    return {**value, "command": words} if isinstance(value["command"], list) else {**value, "args": words[1:]}


def remove_directories(path: Path, count: int) -> None:
    """Remove so many directories above a file, as far as they are empty."""
    with contextlib.suppress(OSError):
        for directory in list(path.parents)[:count]:
            directory.rmdir()
