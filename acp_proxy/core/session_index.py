"""Follows an agent's own index of its sessions, an extension for JetBrains' editors.

A client that declares ``sessionIndex`` renames and archives sessions in the agent, looks them up by id, and subscribes
to changes of their list. ``METHODS`` says which of these methods acp-proxy reads, and what it does: what the client
changes there is noted in the store, and rows are amended as those of ``session/list`` are. It only heeds what the agent
offers this client; everything else passes.

Sources: claude-agent-acp 0.101 and codex-acp 2.6; the drafts ``session/set_title`` and ``session/archive``.
"""

from collections.abc import Collection

from acp_proxy.core.answers import EXCLUDE, INCLUDE, ONLY
from acp_proxy.core.capabilities import ARCHIVE, TITLE
from acp_proxy.core.effects import AmendList, FollowAgent
from acp_proxy.titles import AGENT_TITLE_LENGTH, cleaned
from acp_proxy.wire import acp, splice
from acp_proxy.wire.jsonrpc import Request
from acp_proxy.wire.value import Value

INDEX = "sessionIndex"
"""The capability of both sides: ``session/list`` has a filter, and its rows say what is archived."""
_PARTS = "sessionRename", "sessionArchive", "sessionBatchGet", "sessionListSubscribe"
_RENAME, _ARCHIVE, _LOOK_UP, _SUBSCRIBE = _PARTS
"""The agent's capabilities for the methods."""
_FILTERS = {"unarchived": EXCLUDE, "archived": ONLY, "all": INCLUDE}


class IndexMethod(Value):
    """What a method means here.

    ``part``: what the agent must offer. ``renames``: it gives a session the title in its answer, or in its parameters.
    ``archives``: it archives a session, or unarchives it. ``rows``: the member of the line that has rows of sessions.
    """

    part: str
    renames: bool = False
    archives: bool | None = None
    rows: str | None = None


METHODS = {
    acp.INDEX_RENAME: IndexMethod(_RENAME, renames=True),
    acp.INDEX_ARCHIVE: IndexMethod(_ARCHIVE, archives=True),
    acp.INDEX_UNARCHIVE: IndexMethod(_ARCHIVE, archives=False),
    acp.INDEX_LOOK_UP: IndexMethod(_LOOK_UP, rows="result"),
    acp.INDEX_CHANGES: IndexMethod(_SUBSCRIBE, rows="params"),
    acp.SET_TITLE: IndexMethod(TITLE, renames=True),
    acp.ARCHIVE: IndexMethod(ARCHIVE, archives=True),
    acp.UNARCHIVE: IndexMethod(ARCHIVE, archives=False),
}


def offered(client: object, agent: object) -> frozenset[str]:
    """The parts of the index that the agent offers this client. ``client``, ``agent``: the parameters and the result of
    ``initialize``."""
    declared = acp.member(client, "clientCapabilities") or acp.member(client, "capabilities")
    announced = _air_capabilities(agent)
    return frozenset(announced) & {INDEX, *_PARTS} if INDEX in _air_capabilities(declared) & announced else frozenset()


def followed(request: Request, session: str, result: object, offers: Collection[str]) -> FollowAgent | None:
    """The change that the agent has made in answering this request, if it is one. ``offers``: what the agent offers."""
    method = METHODS.get(request.method)
    if method is None or method.part not in offers:
        return None
    if method.renames:
        given = acp.text(result, "title") or acp.text(request.params, "title")
        title = cleaned(given, AGENT_TITLE_LENGTH) if given is not None else None
        return FollowAgent(session, title=title) if title is not None else None
    return FollowAgent(session, is_archived=method.archives) if method.archives is not None else None


def rows(name: str, line: bytes, offers: Collection[str], *, titles: bool, renamed: frozenset[str]) -> AmendList | None:
    """What to do with a line of the agent that has rows of sessions; None if that is not one. ``name``: its method, or
    that of the request that it answers. ``titles``, ``renamed``: as in ``AmendList``."""
    method = METHODS.get(name)
    if method is None or method.rows is None or method.part not in offers:
        return None
    return AmendList(line, archived=INCLUDE, titles=titles, of_index=True, within=method.rows, renamed=renamed)


def archive_filter(params: object) -> str:
    """Which sessions a ``session/list`` wants by archive state."""
    return _FILTERS.get(acp.text(acp.member(_air(params), "list"), "archived") or "", EXCLUDE)


def with_all(text: str, span: splice.Span) -> str:
    """A ``session/list`` that wants all sessions, whatever their archive state. ``span``: of the parameters.

    Sessions that are archived here are not archived in the agent. Raises ValueError.
    """
    wanted = {"_meta": {"jetbrains": {"air": {"list": {"archived": "all"}}}}}
    return splice.replaced(text, splice.set_members(text, span, wanted))


def _air(value: object) -> object:
    return acp.member(acp.member(acp.member(value, "_meta"), "jetbrains"), "air")


def _air_capabilities(value: object) -> frozenset[str]:
    return frozenset(acp.strings(_air(value), "capabilities"))
