"""What the editors' configurations on this machine say of agents: which there are, and which go through the proxy.

Nothing of a configuration is kept but the agents' names, and of what starts the proxy the program and what ``run``
makes of its options: there may be secrets in the rest. Never raises: what cannot be read is said of the file.
"""

import enum
import os
import re
from collections.abc import Iterator
from pathlib import Path

from acp_proxy import options
from acp_proxy.editors import command_line, commented
from acp_proxy.editors.machine import Machine
from acp_proxy.editors.table import EDITORS, Editor, Settings, Sources
from acp_proxy.errors import UsageError
from acp_proxy.wire import acp
from acp_proxy.wire.value import Value

_MANY_FILES = 2000
"""Of one editor: more is no configuration that somebody wrote."""
_LARGE = 1024 * 1024  # bytes of a file
NOT_JSON = "it is not the JSON that the editor reads"
_NOT_THEIRS = frozenset({"elpa", "straight", "eln-cache", "elpaca", "node_modules", "undo", "sessions", "snippets"})
"""Directories of what others wrote."""

_PROXY_IN_TEXT = re.compile(r"acp[-_]proxy")


class Way(enum.Enum):
    """How an editor starts an agent."""

    PROXIED = "through acp-proxy"
    REFUSED = "by acp-proxy, in a way that it refuses"
    DIRECT = "directly"
    REGISTRY = "from the editor's registry, where nothing can be put in front"


class Agent(Value):
    """``program``: what is started, where that is the proxy. ``problem``: why it refuses. ``store``: what is given as
    the place for what is kept."""

    name: str
    way: Way
    program: str | None = None
    problem: str | None = None
    store: str | None = None
    is_recorded: bool = True

    def is_kept_elsewhere(self, root: Path) -> bool:
        return self.store is not None and os.path.abspath(os.path.expanduser(self.store)) != os.path.abspath(root)


class Configuration(Value):
    """A file, and the agents in it. ``mentions``: of a program, in which agents have no names: whether acp-proxy is in
    it. ``problem``: why it cannot be read."""

    editor: Editor
    path: Path
    agents: tuple[Agent, ...] = ()
    mentions: bool | None = None
    problem: str | None = None

    @property
    def is_proxied(self) -> bool:
        return bool(self.mentions) or any(agent.program is not None for agent in self.agents)


def configurations(machine: Machine) -> list[Configuration]:
    """Of every editor that has one here."""
    return [found for editor in EDITORS.values() for found in _of(editor, machine)]


def file_for(editor: Editor, machine: Machine) -> tuple[Path, bool]:
    """The file that an agent's entry belongs in (one that has agents, else the usual), and whether it is there."""
    found = [each.path for each in _of(editor, machine)]
    kind = editor.configured
    usual = kind.files(machine) if isinstance(kind, Settings) else kind.places(machine)
    there = [*found, *(path for path in usual if path.is_file())]
    return (there[0], True) if there else (usual[0], False)


def _of(editor: Editor, machine: Machine) -> Iterator[Configuration]:
    kind = editor.configured
    if isinstance(kind, Settings):
        for path in kind.files(machine):
            if path.exists():
                yield _settings(editor, kind, path)
        return
    for path in _sources(kind, machine):
        text = text_of(path)
        if isinstance(text, str) and (said := code(text, kind.comment)) and re.search(kind.mark, said):
            yield Configuration(editor, path, mentions=_PROXY_IN_TEXT.search(said) is not None)


def _settings(editor: Editor, kind: Settings, path: Path) -> Configuration:
    text = text_of(path)
    if isinstance(text, OSError):
        return Configuration(editor, path, problem=text.strerror or "it cannot be read")
    try:
        agents = acp.member(commented.read(text), kind.member)
    except (ValueError, RecursionError):
        return Configuration(editor, path, problem=NOT_JSON)
    listed = agents.items() if isinstance(agents, dict) else ()
    return Configuration(editor, path, tuple(_agent(name, entry) for name, entry in listed))


def _agent(name: str, entry: object) -> Agent:
    program = acp.text(entry, "command")
    if program is None:
        return Agent(name, Way.REGISTRY)
    words = [program, *acp.strings(entry, "args")]
    behind = command_line.behind_run(words)
    if behind is None:
        if command_line.lacks_run(words):
            return Agent(name, Way.REFUSED, program, command_line.MISSING_RUN)
        return Agent(name, Way.DIRECT)
    try:
        given, _ = options.parse(behind, _texts(acp.member(entry, "env")))
    except UsageError as problem:
        return Agent(name, Way.REFUSED, program, str(problem))
    return Agent(name, Way.PROXIED, program, None, given["store"] or None, not given["no-record"])


def _texts(value: object) -> dict[str, str]:
    return {key: text for key, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


def _sources(kind: Sources, machine: Machine) -> list[Path]:
    """Each file once, in the order of the places."""
    found: dict[Path, None] = {}
    for place in kind.places(machine):
        for path in _below(place, kind.suffix) if place.is_dir() else [place] if place.is_file() else []:
            if len(found) < _MANY_FILES:
                found.setdefault(path)
    return list(found)


def _below(directory: Path, suffix: str) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOT_THEIRS)
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(suffix))


def text_of(path: Path) -> str | OSError:
    try:
        with path.open("rb") as file:
            return file.read(_LARGE).decode("utf-8", "replace")
    except OSError as problem:
        return problem


def code(text: str, comment: str) -> str:
    """The lines that are no comments."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(comment))
