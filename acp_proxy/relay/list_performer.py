"""Performs what ``decisions/`` decided about a ``session/list``: answers it from the store, or amends the agent's
page."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.effects import AmendList, AmendTitles, Forward, ListSessions, RelayEffect
from acp_proxy.decisions.events import PageEmptied
from acp_proxy.decisions.lists import amend_list
from acp_proxy.decisions.lists.amend_list import ListChanges
from acp_proxy.decisions.lists.jetbrains_index import JetBrainsIndexRows
from acp_proxy.errors import InvalidCursor, Unreadable, errno_name
from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.recording.recorder import Recorder
from acp_proxy.recording.writer_jobs import PATIENCE_SECONDS
from acp_proxy.relay.changed_sessions import ChangedSessions
from acp_proxy.relay.list_page import encode_page, insert_rows
from acp_proxy.relay.worker import TimedAnswers

if TYPE_CHECKING:
    from acp_proxy.store.index_database import ListedSession
    from acp_proxy.store.journal import JournalState

_ARCHIVE_FILTERS = {amend_list.EXCLUDE: False, amend_list.ONLY: True, amend_list.INCLUDE: None}
"""The filters of ``session/list``, as ``ProxyStore.list_page`` takes them."""


class ListPerformer:
    """Performs one connection's effects of lists."""

    def __init__(self, recorder: Recorder, answers: TimedAnswers, changed_sessions: ChangedSessions) -> None:
        self._recorder = recorder
        self._answers = answers
        self._changed_sessions = changed_sessions

    def answer_list(self, effect: ListSessions) -> None:
        self._changed_sessions.request_sync_round()  # for the next list, and for loads
        timeout_answer = proxy_messages.refuse_unreadable(effect.request_id, "ETIMEDOUT").data
        self._answers.answer(partial(self._make_list, effect), timeout_answer)

    def _make_list(self, effect: ListSessions) -> bytes:
        recorder = self._recorder
        try:
            archive_filter = _ARCHIVE_FILTERS[effect.archive_filter or amend_list.EXCLUDE]
            other_folders = recorder.list_other_folders() if effect.lists_other_agents else []
            store, agent = recorder.store, recorder.find_agent_folder()
            page = store.list_page(
                agent,
                effect.cwd,
                effect.cursor,
                recorder.run_id,
                archive_filter=archive_filter,
                other_folders=other_folders,
            )
            return encode_page(
                effect.request_id,
                page.rows,
                page.next,
                supports_directories=effect.supports_directories,
                is_recording_all=recorder.is_recording_all,
                says_archived=effect.archive_filter is not None,
            )
        except InvalidCursor as problem:
            return jsonrpc.encode_error(effect.request_id, jsonrpc.INVALID_PARAMS, str(problem))
        except Unreadable as problem:
            return proxy_messages.refuse_unreadable(effect.request_id, problem.name).data
        except (OSError, ImportError) as problem:
            return proxy_messages.refuse_unreadable(effect.request_id, errno_name(problem)).data

    def amend_list(self, effect: AmendList) -> list[RelayEffect] | PageEmptied:
        """The agent's line with listed sessions, without deleted ones and with the user's titles, as an effect.

        Archived sessions are left out, or chosen and marked if ``archive_filter`` says so. With ``fills_titles``,
        those without a title get the index's, if that answers in time. If nothing is left of a page that must not be
        empty, returns an event instead.
        """
        self._changed_sessions.request_sync_round()
        recorder, agents_line = self._recorder, effect.line
        try:
            state = recorder.run_on_writer(lambda: recorder.store.read_state(recorder.find_agent_folder()))
            title_of = _make_title_lookup(state, effect.retitled_ids)
            generated_titles = self._find_generated_titles(
                amend_list.find_without_usable_title(
                    agents_line, include_absent=effect.fills_titles, list_member=effect.rows_member
                )
            )
            aliases = (
                recorder.run_on_writer(lambda: recorder.store.read_aliases(recorder.find_agent_folder()))
                if state.aliases
                else {}
            )
            if effect.client_request is None and effect.is_of_jetbrains_index:
                return [Forward(Peer.CLIENT, self._amend_jetbrains_index(effect, state, aliases))]
            rows = self._find_rows_to_join(effect, frozenset(aliases.values()))
            listed_elsewhere = aliases.keys() | {row.session_id for row in rows}
            rows = rows if effect.adds_our_rows else []
            archived = state.archived_here
            hidden = (
                state.deleted_ids | archived
                if effect.archive_filter in (None, amend_list.EXCLUDE)
                else state.deleted_ids
            )
            hidden |= listed_elsewhere
            changes = ListChanges(
                hidden,
                title_of,
                generated_titles,
                archived if effect.archive_filter is not None else None,
                only_archived=effect.archive_filter == amend_list.ONLY,
                is_of_jetbrains_index=effect.is_of_jetbrains_index,
            )
            line = insert_rows(
                amend_list.amend_rows(agents_line, changes, list_member=effect.rows_member),
                rows,
                supports_directories=effect.supports_directories,
                says_archived=effect.archive_filter is not None and not effect.is_of_jetbrains_index,
                is_of_jetbrains_index=effect.is_of_jetbrains_index,
            )
            cursor = amend_list.find_cursor_if_emptied(agents_line, line) if effect.client_request is not None else None
            return PageEmptied(effect, line, cursor) if cursor is not None else [Forward(Peer.CLIENT, line)]
        except (OSError, ValueError, KeyError, RecursionError):
            return [Forward(Peer.CLIENT, agents_line)]

    def _amend_jetbrains_index(self, effect: AmendList, state: "JournalState", aliases: dict[str, str]) -> bytes:
        """A line with rows of the agent's index, with the ids that the client knows, and with those rows that it asked
        for and only acp-proxy has. Raises OSError, ValueError, KeyError."""
        agents_line, list_member = effect.line, effect.rows_member
        index = JetBrainsIndexRows(
            aliases, state.deleted_ids, frozenset({*effect.requested_ids, *effect.our_ids_by_client_id})
        )
        untitled = [
            aliases.get(id, id)
            for id in amend_list.find_without_usable_title(
                agents_line, include_absent=effect.fills_titles, list_member=list_member
            )
        ]
        # The agent's new session lacks a title that the user gave to the one before.
        users_titles = {
            session_id: title for session_id in untitled if (title := state.find_title(session_id)) is not None
        }
        changes = ListChanges(
            index.hidden_ids,
            _make_title_lookup(state, effect.retitled_ids),
            self._find_generated_titles(untitled) | users_titles,
            state.archived_here,
            is_of_jetbrains_index=True,
            our_ids_by_agent_id=aliases,
            find_client_id=index.choose_client_id if aliases else None,
        )
        line = amend_list.amend_rows(agents_line, changes, list_member=list_member)
        line = amend_list.replace_ids_in_removed(line, list_member, index.find_removed) if aliases else line
        missing = index.find_missing(effect.requested_ids, amend_list.find_row_ids(agents_line, list_member))
        rows = [
            replace(row, session_id=index.choose_client_id(row.session_id)) for row in self._find_rows(effect, missing)
        ]
        return insert_rows(line, rows, supports_directories=effect.supports_directories, is_of_jetbrains_index=True)

    def amend_titles(self, updates: AmendTitles) -> bytes:
        """Updates from the agent, with the user's titles."""
        recorder = self._recorder
        try:
            state = recorder.run_on_writer(lambda: recorder.store.read_state(recorder.find_agent_folder()))
        except OSError:
            return updates.data
        title_of = _make_title_lookup(state, updates.retitled_ids, updates.our_ids_by_client_id)
        return amend_list.replace_titles(updates.data, title_of) if title_of is not None else updates.data

    def _find_rows(self, page: AmendList, sessions: list[str]) -> "list[ListedSession]":
        """The rows of these sessions, newest first, if the index answers in time."""
        recorder = self._recorder
        store, agent = recorder.store, recorder.find_agent_folder()
        other_folders = (
            recorder.run_on_writer(recorder.list_other_folders) if sessions and page.lists_other_agents else []
        )
        ask = partial(store.list_by_ids, agent, recorder.run_id, sessions, other_folders)
        return self._answers.ask_in_time(ask, [], PATIENCE_SECONDS) if sessions else []

    def _find_rows_to_join(self, page: AmendList, sessions: frozenset[str]) -> "list[ListedSession]":
        """The sessions that join the first page of the agent's list, if the index answers in time: these, and those
        that only acp-proxy can list."""
        recorder, archive_filter = self._recorder, _ARCHIVE_FILTERS[page.archive_filter or amend_list.EXCLUDE]
        store, agent = recorder.store, recorder.find_agent_folder()
        lists_other_agents = page.adds_our_rows and page.lists_other_agents
        other_folders = recorder.run_on_writer(recorder.list_other_folders) if lists_other_agents else []
        has_any = (
            sessions
            or other_folders
            or (lists_other_agents and recorder.run_on_writer(lambda: store.may_have_copies(agent)))
        )
        ask = partial(
            store.list_rows_to_insert,
            agent,
            page.cwd,
            recorder.run_id,
            archive_filter=archive_filter,
            session_ids=sessions,
            with_copies=page.lists_other_agents,
            other_folders=other_folders,
        )
        return self._answers.ask_in_time(ask, [], PATIENCE_SECONDS) if has_any else []

    def _find_generated_titles(self, session_ids: list[str]) -> dict[str, str]:
        """The titles in the index of those of these sessions that have one."""
        recorder = self._recorder
        if not session_ids:
            return {}
        return self._answers.ask_in_time(
            lambda: recorder.store.find_generated_titles(recorder.find_agent_folder(), session_ids), {}
        )


def _make_title_lookup(
    state: "JournalState", renamed: frozenset[str], our_ids: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], str | None] | None:
    """A function from a session's id to the title to show in place of the agent's, if there is one; None if no session
    has such a title. ``our_ids``: our ids of sessions, by the other ids that they may be asked for with."""
    if not state.titles:
        return None

    def title_of(session_id: str) -> str | None:
        session_id = our_ids.get(session_id, session_id)
        return state.find_title_for_agent(session_id) if session_id not in renamed else None

    return title_of
