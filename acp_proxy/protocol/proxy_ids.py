"""The ids that acp-proxy gives to sessions that the agent does not know: those of other agents and other machines.

The id for another agent's session names that agent's folder and the session, so that it means the same in every
process. A copy has the id of the row that it replaces.
"""

import re
from collections.abc import Iterable, Iterator

PROXY_ID_PREFIX = "acp-proxy."
"""The beginning of every such id. No agent uses it."""
_ID_PATTERN = re.compile(re.escape(PROXY_ID_PREFIX) + r"([A-Za-z0-9_-]+)\.(.+)", re.DOTALL)


def make_other_agents_id(folder: str, session_id: str, number: int = 1) -> str:
    """The id for a session of another agent. ``folder``: that agent's folder. ``number``: which of several copies it
    is."""
    return f"{PROXY_ID_PREFIX}{folder}.{session_id}" + (f".{number}" if number > 1 else "")


def make_remote_id(uid: str, number: int = 1) -> str:
    """The id for a session of another machine. ``uid``: that of its transcript. ``number``: beyond 1 if that id is
    taken."""
    return f"{PROXY_ID_PREFIX}{uid}" + (f"-{number}" if number > 1 else "")


def list_ancestors(folder: str, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """These sessions, each of which was made from the next one, each with its agent's folder before its id. ``folder``:
    that of the first one's agent."""
    for id in ids:
        yield folder, id
        folder = (parse_other_agents_id(id) or (folder,))[0]


def is_proxy_id(session_id: str) -> bool:
    """Whether acp-proxy gave this id."""
    return session_id.startswith(PROXY_ID_PREFIX)


def parse_other_agents_id(session_id: str) -> tuple[str, str] | None:
    """The other agent's folder and session id that an id names; None if it names none, as that of a session of another
    machine."""
    match = _ID_PATTERN.fullmatch(session_id)
    return (match[1], match[2]) if match is not None else None
