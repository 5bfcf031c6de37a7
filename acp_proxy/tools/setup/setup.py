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

from acp_proxy.config import options
from acp_proxy.errors import UsageError
from acp_proxy.tools.editors import configured, jsonc
from acp_proxy.tools.editors.agent_names import NamedAgent, find_built_in, make_registry_option
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import find_agents
from acp_proxy.tools.editors.entries import Entry, Kind, read_entry
from acp_proxy.tools.editors.known_editors import EDITORS, Editor, Name, SettingsFiles
from acp_proxy.tools.editors.own_files import (
    LeftByHand,
    NotOurs,
    follow_link,
    is_there,
    read_own_file,
    replace_file,
)
from acp_proxy.tools.editors.snippets import EditorEntry, make_snippet
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
    goes. ``problem``: why nothing changes. ``kept``: the entries that stay as they are, and why. ``is_copy_changed``:
    the copy is not what setup wrote, and is not used. ``gone``: the agents of the copy, or that setup
    added, that the file does not have any more. ``is_settled``: after this undo, the copy and the record are of no use.
    ``edited``: those of ``kept`` that setup added and the user has edited since, each with its text. ``renamed``: the
    recorded names of additions that go under other ones.
    """

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
    edited: tuple[tuple[str, str], ...] = ()
    renamed: tuple[str, ...] = ()

    @property
    def diff(self) -> list[str]:
        """The change as lines of a unified diff."""
        old, new = (
            (data or b"").decode("utf-8", "replace").splitlines() for data in (self.old_content, self.new_content)
        )
        label = str(self.path)
        return list(difflib.unified_diff(old, new, label, label, lineterm="", n=2))


def explain_problem(change: FileChange) -> str:
    """Why a file stays as it is."""
    return f"{change.path} stays as it is: {change.problem}."


@dataclass(frozen=True, slots=True)
class WantedAgent:
    """An agent that the user names. ``options``: of ``run``. ``variables``: of its environment."""

    agent: NamedAgent
    options: list[str]
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Wish:
    """What setup is to do with a file. ``own_words``: the words that start acp-proxy, ``run`` the last. ``only_names``:
    the names of the entries that may change; None: all. ``options_of_run``: in front of each agent. ``has_id``: whether
    the registry of agents has an agent with this id; None: that is not known. ``registry``: the value of
    ``--registry``, for such agents. ``agent_to_add``: an agent that gets an entry of its own. ``left_out_names``: the
    names of entries that stay without acp-proxy; where it is already, it is mended.
    """

    own_words: Sequence[str]
    only_names: Collection[str] | None = None
    options_of_run: Sequence[str] = ()
    has_id: Callable[[str], bool | None] = lambda id: None
    registry: str = ""
    agent_to_add: WantedAgent | None = None
    left_out_names: Collection[str] = ()


_UNKNOWN_ID = "the registry of agents has no such id. To add the agent by its command: acp-proxy setup --agent COMMAND"

FoundEntry = tuple[Path, Entry]
"""An agent's entry, and its file."""


def find_settings(machine: Machine, editors: Sequence[Name]) -> list[tuple[Editor, Path]]:
    """The settings files to look at: those that exist, and for an editor that the user names the usual one. Where one
    is a link to another of the user's files, as in a repository of settings, that file. Several editors may share one
    by links: it is there once, with the first of them that reads agents."""
    settings: dict[tuple[str, tuple[str, ...]], tuple[Editor, Path]] = {}
    keys_of_unread = set[tuple[str, tuple[str, ...]]]()
    for editor in EDITORS.values():
        kind = editor.configured
        if not isinstance(kind, SettingsFiles) or (editors and editor.name not in editors):
            continue
        files = kind.find_files(machine)
        existing = [*dict.fromkeys(follow_link(path) for path in files if is_there(path))]
        usual_of_installed = [path for path in files if os.path.isdir(path.parent)]  # and has no settings yet
        if kind.find_own_directory is not None and os.path.isdir(kind.find_own_directory(machine)):
            usual_of_installed = usual_of_installed or files[:1]
        for path in existing or usual_of_installed[:1] or (files[:1] if editors else []):
            key = os.path.realpath(path), kind.members
            if key not in settings or key in keys_of_unread:
                settings[key] = editor, path
                (keys_of_unread.add if kind.lacks_extension(machine) else keys_of_unread.discard)(key)
    return [*settings.values()]


def find_sharers(plan: FileChange, machine: Machine) -> list[Editor]:
    """The editors whose settings a file is: that of the plan, and others that share it with this one by links."""
    own, real_path = EDITORS[plan.editor], os.path.realpath(plan.path)
    assert isinstance(own.configured, SettingsFiles)
    others = [
        editor
        for editor in EDITORS.values()
        if isinstance(editor.configured, SettingsFiles)
        and editor != own
        and editor.configured.members == own.configured.members
        and real_path in map(os.path.realpath, editor.configured.find_files(machine))
    ]
    return [own, *others]


def find_entries(editor: Editor, path: Path, planned: FileChange | None = None) -> list[FoundEntry]:
    """The agents in a settings file, also if setup leaves it as it is, or that would be in it after ``planned``; none
    if it cannot be read."""
    kind = editor.configured
    assert isinstance(kind, SettingsFiles)
    text = configured.read_text(path) if planned is None else (planned.new_content or b"").decode()
    try:
        entries = configured.read_entries(kind, text) if isinstance(text, str) else []
    except ValueError:
        entries = []  # the plan says why
    return [(path, entry) for entry in entries]


def read_entries(kind: SettingsFiles, content: bytes | None) -> list[Entry]:
    """The agents in the content of a settings file. Raises ValueError if it is no JSON."""
    return configured.read_entries(kind, (content or b"").decode("utf-8"))


def find_variables(agent_to_add: WantedAgent, entries: Sequence[Entry]) -> dict[str, str]:
    """The variables of an agent's new entry: those of the entry that it replaces for the user, which sets options of
    the agent that the editor itself has, and those that the user gives. ``entries``: of the same file."""
    built_in = find_built_in(entries, agent_to_add.agent)
    return {**(built_in.environment if built_in is not None else {}), **agent_to_add.variables}


def plan_files(
    settings: Sequence[tuple[Editor, Path]],
    wish: Wish,
    chosen: Sequence[FoundEntry] | None,
    paths_to_add: Collection[Path],
    record: Record,
    left_out_entries: Collection[tuple[Path, str]] = (),
) -> list[FileChange]:
    """What would change in each file. ``wish``: what is the same for all files. ``chosen``: the only entries that may
    change; None: all. ``paths_to_add``: the files that get the agent that is to be added. ``left_out_entries``: those
    that stay without acp-proxy, by file and name."""
    plans = [
        plan_file(
            editor,
            path,
            replace(
                wish,
                only_names={entry.name for entry_path, entry in chosen if entry_path == path}
                if chosen is not None
                else None,
                agent_to_add=wish.agent_to_add if path in paths_to_add else None,
                left_out_names={name for entry_path, name in left_out_entries if entry_path == path},
            ),
        )
        for editor, path in settings
    ]
    return [refuse_lost(plan, record) for plan in plans]


def plan_file(editor: Editor, path: Path, wish: Wish) -> FileChange:
    """What would change in a file."""
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
        kept: list[tuple[str, str]] = []
        for name, element in listed_entries.items():
            if wish.only_names is not None and name not in wish.only_names:
                continue
            entry = read_entry(name, settings.read(element.value))
            if entry.kind is Kind.UNREADABLE:
                kept.append((name, f"{entry.fault}. Correct it, then run acp-proxy setup again"))
                continue
            planned = _plan_entry(settings, entry, element.value, wish)
            if planned is not None and planned[0].how == REPLACED and (reason := _explain_refusal(entry)) is not None:
                kept.append((name, f"{reason} Correct it, then run acp-proxy setup again"))
                continue
            if entry.kind is Kind.REGISTERED and planned is None and wish.has_id(entry.name) is False:
                kept.append((name, _UNKNOWN_ID))
            if planned is not None and (name not in wish.left_out_names or planned[0].how == REPLACED):
                edits += planned[1]
                entries.append(planned[0])
        if wish.agent_to_add is not None:
            words = [*wish.own_words, *wish.agent_to_add.options, *wish.agent_to_add.agent.command]
            variables = find_variables(wish.agent_to_add, read_entries(kind, data))
            snippet = make_snippet(editor.name, EditorEntry(words, variables, wish.agent_to_add.agent.title))
            if snippet.title in members:
                raise NotOurs(
                    f'its "{snippet.title}" has another command. To have both, give that one another name; to have '
                    "only this one, remove that one"
                )
            if snippet.title not in wish.left_out_names:
                edits += settings_text.add_entry(settings, kind.members, snippet.entry, snippet.whole)
                entries.append(EntryChange(snippet.title, ADDED, new_words=wish.own_words))
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
    return FileChange(editor.name, path, data, new_text.encode(), tuple(entries), None, tuple(kept))


def _plan_entry(
    settings: Settings,
    entry: Entry,
    span: settings_text.Span,
    wish: Wish,
) -> tuple[EntryChange, list[settings_text.Edit]] | None:
    """What to change in one entry, which stands at ``span``. None: nothing."""
    members = settings.list_members(span) if entry.words else {}
    if entry.kind is Kind.REGISTERED:
        if "command" in members or not wish.has_id(entry.name):
            return None
        extra_words = wish.options_of_run or make_registry_option(wish.registry, [*entry.words])
        change = EntryChange(entry.name, NAMED, new_words=wish.own_words)
        return change, settings_text.name_command(settings, span, [*wish.own_words, *extra_words, *entry.words])
    if entry.kind is Kind.DIRECT:
        change = EntryChange(entry.name, PUT_IN_FRONT, "args" in members, new_words=wish.own_words)
        return change, settings_text.put_in_front(
            settings, span, [*wish.own_words, *wish.options_of_run], entry.words[0]
        )
    count = entry.count_words_to_replace()
    if count is None or entry.words[:count] == tuple(wish.own_words):
        return None
    change = EntryChange(entry.name, REPLACED, old_words=entry.words[:count], new_words=wish.own_words)
    return change, replace_own_words(settings, span, change.old_words, wish.own_words)


def _explain_refusal(entry: Entry) -> str | None:
    """Why ``run`` refuses the words after it, whatever starts it, as a sentence; None if it does not."""
    if entry.words_after_run is None:
        return None
    try:
        options.parse([*entry.words_after_run], {})
    except UsageError as problem:
        return str(problem)
    return None


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
        joined, is_as_added = entry, entry.how == ADDED
        if entry.how == REPLACED and entry.name in changes:
            joined = replace(changes[entry.name], new_words=entry.new_words)
            is_as_added = joined.added == digest_entry(old_values.get(entry.name))
        new_digest = digest_entry(new_values.get(entry.name)) if is_as_added else ""
        changes[entry.name] = replace(joined, added=new_digest)
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
