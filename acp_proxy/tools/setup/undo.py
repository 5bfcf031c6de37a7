"""Takes back what setup did to a settings file: its copy comes back, or if somebody edited the file since, exactly what
setup put there goes.

What is not as setup left it is the user's: it stays, and is named. The copy stays too, until all that it is about is in
the file again.
"""

import os
import textwrap
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from acp_proxy.config import options
from acp_proxy.errors import UsageError
from acp_proxy.protocol import acp
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.config_dirs import find_machine
from acp_proxy.tools.editors.configured import find_agents
from acp_proxy.tools.editors.entries import Entry, Kind, read_entry, read_words
from acp_proxy.tools.editors.known_editors import EDITORS, Editor, Name, SettingsFiles
from acp_proxy.tools.editors.own_files import (
    LeftByHand,
    NotOurs,
    explain_no_write,
    read_own_file,
    replace_file,
)
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
    RecordStays,
    digest,
    digest_entry,
    read_copy,
    remove_directories,
)
from acp_proxy.tools.setup.settings_text import Settings
from acp_proxy.tools.setup.setup import FileChange, read_entries, replace_own_words

_AGAIN = "Correct it, then run acp-proxy setup --undo again"
_UNKNOWN = "unknown"  # in no record: whether setup changed the entry cannot be said


def plan_undo(
    path: Path, file_record: FileRecord, only_names: Collection[str] | None = None, edited_names: Collection[str] = ()
) -> FileChange:
    """What takes back exactly what setup did to a file: its copy, or if it was edited since, what setup put there.
    ``only_names``: what it did to these entries alone; None: to all. ``edited_names``: the entries that setup added and
    that go though the user has edited them.

    ``new_content`` is None if the file must go, because setup made it. Without entries, nothing of setup is left in it,
    but in those that are kept.
    """
    editor = next((known_editor for known_editor in EDITORS.values() if is_file_of(known_editor, path)), None)
    name = editor.name if editor is not None else Name.ZED
    configured = editor.configured if editor is not None else None
    is_whole = only_names is None or all(entry.name in only_names for entry in file_record.entries)
    data: bytes | None = None
    try:
        data = read_own_file(path)
        copy_content = read_copy(path, file_record)
        if data is None:
            is_all_removed = copy_content is None and path.parent.is_dir()  # else its disk may be missing
            return FileChange(name, path, None, is_settled=is_all_removed and only_names is None)
        is_copy_right = copy_content is not None and file_record.is_right_copy(copy_content)
        is_copy_changed = copy_content is not None and not is_copy_right
        if is_copy_right and data == copy_content:
            return FileChange(name, path, data, data, is_settled=True)
        if is_whole and digest(data) == file_record.written and (is_copy_right or file_record.copy is None):
            return FileChange(name, path, data, copy_content, tuple(file_record.entries), is_settled=True)
        text = data.decode("utf-8")
        kind = configured if isinstance(configured, SettingsFiles) else _guess_kind(Settings(text))
        old_text = (copy_content or b"").decode("utf-8") if is_copy_right or file_record.copy is None else None
        old_values = find_agents(kind, old_text or "")
        undone, kept, edited = list[EntryChange](), list[tuple[str, str]](), list[tuple[str, str]]()
        unrecorded = _find_unrecorded(kind, path, data, file_record, old_text)
        for change in [*file_record.entries, *unrecorded]:
            if only_names is not None and change.name not in only_names:
                continue
            try:
                old_value, is_to_go = old_values.get(change.name), change.name in edited_names
                new_text = _undo_entry(Settings(text), kind.members, change, old_value, goes_though_edited=is_to_go)
            except NotOurs as problem:
                kept.append((change.name, str(problem)))
                if change.how == ADDED and change.name in find_agents(kind, text):
                    edited.append((change.name, _cut_out(Settings(text), *kind.members, change.name)))
                continue
            if new_text != text:
                undone.append(change)
            text = new_text
        if old_text is not None and any(change.how == ADDED for change in undone):
            text = _remove_empty(Settings(text), kind.members, Settings(old_text))
        old_entries = read_entries(kind, (old_text or "").encode())
        names_before = {entry.name for entry in read_entries(kind, data)}
        missing_additions = [
            change.name for change in file_record.entries if change.how == ADDED and change.name not in names_before
        ]
        renamed = [change for change in unrecorded if change.how == ADDED]
        gone = (
            *missing_additions[len(renamed) :],
            *_find_gone(old_entries, read_entries(kind, text.encode())),
        )
    except UnicodeDecodeError:
        return FileChange(name, path, data, problem=f"it is not UTF-8. {_AGAIN}")
    except LeftByHand as problem:
        return FileChange(name, path, data, problem=f"{problem}. You can take acp-proxy out of it by hand")
    except NotOurs as problem:
        return FileChange(name, path, data, problem=str(problem))
    except ValueError as problem:
        return FileChange(name, path, data, problem=f"{problem}. {_AGAIN}")
    except OSError as problem:
        return FileChange(name, path, data, problem=f"{problem.strerror or problem}. Check its permissions")
    is_settled = is_whole and not kept and (not is_copy_right or (bool(undone) and not gone))
    new_content: bytes | None = text.encode()
    if file_record.copy is None and is_settled and undone and text.strip() == "{}":
        new_content = None  # setup made the file, for nothing else
    return FileChange(
        name,
        path,
        data,
        new_content,
        tuple(undone),
        None,
        tuple(kept),
        is_copy_changed,
        gone,
        is_settled,
        tuple(edited),
        tuple(missing_additions[: sum(change in undone for change in renamed)]),
    )


def _cut_out(settings: Settings, *names: str) -> str:
    """The lines of a member, without the margin that all of them have."""
    element = settings.list_members(settings.find(*names[:-1]) or (0, 0))[names[-1]]
    margin = settings.find_separator(element.start).lstrip("\r\n")
    return textwrap.dedent(margin + settings.text[element.start : element.value[1]])


def _find_gone(old_entries: Sequence[Entry], entries: Sequence[Entry]) -> list[str]:
    """The agents of the copy, ``old_entries``, that are not among ``entries`` any more, by name or by command."""
    names, commands = {entry.name for entry in entries if entry.words}, {entry.words for entry in entries}
    return [entry.name for entry in old_entries if entry.name not in names and entry.words not in commands]


def is_file_of(editor: Editor, path: Path) -> bool:
    kind = editor.configured
    if not isinstance(kind, SettingsFiles):
        return False
    files = kind.find_files(find_machine())
    return os.path.realpath(path) in map(os.path.realpath, files)


def _guess_kind(settings: Settings) -> SettingsFiles:
    """The form of a file where no editor has its settings any more, such as after a change of PASEO_HOME."""
    kinds = [editor.configured for editor in EDITORS.values() if isinstance(editor.configured, SettingsFiles)]
    return next((kind for kind in kinds if settings.find(*kind.members) is not None), kinds[0])


def _find_unrecorded(
    kind: SettingsFiles, path: Path, data: bytes, file_record: FileRecord, old_text: str | None
) -> list[EntryChange]:
    """The entries of an edited file that mention acp-proxy under names that the record does not have: the user has
    renamed or copied what setup wrote. Those that had acp-proxy before setup, in ``old_text``, keep it. Where that
    cannot be said, such as without ``old_text``, the change is unknown. An addition that only
    acp-proxy can start counts as edited. Raises ValueError.
    """
    if digest(data) == file_record.written:
        return []
    old_entries = read_entries(kind, (old_text or "").encode())
    recorded_names = {entry.name for entry in file_record.entries}
    known_names = recorded_names | {entry.name for entry in old_entries if entry.mentions_proxy}
    known_words = {entry.words for entry in old_entries}
    entries = read_entries(kind, data)
    missing_names = recorded_names - {entry.name for entry in entries}
    had_args = all(
        entry.had_args and entry.how != ADDED for entry in file_record.entries if entry.name in missing_names
    )
    old_words = {change.name: change.old_words for change in file_record.entries if change.how == REPLACED}
    repaired_agents = [entry.words[len(old_words[entry.name]) :] for entry in old_entries if entry.name in old_words]

    values = find_agents(kind, data.decode("utf-8"))
    digests_of_added = {entry.added for entry in file_record.entries if entry.how == ADDED and entry.added}
    are_only_additions_missing = bool(missing_names) and all(
        entry.how == ADDED for entry in file_record.entries if entry.name in missing_names
    )

    def is_addition(entry: Entry) -> bool:
        if digest_entry(values[entry.name]) in digests_of_added:
            return True
        is_of_copy = any(old.words and entry.words[-len(old.words) :] == old.words for old in old_entries)
        return old_text is not None and are_only_additions_missing and not is_of_copy

    def find_how(entry: Entry) -> str:
        if _needs_proxy(entry) and is_addition(entry):
            return ADDED
        is_unknown = old_text is None or any(entry.words[-len(agent) :] == agent for agent in repaired_agents)
        return _UNKNOWN if is_unknown else PUT_IN_FRONT

    return [
        EntryChange(entry.name, find_how(entry), had_args)
        for entry in entries
        if entry.mentions_proxy and entry.name not in known_names and entry.words not in known_words
    ]


def _needs_proxy(entry: Entry) -> bool:
    """Whether nothing of the entry would be left without acp-proxy, since its agent is an id."""
    with suppress(NotOurs):
        return _find_agent(entry)[0].startswith(PREFIX)
    return False


def _undo_entry(
    settings: Settings, members: Sequence[str], change: EntryChange, old_value: object, *, goes_though_edited: bool
) -> str:
    """The text without what setup did to an entry. ``old_value``: the entry of this name in the copy.
    ``goes_though_edited``: also if it is not as setup added it.

    Raises NotOurs, which says why, if the entry is not as setup writes it.
    """
    agents, span = settings.find(*members), settings.find(*members, change.name)
    if agents is None or span is None or settings.text[span[0]] != "{":
        return settings.text  # the user has removed it
    value = settings.read(span)
    entry = read_entry(change.name, value, change.new_words)
    if not entry.mentions_proxy:
        return settings.text  # the user has taken acp-proxy out
    words, agent = entry.words, _find_agent(entry)
    if change.how == _UNKNOWN:
        raise NotOurs("it may have gone through acp-proxy before setup")
    if change.how == ADDED:
        if change.added != digest_entry(value) and not goes_though_edited:
            raise NotOurs("setup added it, but it may have been edited since")
        return settings_text.apply(settings.text, settings_text.remove(settings, agents, change.name))
    if change.how == NAMED:
        is_as_written = acp.text(value, "type") == "custom" and words[:1] == (acp.text(value, "command"),)
        if not is_as_written or agent != [f"{PREFIX}{change.name}"]:
            raise NotOurs("it is not as setup writes an agent of Zed's registry")
        return settings_text.unname_command(settings, span)
    if change.how == REPLACED:
        if not change.old_words:
            raise NotOurs("an earlier version of setup has replaced acp-proxy's own words there")
        if words[: len(change.new_words)] != tuple(change.new_words):
            return settings.text  # the user has replaced them once more
        edits = replace_own_words(settings, span, change.new_words, change.old_words)
        return settings_text.apply(settings.text, edits)
    if agent[0].startswith(PREFIX):
        raise NotOurs(f"only acp-proxy can start {agent[0]}")
    old_words = read_words(old_value)
    is_same_program = command_line.expand_home(old_words)[:1] == agent[:1]
    edits = settings_text.take_out(
        settings,
        span,
        len(words) - len(agent) - 1,
        had_args=change.had_args,
        program=old_words[0] if is_same_program else None,
    )
    return settings_text.apply(settings.text, edits)


def _remove_empty(settings: Settings, members: Sequence[str], old_settings: Settings) -> str:
    """The text without the objects that setup added for its entries, if these are gone and nothing else is in them."""
    for depth in range(len(members), 0, -1):
        span, outer_span = settings.find(*members[:depth]), settings.find(*members[: depth - 1])
        if span is None or outer_span is None or old_settings.find(*members[:depth]) is not None:
            break
        if settings.read(span) != {} or settings.has_comment(*span):
            break
        edits = settings_text.remove(settings, outer_span, members[depth - 1])
        settings = Settings(settings_text.apply(settings.text, edits))
    return settings.text


def _find_agent(entry: Entry) -> list[str]:
    """The agent's command in an entry, if this has exactly the form that setup writes: acp-proxy's own words, ``run``,
    options of it, the agent's command.

    Raises NotOurs, which says why not.
    """
    if entry.kind is Kind.UNREADABLE:
        raise NotOurs(str(entry.fault))
    if entry.kind is not Kind.PROXIED or entry.words_after_run is None:
        raise NotOurs("it does not begin with acp-proxy and run, as setup writes it")
    try:
        _, agent = options.parse([*entry.words_after_run], {})  # options of run that the user has added go too
    except UsageError as problem:
        raise NotOurs(str(problem).rstrip(".")) from problem
    if agent[0].startswith("-") or command_line.starts_proxy(agent):
        raise NotOurs("what follows run is not just an agent's command")
    return agent


def write_undo(change: FileChange, record: Record) -> None:
    """Write what ``plan_undo`` found. If nothing of setup is left, remove the copy, the record, and the directories
    that it made. Raises OSError, NotOurs, AcpProxyError; RecordStays if the file is written, and the record is not."""
    with record.lock():
        file_record = record.files.get(str(change.path))
        if file_record is None or read_own_file(change.path) != change.old_content:
            raise NotOurs("it changed in the meantime. Run acp-proxy setup --undo again")
        if change.new_content is None:
            change.path.unlink(missing_ok=True)
        elif change.new_content != change.old_content:
            replace_file(change.path, change.new_content)
        try:
            _record_undo(change, record, file_record)
        except OSError as problem:
            record.files[str(change.path)] = file_record
            raise RecordStays(explain_no_write(problem)) from problem


def _record_undo(change: FileChange, record: Record, file_record: FileRecord) -> None:
    """Note what undo did to a file. Raises OSError."""
    if change.is_settled:
        record.forget(change.path)
        remove_directories(change.path, file_record.made_directories if change.new_content is None else 0)
        return
    undone_names = {*(entry.name for entry in change.entries), *change.renamed}
    record.files[str(change.path)] = replace(
        file_record,
        entries=[entry for entry in file_record.entries if entry.name not in undone_names],
        written="",  # the copy is not what comes back any more
    )
    record.save()
