"""Writes acp-proxy into the settings of this machine's editors.

Each settings file that changes gets a copy beside it, and a part of the record. A file that is not the user's alone
(``own_files``), that is no JSON with comments, or that changed since it was read stays as it is.
"""

import contextlib
import difflib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acp_proxy.protocol import acp
from acp_proxy.tools.editors import command_line, jsonc
from acp_proxy.tools.editors.agent_names import NamedAgent, make_registry_option
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import find_agents, read_words
from acp_proxy.tools.editors.known_editors import EDITORS, Editor, Name, SettingsFiles
from acp_proxy.tools.editors.own_files import LeftByHand, NotOurs, is_there, read_own_file, replace_file
from acp_proxy.tools.editors.snippets import EditorEntry, make_snippet
from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.setup import settings_text
from acp_proxy.tools.setup.record import (
    ADDED,
    NAMED,
    PUT_IN_FRONT,
    REPLACED,
    EntryChange,
    FileRecord,
    Record,
    digest,
    digest_entry,
    explain_copy,
    remove_directories,
    write_copy,
)
from acp_proxy.tools.setup.settings_text import Settings


@dataclass(frozen=True, slots=True)
class FileChange:
    """What would change in one settings file. ``old_content``: None: there is no file. ``new_content``: None: the file
    goes. ``problem``: why nothing changes. ``kept``: the entries that undo leaves, and why. ``is_copy_changed``: the
    copy is not what setup wrote, and is not used. ``gone``: the agents that setup changed and that the file does not
    have any more. ``is_settled``: after this undo, the copy and the record are not needed any more."""

    editor: Name
    path: Path
    old_content: bytes | None
    new_content: bytes | None = None
    entries: tuple[EntryChange, ...] = ()
    problem: str | None = None
    kept: tuple[tuple[str, str], ...] = ()
    is_copy_changed: bool = False
    gone: tuple[str, ...] = ()
    is_settled: bool = False

    @property
    def diff(self) -> list[str]:
        """The change as lines of a unified diff."""
        old, new = (
            (data or b"").decode("utf-8", "replace").splitlines() for data in (self.old_content, self.new_content)
        )
        label = str(self.path)
        return list(difflib.unified_diff(old, new, label, label, lineterm="", n=2))


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent in a settings file. ``words``: its command; of an agent of the editor's own registry, its id there."""

    path: Path
    name: str
    words: tuple[str, ...]

    @property
    def is_proxied(self) -> bool:
        return command_line.find_words_behind_run([*self.words]) is not None

    @property
    def mentions_proxy(self) -> bool:
        """Whether acp-proxy is anywhere in its command, also where setup would not write it."""
        return command_line.mentions_proxy([*self.words])


@dataclass(frozen=True, slots=True)
class WantedAgent:
    """An agent that the user names. ``options``: of ``run``. ``variables``: of its environment."""

    agent: NamedAgent
    options: list[str]
    variables: Mapping[str, str]


def find_settings(machine: Machine, editors: Sequence[Name]) -> list[tuple[Editor, Path]]:
    """The settings files to look at: those that exist, and for an editor that the user names the usual one."""
    settings: list[tuple[Editor, Path]] = []
    for editor in EDITORS.values():
        kind = editor.configured
        if not isinstance(kind, SettingsFiles) or (editors and editor.name not in editors):
            continue
        files = kind.find_files(machine)
        existing = [path for path in files if is_there(path)]
        usual_of_installed = [
            path for path in files if os.path.isdir(path.parent)
        ]  # the editor is here, and has no settings yet
        settings += [(editor, path) for path in existing or usual_of_installed[:1] or (files[:1] if editors else [])]
    return settings


def find_entries(editor: Editor, path: Path, planned: FileChange | None = None) -> list[AgentEntry]:
    """The agents in a settings file, or that would be in it after ``planned``; none if it cannot be read."""
    kind = editor.configured
    assert isinstance(kind, SettingsFiles)
    try:
        return read_entries(kind, path, planned.new_content if planned is not None else read_own_file(path))
    except (OSError, ValueError):
        return []  # the plan says why


def read_entries(kind: SettingsFiles, path: Path, content: bytes | None) -> list[AgentEntry]:
    """The agents in the content of a settings file. Raises ValueError if it is no JSON."""
    agents = find_agents(kind, (content or b"").decode("utf-8"))
    return [AgentEntry(path, name, tuple(_read_entry_words(name, entry))) for name, entry in agents.items()]


def _read_entry_words(name: str, entry: object) -> list[str]:
    is_registered = acp.text(entry, "type") == "registry"
    return [f"{PREFIX}{name}"] if is_registered else read_words(entry)


def plan_file(
    editor: Editor,
    path: Path,
    own_words: Sequence[str],
    only_names: Collection[str] | None = None,
    options_of_run: Sequence[str] = (),
    has_id: Callable[[str], bool] = lambda id: False,
    registry: str = "",
    agent_to_add: WantedAgent | None = None,
    left_out_names: Collection[str] = (),
) -> FileChange:
    """What would change in a file. ``own_words``: the words that start acp-proxy, ``run`` the last.

    ``only_names``: the names of the entries that may change; None: all. ``has_id``: whether the registry of agents has
    an agent with this id. ``registry``: the value of ``--registry``, for such agents. ``agent_to_add``: an agent that
    gets an entry of its own. ``left_out_names``: the names of entries that stay without acp-proxy; where it is already,
    it is mended.
    """
    kind = editor.configured
    assert isinstance(kind, SettingsFiles)
    data: bytes | None = None
    try:
        data = read_own_file(path)
        text = (data or b"").decode("utf-8")
        settings = Settings(text)
        agents_span = settings.find(*kind.members)
        members = (
            settings.list_members(agents_span)
            if agents_span is not None and settings.text[agents_span[0]] == "{"
            else {}
        )
        listed_entries = {
            name: element for name, element in members.items() if kind.lists_agent(settings.read(element.value))
        }
        entries: list[EntryChange] = []
        edits: list[settings_text.Edit] = []
        for name, element in listed_entries.items():
            if only_names is not None and name not in only_names:
                continue
            planned = _plan_entry(settings, name, element.value, own_words, options_of_run, has_id, registry)
            if planned is not None and (name not in left_out_names or planned[0].how == REPLACED):
                edits += planned[1]
                entries.append(planned[0])
        if agent_to_add is not None:
            words = [*own_words, *agent_to_add.options, *agent_to_add.agent.command]
            snippet = make_snippet(editor.name, EditorEntry(words, agent_to_add.variables, agent_to_add.agent.title))
            if snippet.title in members:
                raise NotOurs(f'it has an agent "{snippet.title}" with another command. Remove that entry')
            if snippet.title not in left_out_names:
                edits += settings_text.add_entry(settings, kind.members, snippet.entry, snippet.whole)
                entries.append(EntryChange(snippet.title, ADDED, new_words=own_words))
        new_text = settings_text.apply(text, edits)
        jsonc.decode(new_text)
    except LeftByHand as problem:
        advice = f"To print what to put there by hand: acp-proxy editor {editor.name} AGENT"
        return FileChange(editor.name, path, data, problem=f"{problem}. {advice}")
    except NotOurs as problem:
        return FileChange(editor.name, path, data, problem=str(problem))
    except ValueError as problem:
        reason = "it is not UTF-8" if isinstance(problem, UnicodeDecodeError) else str(problem)
        return FileChange(editor.name, path, data, problem=f"{reason}. Correct it, then run acp-proxy setup again")
    except OSError as problem:
        return FileChange(editor.name, path, data, problem=f"{problem.strerror or problem}. Check its permissions")
    return FileChange(editor.name, path, data, new_text.encode(), tuple(entries))


def _plan_entry(
    settings: Settings,
    name: str,
    entry: settings_text.Span,
    own_words: Sequence[str],
    options_of_run: Sequence[str],
    has_id: Callable[[str], bool],
    registry: str,
) -> tuple[EntryChange, list[settings_text.Edit]] | None:
    """What to change in one entry. None: nothing."""
    value = settings.read(entry)
    words = _read_entry_words(name, value)
    if words == [f"{PREFIX}{name}"]:
        if "command" in settings.list_members(entry) or not has_id(name):
            return None
        extra_words = options_of_run or make_registry_option(registry, words)
        change = EntryChange(name, NAMED, new_words=own_words)
        return change, settings_text.name_command(settings, entry, [*own_words, *extra_words, *words])
    if not words:
        return None
    words_behind_run = command_line.find_words_behind_run(words)
    if words_behind_run is None:
        if (index := command_line.find_missing_run(words)) is not None:
            change = EntryChange(name, REPLACED, old_words=words[:index], new_words=own_words)
            return change, replace_own_words(settings, entry, change.old_words, own_words)
        if command_line.lacks_run(words):
            return None
        had_args = isinstance(value, dict) and "args" in value
        edits = settings_text.put_in_front(settings, entry, [*own_words, *options_of_run])
        return EntryChange(name, PUT_IN_FRONT, had_args, new_words=own_words), edits
    own_count = command_line.count_own_words(words)
    if own_count is None or words[own_count] != "run":  # what is in front of acp-proxy is the user's
        return None
    program = command_line.find_own_program(words)
    # A name alone is found in a terminal's PATH, but an editor that was started from a menu has a shorter one.
    is_name = own_count == 1 and not os.path.dirname(program)
    if not is_name and command_line.may_exist(program, None) and os.path.expanduser(program) == program:
        return None
    if words[: own_count + 1] == list(own_words):
        return None
    change = EntryChange(name, REPLACED, old_words=words[: own_count + 1], new_words=own_words)
    return change, replace_own_words(settings, entry, change.old_words, own_words)


def replace_own_words(
    settings: Settings, entry: settings_text.Span, old_words: Sequence[str], new_words: Sequence[str]
) -> list[settings_text.Edit]:
    """Start acp-proxy with other words. Both may end with ``run``, which then stays."""
    if old_words[-1] == new_words[-1]:
        old_words, new_words = old_words[:-1], new_words[:-1]
    return settings_text.replace_words(settings, entry, len(old_words) - 1, new_words)


def write_file(change: FileChange, record: Record) -> None:
    """Write a change: first the copy and the record, then the file, as a whole. If one of them fails, all stay as they
    were. Raises OSError, NotOurs, AcpProxyError."""
    assert change.new_content is not None
    with record.lock():
        if read_own_file(change.path) != change.old_content:
            raise NotOurs("it changed in the meantime. Close its editor's settings and run acp-proxy setup again")
        if (problem := refuse_lost(change, record).problem) is not None:
            raise NotOurs(problem)
        recorded_before = record.files.get(str(change.path))
        is_new = recorded_before is None or change.old_content is None  # of what is gone, only a copy would be of use
        file_record = FileRecord(None, "") if recorded_before is None or is_new else recorded_before
        is_edited = not is_new and digest(change.old_content or b"") != file_record.written
        made_directories = sum(not is_there(parent) for parent in change.path.parents)
        copy_path: Path | None = None
        try:
            change.path.parent.mkdir(parents=True, exist_ok=True)
            if is_new and change.old_content is not None:
                copy_path = write_copy(change.path, change.old_content)
                file_record = FileRecord(copy_path.name, "", copied=digest(change.old_content))
            record.files[str(change.path)] = replace(
                file_record,
                entries=_join_changes(file_record.entries, change),
                written="" if is_edited else digest(change.new_content),
                made_directories=max(made_directories, file_record.made_directories),
            )
            record.save()
            replace_file(change.path, change.new_content)
        except BaseException:
            record.files.pop(str(change.path), None)
            if recorded_before is not None:
                record.files[str(change.path)] = recorded_before
            with contextlib.suppress(OSError):
                record.save()
            with contextlib.suppress(OSError):
                if copy_path is not None:
                    copy_path.unlink()
                remove_directories(change.path, made_directories)
            raise


def _join_changes(recorded: Sequence[EntryChange], change: FileChange) -> list[EntryChange]:
    """What was done to the entries of a file, with this change. What stood there before setup stays in the record."""
    kind = EDITORS[change.editor].configured
    assert isinstance(kind, SettingsFiles)
    old_values, new_values = (
        find_agents(kind, (data or b"").decode()) for data in (change.old_content, change.new_content)
    )
    changes = {entry.name: entry for entry in recorded}
    for entry in change.entries:
        joined, added = entry, entry.how == ADDED
        if entry.how == REPLACED and entry.name in changes:
            joined = replace(changes[entry.name], new_words=entry.new_words)
            added = joined.added == digest_entry(old_values.get(entry.name))
        changes[entry.name] = replace(joined, added=digest_entry(new_values.get(entry.name)) if added else "")
    return [*changes.values()]


def is_as_written(change: FileChange) -> bool:
    """Whether a file still has what ``write_file`` wrote: an editor that runs may write its settings anew."""
    try:
        return read_own_file(change.path) == change.new_content
    except (OSError, NotOurs):
        return False


def refuse_lost(change: FileChange, record: Record) -> FileChange:
    """The change; where the file is missing that setup has changed before, none: its copy is not to be mixed up with a
    new file's."""
    copy_path = record.find_copy(change.path) if change.old_content is None and change.problem is None else None
    if copy_path is None:
        return change
    problem = f"it is missing. {explain_copy(change.path, copy_path)}. To begin without it, move {copy_path} away"
    return replace(change, new_content=None, entries=(), problem=problem)
