"""What a list shows of a session, computed from its entries one by one.

Pure. msgspec can store the state between two entries, so that a list need not read a transcript again.
docs/transparency.md defines what a list shows.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from acp_proxy.protocol import acp, jsonrpc, timestamps, update_kinds, v2_updates, versions
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.chunk_runs import AlikeChunks
from acp_proxy.transcript.file_format import Entry, Header, NoteType
from acp_proxy.transcript.titles import Titles, clean_agent_title
from acp_proxy.transcript.usage import SessionUsage

_META_LIMIT = 64 * 1024
"""Bytes of a session's ``_meta`` as JSON. Every list contains it, so updates that would exceed this are ignored."""
_SUBAGENTS_LIMIT = 1000
"""Every list reads them, so an agent that names more has the others treated as sessions of their own."""
_META_LEVELS = 64
"""The most levels of a value: more than any sensible one has, and far below what encoders and the stack can handle."""


class Summary(Struct):
    """The state of one session, to which entries are added.

    ``prompts``: the user's turns; before the first prompt recorded here (``is_prompted``), the user's messages that the
    agent reported. ``replies``: the turns in which the agent said or did something; ``spoke``: it has in the current
    one. ``failed``: a prompt was answered with an error, or the agent exited before answering one. ``last``: the time
    of the last conversation entry. ``agent_updated``, ``agent_title``: what the agent reported. ``last_run``: the run
    that wrote the last entry. ``subagents``: the ids of the sessions that its subagents have.
    """

    directories: list[str] = field(default_factory=list)
    remote_directories: list[str] = field(default_factory=list)
    """Where it was opened on other machines: not its directory here."""
    open: dict[str, int] = field(default_factory=dict)
    """The number of unanswered prompts, by the run that sent them."""
    meta: dict[str, object] = field(default_factory=dict)
    titles: Titles = field(default_factory=Titles)
    usage: SessionUsage = field(default_factory=SessionUsage)
    machine: str = ""
    """The name of the machine where it was begun; empty if that is this one."""
    git: dict[str, str] = field(default_factory=dict)
    """``branch`` and ``commit`` where it began."""
    cwd: str | None = None
    prompts: int = 0
    is_prompted: bool = False
    is_imported: bool = False
    replies: int = 0
    failed: bool = False
    last: str | None = None
    agent_updated: str | None = None
    agent_title: str | None = None
    spoke: bool = False
    last_run: str | None = None
    subagents: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, header: Header) -> "Summary":
        """The summary of a transcript that has only this header."""
        summary = cls()
        summary.cwd, summary.directories, summary.last = header.cwd, header.directories, header.created_at or None
        summary.remote_directories, summary.machine = header.remote_directories, header.machine
        summary.git = header.git.encode_members()
        summary.is_imported = header.origin == file_format.IMPORTED
        summary.usage = SessionUsage.begin(header)
        return summary

    @property
    def title(self) -> str | None:
        """The agent's title, else one made from the prompts; None if there is neither."""
        return self.agent_title or self.titles.best

    @property
    def updated(self) -> str | None:
        """When the session was last active; a time that the agent reports after the last prompt takes precedence."""
        return self.agent_updated or self.last

    def make_info(self) -> dict[str, object]:
        """The ``session_info_update`` for this session: the title that a list shows, and ``_meta``."""
        return ({"title": self.title} if self.title is not None else {}) | ({"_meta": self.meta} if self.meta else {})

    def add(self, entry: Entry) -> None:
        """Add the next entry."""
        self.last_run = entry.run
        if entry.note is not None:
            self._add_note(entry, entry.note)
        elif entry.is_prompt:
            self._add_prompt(entry)
        elif entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.STEERING:
            self._add_steering(entry)
        elif entry.peer is Peer.AGENT and entry.answered_method == acp.PROMPT:
            failed = acp.member(entry.value, "error") is not None
            if failed or entry.protocol_version == file_format.ACP_V1:
                self._end_prompt(entry)
            self.usage.add_answer(entry, acp.member(entry.value, "result"))
            self.failed |= failed
        elif entry.peer is Peer.AGENT and acp.text(entry.value, "method") == acp.UPDATE:
            update = acp.member(acp.member(entry.value, "params"), "update")
            if isinstance(update, Mapping):
                self._add_update(entry, update)

    def add_chunks(self, chunks: AlikeChunks) -> None:
        """Add entries that differ from the last one only in time and text."""
        self.last = chunks.at

    def _add_note(self, entry: Entry, note: Mapping[str, object]) -> None:
        kind = note.get("type")
        if kind == NoteType.OPENED:
            cwd = acp.text(note, "cwd")
            self.cwd = cwd if cwd and cwd not in self.remote_directories else self.cwd
            self.directories = acp.strings(note, "additionalDirectories")
        elif kind == NoteType.FAILED:
            self._end_prompt(entry)
            self.failed = True
        elif kind == NoteType.ADOPTED:  # the agent's list counts, not what its replay said before
            self.agent_title = clean_agent_title(note.get("title")) or self.agent_title
            updated, adopted = (timestamps.normalize(acp.text(note, name) or "") for name in ("updatedAt", "adoptedAt"))
            # A time to come would make this session the last one for ever.
            self.agent_updated = min(updated, adopted) if updated and adopted else updated

    def _add_prompt(self, entry: Entry) -> None:
        self.prompts += 1
        self.is_prompted = True
        self.open[entry.run] = self.open.get(entry.run, 0) + 1
        self.last, self.agent_updated, self.spoke = entry.at, None, False
        self.titles.consider(acp.member(acp.member(entry.value, "params"), "prompt"))
        self.usage.add_prompt(entry)

    def _add_steering(self, entry: Entry) -> None:
        """The user's words into a running turn; if none is under way, they begin one."""
        self.last, self.agent_updated = entry.at, None
        if not self.open:
            self.prompts, self.is_prompted, self.spoke = self.prompts + 1, True, False
            self.titles.consider(acp.member(acp.member(entry.value, "params"), "prompt"))

    def _end_prompt(self, entry: Entry) -> None:
        self.last = entry.at
        count = self.open.pop(entry.run, 0) - 1
        if count > 0:
            self.open[entry.run] = count

    def _add_update(self, entry: Entry, update: Mapping[str, object]) -> None:
        as_v1 = update if entry.protocol_version == file_format.ACP_V1 else v2_updates.normalize_to_v1(update)
        kind = acp.update_kind(as_v1)
        if kind == update_kinds.SESSION_INFO:
            self._add_info(update)
        elif kind == update_kinds.USAGE:
            self.usage.add_update(entry, update)
        elif kind == update_kinds.WORK_STATE:
            self._add_state(entry, update)
        elif update_kinds.is_conversation(kind):
            self.last = entry.at
            if kind == update_kinds.SUBAGENT:
                self._add_subagent(acp.session_id(update))
            if not self.is_prompted and self.cwd is not None:
                self._count_replayed(kind, as_v1)
            if kind != update_kinds.USER_CHUNK and not self.spoke:
                self.spoke = True
                self.replies += 1

    def _add_state(self, entry: Entry, update: Mapping[str, object]) -> None:
        """The agent's state, which ends all turns of its run in version 2."""
        is_idle = entry.protocol_version != file_format.ACP_V1 and versions.V2.read_work_state(update) == versions.IDLE
        if is_idle and entry.run in self.open:
            del self.open[entry.run]
            self.last = entry.at
            self.usage.add_answer(entry, update)
            self.failed |= acp.text(update, "stopReason") == "error"

    def _add_subagent(self, id: str | None) -> None:
        if id is not None and id not in self.subagents and len(self.subagents) < _SUBAGENTS_LIMIT:
            self.subagents.append(id)

    def _count_replayed(self, kind: str | None, update: object) -> None:
        """Count turns in what an agent replayed of a session that was opened here but prompted elsewhere: from each
        user message on, and one if an imported session has only the agent's messages."""
        is_users = kind == update_kinds.USER_CHUNK
        if (is_users and self.spoke) or (not self.prompts and (is_users or self.is_imported)):
            self.prompts += 1
            self.spoke = False
        if is_users:
            self.titles.consider([acp.member(update, "content")])

    def _add_info(self, update: Mapping[str, object]) -> None:
        if "title" in update and isinstance(update["title"], str | None):
            title = clean_agent_title(update["title"])
            self.agent_title = title if title is not None or update["title"] is None else self.agent_title
        if "updatedAt" in update:
            time = update["updatedAt"]
            if time is None:
                self.agent_updated = None
            elif isinstance(time, str):
                self.agent_updated = timestamps.normalize(time) or self.agent_updated
        if "_meta" in update:
            meta = update["_meta"]
            if meta is None:
                self.meta = {}
            elif isinstance(meta, Mapping) and _is_shallow(meta, _META_LEVELS):
                merged = merge(self.meta, meta)
                self.meta = merged if len(jsonrpc.dump(merged)) <= _META_LIMIT else self.meta


def merge(target: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """A JSON object with ``changes`` merged in, member by member; ``null`` removes a member."""
    merged = dict(target)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            old = merged.get(key)
            merged[key] = merge(old if isinstance(old, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _is_shallow(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(item, levels - 1) for item in inner)
