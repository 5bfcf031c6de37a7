"""Rebuilds a broken header from what is left of it and from the ids that the entries name.

Pure. A session id is used only if the file's name can belong to it, so no transcript gets a wrong id. For a file that
is in no store, no name is given, and any id is taken.
"""

import json
import re
from collections.abc import Iterable

from acp_proxy.protocol import acp, timestamps
from acp_proxy.transcript import file_format, file_names
from acp_proxy.transcript.file_format import Entry, Header

_VALUE = rb'\s*:\s*("(?:[^"\\]|\\.)*"|null|\[[^\[\]{}]*\]|\{[^\[\]{}]*\})'


def rebuild_header(line: bytes, entries: Iterable[Entry], name: str) -> Header | None:
    """A header of a partial transcript for a file whose header is broken; None if no session id is found. ``line``: the
    first one. ``entries``: the intact ones. ``name``: the transcript's."""
    members = _read_members(line)
    session_id, cwd, created_at = members.get("sessionId"), members.get("cwd"), acp.text(members, "createdAt") or ""
    created_at = created_at if timestamps.normalize(created_at) == created_at else ""
    session_id = session_id if isinstance(session_id, str) and file_names.may_belong(session_id, name) else None
    for entry in entries if session_id is None else ():
        session_id = find_session_id(entry)
        if session_id is not None and file_names.may_belong(session_id, name):
            break
        session_id = None
    if session_id is None:
        return None
    agent = members.get("agent")
    return Header(
        session_id=session_id,
        cwd=cwd if isinstance(cwd, str) else None,
        origin=file_format.PARTIAL,
        created_at=created_at,
        directories=acp.strings(members, "additionalDirectories"),
        agent=agent if isinstance(agent, dict) else {},
        forked_from=acp.strings(members, "forkedFrom"),
        uid=acp.text(members, "uid") or "",
    )


def find_session_id(entry: Entry) -> str | None:
    """The session id in an entry's message, if it has one."""
    return acp.session_id(acp.member(entry.value, "params"))


def _read_members(line: bytes) -> dict[str, object]:
    """The members of a broken header that can still be read."""
    members: dict[str, object] = {}
    for key in ("sessionId", "cwd", "createdAt", "additionalDirectories", "agent", "forkedFrom", "uid"):
        match = re.search(rb'[{,]\s*"' + key.encode() + b'"' + _VALUE, line)
        if match is not None:
            try:
                members[key] = json.loads(match[1].decode())
            except ValueError:
                continue
    return members
