"""Cursors: where a page of a list ends, as text that is opaque to clients. Those of another list are refused."""

import base64
import json

from acp_proxy.errors import InvalidCursor
from acp_proxy.transcripts.files.names import digest
from acp_proxy.transcripts.listing import places

_VERSION = 1


def binding(agent: str, cwd: str | None) -> str:
    """Identifies the list that a cursor belongs to: an agent and a directory filter."""
    return digest(json.dumps([agent, places.spelled(cwd) if cwd is not None else None]))


def written(binding: str, updated: str, session: bytes) -> str:
    """The cursor for the page after the row with this time and id."""
    text = json.dumps([_VERSION, binding, updated, session.hex()])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read(cursor: str, binding: str) -> tuple[str, bytes]:
    """The time and id in a cursor. Raises InvalidCursor."""
    try:
        value = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        version, bound, updated, session = value
        if (version, bound) != (_VERSION, binding) or not isinstance(updated, str) or not updated.isascii():
            raise InvalidCursor
        return updated, bytes.fromhex(session)
    except (ValueError, TypeError, RecursionError) as problem:
        raise InvalidCursor from problem
