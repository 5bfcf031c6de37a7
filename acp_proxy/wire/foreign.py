"""The ids that one agent's proxy gives to sessions of other agents: copies of them, and rows that it also lists.

Such an id names the other agent's folder and session, so that it means the same in every process. The copy has the id
of the row that it replaces.
"""

import re

PREFIX = "acp-proxy."
"""The beginning of every such id. No agent uses it."""
_ID = re.compile(re.escape(PREFIX) + r"([A-Za-z0-9_-]+)\.(.+)", re.DOTALL)


def id_of(folder: str, session: str, number: int = 1) -> str:
    """The id for a session of another agent. ``folder``: that agent's. ``number``: of several copies."""
    return f"{PREFIX}{folder}.{session}" + (f".{number}" if number > 1 else "")


def is_foreign(session: str) -> bool:
    """Whether an id is one for another agent's session."""
    return session.startswith(PREFIX)


def original(session: str) -> tuple[str, str] | None:
    """The other agent's folder and session id that an id names; None if it names none."""
    found = _ID.fullmatch(session)
    return (found[1], found[2]) if found is not None else None
