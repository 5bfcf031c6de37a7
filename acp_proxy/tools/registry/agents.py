"""Finds an agent by its id in the registry of the Agent Client Protocol, and the command that starts it here.

The format: FORMAT.md, registry.schema.json and agent.schema.json of github agentclientprotocol/registry. The registry
is read into the cache at most once a day; ``run`` reads only the cache if that has one. Its content is foreign: an id,
a package or a path that it names never leaves its place (``install``), and nothing is passed to a shell.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import platformdirs

from acp_proxy.errors import AcpProxyError
from acp_proxy.protocol import acp
from acp_proxy.tools.registry import PREFIX, download

URL = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json"
VARIABLE = "ACP_PROXY_REGISTRY"
"""An environment variable with another URL or file."""
_SHORTEST_PART = 3
"""The fewest letters of an id that say which one is meant."""
_ID = re.compile(r"[a-z][a-z0-9-]{0,99}", re.ASCII)
_DAY_SECONDS = 24 * 60 * 60.0
_LARGEST_REGISTRY_BYTES = 16 * 1024 * 1024
_TIMEOUT_SECONDS = 10.0
"""How long a registry's server may take to answer."""
_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows"}


class RegistryError(AcpProxyError):
    """The registry cannot be read, or has no such agent for this machine."""


class NotAsked(RegistryError):
    """The registry was not downloaded. ``short_reason``: why, for a word that may be no id at all; empty: nobody has
    tried."""

    def __init__(self, text: str, short_reason: str) -> None:
        super().__init__(text)
        self.short_reason = short_reason


class NotInRegistry(RegistryError):
    """The registry was read, and has no such agent for this machine. ``short_reason``: for a word that may be no id."""

    def __init__(self, text: str, known_ids: Sequence[str] = ()) -> None:
        super().__init__(f"{text} It has: {', '.join(known_ids)}" if known_ids else text)
        self.short_reason = text


@dataclass(frozen=True, slots=True)
class Archive:
    """A program to download. ``program``: its path in the archive. ``sha256``: of the archive, or None."""

    url: str
    program: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class RegisteredAgent:
    """How an agent is started. ``words``: the command; with ``archive``, only what follows the program."""

    id: str
    name: str
    version: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    archive: Archive | None = None


def is_id(word: str) -> bool:
    """Whether a word can be an id of the registry, with or without ``PREFIX``."""
    return _ID.fullmatch(word.removeprefix(PREFIX)) is not None


def explain_missing(word: str, problem: RegistryError) -> str:
    """Why a word is neither a program here nor an id of the registry. ``problem``: what the registry says."""
    reason = str(problem)
    if isinstance(problem, NotAsked | NotInRegistry):
        reason = problem.short_reason or f"If you mean an id of the registry of agents: {PREFIX}{word}"
    return f"{word} is not in PATH. {reason[:1].upper()}{reason[1:]}"


def find_similar(word: str, names: Iterable[str]) -> list[str]:
    """The names that a word may mean, whatever its case: those that contain it, else those that are most like it."""
    from difflib import get_close_matches  # imported late: only an unknown name needs it

    folded = word.casefold()
    if len(folded) >= _SHORTEST_PART and (containing := sorted(name for name in names if folded in name.casefold())):
        return containing
    names_by_casefold = {name.casefold(): name for name in names}
    return [names_by_casefold[match] for match in get_close_matches(folded, names_by_casefold)]


def find_platform() -> str:
    """This machine, as the registry names it: ``linux-x86_64``."""
    machine = platform.machine().lower()
    return f"{_SYSTEMS.get(sys.platform, sys.platform)}-{_MACHINES.get(machine, machine)}"


class Registry:
    """The registry, from a URL or a file."""

    def __init__(
        self, source: str = "", cache: Path | None = None, print_line: Callable[[str], None] = lambda text: None
    ) -> None:
        """``source``: a URL or a file; empty: the one of the environment, else the protocol's own. ``print_line``:
        called with a sentence if what is used is older than it should be."""
        self._source = source or os.environ.get(VARIABLE, "") or URL
        self._cache = cache or Path(platformdirs.user_cache_dir("acp-proxy", appauthor=False))
        self._print_line = print_line
        self._agents: Mapping[str, object] | None = None

    @property
    def programs(self) -> Path:
        """The directory of the programs that were downloaded."""
        return self._cache / "agents"

    def find(self, id: str, *, machine: str = "", may_wait: bool = True, may_download: bool = True) -> RegisteredAgent:
        """The agent with this id. ``machine``: as ``find_platform``. ``may_wait``: an old cache is read anew first.
        ``may_download``: else only what is here is read.

        Raises NotInRegistry, or another RegistryError.
        """
        agents = self._load(may_wait=may_wait, may_download=may_download)
        if id not in agents and not may_wait and may_download:  # it may be new
            agents = self._load(may_wait=True)
        if id not in agents:
            similar = find_similar(id, agents)
            text = f"the registry has no agent {id!r}."
            if similar:
                raise NotInRegistry(f"{text} Did you mean {' or '.join(similar)}?")
            raise NotInRegistry(text, sorted(agents))
        return read_agent(id, agents[id], machine or find_platform())

    def list_ids(self) -> list[str]:
        """The ids of all agents. Raises RegistryError."""
        return sorted(self._load(may_wait=True))

    def _load(self, *, may_wait: bool, may_download: bool = True) -> Mapping[str, object]:
        if self._agents is not None and not may_wait:
            return self._agents
        if "://" not in self._source:
            self._agents = _parse(_read_file(Path(self._source)), self._source)
            return self._agents
        name = (
            "registry.json"
            if self._source == URL
            else f"registry-{hashlib.sha256(self._source.encode()).hexdigest()[:16]}.json"
        )
        cache_path = self._cache / name
        cached: Mapping[str, object] | None = None
        age = 0.0
        with contextlib.suppress(OSError, RegistryError):  # absent or damaged: it is read anew
            age = time.time() - cache_path.stat().st_mtime
            cached = _parse(_read_file(cache_path), str(cache_path))
        if cached is None and not may_download:
            raise NotAsked("the registry of agents is not here.", "")
        if cached is not None and (not may_wait or not may_download or 0 <= age < _DAY_SECONDS):
            self._agents = cached
            return cached
        try:
            data = download.fetch(self._source, _LARGEST_REGISTRY_BYTES, _TIMEOUT_SECONDS)
            agents = _parse(data, self._source)
        except (URLError, OSError, ValueError, RegistryError) as problem:
            if cached is None:
                reason = getattr(problem, "reason", None) or problem
                reason = (reason.strerror or reason) if isinstance(reason, OSError) else reason
                advice = "Check the network, or give the agent's own command."
                raise NotAsked(
                    f"the registry of agents cannot be read ({self._source}: {reason}). {advice}",
                    f"The registry of agents could not be asked for this id ({reason}). {advice}",
                ) from problem
            self._print_line(
                f"The registry of agents cannot be read now; this uses what was read {_format_days(age)} ago."
            )
            agents = cached
        else:
            download.write_atomically(cache_path, data)
        self._agents = agents
        return agents


def read_agent(id: str, entry: object, machine: str) -> RegisteredAgent:
    """How an agent is started on this machine: a package, else a binary. Raises NotInRegistry."""
    name, version = acp.text(entry, "name") or id, acp.text(entry, "version") or ""
    distributions = acp.member(entry, "distribution")
    for runner, runner_words in (("npx", ("npx", "-y")), ("uvx", ("uvx",))):
        package = acp.text(acp.member(distributions, runner), "package")
        if package and not package.startswith("-"):
            package_value = acp.member(distributions, runner)
            return RegisteredAgent(
                id,
                name,
                version,
                (*runner_words, package, *_read_arguments(package_value)),
                _read_variables(package_value),
            )
    target = acp.member(acp.member(distributions, "binary"), machine)
    url, program = acp.text(target, "archive"), acp.text(target, "cmd")
    if url and program:
        archive = Archive(url, program, acp.text(target, "sha256"))
        return RegisteredAgent(id, name, version, _read_arguments(target), _read_variables(target), archive)
    raise NotInRegistry(f"the registry has no {name} for this machine ({machine}).")


def _read_arguments(value: object) -> tuple[str, ...]:
    return tuple(argument for argument in acp.strings(value, "args") if "\0" not in argument)


def _read_variables(value: object) -> tuple[tuple[str, str], ...]:
    environment = acp.member(value, "env")
    pairs = environment.items() if isinstance(environment, dict) else ()
    return tuple(
        (key, text)
        for key, text in pairs
        if isinstance(text, str) and key and not {"=", "\0"} & {*key} and "\0" not in text
    )


def _parse(data: bytes, source: str) -> Mapping[str, object]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise RegistryError(f"the registry of agents is damaged: {source} is not JSON.") from problem
    agents = acp.member(content, "agents")
    if not isinstance(agents, list):
        raise RegistryError(f"the registry of agents is damaged: {source} has no list of agents.")
    ids = ((acp.text(entry, "id"), entry) for entry in agents)
    return {id: entry for id, entry in ids if id is not None and _ID.fullmatch(id)}


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_REGISTRY_BYTES + 1)
    except OSError as problem:
        raise RegistryError(
            f"the registry of agents cannot be read: {path}: {problem.strerror}. Correct the path, or give the agent's "
            "own command."
        ) from problem
    if len(data) > _LARGEST_REGISTRY_BYTES:
        raise RegistryError(f"the registry of agents is too large: {path} has more than 16 MiB.")
    return data


def _format_days(seconds: float) -> str:
    days = int(seconds // _DAY_SECONDS)
    return f"{days} day{'s' if days != 1 else ''}"
