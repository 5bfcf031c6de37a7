"""Performs what ``decisions/`` decided about deletes, titles and archiving. For lists: ``list_performer``.

Slow work runs on the worker, in order. If the store hangs, the client gets an answer without it.
"""

import contextlib
import threading
from collections.abc import Callable
from functools import partial

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.effects import (
    AnswerStatus,
    RelayEffect,
    SetArchived,
    SetTitle,
    StoreAgentsChange,
    Warn,
)
from acp_proxy.errors import Unreadable, errno_name
from acp_proxy.protocol import jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.recording.recorder import Recorder
from acp_proxy.recording.writer_jobs import WriterJob
from acp_proxy.relay.changed_sessions import ChangedSessions
from acp_proxy.relay.list_performer import ListPerformer
from acp_proxy.relay.pipes import Output
from acp_proxy.relay.worker import TimedAnswers, Worker
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.titles import mask_title


class StorePerformer:
    """Performs what one connection's effects change in the store: deletes, titles, archiving, aliases.
    ``list_performer`` answers lists."""

    def __init__(self, recorder: Recorder, client_output: Output, warn: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._client_output = client_output
        self._warn = warn
        self._worker = Worker(warn)
        self._answers = TimedAnswers(self._worker, client_output)
        self.changed_sessions = ChangedSessions(recorder, self._worker, warn)
        self.list_performer = ListPerformer(recorder, self._answers, self.changed_sessions)
        recorder.on_session_changed = self.changed_sessions.add

    def start(self) -> None:
        self._worker.start()

    def finish(self, seconds: float) -> None:
        """Do the remaining work, for at most ``seconds``. After that, nobody is answered."""
        self._worker.finish(seconds)
        self._answers.end()

    def answer_draft_request(self, effect: SetTitle | SetArchived | AnswerStatus) -> None:
        """Answer a request for a draft: set a title, archive or unarchive a session, or tell its status."""
        self._answers.answer(
            partial(self._make_draft_answer, effect),
            _refuse_draft_request(effect, "ETIMEDOUT"),
        )

    def _make_draft_answer(self, effect: SetTitle | SetArchived | AnswerStatus) -> bytes:
        recorder, store = self._recorder, self._recorder.store
        try:
            return recorder.run_on_writer(
                partial(self._apply_draft_request, effect, store, recorder.find_agent_folder())
            )
        except FileNotFoundError:
            return proxy_messages.encode_not_found(effect.request_id, effect.session_id)
        except OSError as problem:
            return _refuse_draft_request(effect, errno_name(problem))

    def _apply_draft_request(
        self, effect: SetTitle | SetArchived | AnswerStatus, store: ProxyStore, agent_folder: str
    ) -> bytes:
        """Make the change, if it is one, and return the answer. Raises OSError (FileNotFoundError: there is no such
        session)."""
        request_id, session_id = effect.request_id, effect.session_id
        if session_id in store.read_deleted(agent_folder) or not (
            effect.agent_has_it or store.has_transcript_or_original(agent_folder, session_id)
        ):
            raise FileNotFoundError(session_id)
        match effect:
            case AnswerStatus(is_open=is_open):
                return jsonrpc.encode_result(request_id, {"status": "open" if is_open else "saved"})
            case SetTitle(title=title):
                if (mask := self._recorder.mask) is not None:
                    title = mask_title(title, mask)
                store.set_title(agent_folder, session_id, title)
                title_update = proxy_messages.encode_update(
                    session_id, {"sessionUpdate": update_kinds.SESSION_INFO, "title": title}
                )
                answer = jsonrpc.encode_result(request_id, {"title": title}) + title_update
            case SetArchived(is_archived=is_archived):
                store.set_archived(agent_folder, session_id, is_archived)
                answer = jsonrpc.encode_result(request_id, {})
        if self._recorder.fsync_mode != "never":
            store.layout.get_journal(agent_folder).fsync()
        return answer

    def store_agents_change(self, change: StoreAgentsChange) -> list[RelayEffect]:
        """Store what the agent has changed. Returns effects to perform."""
        recorder = self._recorder

        def store_change() -> None:
            store, agent, session_id = recorder.store, recorder.find_agent_folder(), change.session_id
            if change.title is not None:
                title = change.title if recorder.mask is None else mask_title(change.title, recorder.mask)
                store.set_title(agent, session_id, title, by_agent=True)
            if change.is_archived is not None:
                store.set_archived(agent, session_id, change.is_archived, by_agent=True)

        try:
            recorder.run_on_writer(store_change)
        except FileNotFoundError:  # it was deleted
            pass
        except OSError as problem:
            return [Warn(f"the agent's title or archiving of a session could not be noted: {errno_name(problem)}")]
        return []

    def add_alias(self, session_id: str, alias: str) -> None:
        """Store that the agent's session ``alias`` stands for ours. If that fails, the agent's list shows both until
        the session is opened again."""
        recorder = self._recorder
        with contextlib.suppress(OSError):
            recorder.run_on_writer(lambda: recorder.store.add_alias(recorder.find_agent_folder(), session_id, alias))

    def delete(self, session_id: str, request_id: RequestId | None) -> None:
        """Delete a session, and answer the request if there is one: with an error if the writer does not begin with it
        in time, else when it is done, or with an error after ``ANSWER_SECONDS``."""
        recorder = self._recorder

        def delete_known() -> str:
            known_id = recorder.store.find_by_alias(recorder.find_agent_folder(), session_id) or session_id
            recorder.delete(known_id)
            return known_id

        claim_answer = self._answers.start_timer(
            proxy_messages.refuse_unwritable(request_id, "ETIMEDOUT").data if request_id is not None else b""
        )
        job = recorder.jobs.submit(delete_known)
        if recorder.jobs.wait(job):
            self._finish_delete(job, request_id, claim_answer)
        elif job.cancel():
            self._report_failed_delete(request_id, "ETIMEDOUT", claim_answer)
        else:

            def finish_late() -> None:
                job.done_lock.acquire()  # released once the writer has run it
                self._finish_delete(job, request_id, claim_answer)

            threading.Thread(target=finish_late, name="late delete", daemon=True).start()

    def _finish_delete(
        self, job: WriterJob[str], request_id: RequestId | None, claim_answer: Callable[[], bool]
    ) -> None:
        """Answer a delete that is done or has failed. What is left of one that is done runs on the worker first."""
        recorder = self._recorder
        try:
            session_id = job.result()
        except (OSError, ImportError) as problem:
            self._report_failed_delete(request_id, errno_name(problem), claim_answer)
            return
        answer = jsonrpc.encode_result(request_id, {}) if request_id is not None and claim_answer() else b""

        def fsync_and_unindex() -> bytes:
            agent = recorder.find_agent_folder()
            try:
                if recorder.fsync_mode != "never":
                    recorder.store.layout.get_journal(agent).fsync()
            except OSError as problem:
                self._warn(f"a delete may not last if the power fails now: {errno_name(problem)}")
            try:
                recorder.store.remove_from_index(agent, session_id)
            except Unreadable as problem:
                self._warn(f"a deleted session stays in the index until that can be written: {problem.name}")
            return answer

        self._answers.answer(fsync_and_unindex, answer)

    def _report_failed_delete(
        self, request_id: RequestId | None, trouble: str, claim_answer: Callable[[], bool]
    ) -> None:
        if request_id is None:
            self._warn(f"a deleted session could not be removed from {self._recorder.store.root}: {trouble}")
        elif claim_answer():
            self._client_output.post(proxy_messages.refuse_unwritable(request_id, trouble).data)

    def find_missing_reason(self, session_id: str) -> str | None:
        """Why a session without a transcript should have one: an errno's name, or ``REPLACED``. None if the index does
        not know the session, or does not answer in time.
        """
        recorder = self._recorder

        def ask() -> str | None:
            try:
                return "ENOENT" if recorder.store.is_indexed(recorder.find_agent_folder(), session_id) else None
            except Unreadable as problem:
                return problem.name
            except (OSError, ImportError) as problem:
                return errno_name(problem)

        return self._answers.ask_in_time(ask, None)


def _refuse_draft_request(effect: SetTitle | SetArchived | AnswerStatus, trouble: str) -> bytes:
    refuse = proxy_messages.refuse_unreadable if isinstance(effect, AnswerStatus) else proxy_messages.refuse_unwritable
    return refuse(effect.request_id, trouble).data
