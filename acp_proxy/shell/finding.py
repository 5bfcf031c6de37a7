"""Looks up a session that the client wants to open: whether it was deleted, and what can be replayed.

Raises nothing: a failure of the store is part of the result.
"""

import threading
from collections.abc import Callable

from acp_proxy.core.effects import Acting, FindSession
from acp_proxy.core.events import SessionFound
from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.recording.gate import PATIENCE_SECONDS
from acp_proxy.recording.recorder import Recorder
from acp_proxy.transcripts.store import Reading
from acp_proxy.wire.jsonrpc import RequestId


class OpenedTranscript:
    """A transcript that can be replayed.

    ``also``: other ids that its entries may have. ``title``: the user's title, if there is one. ``is_foreign``: it is
    another agent's, and this one has no copy of it. ``is_open``: a process had it open to append before this.
    ``is_archived``: here.
    """

    def __init__(
        self,
        recorder: Recorder,
        session: str,
        reading: Reading,
        title: str | None,
        *,
        is_foreign: bool = False,
        is_open: bool | None = None,
        is_archived: bool = False,
    ) -> None:
        self.reading = reading
        self.title = title
        self.is_foreign = is_foreign
        self._is_open = is_open
        own = reading.header.session if is_foreign and reading.header is not None else session
        self.also = reading.also | {own}
        self._recorder = recorder
        self._session = session
        self._is_archived = is_archived

    def found(self, request: RequestId, *, complete: bool) -> SessionFound:
        """What the core needs to know about it."""
        agents = self.reading.agents
        found = SessionFound(request, has_transcript=True, complete=complete, is_archived_here=self._is_archived)
        if self.is_foreign:
            return found.but(moved=True, is_copy=True, is_foreign=True)
        return found.but(
            alias=agents.alias,
            moved=agents.was_handed_over,
            is_copy=agents.is_none,
            is_behind=agents.is_behind,
            is_open=self._is_open,
        )

    def settled(self, core: threading.Lock, act: Callable[[bool], list[Acting]]) -> list[Acting]:
        """Run ``act`` under the core's lock once all decided entries are in the transcript, and fix its size there.

        ``act`` gets whether the transcript is complete. Raises OSError; then the transcript is closed.
        """
        complete = False

        def grown() -> None:
            nonlocal complete
            self.reading.measure()
            complete = self.reading.is_still_complete and not self._recorder.lacks(self._session)

        try:
            while self._recorder.at_store(self.reading.search, PATIENCE_SECONDS):
                pass  # step by step, so that a long transcript does not count as a hang
            return self._recorder.settled(core, grown, lambda: act(complete))
        except OSError:
            self.reading.close()
            raise


def look_up(
    recorder: Recorder, wanted: FindSession, trouble_of_missing: Callable[[str], str | None]
) -> SessionFound | OpenedTranscript:
    """The transcript of the wanted session, or an event that says why there is none.

    ``trouble_of_missing``: given a session without a transcript, returns the reason if it should have one.
    """
    request, session = wanted.request, wanted.session

    def look() -> SessionFound | OpenedTranscript:
        recorder.add_turns(session)
        if (continued := recorder.store.session_of(recorder.agent, session)) is not None:
            return SessionFound(request, continued=continued)
        state = recorder.store.state(recorder.agent)
        if session in state.gone:
            return SessionFound(request, deleted=True)
        is_open = recorder.store.is_in_use(recorder.agent, session)
        try:
            reading = recorder.store.read_to_open(recorder.agent, session)
            title, is_archived = state.title(session), session in state.archived_here
            return OpenedTranscript(recorder, session, reading, title, is_open=is_open, is_archived=is_archived)
        except FileNotFoundError:
            if session in recorder.store.deleted(recorder.agent):  # another process deleted it between our two checks
                return SessionFound(request, deleted=True)
            reading = recorder.store.read_original(session, recorder.others())
            return OpenedTranscript(recorder, session, reading, state.title(session), is_foreign=True)

    try:
        return recorder.at_store(look, PATIENCE_SECONDS)
    except FileNotFoundError:
        # Only the index knows whether there was one; it must not be used on this thread.
        return SessionFound(request, trouble=trouble_of_missing(session) if wanted.only_here else None)
    except (OSError, NewerFormat) as problem:
        return SessionFound(request, trouble=errno_name(problem))
