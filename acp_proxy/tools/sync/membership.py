"""A store that is part of a history: its settings, in the store's directory ``sync``, and one round at a time."""

import json
import ntpath
import os
import posixpath
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from acp_proxy.cli import config_values
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.relay.start_sync_round import FOLDER, LOCK, NEW_TROUBLE, REPORTED_TROUBLE, SETTINGS, write_trouble
from acp_proxy.tools.sync import records
from acp_proxy.tools.sync.context import Counts, SyncContext
from acp_proxy.tools.sync.interfaces import Logs, Unavailable
from acp_proxy.tools.sync.push import count_waiting_deletes
from acp_proxy.tools.sync.rejoin import begin_at_new_place
from acp_proxy.tools.sync.rounds import do_round, forget
from acp_proxy.tools.sync.segment_cut import LARGEST_BYTES, has_prompt
from acp_proxy.tools.sync.state_db import (
    HISTORY,
    LAST_ROUND,
    MACHINE,
    MACHINE_NAME,
    RECEIVED,
    SENT,
    WAITING,
    RemoteMachine,
    SyncState,
)
from acp_proxy.tools.sync.sync_store import SyncStore, is_windows_path, lock, make_uid, open_private
from acp_proxy.transcript.file_format import Header

_STATE = "state.sqlite3"
_PATIENCE_SECONDS = 30.0
"""Seconds that a command waits for a round that another process does."""
_TICK_SECONDS = 0.05


class NotJoined(AcpProxyError):
    """The store belongs to no history."""


class DamagedSettings(AcpProxyError):
    """The settings of a store that belongs to a history cannot be read."""


class Busy(AcpProxyError):
    """Another process synchronizes this store."""


class SyncSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """``url``: the shared place. ``agents``, ``directories``: only sessions of these, if there are any. ``places``:
    directories of other machines, and what they are here. ``manual``: only ``sync now`` does anything. ``history``: its
    id, so that nobody uses another's logs by mistake."""

    url: str
    key_file: str
    agents: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    places: dict[str, str] = {}
    manual: bool = False
    history: str = ""


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """What ``status`` shows.

    ``machine``: this one's name. ``last_round``: when the last round came to its end, Unix time; 0: never. ``sent``,
    ``received``: records. ``waiting_deletes``: how many wait for a confirmation. ``open_here``: sessions that are open
    here and will get turns. ``machines``: the others.
    ``troubled``: sessions that are left alone (agent, name, why). ``trouble``: what went wrong last.
    """

    machine: str
    last_round: int
    sent: int
    received: int
    waiting_deletes: int
    open_here: int
    machines: list[RemoteMachine]
    troubled: list[tuple[str, str, str]]
    trouble: str


class SyncMembership:
    """The part of a store that belongs to sync."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / FOLDER
        self.settings_file = self._folder / SETTINGS

    @property
    def is_joined(self) -> bool:
        """Whether the store is part of a history."""
        return self.settings_file.exists()

    def find_settings(self) -> SyncSettings | None:
        """The settings; None if there are none that can be read, so that the store may join."""
        try:
            return self.read_settings()
        except (NotJoined, DamagedSettings):
            return None

    def read_settings(self) -> SyncSettings:
        """Raises NotJoined, DamagedSettings."""
        try:
            return msgspec.convert(json.loads(self.settings_file.read_text("utf-8")), SyncSettings)
        except FileNotFoundError as problem:
            raise NotJoined(
                "this store is not synchronized. To begin: acp-proxy sync init URL; "
                "on a second machine: acp-proxy sync join URL"
            ) from problem
        except (ValueError, msgspec.ValidationError) as problem:
            raise DamagedSettings(
                f"{self.settings_file} cannot be read: {problem}. Correct it, or join again, with the options as "
                "before: acp-proxy sync join URL"
            ) from problem

    def join(self, settings: SyncSettings, machine: str, *, is_first: bool = False) -> None:
        """Make the store part of a history. ``machine``: this machine's name, for people. ``is_first``: it is the
        first. Raises OSError."""
        if self.find_settings() is not None:
            raise AcpProxyError("this store is synchronized already. To stop that: acp-proxy sync leave")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if (self._folder / _STATE).exists():
            self._forget_history()
        with self._open_state() as state:
            state.set_facts({MACHINE: make_uid(), MACHINE_NAME: machine})
            if is_first:  # a record that says nothing: others find the history, also if there is no session yet
                blank = records.BlankRecord("", "", "")
                state.add_to_outbox(blank, records.encode(blank, machine))
            state.commit()
        self.write_settings(settings)

    def write_settings(self, settings: SyncSettings) -> None:
        """Write the settings. Raises OSError."""
        unfinished = self._folder / f"{SETTINGS}.new"
        fd = open_private(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(structs.asdict(settings), file, indent=2)
        unfinished.replace(self.settings_file)

    def map_directory(self, their_directory: str, own_directory: str) -> None:
        """Show the sessions of another machine's directory as those of one here."""
        settings = self.read_settings()
        self.write_settings(structs.replace(settings, places=settings.places | {their_directory: own_directory}))

    def leave(self) -> None:
        """Forget everything about the history. Sessions and the shared place stay as they are. Raises NotJoined,
        OSError, Busy."""
        with suppress(DamagedSettings):
            self.read_settings()
        self._forget_history()

    def _forget_history(self) -> None:
        with self._lock_rounds():
            for name in (SETTINGS, _STATE, f"{_STATE}-journal"):
                (self._folder / name).unlink(missing_ok=True)
            forget_trouble(self._folder)

    def do_round(
        self,
        logs: Logs,
        *,
        confirms_deletes: bool = False,
        forgets: str = "",
        patience: float | None = _PATIENCE_SECONDS,
        on_begin: Callable[[], None] = lambda: None,
    ) -> Counts:
        """Do one round. If the settings name another history since the last one, begin anew in that. Raises
        AcpProxyError, OSError.

        ``confirms_deletes``: publish even many deletes. ``forgets``: the id of a machine to forget. ``patience``:
        seconds to wait for another process's round; None: as long as it takes. ``on_begin``: called when that is over.
        """
        self.read_settings()
        with self._lock_rounds(patience), self._open_state() as state:
            settings = self.read_settings()
            if settings.history not in ("", logs.history):
                raise Busy("this store has moved to another shared place. Try again")
            if state.get_text(HISTORY) not in ("", logs.history):
                begin_at_new_place(state, make_uid())
                confirms_deletes = True  # those of the place before
            state.set_facts({HISTORY: logs.history})
            on_begin()
            os.utime(self._folder / LOCK)
            context = SyncContext(
                logs, SyncStore(self._root, bin_days=config_values.read_bin_days()), state, time.time, make_uid
            )
            context.home = os.path.expanduser("~")
            context.localize = lambda header, home: localize_header(header, home, settings)
            context.may_share = lambda agent_folder, header: is_shared(agent_folder, header, settings)
            try:
                return self._do_and_count(context, forgets, confirms_deletes=confirms_deletes)
            except (AcpProxyError, OSError) as problem:
                write_trouble(self._folder, str(problem))
                raise

    def find_machine(self, name: str) -> str:
        """The id of another machine. ``name``: its name, or the beginning of its id. Raises UsageError."""
        with self._open_state(only_reads=True) as state:
            own_name = state.get_text(MACHINE_NAME)
            remote_machines = state.list_machines()
        exact_matches = [machine for machine in remote_machines if machine.name == name]
        matches = exact_matches or [machine for machine in remote_machines if name and machine.id.startswith(name)]
        if len(matches) == 1:
            return matches[0].id
        if matches:
            ids = ", ".join(f"{machine.short_id} ({machine.last_read} records)" for machine in matches)
            raise UsageError(f"{len(matches)} machines are called {name}: {ids}. Write the id of one")
        if name == own_name:
            raise UsageError(f"{name} is this machine. To stop sharing here: acp-proxy sync leave")
        known_names = ", ".join(machine.shown_name for machine in remote_machines) or "none"
        raise UsageError(f"no other machine is called {name}. Known are: {known_names}")

    def _do_and_count(self, context: SyncContext, forgets: str, *, confirms_deletes: bool) -> Counts:
        try:
            counts = forget(context, forgets) if forgets else do_round(context, confirms_deletes=confirms_deletes)
        except sqlite3.Error as problem:
            raise Unavailable(f"{self._folder / _STATE} cannot be used: {problem}") from problem
        received = context.state.get_number(RECEIVED) + counts.received
        context.state.set_facts({RECEIVED: received, WAITING: counts.open_here})
        context.state.commit()
        forget_trouble(self._folder)
        return counts

    def list_leaving(self, settings: SyncSettings) -> set[tuple[str, str]]:
        """The sessions that would leave this machine with these settings: their agents and names. Raises OSError."""
        store, leaving_sessions = SyncStore(self._root), set()
        for file in store.list_files():
            known_header = None if store.is_soft_deleted(file.name) else store.read_header(file.agent_folder, file.name)
            if known_header is None or not is_shared(file.agent_folder, known_header.header, settings):
                continue
            if has_prompt(store.read(file.agent_folder, file.name, 0, LARGEST_BYTES)):
                leaving_sessions.add((file.agent_folder, file.name))
        return leaving_sessions

    def read_status(self) -> SyncStatus:
        """Raises NotJoined, Unavailable."""
        self.read_settings()
        with self._open_state(only_reads=True) as state:
            troubled_sessions = [
                (local_session.agent_folder, local_session.name, local_session.trouble)
                for local_session in state.list_local_sessions()
                if local_session.trouble
            ]
            return SyncStatus(
                state.get_text(MACHINE_NAME),
                state.get_number(LAST_ROUND),
                state.get_number(SENT),
                state.get_number(RECEIVED),
                count_waiting_deletes(state),
                state.get_number(WAITING),
                state.list_machines(),
                troubled_sessions,
                read_trouble(self._folder),
            )

    @contextmanager
    def _lock_rounds(self, patience: float | None = _PATIENCE_SECONDS) -> Iterator[None]:
        """Wait until no other process does a round. Raises Busy."""
        fd = open_private(self._folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            deadline = time.monotonic() + (patience or 0.0)
            while True:
                try:
                    lock(fd, wait=patience is None)
                    break
                except BlockingIOError as problem:
                    if time.monotonic() >= deadline:
                        raise Busy("another process is synchronizing this store. Try again later") from problem
                time.sleep(_TICK_SECONDS)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _open_state(self, *, only_reads: bool = False) -> Iterator[SyncState]:
        path = self._folder / _STATE
        with suppress(FileExistsError):
            os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        try:
            state = SyncState(str(path), only_reads=only_reads)
        except sqlite3.Error as problem:
            raise Unavailable(
                f"{path} cannot be used: {problem}. Run: acp-proxy sync leave, then: acp-proxy sync join URL"
            ) from problem
        try:
            yield state
        finally:
            state.close()


def localize_header(header: Header, home: str, settings: SyncSettings) -> Header:
    """The header of another machine's session, with its directory as it is here. ``home``: its user's."""
    if header.cwd is None:
        return header
    for their_directory, own_directory in sorted(settings.places.items(), key=lambda place: -len(place[0])):
        if (inner_path := _find_below(header.cwd, their_directory)) is not None:
            return structs.replace(header, cwd=_join_inside(own_directory, inner_path))
    inner_path = _find_below(header.cwd, home) if home else None
    return (
        header if inner_path is None else structs.replace(header, cwd=_join_inside(os.path.expanduser("~"), inner_path))
    )


def is_shared(agent_folder: str, header: Header, settings: SyncSettings) -> bool:
    """Whether a session may leave this machine."""
    is_agent = not settings.agents or agent_folder in settings.agents
    cwd = header.cwd or ""
    return is_agent and (
        not settings.directories or any(_find_below(cwd, directory) is not None for directory in settings.directories)
    )


def _find_below(cwd: str, directory: str) -> str | None:
    """What follows the directory in a path, with slashes; empty if it is the directory, None if it is not in it."""
    cwd, directory = _use_slashes(cwd), _use_slashes(directory).rstrip("/")
    beginning, rest = cwd[: len(directory)], cwd[len(directory) :]
    is_same = beginning.lower() == directory.lower() if is_windows_path(cwd) else beginning == directory
    return rest.strip("/") if is_same and rest[:1] in ("", "/") else None


def _use_slashes(path: str) -> str:
    return path.replace("\\", "/") if is_windows_path(path) else path


def _join_inside(directory: str, inner_path: str) -> str:
    """The directory that ``inner_path`` names in another one."""
    if not inner_path:
        return directory
    return (
        ntpath.join(directory, inner_path.replace("/", "\\"))
        if is_windows_path(directory)
        else posixpath.join(directory, inner_path)
    )


def read_trouble(folder: Path) -> str:
    """What went wrong last; empty after a success."""
    for name in (NEW_TROUBLE, REPORTED_TROUBLE):
        try:
            return (folder / name).read_text("utf-8", "replace")
        except OSError:
            continue
    return ""


def forget_trouble(folder: Path) -> None:
    """The last round came to its end. Raises OSError."""
    for name in (NEW_TROUBLE, REPORTED_TROUBLE):
        (folder / name).unlink(missing_ok=True)
