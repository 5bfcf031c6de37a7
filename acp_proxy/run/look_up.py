"""Looks up a session that the client wants to open: whether it was deleted, and what can be replayed.

Raises nothing: a failure of the store is part of the result.
"""

import threading
from collections.abc import Callable

from msgspec.structs import replace

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.proxy.effects import FindSession, RelayEffect
from acp_proxy.proxy.events import SessionFound
from acp_proxy.recording.recorder import Recorder
from acp_proxy.store.store import Reading


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

    def found(self, request: RequestId, *, is_complete: bool) -> SessionFound:
        """What the core needs to know about it."""
        agents = self.reading.agents
        found = SessionFound(request, has_transcript=True, is_complete=is_complete, is_archived_here=self._is_archived)
        if self.is_foreign:
            return replace(found, agent_has_only_part=True, is_copy=True, is_foreign=True)
        return replace(
            found,
            alias=agents.alias,
            agent_has_only_part=agents.was_handed_over,
            is_copy=agents.is_none,
            is_behind=agents.is_behind,
            is_open=self._is_open,
        )

    def run_when_written(self, core: threading.Lock, act: Callable[[bool], list[RelayEffect]]) -> list[RelayEffect]:
        """Run ``act`` under the core's lock once all decided entries are in the transcript, and fix its size there.

        ``act`` gets whether the transcript is complete. Raises OSError; then the transcript is closed.
        """
        is_complete = False

        def grown() -> None:
            nonlocal is_complete
            self.reading.measure()
            is_complete = self.reading.is_still_complete and not self._recorder.has_gap(self._session)

        try:
            while self._recorder.run_on_writer(self.reading.search):
                pass  # step by step, so that a long transcript does not count as a hang
            return self._recorder.run_when_written(core, grown, lambda: act(is_complete))
        except OSError:
            self._recorder.jobs.submit(self.reading.close)  # behind what may still use it there
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
        if (continued := recorder.store.find_by_alias(recorder.agent, session)) is not None:
            return SessionFound(request, continued=continued)
        state = recorder.store.read_state(recorder.agent)
        if session in state.deleted_ids:
            return SessionFound(request, is_deleted=True)
        is_open = recorder.store.is_in_use(recorder.agent, session)
        try:
            reading = recorder.store.read_and_hold(recorder.agent, session)
            title, is_archived = state.find_title(session), session in state.archived_here
            return OpenedTranscript(recorder, session, reading, title, is_open=is_open, is_archived=is_archived)
        except FileNotFoundError:
            if session in recorder.store.read_deleted(
                recorder.agent
            ):  # another process deleted it between our two checks
                return SessionFound(request, is_deleted=True)
            reading = recorder.store.read_original(session, recorder.list_other_agents())
            return OpenedTranscript(recorder, session, reading, state.find_title(session), is_foreign=True)

    def close_late(found: SessionFound | OpenedTranscript) -> None:
        if isinstance(found, OpenedTranscript):
            found.reading.close()

    try:
        return recorder.run_on_writer(look, close_late)
    except FileNotFoundError:
        # Only the index knows whether there was one; it must not be used on this thread.
        return SessionFound(request, trouble=trouble_of_missing(session) if wanted.only_here else None)
    except (OSError, NewerFormat) as problem:
        return SessionFound(request, trouble=errno_name(problem))
