"""Serves requests that need the store: lists, deletes, and drafts; and updates the index after turns.

Slow work runs on the worker, in order. If the store hangs, the client gets an answer without it.
"""

import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from acp_proxy.errors import InvalidCursor, Unreadable, errno_name
from acp_proxy.protocol import jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer, RequestId
from acp_proxy.proxy import own_messages, session_list
from acp_proxy.proxy.effects import (
    AmendList,
    AmendTitles,
    AnswerStatus,
    FollowAgent,
    Forward,
    ListSessions,
    RelayEffect,
    SetArchived,
    SetTitle,
    Warn,
)
from acp_proxy.proxy.events import PageEmptied
from acp_proxy.proxy.session_index import IndexRows
from acp_proxy.proxy.session_list import join_rows
from acp_proxy.recording.recorder import Recorder
from acp_proxy.recording.writer_jobs import PATIENCE_SECONDS, STALL_SECONDS, WriterJob
from acp_proxy.run.output import Output
from acp_proxy.run.worker import DELAY_SECONDS, Worker
from acp_proxy.store.store import Store
from acp_proxy.transcript.titles import mask_title

if TYPE_CHECKING:
    from acp_proxy.store.store import JournalState, ListedSession


_ANSWER_SECONDS = 15.0
"""How long a list or a delete waits for the store. With a locked index a list takes less: it does without."""
_ARCHIVED = {session_list.EXCLUDE: False, session_list.ONLY: True, session_list.INCLUDE: None}
"""The filters of ``session/list``, as ``Store.list_page`` takes them."""
_QUESTIONS = 64
"""The most lists and deletes that may wait for the store; each has a timer. An editor has one or two."""

T = TypeVar("T")


class StoreRequests:
    """Serves one connection's requests."""

    def __init__(self, recorder: Recorder, client: Output, warn: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._client = client
        self._warn = warn
        self._worker = Worker(warn)
        self._is_over = False
        self._questions = threading.BoundedSemaphore(_QUESTIONS)
        self._unsynced: deque[tuple[str, str]] = deque()
        self._unindexed: deque[tuple[str, str]] = deque()
        """The agents and sessions whose turns have ended since, oldest first."""
        self._is_put_off = False
        """Whether ``_finish_turns`` is queued, which serves all of them."""
        self._synced_at = -math.inf
        """When the last fsync began, monotonic time. One after every quick turn would delay the next turn."""
        recorder.on_turn_end = self._handle_turn_end

    def start(self) -> None:
        """Start the worker."""
        self._worker.start()

    def finish(self, seconds: float) -> None:
        """Do the remaining work, for at most ``seconds``. After that, nobody is answered."""
        self._worker.finish(seconds)
        self._is_over = True

    def list_sessions(self, wanted: ListSessions) -> None:
        """Answer ``session/list`` from the store."""
        self.synchronize()  # for the next list, and for loads
        late = own_messages.refuse_for_store(wanted.request, "ETIMEDOUT").data
        self._answer(partial(self._make_list, wanted), late)

    def _make_list(self, wanted: ListSessions) -> bytes:
        recorder = self._recorder
        try:
            archived = _ARCHIVED[wanted.archived or session_list.EXCLUDE]
            others = recorder.list_other_agents() if wanted.continues else []
            store, agent = recorder.store, recorder.agent
            page = store.list_page(agent, wanted.cwd, wanted.cursor, recorder.run_id, archived=archived, others=others)
            return session_list.encode_page(
                wanted.request,
                page.rows,
                page.next,
                directories=wanted.directories,
                recording=recorder.is_recording,
                archived=wanted.archived is not None,
            )
        except InvalidCursor as problem:
            return jsonrpc.error(wanted.request, jsonrpc.INVALID_PARAMS, str(problem))
        except Unreadable as problem:
            return own_messages.refuse_for_store(wanted.request, problem.name).data
        except (OSError, ImportError) as problem:
            return own_messages.refuse_for_store(wanted.request, errno_name(problem)).data

    def amend_list(self, page: AmendList) -> list[RelayEffect] | PageEmptied:
        """The agent's line with listed sessions, without deleted ones and with the user's titles, as an effect.

        Archived sessions are left out, or chosen and marked if ``page.archived`` says so. With ``page.titles``, those
        without a title get the index's, if that answers in time. If nothing is left of a page that must not be empty,
        returns an event instead.
        """
        self.synchronize()
        recorder, raw = self._recorder, page.raw
        try:
            state = recorder.run_on_writer(lambda: recorder.store.read_state(recorder.agent))
            title_of = _make_title_of(state, page.renamed)
            made = self._find_titles(session_list.find_untitled(raw, absent=page.titles, within=page.within))
            aliases = (
                recorder.run_on_writer(lambda: recorder.store.read_aliases(recorder.agent)) if state.aliases else {}
            )
            if page.asked is None and page.of_index:
                return [Forward(Peer.CLIENT, self._amend_index(page, state, aliases))]
            rows = self._find_joining(page, frozenset(aliases.values()))
            elsewhere = aliases.keys() | {row.session for row in rows}
            rows = rows if page.joins else []
            archived = state.archived_here
            hidden = (
                state.deleted_ids | archived if page.archived in (None, session_list.EXCLUDE) else state.deleted_ids
            )
            hidden |= elsewhere
            if page.archived is None:
                line = session_list.amend_rows(raw, hidden, title_of, made=made)
                return [Forward(Peer.CLIENT, join_rows(line, rows, directories=page.directories, archived=False))]
            line = session_list.amend_rows(
                raw,
                hidden,
                title_of,
                archived,
                only=page.archived == session_list.ONLY,
                made=made,
                of_index=page.of_index,
                within=page.within,
            )
            line = join_rows(
                line, rows, directories=page.directories, archived=not page.of_index, of_index=page.of_index
            )
            cursor = session_list.find_next_cursor(raw, line)
            return PageEmptied(page, line, cursor) if cursor is not None else [Forward(Peer.CLIENT, line)]
        except (OSError, ValueError, KeyError, RecursionError):
            return [Forward(Peer.CLIENT, raw)]

    def _amend_index(self, page: AmendList, state: "JournalState", aliases: dict[str, str]) -> bytes:
        """A line with rows of the agent's index, with the ids that the client knows, and with those rows that it asked
        for and only acp-proxy has. Raises OSError, ValueError, KeyError."""
        raw, within = page.raw, page.within
        index = IndexRows(aliases, state.deleted_ids, frozenset({*page.wanted, *page.our_ids}))
        untitled = [aliases.get(id, id) for id in session_list.find_untitled(raw, absent=page.titles, within=within)]
        # The agent's new session lacks a title that the user gave to the one before.
        users = {session: title for session in untitled if (title := state.find_title(session)) is not None}
        line = session_list.amend_rows(
            raw,
            index.hidden,
            _make_title_of(state, page.renamed),
            state.archived_here,
            made=self._find_titles(untitled) | users,
            of_index=True,
            within=within,
            our_ids=aliases,
            shown=index.find_shown if aliases else None,
        )
        line = session_list.with_removed(line, within, index.find_removed) if aliases else line
        missing = index.find_missing(page.wanted, session_list.find_ids(raw, within))
        rows = [replace(row, session=index.find_shown(row.session)) for row in self._find_named(page, missing)]
        return join_rows(line, rows, directories=page.directories, archived=False, of_index=True)

    def _find_named(self, page: AmendList, sessions: list[str]) -> "list[ListedSession]":
        """The rows of these sessions, newest first, if the index answers in time."""
        recorder = self._recorder
        store, agent = recorder.store, recorder.agent
        others = recorder.run_on_writer(recorder.list_other_agents) if sessions and page.continues else []

        def ask() -> "list[ListedSession]":
            try:
                return store.list_by_ids(agent, recorder.run_id, sessions, others)
            except (OSError, Unreadable, ImportError):
                return []

        return self._ask_in_time(ask, [], PATIENCE_SECONDS) if sessions else []

    def amend_titles(self, updates: AmendTitles) -> bytes:
        """Updates from the agent, with the user's titles."""
        recorder = self._recorder
        try:
            state = recorder.run_on_writer(lambda: recorder.store.read_state(recorder.agent))
        except OSError:
            return updates.data
        title_of = _make_title_of(state, updates.renamed, updates.our_ids)
        return session_list.with_titles(updates.data, title_of) if title_of is not None else updates.data

    def change(self, wanted: SetTitle | SetArchived | AnswerStatus) -> None:
        """Answer a request for a draft: set a title, archive or unarchive a session, or tell its status."""
        self._answer(
            partial(self._answer_change, wanted), own_messages.refuse_for_store(wanted.request, "ETIMEDOUT").data
        )

    def _answer_change(self, wanted: SetTitle | SetArchived | AnswerStatus) -> bytes:
        recorder, store = self._recorder, self._recorder.store
        try:
            return recorder.run_on_writer(partial(self._apply_change, wanted, store, recorder.agent))
        except FileNotFoundError:
            return own_messages.encode_not_found(wanted.request, wanted.session)
        except OSError as problem:
            return own_messages.refuse_for_store(wanted.request, errno_name(problem)).data

    def _apply_change(self, wanted: SetTitle | SetArchived | AnswerStatus, store: Store, agent: str) -> bytes:
        """The answer, after the change. Raises OSError (FileNotFoundError: there is no such session)."""
        request, session = wanted.request, wanted.session
        if session in store.read_deleted(agent) or not (wanted.is_known or store.has_transcript(agent, session)):
            raise FileNotFoundError(session)
        match wanted:
            case AnswerStatus(is_open=is_open):
                return jsonrpc.result(request, {"status": "open" if is_open else "saved"})
            case SetTitle(title=title):
                if (mask := self._recorder.mask) is not None:
                    title = mask_title(title, mask)
                store.set_title(agent, session, title)
                title_update = own_messages.encode_update(
                    session, {"sessionUpdate": update_kinds.SESSION_INFO, "title": title}
                )
                answer = jsonrpc.result(request, {"title": title}) + title_update
            case SetArchived(is_archived=is_archived):
                store.archive(agent, session, is_archived)
                answer = jsonrpc.result(request, {})
        if self._recorder.fsync != "never":
            store.sync_journal(agent)
        return answer

    def follow(self, change: FollowAgent) -> list[RelayEffect]:
        """Note what the agent has changed. Returns effects to perform."""
        recorder = self._recorder

        def note() -> None:
            store, agent, session = recorder.store, recorder.agent, change.session
            if change.title is not None:
                title = change.title if recorder.mask is None else mask_title(change.title, recorder.mask)
                store.set_title(agent, session, title, by_agent=True)
            if change.is_archived is not None:
                store.archive(agent, session, change.is_archived, by_agent=True)

        try:
            recorder.run_on_writer(note)
        except FileNotFoundError:  # it was deleted
            pass
        except OSError as problem:
            return [Warn(f"the agent's title or archiving of a session could not be noted: {errno_name(problem)}")]
        return []

    def add_alias(self, session: str, alias: str) -> None:
        """Note that a session continues in the agent's session ``alias``. If that fails, the agent's list shows both
        until the session is opened again."""
        recorder = self._recorder
        with contextlib.suppress(OSError):
            recorder.run_on_writer(lambda: recorder.store.add_alias(recorder.agent, session, alias))

    def delete(self, session: str, request: RequestId | None) -> None:
        """Delete a session, and answer the request if there is one. If that hangs, the answer comes when it is done."""
        recorder = self._recorder

        def delete() -> str:
            found = recorder.store.find_by_alias(recorder.agent, session) or session
            recorder.delete(found)
            return found

        in_time = self._start_limit(
            own_messages.refuse_for_store(request, "ETIMEDOUT").data if request is not None else b""
        )
        job = recorder.jobs.submit(delete)
        if recorder.jobs.wait(job):
            self._finish_delete(job, request, in_time)
        elif job.cancel():
            self._report_failed_delete(request, "ETIMEDOUT", in_time)
        else:
            end = partial(self._finish_delete, job, request, in_time)
            threading.Thread(target=lambda: job.done.acquire() and end(), name="late delete", daemon=True).start()

    def _finish_delete(self, job: WriterJob[str], request: RequestId | None, in_time: Callable[[], bool]) -> None:
        """A delete is done, or has failed."""
        recorder = self._recorder
        try:
            session = job.result()
        except (OSError, ImportError) as problem:
            self._report_failed_delete(request, errno_name(problem), in_time)
            return
        deleted = jsonrpc.result(request, {}) if request is not None and in_time() else b""

        def forget() -> bytes:
            agent = recorder.agent
            try:
                if recorder.fsync != "never":
                    recorder.store.sync_journal(agent)
            except OSError as problem:
                self._warn(f"a delete may not last if the power fails now: {errno_name(problem)}")
            try:
                recorder.store.remove_from_index(agent, session)
            except Unreadable as problem:
                self._warn(f"a deleted session stays in the index until that can be written: {problem.name}")
            return deleted

        self._answer(forget, deleted)

    def _report_failed_delete(self, request: RequestId | None, trouble: str, in_time: Callable[[], bool]) -> None:
        if request is None:
            self._warn(f"a deleted session could not be removed from {self._recorder.store.root}: {trouble}")
        elif in_time():
            self._client.post(own_messages.refuse_for_store(request, trouble).data)

    def trouble_of_missing(self, session: str) -> str | None:
        """Why a session without a transcript should have one: an errno's name. None if the index does not know the
        session, or does not answer in time.
        """
        recorder = self._recorder

        def ask() -> str | None:
            try:
                return "ENOENT" if recorder.store.is_indexed(recorder.agent, session) else None
            except Unreadable as problem:
                return problem.name
            except (OSError, ImportError) as problem:
                return errno_name(problem)

        return self._ask_in_time(ask, None)

    def _find_joining(self, page: AmendList, sessions: frozenset[str]) -> "list[ListedSession]":
        """The sessions that join the first page of the agent's list, if the index answers in time: these, and those
        that only acp-proxy can list."""
        recorder, archived = self._recorder, _ARCHIVED[page.archived or session_list.EXCLUDE]
        store, agent = recorder.store, recorder.agent

        def ask() -> "list[ListedSession]":
            try:
                return store.list_joining(
                    agent,
                    page.cwd,
                    recorder.run_id,
                    archived=archived,
                    sessions=sessions,
                    copies=page.continues,
                    others=others,
                )
            except (OSError, Unreadable, ImportError):
                return []

        continues = page.joins and page.continues
        others = recorder.run_on_writer(recorder.list_other_agents) if continues else []
        has_any = sessions or others or (continues and recorder.run_on_writer(lambda: store.has_copies(agent)))
        return self._ask_in_time(ask, [], PATIENCE_SECONDS) if has_any else []

    def _find_titles(self, sessions: list[str]) -> dict[str, str]:
        """The titles in the index of those of these sessions that have one."""
        recorder = self._recorder

        def ask() -> dict[str, str]:
            try:
                return recorder.store.find_titles(recorder.agent, sessions)
            except (OSError, Unreadable, ImportError):
                return {}

        return self._ask_in_time(ask, {}) if sessions else {}

    def _ask_in_time(self, ask: Callable[[], T], otherwise: T, seconds: float = STALL_SECONDS) -> T:
        """What ``ask`` returns on the worker; ``otherwise`` if that takes more than ``seconds``. It must not raise.

        The lines after the current one wait, so that nothing overtakes it.
        """
        answers: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._worker.put(lambda: answers.put(ask()))
        try:
            return answers.get(timeout=seconds)
        except queue.Empty:
            return otherwise

    def _handle_turn_end(self, session: str) -> None:
        """Let the worker force a session's transcript to the disk, and a moment later update the index. An fsync so
        shortly after another one waits until then too."""
        try:
            ended = self._recorder.agent, session
        except OSError:  # nothing of it is recorded
            return
        self._unsynced.append(ended)
        self._unindexed.append(ended)
        if time.monotonic() >= self._synced_at + DELAY_SECONDS:
            self._worker.put(self._sync)
        if not self._is_put_off:
            self._is_put_off = True
            self._worker.put_delayed(self._finish_turns)

    def _sync(self) -> None:
        """Force the transcripts of ended turns to the disk, and exchange them with other machines."""
        if not self._unsynced:
            return
        self._synced_at = time.monotonic()
        for ended in _take_all(self._unsynced) if self._recorder.fsync != "never" else ():
            try:
                if not self._recorder.store.sync(*ended):
                    self._unsynced.append(ended)  # with the next turn
            except FileNotFoundError:  # it was deleted
                continue
            except OSError as problem:
                self._recorder.report_loss(ended[1], problem)
        self._start_exchange()

    def _finish_turns(self) -> None:
        """Do what still waits after ended turns. fsync comes first, since the index may be locked for seconds."""
        self._is_put_off = False  # before the rest, so that a turn that ends meanwhile is not forgotten
        self._sync()
        for ended in _take_all(self._unindexed):
            with contextlib.suppress(OSError, Unreadable, ImportError):  # then the next list does it: the mark stays
                self._recorder.store.update_index(*ended)

    def synchronize(self) -> None:
        """Exchange sessions with other machines, in a process of its own, if the user has set up sync."""
        self._worker.put(self._start_exchange)

    def _start_exchange(self) -> None:
        try:
            from acp_proxy.run.start_sync import start_exchange

            start_exchange(self._recorder.store.root, self._warn)
        except ImportError:  # an upgrade has replaced it: the next proxy will do this
            return

    # --- on the worker

    def _answer(self, answer: Callable[[], bytes], late: bytes) -> None:
        """Compute and send an answer on the worker; if that takes too long, send ``late`` instead.

        If too many questions are waiting, wait a moment for room, then send ``late``.
        """
        if not self._questions.acquire(timeout=STALL_SECONDS):
            self._client.post(late)
            return
        in_time = self._start_limit(late)

        def work() -> None:
            line = late
            try:
                line = answer()
            finally:  # even if a bug prevents an answer
                if in_time():
                    self._client.post(line)
                self._questions.release()

        self._worker.put(work)

    def _start_limit(self, late: bytes) -> Callable[[], bool]:
        """Send ``late`` at the limit, unless the result is called before. That says whether it was in time."""
        unanswered = threading.Lock()

        def in_time() -> bool:
            timer.cancel()
            return unanswered.acquire(blocking=False) and not self._is_over

        def expire() -> None:
            if in_time():
                self._client.post(late)

        timer = threading.Timer(_ANSWER_SECONDS, expire)
        timer.daemon = True
        timer.start()
        return in_time


def _make_title_of(
    state: "JournalState", renamed: frozenset[str], our_ids: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], str | None] | None:
    """Returns the title that replaces the agent's of a session id, or None; None if there are no titles. ``our_ids``:
    by other ids: our session."""
    if not state.titles:
        return None

    def title_of(session: str) -> str | None:
        session = our_ids.get(session, session)
        return state.find_title_for_agent(session) if session not in renamed else None

    return title_of


def _take_all(waiting: deque[tuple[str, str]]) -> dict[tuple[str, str], None]:
    """Take what waits now, oldest first and each once, while another thread may append."""
    return dict.fromkeys(waiting.popleft() for _ in range(len(waiting)))
