"""The agents in the editors' configurations on this machine, and which of them go through acp-proxy.

Of a configuration it keeps only the agents' names, an agent's program if that is missing and, for an entry that starts
acp-proxy, the program and the options of ``run``: the rest may contain secrets. It never raises: a file that
cannot be read gets a ``problem``.
"""

import enum
import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from acp_proxy.config import config_file, options
from acp_proxy.errors import UsageError
from acp_proxy.protocol import acp
from acp_proxy.tools.editors import command_line, jsonc
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.entries import Entry, Kind, read_entry
from acp_proxy.tools.editors.known_editors import (
    EDITORS,
    Editor,
    SettingsFiles,
    Sources,
    TypedByUser,
)
from acp_proxy.tools.editors.own_files import NotOurs, find_hindrance, follow_link, is_there

_MOST_FILES = 2000
"""How many files of an editor are looked at: nobody writes more by hand."""
_LARGEST_FILE_BYTES = 16 * 1024 * 1024
_PLUGIN_DIRECTORIES = frozenset(
    {"elpa", "straight", "eln-cache", "elpaca", "node_modules", "undo", "sessions", "snippets"}
)
"""Directories of plugins that other people wrote."""

_PROXY_IN_TEXT = re.compile(r"acp[-_]proxy")


class Way(enum.Enum):
    """How an editor starts an agent."""

    NOT = "by itself, since the entry has no command"
    UNKNOWN = "in a way that cannot be read"
    PROXIED = "through acp-proxy"
    ELSEWHERE = "through acp-proxy on another machine or in a container, which was not checked"
    REFUSED = "by acp-proxy, with arguments that it refuses"
    DIRECT = "directly"
    REGISTRY = "from the editor's registry; to record it: acp-proxy setup"


@dataclass(frozen=True, slots=True)
class ConfiguredAgent:
    """``program``: the program, if it is acp-proxy. ``problem``: why acp-proxy refuses the entry. ``store``: its value
    of --store. ``missing_program``: the agent's program, if it does not exist. ``is_mended_by_setup``: whether
    ``setup`` repairs the entry. ``fault``: what is wrong with it, whatever it starts. ``looks_up_sessions``: whether it
    starts this installation's acp-proxy with --recall. ``option_after_agent``: one of ``run``, which the agent gets.
    """

    name: str
    way: Way
    program: str | None = None
    problem: str | None = None
    store: str | None = None
    is_recorded: bool = True
    missing_program: str | None = None
    is_mended_by_setup: bool = False
    fault: str | None = None
    looks_up_sessions: bool = False
    option_after_agent: str | None = None

    def is_kept_elsewhere(self, root: Path) -> bool:
        """Whether its sessions go to another store than the one at ``root``."""
        return self.store is not None and os.path.abspath(os.path.expanduser(self.store)) != os.path.abspath(root)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A file, and its agents. ``mentions_proxy``: whether a program without named agents mentions acp-proxy.
    ``problem``: why the file cannot be read.
    """

    editor: Editor
    path: Path
    agents: tuple[ConfiguredAgent, ...] = ()
    mentions_proxy: bool | None = None
    problem: str | None = None

    def find_hindrance(self) -> NotOurs | None:
        """Why ``setup`` leaves these settings to the user, though it can read them; None if it does not."""
        try:
            return find_hindrance(follow_link(self.path)) if isinstance(self.editor.configured, SettingsFiles) else None
        except OSError:
            return None

    @property
    def is_proxied(self) -> bool:
        """Whether anything in the file starts acp-proxy."""
        return bool(self.mentions_proxy) or any(agent.program is not None for agent in self.agents)


def find_configurations(machine: Machine) -> list[Configuration]:
    """The configuration of every editor found here."""
    return [configuration for editor in EDITORS.values() for configuration in _find_configurations_of(editor, machine)]


def find_file(editor: Editor, machine: Machine) -> tuple[Path | None, bool]:
    """The file for an agent's entry (one with agents, else the usual one; None: the user gives the command to the
    editor itself), and whether it exists."""
    paths = [configuration.path for configuration in _find_configurations_of(editor, machine)]
    kind = editor.configured
    if isinstance(kind, TypedByUser):
        return None, False
    usual = kind.find_files(machine) if isinstance(kind, SettingsFiles) else kind.find_places(machine)
    existing = [*paths, *(path for path in usual if os.path.isfile(path))]
    return (existing[0], True) if existing else (usual[0], False)


def _find_configurations_of(editor: Editor, machine: Machine) -> Iterator[Configuration]:
    kind = editor.configured
    if isinstance(kind, SettingsFiles):
        for path in kind.find_files(machine):
            if is_there(path):
                yield _read_settings(editor, kind, path)
        return
    if isinstance(kind, TypedByUser):  # it keeps the command where we do not look
        return
    for path in _list_sources(kind, machine):
        text = read_text(path)
        if (
            isinstance(text, str)
            and (text_without_comments := strip_comments(text, kind.comment))
            and re.search(kind.plugin_pattern, text_without_comments)
        ):
            yield Configuration(editor, path, mentions_proxy=_PROXY_IN_TEXT.search(text_without_comments) is not None)


def _read_settings(editor: Editor, kind: SettingsFiles, path: Path) -> Configuration:
    text = read_text(path, errors="strict")
    if isinstance(text, OSError):
        return Configuration(editor, path, problem=text.strerror or "it cannot be read")
    try:
        return Configuration(editor, path, read_agents(kind, text))
    except ValueError as problem:
        return Configuration(editor, path, problem=str(problem))


def read_agents(kind: SettingsFiles, text: str) -> tuple[ConfiguredAgent, ...]:
    """The agents in settings. Raises ValueError if they are no JSON."""
    return tuple(_read_agent(name, entry) for name, entry in find_agents(kind, text).items())


def find_agents(kind: SettingsFiles, text: str) -> dict[str, object]:
    """The entries of the agents in settings, by name. Raises ValueError if they are no JSON object."""
    value: object = jsonc.decode(text)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    for member in kind.members:
        value = acp.member(value, member)
    agents = value.items() if isinstance(value, dict) else ()
    return {name: entry for name, entry in agents if kind.lists_agent(entry)}


def read_entries(kind: SettingsFiles, text: str) -> list[Entry]:
    """The entries of the agents in settings. Raises ValueError if they are no JSON."""
    return [read_entry(name, value) for name, value in find_agents(kind, text).items()]


def _read_agent(name: str, value: object) -> ConfiguredAgent:
    entry = read_entry(name, value)
    program, mended = entry.program, entry.count_words_to_replace() is not None
    match entry.kind:
        case Kind.NO_COMMAND:
            return ConfiguredAgent(name, Way.NOT)
        case Kind.REGISTERED:
            return ConfiguredAgent(name, Way.REGISTRY, fault=entry.fault)
        case Kind.UNREADABLE:
            return ConfiguredAgent(name, Way.UNKNOWN, fault=entry.fault)
        case Kind.NO_RUN:
            return ConfiguredAgent(
                name, Way.REFUSED, program, command_line.MISSING_RUN, is_mended_by_setup=mended, fault=entry.fault
            )
    agent = ConfiguredAgent(
        name,
        Way.PROXIED if entry.is_proxied else Way.DIRECT,
        program,
        is_mended_by_setup=mended,
        fault=entry.fault,
    )
    if entry.fault is not None:
        return agent
    command = list(entry.words)
    if entry.runs_elsewhere:
        return replace(agent, way=Way.ELSEWHERE)
    if entry.is_proxied:
        if entry.words_after_run is None:  # a line for a shell
            return agent
        try:
            file, _ = config_file.read_user_file({**os.environ, **entry.environment})
            wrong_variables = list[str]()
            values, command = options.parse(
                list(entry.words_after_run), entry.environment, file, wrong_variables=wrong_variables
            )
        except UsageError as problem:
            return replace(agent, way=Way.REFUSED, problem=str(problem))
        agent = replace(
            agent,
            store=values["store"] or None,
            is_recorded=not values["no-record"],
            fault=" ".join(wrong_variables).removesuffix(".") or None,
            option_after_agent=command_line.find_option_after_agent(command),
        )
        if agent.is_recorded and values["recall"] and program is not None:
            agent = replace(agent, looks_up_sessions=command_line.is_of_this_installation(program))
    program_there = command_line.may_exist(command[0], entry.environment.get("PATH"))
    return agent if program_there else replace(agent, missing_program=command[0])


def _list_sources(kind: Sources, machine: Machine) -> list[Path]:
    """The files of a program's configuration, each once, in the order of the places."""
    sources: dict[Path, None] = {}
    for place in kind.find_places(machine):
        files = [place] if os.path.isfile(place) else []
        for path in _list_below(place, kind.suffix) if os.path.isdir(place) else files:
            if len(sources) < _MOST_FILES:
                sources.setdefault(path)
    return list(sources)


def _list_below(directory: Path, suffix: str) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _PLUGIN_DIRECTORIES)
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(suffix))


def read_text(path: Path, errors: str = "replace") -> str | OSError:
    """A file's content, or why it cannot be read. ``errors``: what becomes of what is not UTF-8, as for ``decode``."""
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):  # opening a pipe may never end
            return OSError(errno.EINVAL, "it is not a file")
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as problem:
        return problem
    if len(data) > _LARGEST_FILE_BYTES:
        return OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError:
        return OSError(errno.EILSEQ, "it is not UTF-8")


def strip_comments(text: str, comment: str) -> str:
    """The lines that are not comments."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(comment))
