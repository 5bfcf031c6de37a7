"""Sessions as a list shows them."""

from typing import Any

from msgspec.structs import replace

from acp_proxy.store.index_database import ListedSession

_ROW = ListedSession(
    "agent", "s", "s", "/w", None, "2026-11-20T09:15:02.123Z", 1, 1, False, False, [], {}, 0, created=""
)


def make_row(session_id: str = "s", **members: Any) -> ListedSession:
    return replace(_ROW, session_id=session_id, **members)
