"""Downloads an agent's program once and unpacks it into the cache.

An archive's content is foreign: nothing is written outside of its own directory, no link in it leads out, and its size
has a limit. A directory gets its name last, so it is complete, unless somebody has removed something from it.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO
from urllib.error import URLError

from acp_proxy.tools.registry import download
from acp_proxy.tools.registry.agents import Archive, RegisteredAgent, RegistryError

_LARGEST_ARCHIVE_BYTES = 2 * 1024**3  # also of what is in it
_MOST_FILES = 100_000
_TIMEOUT_SECONDS = 30.0
"""How long each wait for the server may take."""


def install(agent: RegisteredAgent, programs: Path, print_line: Callable[[str], None] = lambda text: None) -> list[str]:
    """The command of an agent, whose program is downloaded if it is not there. ``programs``: the directory for all.

    ``print_line``: called with a sentence before a download. Raises RegistryError.
    """
    if agent.archive is None:
        return list(agent.words)
    directory_name = hashlib.sha256(f"{agent.archive.url}\n{agent.archive.sha256}".encode()).hexdigest()[:16]
    directory = programs / agent.id / directory_name
    program = directory / _check_program(agent.archive.program)
    if not program.is_file():
        print_line(f"Downloading {agent.name} {agent.version} …")
        try:
            _unpack(agent.archive, directory)
        except (URLError, OSError, ValueError, EOFError, RuntimeError, tarfile.TarError, zipfile.BadZipFile) as problem:
            reason = getattr(problem, "reason", None) or getattr(problem, "strerror", None) or problem
            raise RegistryError(f"{agent.name} cannot be installed from {agent.archive.url}: {reason}.") from problem
    return [str(program), *agent.words]


def _check_program(name: str) -> Path:
    """A path that cannot lead out of its directory. Raises RegistryError."""
    path = PurePosixPath(name.replace("\\", "/"))
    if not name or path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name:
        raise RegistryError(f"the registry names a program outside of its archive: {name!r}.")
    return Path(*path.parts)


def _unpack(archive: Archive, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryFile() as file, TemporaryDirectory(dir=directory.parent, prefix=".new-") as temporary:
        download.fetch_into(archive.url, file, _LARGEST_ARCHIVE_BYTES, _TIMEOUT_SECONDS)
        if archive.sha256 is not None:
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != archive.sha256.lower():
                raise ValueError(f"its SHA-256 is {digest}, not {archive.sha256}, as the registry says")
        file.seek(0)
        content = Path(temporary, "content")
        content.mkdir()
        _extract(archive, file, content)
        program = content / _check_program(archive.program)
        if not program.is_file():
            raise ValueError(f"it does not contain {archive.program}, which the registry names")
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        stored_program = directory / _check_program(archive.program)
        with contextlib.suppress(FileNotFoundError):
            if not stored_program.is_file():
                os.rename(directory, Path(temporary, "incomplete"))
        try:
            os.rename(content, directory)
        except OSError:
            if not stored_program.is_file():  # else another process was quicker
                raise


def _extract(archive: Archive, file: IO[bytes], target: Path) -> None:
    """Unpack an archive into a directory. Raises ValueError, OSError, and the errors of tarfile and zipfile."""
    if zipfile.is_zipfile(file):
        _extract_zip(file, target)
        return
    file.seek(0)
    try:
        opened = tarfile.open(fileobj=file)  # noqa: SIM115 - closed below
    except tarfile.ReadError:
        if archive.url.lower().endswith((".tar", ".gz", ".tgz", ".bz2", ".xz", ".zip")):
            raise ValueError("it is no archive that can be read") from None
        file.seek(0)
        program = target / _check_program(archive.program)  # the program itself
        program.parent.mkdir(parents=True, exist_ok=True)
        with program.open("xb") as out:
            shutil.copyfileobj(file, out)
        return
    with opened as tar:
        size = 0
        for number, member in enumerate(tar):
            size += member.size
            if number > _MOST_FILES or size > _LARGEST_ARCHIVE_BYTES:
                raise ValueError("it has too much in it")
            if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
                continue  # a device or a pipe: no program needs one
            if hasattr(tarfile, "data_filter"):
                tar.extract(member, target, filter="data")
            else:  # Python 3.11 before 3.11.4, as in Debian 12
                _extract_member(tar, member, target)


def _extract_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write a file or make a directory. A link is refused: where it leads is not checked here."""
    path = target / _check_entry(member.name)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    source = tar.extractfile(member) if member.isfile() else None
    if source is None:
        raise ValueError(f"it has a link, {member.name!r}, which only Python 3.11.4 or newer unpacks safely")
    path.parent.mkdir(parents=True, exist_ok=True)
    with source, path.open("xb") as out:
        shutil.copyfileobj(source, out)
    if member.mode & stat.S_IXUSR:
        path.chmod(0o755)


def _extract_zip(file: IO[bytes], target: Path) -> None:
    with zipfile.ZipFile(file) as opened:
        entries = opened.infolist()
        if len(entries) > _MOST_FILES or sum(entry.file_size for entry in entries) > _LARGEST_ARCHIVE_BYTES:
            raise ValueError("it has too much in it")
        for entry in entries:
            mode = entry.external_attr >> 16
            if stat.S_ISLNK(mode):
                raise ValueError(f"it has a link: {entry.filename!r}")
            path = target / _check_entry(entry.filename)
            if entry.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(entry) as source, path.open("xb") as out:
                shutil.copyfileobj(source, out)
            if mode & stat.S_IXUSR:
                path.chmod(0o755)


def _check_entry(name: str) -> Path:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name:
        raise ValueError(f"it has a path that leads out of it: {name!r}")
    return Path(*path.parts)
