"""Where a page of a list ends, as a text that means nothing to a client: whatever it gives back is read or refused."""

import base64
import json

from acp_proxy.errors import InvalidCursor
from acp_proxy.transcripts.files.names import digest
from acp_proxy.transcripts.listing import places

_VERSION = 1


def binding(agent: str, cwd: str | None) -> str:
    """What a cursor belongs to: it leads nowhere in another list."""
    return digest(json.dumps([agent, places.spelled(cwd) if cwd is not None else None]))


def written(binding: str, updated: str, session: bytes) -> str:
    text = json.dumps([_VERSION, binding, updated, session.hex()])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read(cursor: str, binding: str) -> tuple[str, bytes]:
    try:
        value = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        version, bound, updated, session = value
        if (version, bound) != (_VERSION, binding) or not isinstance(updated, str) or not updated.isascii():
            raise InvalidCursor
        return updated, bytes.fromhex(session)
    except (ValueError, TypeError, RecursionError) as problem:
        raise InvalidCursor from problem
