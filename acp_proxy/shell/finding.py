"""A session that the client wants to open, looked up in the store: whether it was deleted, and what there is to tell.

Raises nothing: a store in trouble is what is found.
"""

import threading
from collections.abc import Callable

from acp_proxy.core.effects import Acting, FindSession
from acp_proxy.core.events import SessionFound
from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.recording.gate import PATIENCE_SECONDS
from acp_proxy.recording.recorder import Recorder
from acp_proxy.transcripts.store import Reading


class OpenedTranscript:
    """A transcript that may be told. ``also``: other ids under which entries of its session stand.

    ``title``: what the user calls it.
    """

    def __init__(self, recorder: Recorder, session: str, reading: Reading, title: str | None) -> None:
        self.reading = reading
        self.title = title
        self.also = reading.also
        self._recorder = recorder
        self._session = session

    def settled(self, core: threading.Lock, act: Callable[[bool], list[Acting]]) -> list[Acting]:
        """Do something under the core's lock, when all that was decided is in the transcript: that much of it is told.

        ``act`` is told whether it is complete. Raises OSError; then the transcript is closed.
        """
        complete = False

        def grown() -> None:
            nonlocal complete
            self.reading.measure()
            complete = self.reading.is_still_complete and not self._recorder.lacks(self._session)

        try:
            while self._recorder.at_store(self.reading.search, PATIENCE_SECONDS):
                pass  # step by step: much to read is no store that hangs
            return self._recorder.settled(core, grown, lambda: act(complete))
        except OSError:
            self.reading.close()
            raise


def look_up(
    recorder: Recorder, wanted: FindSession, trouble_of_missing: Callable[[str], str | None]
) -> SessionFound | OpenedTranscript:
    """``trouble_of_missing``: why a transcript that is not there should be."""
    request, session = wanted.request, wanted.session

    def look() -> SessionFound | OpenedTranscript:
        state = recorder.store.state(recorder.agent)
        if session in state.gone:
            return SessionFound(request, deleted=True)
        try:
            return OpenedTranscript(
                recorder, session, recorder.store.read(recorder.agent, session), state.title(session)
            )
        except FileNotFoundError:
            if session in recorder.store.deleted(recorder.agent):  # by another process, between our two looks
                return SessionFound(request, deleted=True)
            raise

    try:
        return recorder.at_store(look, PATIENCE_SECONDS)
    except FileNotFoundError:
        # Only the index can tell whether there was one; it is not asked on this thread.
        return SessionFound(request, trouble=trouble_of_missing(session) if wanted.only_here else None)
    except (OSError, NewerFormat) as problem:
        return SessionFound(request, trouble=errno_name(problem))
