"""Sessions that the client wants to open: looked up in the store first; then the agent is asked for what is planned.

``Opening`` knows which are being looked up. From when the agent is asked on, a load is one of ``Restores``.
"""

from acp_proxy.core import capabilities
from acp_proxy.core.aliases import Aliases
from acp_proxy.core.answers import refusal, unreadable
from acp_proxy.core.capabilities import Service
from acp_proxy.core.effects import Effect, FindSession, ForgetReplay, Forward
from acp_proxy.core.events import Found
from acp_proxy.core.ledger import Ledger
from acp_proxy.core.notebook import Notebook
from acp_proxy.core.planning import Plan, Refused, plan
from acp_proxy.core.restore import Restore
from acp_proxy.core.restoring import Restores
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.jsonrpc import Peer, Request, RequestId

_TOO_MANY_LOADS = "Too many sessions are being opened at once. Try again when one of them is open."


class Opening:
    def __init__(
        self, service: Service, ledger: Ledger, notebook: Notebook, restores: Restores, names: Aliases
    ) -> None:
        self._service = service
        self._ledger = ledger
        self._notebook = notebook
        self._restores = restores
        self._names = names
        self._finding: dict[RequestId, tuple[Request, bytes]] = {}

    def reads(self, method: str) -> bool:
        """Whether what we have of the session matters for this method (a name without ``session/``)."""
        return method in self._service.ours or (method == capabilities.LOAD and self._may_replace_loads)

    def looked_up(self, line: bytes, request: Request, method: str, session: str) -> list[Effect] | None:
        """None: it passes as it came."""
        is_ours = method in self._service.ours
        if request.id in self._restores or request.id in self._finding:
            in_use = refusal(request.id, jsonrpc.INVALID_REQUEST, "This request id is in use")
            return [in_use] if is_ours else None
        self._finding[request.id] = request, line
        searches = method == capabilities.LOAD and capabilities.LOAD in self._service.native
        return [FindSession(request.id, session, reads=self.reads(method), only_here=is_ours, searches=searches)]

    def found(self, found: Found) -> list[Effect]:
        if found.request not in self._finding:  # answered meanwhile: the store hung
            return []
        request, line = self._finding.pop(found.request)
        session = acp.session_id(request.params) or ""
        if found.deleted:
            return [_not_found(request, session)]
        live, moved = self._notebook.is_live(session), session in self._restores.moved
        planned = self._planned(request, found, live=live, moved=moved)
        if planned is None:
            self._ledger.add(Peer.CLIENT, request, session)
            return [ForgetReplay(request.id), Forward(Peer.AGENT, self._names.to_agent(line, request))]
        if found.trouble is not None:
            return [unreadable(request.id, found.trouble)]
        if planned is Refused.TOO_MANY:
            return [ForgetReplay(request.id), refusal(request.id, jsonrpc.INTERNAL_ERROR, _TOO_MANY_LOADS)]
        if isinstance(planned, Refused):
            return [_not_found(request, session)]
        restore = Restore(request, session, planned, held_here=found.held, complete=found.complete, live=live)
        return self._asked(line, restore)

    def failed(self, how: str) -> list[Effect]:
        """The agent is gone: nobody is asked any more."""
        effects: list[Effect] = [refusal(id, jsonrpc.INTERNAL_ERROR, how) for id in self._finding]
        self._finding.clear()
        return effects

    def _asked(self, line: bytes, restore: Restore) -> list[Effect]:
        """The agent is asked to restore it, or for a new session in its place."""
        request, sends = restore.request, restore.plan.sends
        if sends == acp.NEW:
            self._restores.add(restore)
            return self._restores.hand_over(restore)
        try:
            if sends != request.method:
                line = acp.renamed(request.raw, sends) + b"\n"
        except ValueError as problem:
            return [ForgetReplay(request.id), refusal(request.id, jsonrpc.INVALID_PARAMS, f"params: {problem}")]
        self._restores.add(restore)
        self._ledger.add(Peer.CLIENT, request, restore.session, whole=True)
        return [Forward(Peer.AGENT, self._names.to_agent(line, request))]

    def _planned(self, request: Request, found: Found, *, live: bool, moved: bool) -> Plan | Refused | None:
        """What we do about a request to open a session; None: nothing."""
        method = request.method.removeprefix("session/")
        if not self.reads(method):
            return None
        service = self._service
        planned = plan(request.method, found, service.native, service.modes, live=live, moved=moved)
        if planned is not None and self._restores.are_many:
            return None if method in service.native else Refused.TOO_MANY
        return planned

    @property
    def _may_replace_loads(self) -> bool:
        """Whether a load of the agent's own is looked at: ours may be fuller, or there is none of ours yet."""
        service = self._service
        wanted = service.is_wanted and service.modes.load != capabilities.AGENT
        return capabilities.LOAD in service.native and wanted and self._notebook.records


def _not_found(request: Request, session: str) -> Effect:
    return refusal(request.id, jsonrpc.RESOURCE_NOT_FOUND, f"Session not found: {session}")
