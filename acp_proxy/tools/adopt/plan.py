"""Decides which sessions of an agent's list to load, in which order, and when to start the agent anew. Pure."""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from acp_proxy.protocol import acp, timestamps
from acp_proxy.tools.adopt.adopted import KnownHere

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
class Wanted:
    """What the user wants of a list. ``is_wanted_place``: of a directory. ``since``: in transcript format, or empty.
    ``limit``: at most so many sessions, the newest. ``cwd``: the directory that is wanted, if there is only one."""

    is_wanted_place: Callable[[str], bool] = lambda cwd: True
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
    """``loads``: the sessions to load, in this order. ``again``: the ids of those that were adopted before.
    ``left_out``: how many others there are, by reason. ``over``: how many the limit leaves for another time."""

    loads: tuple[OfferedSession, ...]
    again: frozenset[str]
    left_out: Mapping[LeftOut, int]
    listed: int
    over: int = 0


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


def choose_sessions(listed: Iterable[OfferedSession], find_known: Callable[[str], KnownHere], choice: Wanted) -> Choice:
    """``find_known``: what the store knows of a session. The newest come first, then those without a time."""
    loads, again, left_out = list[OfferedSession](), set[str](), Counter[LeftOut]()
    once = {session.session_id: session for session in listed}
    for session in once.values():
        if session.cwd is not None and not choice.is_wanted_place(session.cwd):
            continue
        if choice.since and session.updated is not None and session.updated < choice.since:
            continue
        known = find_known(session.session_id)
        why = _find_reason(session, known, choice)
        if why is not None:
            left_out[why] += 1
            continue
        loads.append(session)
        if known.is_here:
            again.add(session.session_id)
    loads.sort(key=lambda session: session.updated or "", reverse=True)
    kept = loads[: choice.limit]
    return Choice(
        tuple(kept),
        frozenset(again & {session.session_id for session in kept}),
        left_out,
        len(once),
        len(loads) - len(kept),
    )


def _find_reason(listed: OfferedSession, known: KnownHere, choice: Wanted) -> LeftOut | None:
    if known.is_deleted:
        return LeftOut.DELETED
    if known.is_here and not _may_have_grown(listed, known):
        return LeftOut.HERE
    if listed.cwd is None or not acp.is_absolute(listed.cwd):
        return LeftOut.NOWHERE
    return LeftOut.UNTIMED if choice.since and listed.updated is None else None


def _may_have_grown(listed: OfferedSession, known: KnownHere) -> bool:
    """Whether the agent may have more of an adopted session. Without a time, only a load can tell."""
    if known.note is None:
        return False
    return listed.updated is None or listed.updated != acp.text(known.note, "updatedAt")


def needs_restart(loaded: int) -> bool:
    """Whether the agent should be started anew before the next load. ``loaded``: by this process, since it started."""
    return loaded >= SESSIONS_PER_PROCESS
