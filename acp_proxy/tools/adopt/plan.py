"""Decides which sessions of an agent's list to load, in which order, and when to start the agent anew. Pure."""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from acp_proxy.protocol import acp, timestamps
from acp_proxy.tools.adopt.adopted import KnownSession

SESSIONS_PER_PROCESS = 20
"""Loaded sessions take memory, and start MCP servers, and not every agent can close them."""


@dataclass(frozen=True, slots=True)
class OfferedSession:
    """A session in an agent's list. ``updated``: when it was last active, in transcript format, if the list says so."""

    session_id: str
    cwd: str | None
    title: str | None
    updated: str | None
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdoptionFilter:
    """Which sessions of a list the user wants. ``is_wanted_directory``: whether those of a directory. ``since``: in
    transcript format, or empty. ``limit``: at most so many sessions, the newest. ``cwd``: the directory that is wanted,
    if there is only one."""

    is_wanted_directory: Callable[[str], bool] = lambda cwd: True
    since: str = ""
    limit: int | None = None
    cwd: str | None = None


class LeftOut(enum.Enum):
    """Why a session that the user wants is not loaded."""

    HERE = "here already"
    DELETED = "deleted here"
    UNTIMED = "without a time, so left out by --since"
    NOWHERE = "without a directory"


@dataclass(frozen=True, slots=True)
class Choice:
    """``loads``: the sessions to load, in this order. ``adopted_before``: the ids of those that were adopted before.
    ``left_out``: how many others there are, by reason. ``over_limit``: how many the limit leaves for another time."""

    loads: tuple[OfferedSession, ...]
    adopted_before: frozenset[str]
    left_out: Mapping[LeftOut, int]
    listed_count: int
    over_limit: int = 0


def read_page(result: object) -> tuple[list[OfferedSession], str | None]:
    """The sessions of an answer to ``session/list``, and the cursor of the next page."""
    entries = acp.member(result, "sessions")
    sessions = [_read_entry(entry) for entry in entries] if isinstance(entries, list) else []
    return [session for session in sessions if session is not None], acp.text(result, "nextCursor") or None


def _read_entry(entry: object) -> OfferedSession | None:
    session_id = acp.session_id(entry)
    if session_id is None:
        return None
    updated = timestamps.normalize(acp.text(entry, "updatedAt") or "")
    directories = tuple(acp.strings(entry, "additionalDirectories"))
    return OfferedSession(session_id, acp.text(entry, "cwd"), acp.text(entry, "title"), updated, directories)


def choose_sessions(
    offered: Iterable[OfferedSession], find_known: Callable[[str], KnownSession], session_filter: AdoptionFilter
) -> Choice:
    """Which of the offered sessions to load: the newest first, then those without a time.

    ``find_known``: what the store knows of a session.
    """
    loads, adopted_before, left_out = list[OfferedSession](), set[str](), Counter[LeftOut]()
    by_id = {session.session_id: session for session in offered}
    for session in by_id.values():
        if session.cwd is not None and not session_filter.is_wanted_directory(session.cwd):
            continue
        if session_filter.since and session.updated is not None and session.updated < session_filter.since:
            continue
        known_session = find_known(session.session_id)
        reason = _find_reason(session, known_session, session_filter)
        if reason is not None:
            left_out[reason] += 1
            continue
        loads.append(session)
        if known_session.is_here:
            adopted_before.add(session.session_id)
    loads.sort(key=lambda session: session.updated or "", reverse=True)
    chosen = loads[: session_filter.limit]
    return Choice(
        tuple(chosen),
        frozenset(adopted_before & {session.session_id for session in chosen}),
        left_out,
        len(by_id),
        len(loads) - len(chosen),
    )


def _find_reason(
    offered: OfferedSession, known_session: KnownSession, session_filter: AdoptionFilter
) -> LeftOut | None:
    if known_session.is_deleted:
        return LeftOut.DELETED
    if known_session.is_here and not _may_have_grown(offered, known_session):
        return LeftOut.HERE
    if offered.cwd is None or not acp.is_absolute(offered.cwd):
        return LeftOut.NOWHERE
    return LeftOut.UNTIMED if session_filter.since and offered.updated is None else None


def _may_have_grown(offered: OfferedSession, known_session: KnownSession) -> bool:
    """Whether the agent may have more of an adopted session. Without a time, only a load can tell."""
    if known_session.note is None:
        return False
    return offered.updated is None or offered.updated != acp.text(known_session.note, "updatedAt")


def needs_restart(loaded: int) -> bool:
    """Whether the agent should be started anew before the next load. ``loaded``: how many its process has loaded."""
    return loaded >= SESSIONS_PER_PROCESS
