"""Looks a session up for a load: whether it was deleted, and what can be shown. Raises nothing: a failure of the store
is part of the result.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.proxy.effects import FindSession
from acp_proxy.proxy.events import SessionFound
from acp_proxy.recording.recorder import Recorder
from acp_proxy.transcript.reader import TranscriptReader

if TYPE_CHECKING:  # imported for the first load
    from acp_proxy.replay.replayer import Mode


class ShowOptions(Struct, frozen=True):
    """How a ``Replayer`` makes updates of the transcript. ``tool_limit``: bytes per tool call in mode ``compact``; 0:
    no limit. ``handover_record_size``: the most bytes of a handover record."""

    mode: "Mode"
    tool_limit: int
    handover_record_size: int = 64 * 1024


class OpenedTranscript:
    """A transcript that can be shown.

    ``other_ids``: other session ids that its entries may have. ``title``: the user's title, if there is one.
    ``is_foreign``: it is another agent's, and this one has no copy of it. ``is_open_elsewhere``: as for
    ``choose_past``. ``is_archived``: the session is archived in the store.
    """

    def __init__(
        self,
        session_id: str,
        reader: TranscriptReader,
        title: str | None,
        *,
        is_foreign: bool = False,
        is_open_elsewhere: bool | None = None,
        is_archived: bool = False,
    ) -> None:
        self.reader = reader
        self.title = title
        self.is_foreign = is_foreign
        self.is_open_elsewhere = is_open_elsewhere
        own_id = reader.header.session_id if is_foreign and reader.header is not None else session_id
        self.other_ids = reader.other_ids | {own_id}
        self._is_archived = is_archived

    def describe(self, request_id: RequestId, *, is_complete: bool) -> SessionFound:
        """What deciding needs to know about it."""
        agent_session = self.reader.agent_session
        session = SessionFound(
            request_id, has_transcript=True, is_complete=is_complete, is_archived_here=self._is_archived
        )
        if self.is_foreign:
            return replace(session, agent_has_only_part=True, is_copy=True, is_foreign=True)
        return replace(
            session,
            alias=agent_session.alias,
            agent_has_only_part=agent_session.was_handed_over,
            is_copy=agent_session.is_missing,
            is_behind=agent_session.is_behind,
            is_open_elsewhere=self.is_open_elsewhere,
        )


def find_session(
    recorder: Recorder, effect: FindSession, find_missing_reason: Callable[[str], str | None]
) -> SessionFound | OpenedTranscript:
    """The transcript of the wanted session, or an event that says why there is none.

    ``find_missing_reason``: given a session without a transcript, returns the reason if it should have one.
    """
    request_id, session_id = effect.request_id, effect.session_id

    def look_on_writer() -> SessionFound | OpenedTranscript:
        recorder.append_waiting_turns(session_id)
        if (continued_session_id := recorder.store.find_by_alias(recorder.find_agent_folder(), session_id)) is not None:
            return SessionFound(request_id, continued_session_id=continued_session_id)
        state = recorder.store.read_state(recorder.find_agent_folder())
        if session_id in state.deleted_ids:
            return SessionFound(request_id, is_deleted=True)
        is_open_elsewhere = recorder.close_and_check_elsewhere(session_id)
        try:
            reader = recorder.store.read_in_place(recorder.find_agent_folder(), session_id)
            return OpenedTranscript(
                session_id,
                reader,
                state.find_title(session_id),
                is_open_elsewhere=is_open_elsewhere,
                is_archived=session_id in state.archived_here,
            )
        except FileNotFoundError:
            # Another process may have deleted it between our two checks.
            if session_id in recorder.store.read_deleted(recorder.find_agent_folder()):
                return SessionFound(request_id, is_deleted=True)
            reader = recorder.store.read_original(session_id, recorder.list_other_folders())
            return OpenedTranscript(session_id, reader, state.find_title(session_id), is_foreign=True)

    def close_late(result: SessionFound | OpenedTranscript) -> None:
        if isinstance(result, OpenedTranscript):
            result.reader.close()

    try:
        return recorder.run_on_writer(look_on_writer, close_late)
    except FileNotFoundError:
        # Only the index knows whether there was one; it must not be used on this thread.
        return SessionFound(request_id, trouble=find_missing_reason(session_id) if effect.only_here else None)
    except (OSError, NewerFormat) as problem:
        return SessionFound(request_id, trouble=errno_name(problem))
