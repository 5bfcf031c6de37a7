"""A header made again: from what is left of the broken one, and from what the entries behind it name.

Pure. The session's id counts only where the file's name is made of it; so nothing is ever put under a wrong one.
"""

import json
import re
from collections.abc import Iterable

from acp_proxy.transcripts.files import names
from acp_proxy.wire import acp, clock, record
from acp_proxy.wire.record import Entry, Header

_VALUE = rb'\s*:\s*("(?:[^"\\]|\\.)*"|null|\[[^\[\]{}]*\]|\{[^\[\]{}]*\})'


def remade(line: bytes, entries: Iterable[Entry], name: str) -> Header | None:
    """``line``: the first of the file, ``name``: the file's. The header is ``partial``; None where no id is found."""
    left = _left(line)
    session, cwd, at = left.get("sessionId"), left.get("cwd"), acp.text(left, "createdAt") or ""
    at = at if clock.normalized(at) == at else ""
    session = session if isinstance(session, str) and names.fits(session, name) else None
    for entry in entries if session is None else ():
        session = session_of(entry)
        if session is not None and names.fits(session, name):
            break
        session = None
    if session is None:
        return None
    agent = left.get("agent")
    return Header(
        session=session,
        cwd=cwd if isinstance(cwd, str) else None,
        origin=record.PARTIAL,
        created_at=at,
        directories=acp.strings(left, "additionalDirectories"),
        agent=agent if isinstance(agent, dict) else {},
        forked_from=acp.strings(left, "forkedFrom"),
    )


def session_of(entry: Entry) -> str | None:
    """The session that an entry's message names."""
    return acp.session_id(acp.member(entry.value, "params"))


def _left(line: bytes) -> dict[str, object]:
    """The keys of a header that can still be read."""
    found: dict[str, object] = {}
    for key in ("sessionId", "cwd", "createdAt", "additionalDirectories", "agent", "forkedFrom"):
        match = re.search(rb'[{,]\s*"' + key.encode() + b'"' + _VALUE, line)
        if match is not None:
            try:
                found[key] = json.loads(match[1].decode())
            except ValueError:
                continue
    return found
