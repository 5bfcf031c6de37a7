"""All that is looked at, together with what there is to do about it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from acp_proxy import options
from acp_proxy.core.capabilities import Modes
from acp_proxy.diagnosis import agent, store
from acp_proxy.diagnosis.agent import Examined, Wish
from acp_proxy.diagnosis.store import Kept
from acp_proxy.diagnosis.todo import Todo
from acp_proxy.diagnosis.versions import versions
from acp_proxy.editors.configured import Configuration, Way, configurations
from acp_proxy.editors.machine import Machine
from acp_proxy.errors import StoreRefused
from acp_proxy.transcripts.store import Store
from acp_proxy.wire.value import Value


class Diagnosis(Value):
    store: Kept
    versions: dict[str, str | None]
    editors: list[Configuration]
    agent: Examined | None
    todo: list[Todo]

    @property
    def is_well(self) -> bool:
        return not any(todo.is_wrong for todo in self.todo)


def diagnose(
    root: Path,
    machine: Machine,
    run: tuple[dict[str, str], list[str]] | None,
    seconds: float,
    say: Callable[[str], None],
) -> Diagnosis:
    """``run``: the options and the agent's command that ``run`` would be called with, if one is to be looked at."""
    kept, todo = store.examine(root)
    found = versions()
    todo += [Todo(f"{name} is missing. Install acp-proxy again.") for name, version in found.items() if version is None]
    editors = configurations(machine)
    todo += _of_editors(editors)
    examined = None
    if run is not None:
        given, command = run
        wish = _wish(root, kept, given, command, seconds)
        examined, more = agent.examine(wish, say)
        todo += more
    return Diagnosis(kept, found, editors, examined, todo)


def _wish(root: Path, kept: Kept, given: dict[str, str], command: list[str], seconds: float) -> Wish:
    modes = Modes(**{name: given[name] for name in ("list", "load", "delete", "resume", "handover")})
    opened = None
    if kept.is_there and kept.off is None:
        try:
            opened = Store(root)
        except StoreRefused:  # since it was looked at
            opened = None
    off = None
    if given["no-record"]:
        off = "nothing is added, since --no-record is set"
    elif given["no-synthesize"]:
        off = "nothing is added, since --no-synthesize is set"
    elif kept.off is not None:
        off = "nothing is added, since nothing can be recorded"
    return Wish(command, modes, given["agent-id"] or None, opened, off, seconds)


def run_words(words: list[str], environment: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """What ``run`` would be called with: the agent's command, or a whole line out of an editor's settings.

    Raises UsageError.
    """
    at = next((at for at, word in enumerate(words[:-1]) if _is_proxy(word) and words[at + 1] == "run"), None)
    return options.parse(["--", *words] if at is None else words[at + 2 :], environment)


def _is_proxy(word: str) -> bool:
    return os.path.basename(word).lower() in ("acp-proxy", "acp-proxy.exe", "acp_proxy")


def _of_editors(editors: list[Configuration]) -> list[Todo]:
    todo = []
    for found in editors:
        name = found.editor.name
        if found.problem is not None:
            todo.append(Todo(f"{found.path} cannot be read: {found.problem}.", is_wrong=False))
        for one in found.agents:
            if one.way is Way.PROXIED and one.program is not None and not _is_there(one.program):
                text = f'{found.editor.title} starts "{one.name}" by {one.program}, which is not there.'
                todo.append(Todo(f"{text} For the path that is right: acp-proxy editor {name} AGENT"))
    if not any(found.is_proxied for found in editors):
        names = [str(found.editor.name) for found in editors] or ["EDITOR"]
        text = "No editor here starts an agent through acp-proxy. What to put into its configuration:"
        todo.append(Todo(f"{text} acp-proxy editor {names[0]} AGENT", is_wrong=False))
    return todo


def _is_there(program: str) -> bool:
    return shutil.which(os.path.expanduser(program)) is not None
