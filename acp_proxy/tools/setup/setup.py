"""Writes acp-proxy into the settings of this machine's editors, and takes it out again.

Each settings file that changes gets a copy beside it, and an entry in a record of what was changed, which lies beside
acp-proxy's configuration file. A file that is a link, that another user owns, that is no JSON with comments, or that
changed since it was read stays as it is.
"""

import difflib
import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from acp_proxy.config import config_file, options
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.protocol import acp
from acp_proxy.tools.editors import command_line, jsonc
from acp_proxy.tools.editors.agent_names import NamedAgent, make_registry_option
from acp_proxy.tools.editors.config_dirs import Machine, find_machine
from acp_proxy.tools.editors.configured import find_agents, read_words
from acp_proxy.tools.editors.known_editors import EDITORS, Editor, Name, SettingsFiles
from acp_proxy.tools.editors.snippets import EditorEntry, make_snippet
from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.setup import settings_text
from acp_proxy.tools.setup.settings_text import Settings
from acp_proxy.transcript import private_files

_LARGEST_FILE_BYTES = 16 * 1024 * 1024
COPY_SUFFIX = ".before-acp-proxy"
"""The end of the name of a copy."""
PUT_IN_FRONT, NAMED, ADDED, REPLACED = "put in front", "named", "added", "replaced"
_UNKNOWN = "unknown"  # in no record: whether setup changed the entry cannot be said


@dataclass(frozen=True, slots=True)
class EntryChange:
    """What was done to the entry of one agent: acp-proxy was put in front, an entry of the editor's own registry was
    given a command, the entry was added, or acp-proxy's own words were replaced because they do not start it.

    ``had_args``: whether the entry had arguments before. ``new_words``: what starts acp-proxy there now, up to ``run``.
    ``old_words``: what started it before. The agent's command is not kept, since it may have secrets.
    """

    name: str
    how: str
    had_args: bool = True
    old_words: Sequence[str] = ()
    new_words: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class FileChange:
    """What would change in one settings file. ``old_content``: None: there is no file. ``new_content``: None: the file
    goes. ``problem``: why nothing changes. ``kept``: the entries that undo leaves, and why. ``is_copy_changed``: the
    copy is not what setup wrote, and is not used."""

    editor: Name
    path: Path
    old_content: bytes | None
    new_content: bytes | None = None
    entries: tuple[EntryChange, ...] = ()
    problem: str | None = None
    kept: tuple[tuple[str, str], ...] = ()
    is_copy_changed: bool = False

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


@dataclass(slots=True)
class FileRecord:
    """What setup did to one file. ``copy``: the name of the copy beside it; None: there was no file.
    ``written``: the digest of what was written last; empty if the user had edited the file between two writes, so that
    the copy is not what it was before. ``entries``: the changes that were made. ``copied``: the digest of the copy.
    """

    copy: str | None
    written: str
    entries: list[EntryChange] = field(default_factory=list)
    copied: str = ""

    def is_right_copy(self, data: bytes) -> bool:
        """Whether the copy is as setup wrote it. An early record does not say."""
        return self.copied in ("", digest(data))


def find_settings(machine: Machine, editors: Sequence[Name]) -> list[tuple[Editor, Path]]:
    """The settings files to look at: those that exist, and for an editor that the user names the usual one."""
    settings: list[tuple[Editor, Path]] = []
    for editor in EDITORS.values():
        kind = editor.configured
        if not isinstance(kind, SettingsFiles) or (editors and editor.name not in editors):
            continue
        files = kind.find_files(machine)
        existing = [path for path in files if os.path.lexists(path)]
        usual_of_installed = [
            path for path in files if path.parent.is_dir()
        ]  # the editor is here, and has no settings yet
        settings += [(editor, path) for path in existing or usual_of_installed[:1] or (files[:1] if editors else [])]
    return settings


def find_entries(editor: Editor, path: Path, planned: FileChange | None = None) -> list[AgentEntry]:
    """The agents in a settings file, or that would be in it after ``planned``; none if it cannot be read."""
    kind = editor.configured
    assert isinstance(kind, SettingsFiles)
    try:
        return _read_entries(kind, path, planned.new_content if planned is not None else read_own_file(path))
    except (OSError, ValueError):
        return []  # the plan says why


def _read_entries(kind: SettingsFiles, path: Path, content: bytes | None) -> list[AgentEntry]:
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
    except IsLink as problem:
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
            return change, _replace_own_words(settings, entry, change.old_words, own_words)
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
    return change, _replace_own_words(settings, entry, change.old_words, own_words)


def _replace_own_words(
    settings: Settings, entry: settings_text.Span, old_words: Sequence[str], new_words: Sequence[str]
) -> list[settings_text.Edit]:
    """Start acp-proxy with other words. Both may end with ``run``, which then stays."""
    if old_words[-1] == new_words[-1]:
        old_words, new_words = old_words[:-1], new_words[:-1]
    return settings_text.replace_words(settings, entry, len(old_words) - 1, new_words)


# --- Files


class NotOurs(ValueError):
    """A file that setup must not change. The text says why."""


class IsLink(NotOurs):
    """A link: the file that it leads to may be shared with other machines."""


def read_own_file(path: Path) -> bytes | None:
    """The content of a settings file. None: it does not exist.

    Raises OSError, and NotOurs for a link, another user's file, and what is no file or too large.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        raise IsLink(f"it is a link, to {os.path.realpath(path)}")
    if not stat.S_ISREG(status.st_mode):
        raise NotOurs("it is not a file")
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise NotOurs("it belongs to another user. Make it yours, or run acp-proxy setup as that user")
    if status.st_size > _LARGEST_FILE_BYTES:
        raise NotOurs("it is larger than 16 MiB")
    return path.read_bytes()


def write_file(change: FileChange, record: "Record") -> None:
    """Write a change: first the copy and the record, then the file, as a whole. Raises OSError, NotOurs."""
    assert change.new_content is not None
    if read_own_file(change.path) != change.old_content:
        raise NotOurs("it changed in the meantime. Close its editor's settings and run acp-proxy setup again")
    change.path.parent.mkdir(parents=True, exist_ok=True)
    file_record = record.files.get(str(change.path))
    is_edited = file_record is not None and digest(change.old_content or b"") != file_record.written
    if file_record is None:
        file_record = FileRecord(None, "")
        if change.old_content is not None:
            file_record.copy = _write_copy(change.path, change.old_content)
            file_record.copied = digest(change.old_content)
    entries = {entry.name: entry for entry in file_record.entries}
    for entry in change.entries:
        if entry.how == REPLACED and entry.name in entries:  # what stood there before setup stays in the record
            entry = replace(entries[entry.name], new_words=entry.new_words)
        entries[entry.name] = entry
    file_record.entries = [*entries.values()]
    file_record.written = "" if is_edited else digest(change.new_content)
    record.files[str(change.path)] = file_record
    record.save()
    replace_file(change.path, change.new_content)


def is_as_written(change: FileChange) -> bool:
    """Whether a file still has what ``write_file`` wrote: an editor that runs may write its settings anew."""
    try:
        return read_own_file(change.path) == change.new_content
    except (OSError, NotOurs):
        return False


def _write_copy(path: Path, data: bytes) -> str:
    """A copy beside the file, with its permissions, under a name that is free. Returns the name."""
    for number in range(1, 1000):
        copy_path = path.with_name(path.name + COPY_SUFFIX + ("" if number == 1 else f"-{number}"))
        try:
            with copy_path.open("xb") as file:
                os.chmod(copy_path, stat.S_IMODE(path.stat().st_mode))
                file.write(data)
        except FileExistsError:
            continue
        return copy_path.name
    raise NotOurs(f"there are too many copies beside it: {path}{COPY_SUFFIX}-*. Remove those that you do not need")


def replace_file(path: Path, data: bytes) -> None:
    """Write a file as a whole, with the permissions that it has. Raises OSError."""
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:40]}.", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            file.close()
            if path.exists():
                os.chmod(file.name, stat.S_IMODE(path.stat().st_mode))
            elif os.name == "posix":
                os.chmod(file.name, 0o666 & ~private_files.read_umask())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- The record, and undo


class Record:
    """What setup did on this machine: ``setup.json`` beside the configuration file."""

    def __init__(self, path: Path) -> None:
        """Raises AcpProxyError if the file is there and cannot be read."""
        self.path = path
        self.files: dict[str, FileRecord] = {}
        try:
            content = json.loads(path.read_bytes())
            for name, file in content["files"].items():
                entries = [EntryChange(**entry) for entry in file["entries"]]
                self.files[name] = FileRecord(file["copy"], file["written"], entries, file.get("copied", ""))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise AcpProxyError(
                f"{path}, in which setup notes what it changed, cannot be read ({problem}). "
                f"The files as they were lie beside your editors' settings, with the ending {COPY_SUFFIX}."
            ) from problem

    def save(self) -> None:
        """Write it, or remove it if it has nothing. Raises OSError."""
        if not self.files:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"version": 1, "files": {name: asdict(file) for name, file in self.files.items()}}
        replace_file(self.path, json.dumps(content, indent=2).encode() + b"\n")


def open_record(environment: Mapping[str, str]) -> Record:
    """The record of this user. Raises AcpProxyError."""
    environment_without_config = {name: value for name, value in environment.items() if name != config_file.VARIABLE}
    return Record(Path(config_file.find_path(environment_without_config)).with_name("setup.json"))


def plan_undo(path: Path, file_record: FileRecord) -> FileChange:
    """What takes back exactly what setup did to a file: its copy, or if it was edited since, what setup put there.

    ``new_content`` is None if the file must go, because setup made it. Without entries, nothing of setup is left in it,
    but in those that are kept.
    """
    editor = next((known_editor for known_editor in EDITORS.values() if _is_file_of(known_editor, path)), None)
    name = editor.name if editor is not None else Name.ZED
    data: bytes | None = None
    try:
        data = read_own_file(path)
        if data is None:
            return FileChange(name, path, None)
        copy_content = read_copy(path, file_record)
        is_copy_right = copy_content is not None and file_record.is_right_copy(copy_content)
        is_copy_changed = copy_content is not None and not is_copy_right
        if digest(data) == file_record.written and (is_copy_right or file_record.copy is None):
            return FileChange(name, path, data, copy_content, tuple(file_record.entries))
        text = data.decode("utf-8")
        configured = editor.configured if editor is not None else None
        kind = configured if isinstance(configured, SettingsFiles) else _guess_kind(Settings(text))
        old_text = (copy_content or b"").decode("utf-8") if is_copy_right or file_record.copy is None else None
        undone, kept = list[EntryChange](), list[tuple[str, str]]()
        for change in [*file_record.entries, *_find_unrecorded(kind, path, data, file_record, old_text)]:
            try:
                new_text = _undo_entry(Settings(text), kind.members, change)
            except NotOurs as problem:
                kept.append((change.name, str(problem)))
                continue
            if new_text != text:
                undone.append(change)
            text = new_text
        if old_text is not None and any(change.how == ADDED for change in undone):
            text = _remove_empty(Settings(text), kind.members, Settings(old_text))
        jsonc.decode(text)
    except UnicodeDecodeError:
        return FileChange(name, path, data, problem="it is not UTF-8")
    except ValueError as problem:
        return FileChange(name, path, data, problem=str(problem))
    except OSError as problem:
        return FileChange(name, path, data, problem=f"{problem.strerror or problem}. Check its permissions")
    return FileChange(name, path, data, text.encode(), tuple(undone), None, tuple(kept), is_copy_changed)


def read_copy(path: Path, file_record: FileRecord) -> bytes | None:
    """The copy of a file as it is now. None: there is none. Raises OSError."""
    if file_record.copy is None:
        return None
    try:
        return path.with_name(file_record.copy).read_bytes()
    except FileNotFoundError:  # the user has removed it
        return None


def _is_file_of(editor: Editor, path: Path) -> bool:
    kind = editor.configured
    return isinstance(kind, SettingsFiles) and path in kind.find_files(find_machine())


def _guess_kind(settings: Settings) -> SettingsFiles:
    """The form of a file where no editor has its settings any more, such as after a change of PASEO_HOME."""
    kinds = [editor.configured for editor in EDITORS.values() if isinstance(editor.configured, SettingsFiles)]
    return next((kind for kind in kinds if settings.find(*kind.members) is not None), kinds[0])


def _find_unrecorded(
    kind: SettingsFiles, path: Path, data: bytes, file_record: FileRecord, old_text: str | None
) -> list[EntryChange]:
    """The entries of an edited file that mention acp-proxy under names that the record does not have: the user has
    renamed or copied what setup wrote. Those that had acp-proxy before setup, in ``old_text``, keep it. Where that
    cannot be said, such as without ``old_text``, the change is unknown. Raises ValueError.
    """
    if digest(data) == file_record.written:
        return []
    old_entries = _read_entries(kind, path, (old_text or "").encode())
    recorded_names = {entry.name for entry in file_record.entries}
    known_names = recorded_names | {entry.name for entry in old_entries if entry.mentions_proxy}
    known_words = {entry.words for entry in old_entries}
    entries = _read_entries(kind, path, data)
    missing_names = recorded_names - {entry.name for entry in entries}
    had_args = all(
        entry.had_args and entry.how != ADDED for entry in file_record.entries if entry.name in missing_names
    )
    old_words = {change.name: change.old_words for change in file_record.entries if change.how == REPLACED}
    repaired_agents = [entry.words[len(old_words[entry.name]) :] for entry in old_entries if entry.name in old_words]

    def is_unknown(entry: AgentEntry) -> bool:
        return old_text is None or any(entry.words[-len(agent) :] == agent for agent in repaired_agents)

    return [
        EntryChange(entry.name, _UNKNOWN if is_unknown(entry) else PUT_IN_FRONT, had_args)
        for entry in entries
        if entry.mentions_proxy and entry.name not in known_names and entry.words not in known_words
    ]


def _undo_entry(settings: Settings, members: Sequence[str], change: EntryChange) -> str:
    """The text without what setup did to an entry.

    Raises NotOurs, which says why, if the entry is not as setup writes it.
    """
    agents, entry = settings.find(*members), settings.find(*members, change.name)
    if agents is None or entry is None or settings.text[entry[0]] != "{":
        return settings.text  # the user has removed it
    value = settings.read(entry)
    words = read_words(value)
    starts_as_written = bool(change.new_words) and words[: len(change.new_words)] == list(change.new_words)
    if not starts_as_written and not command_line.mentions_proxy(words):
        return settings.text  # the user has taken acp-proxy out
    own_count = len(change.new_words) - 1 if starts_as_written else command_line.count_own_words(words)
    agent = _find_agent(value, words, own_count)
    if change.how == _UNKNOWN:
        raise NotOurs("it may have gone through acp-proxy before setup")
    if change.how == ADDED:
        return settings_text.apply(settings.text, settings_text.remove(settings, agents, change.name))
    if change.how == NAMED:
        is_as_written = acp.text(value, "type") == "custom" and words[:1] == [acp.text(value, "command")]
        if not is_as_written or agent != [f"{PREFIX}{change.name}"]:
            raise NotOurs("it is not as setup writes an agent of Zed's registry")
        return settings_text.unname_command(settings, entry)
    if change.how == REPLACED:
        if not change.old_words:
            raise NotOurs("an earlier version of setup has replaced acp-proxy's own words there")
        if not starts_as_written:
            return settings.text  # the user has replaced them once more
        edits = _replace_own_words(settings, entry, change.new_words, change.old_words)
        return settings_text.apply(settings.text, edits)
    if agent[0].startswith(PREFIX):
        raise NotOurs(f"only acp-proxy can start {agent[0]}")
    edits = settings_text.take_out(settings, entry, len(words) - len(agent) - 1, had_args=change.had_args)
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


def _find_agent(entry: object, words: list[str], own_count: int | None) -> list[str]:
    """The agent's command in an entry, if this has exactly the form that setup writes: acp-proxy's own words, ``run``,
    options of it, the agent's command. ``own_count``: how many are acp-proxy's own; None: none stand first.

    Raises NotOurs, which says why not.
    """
    arguments = acp.member(entry, "command" if isinstance(acp.member(entry, "command"), list) else "args")
    if isinstance(arguments, list) and not all(isinstance(argument, str) for argument in arguments):
        raise NotOurs("its args are not a list of texts")
    if own_count is None or words[own_count : own_count + 1] != ["run"]:
        raise NotOurs("it does not begin with acp-proxy and run, as setup writes it")
    try:
        _, agent = options.parse(words[own_count + 1 :], {})  # the user may have added options of run, which go too
    except UsageError as problem:
        raise NotOurs(str(problem).rstrip(".")) from problem
    if agent[0].startswith("-") or command_line.starts_proxy(agent):
        raise NotOurs("behind run there is no agent's command alone")
    return agent


def write_undo(change: FileChange, record: Record) -> None:
    """Write what ``plan_undo`` found, and remove the copy if nothing of setup is left. Raises OSError, NotOurs."""
    if read_own_file(change.path) != change.old_content:
        raise NotOurs("it changed in the meantime. Run acp-proxy setup --undo again")
    if change.new_content is not None:
        replace_file(change.path, change.new_content)
    elif change.old_content is not None:
        change.path.unlink()
    if not change.kept:
        forget_file(change.path, record)
        return
    kept_names = {name for name, _ in change.kept}
    file_record = record.files[str(change.path)]
    file_record.entries = [entry for entry in file_record.entries if entry.name in kept_names]
    file_record.written = ""  # the copy is not what comes back any more
    record.save()


def find_copy(path: Path, record: Record) -> Path | None:
    """Where the copy of a file is. None: there is none."""
    name = record.files[str(path)].copy
    return path.with_name(name) if name is not None and path.with_name(name).exists() else None


def forget_file(path: Path, record: Record) -> None:
    """Remove the copy of a file that has nothing of setup any more, and its part of the record. Raises OSError."""
    file_record = record.files.pop(str(path))
    copy_content = read_copy(path, file_record)
    if file_record.copy is not None and copy_content is not None and file_record.is_right_copy(copy_content):
        path.with_name(file_record.copy).unlink(missing_ok=True)
    record.save()
