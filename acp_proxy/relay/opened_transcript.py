"""A transcript that can be shown, and how it is looked up for a load. That raises nothing: a failure of the store is
part of the result.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.decisions.effects import LookUpSession
from acp_proxy.decisions.events import SessionLookedUp
from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.recording.recorder import Recorder
from acp_proxy.transcript.reader import TranscriptReader

if TYPE_CHECKING:  # imported for the first load
    from acp_proxy.transcript_replay.replayer import Mode


class ShowOptions(Struct, frozen=True):
    """How a ``Replayer`` makes updates of the transcript. ``tool_limit``: bytes per tool call in mode ``compact``; 0:
    no limit. ``handover_record_size``: the most bytes of a handover record."""

    mode: "Mode"
    tool_limit: int
    handover_record_size: int = 64 * 1024


class OpenedTranscript:
    """A transcript that can be shown.

    ``other_ids``: other session ids that its entries may have. ``title``: the user's title, if there is one.
    ``is_uncopied``: it is another agent's, and this one has no copy of it. ``is_in_use_elsewhere``: as for
    ``choose_past``. ``is_archived``: the session is archived in the store.
    """

    def __init__(
        self,
        session_id: str,
        reader: TranscriptReader,
        title: str | None,
        *,
        is_uncopied: bool = False,
        is_in_use_elsewhere: bool | None = None,
        is_archived: bool = False,
    ) -> None:
        self.reader = reader
        self.title = title
        self.is_uncopied = is_uncopied
        self.is_in_use_elsewhere = is_in_use_elsewhere
        own_id = reader.header.session_id if is_uncopied and reader.header is not None else session_id
        self.other_ids = reader.other_ids | {own_id}
        self._is_archived = is_archived

    def make_event(self, request_id: RequestId, *, is_complete: bool) -> SessionLookedUp:
        """What deciding needs to know about it."""
        agent_session = self.reader.agent_session
        session = SessionLookedUp(
            request_id, has_transcript=True, is_complete=is_complete, is_archived_here=self._is_archived
        )
        if self.is_uncopied:
            return replace(session, agent_lacks_past=True, agent_has_no_session=True, is_uncopied=True)
        return replace(
            session,
            alias=agent_session.alias,
            agent_lacks_past=agent_session.lacks_past,
            agent_has_no_session=agent_session.is_missing,
            agent_is_behind=agent_session.is_behind,
            is_in_use_elsewhere=self.is_in_use_elsewhere,
        )


def look_up_session(
    recorder: Recorder, effect: LookUpSession, find_missing_reason: Callable[[str], str | None]
) -> SessionLookedUp | OpenedTranscript:
    """The transcript of the wanted session, or an event that says why there is none.

    ``find_missing_reason``: given a session without a transcript, returns the reason if it should have one.
    """
    request_id, session_id = effect.request_id, effect.session_id

    def open_on_writer() -> SessionLookedUp | OpenedTranscript:
        recorder.append_remote_turns(session_id)
        if (our_id := recorder.store.find_by_alias(recorder.find_agent_folder(), session_id)) is not None:
            return SessionLookedUp(request_id, our_id=our_id)
        state = recorder.store.read_state(recorder.find_agent_folder())
        if session_id in state.deleted_ids:
            return SessionLookedUp(request_id, is_deleted=True)
        is_in_use_elsewhere = recorder.close_and_check_in_use(session_id)
        try:
            reader = recorder.store.open_locked_reader(recorder.find_agent_folder(), session_id)
            return OpenedTranscript(
                session_id,
                reader,
                state.find_title(session_id),
                is_in_use_elsewhere=is_in_use_elsewhere,
                is_archived=session_id in state.archived_here,
            )
        except FileNotFoundError:
            # Another process may have deleted it between our two checks.
            if session_id in recorder.store.read_deleted(recorder.find_agent_folder()):
                return SessionLookedUp(request_id, is_deleted=True)
            reader = recorder.store.open_original(session_id, recorder.list_other_folders())
            return OpenedTranscript(session_id, reader, state.find_title(session_id), is_uncopied=True)

    def close_late(result: SessionLookedUp | OpenedTranscript) -> None:
        if isinstance(result, OpenedTranscript):
            result.reader.close()

    try:
        return recorder.run_on_writer(open_on_writer, close_late)
    except FileNotFoundError:
        # Only the index knows whether there was one; it must not be used on this thread.
        return SessionLookedUp(request_id, errno_name=find_missing_reason(session_id) if effect.asks_index else None)
    except (OSError, NewerFormat) as problem:
        return SessionLookedUp(request_id, errno_name=errno_name(problem))
