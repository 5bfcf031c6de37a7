"""The pages: the list, a conversation, the search, the statistics. Each request opens the store anew, and only reads.

What a request names is looked up in the index; no part of an address becomes a part of a path.
"""

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

from msgspec import structs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from acp_proxy.cli.choose_session import shorten_ids
from acp_proxy.cli.next_command import format_command, repeat_agent_option
from acp_proxy.cli.open_store import is_default_store
from acp_proxy.cli.values import parse_range
from acp_proxy.errors import AcpProxyError, NoStore, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.raw_lines import wait_for_last_line
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.export import html, index_page
from acp_proxy.tools.export.formats import make_head, read_changed_files
from acp_proxy.tools.export.hide_home import HomeHider
from acp_proxy.tools.search.nearby import correct_words, explain_operators, find_by_id, is_in_parts, list_near_searches
from acp_proxy.tools.search.query import TurnPart, make_query
from acp_proxy.tools.search.search import Hit, SearchRequest, SearchResult, search_store
from acp_proxy.tools.search.turn_text import BEGINNING
from acp_proxy.tools.stats.usage import explain_unprompted, measure_session, measure_usage, sum_agents, sum_groups
from acp_proxy.tools.web.access import Access, Guard
from acp_proxy.tools.web.conversation_parts import (
    ConversationPart,
    OpenConversation,
    Position,
    WaitingConversations,
    choose_start,
    find_part_before,
    locate_piece,
    read_pieces,
)
from acp_proxy.tools.web.known_turns import KnownTurns
from acp_proxy.tools.web.pages import (
    Pages,
    RowsPage,
    SearchHint,
    SearchPage,
    SessionPage,
    StatsPage,
    make_address_query,
)
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.views.document import Choices
from acp_proxy.views.session_lines import make_distinct_names

_ROWS = 100
"""Sessions of a page of the list: some screens."""
_HITS = 50
_MOST_HITS = 1600
_SEARCH_SECONDS = 2.0
"""How long a page of the search is read for; the rest is for the next request."""
_CHOICES = Choices()


def make_app(root: Path, access: Access) -> ASGIApp:
    """The application that serves the pages. ``root``: the store's directory."""
    site = _Site(root, access.root)
    session = f"{access.root}session/{{agent}}/{{name}}"
    app = Starlette(
        routes=[
            Route(access.root, site.show_list),
            Route(f"{access.root}state", site.read_list_state),
            Route(f"{access.root}search", site.search),
            Route(f"{access.root}stats", site.show_stats),
            Route(session, site.show_session),
            Route(f"{session}/contents", site.show_contents),
            Route(f"{session}/files", site.show_files),
            Route(f"{session}/state", site.read_session_state),
            Route(f"{access.root}web.css", serve_style),
            Route(f"{access.root}web.js", serve_script),
        ],
        exception_handlers={HTTPException: site.explain, AcpProxyError: site.explain, OSError: site.explain},
    )
    app.router.redirect_slashes = False
    return Guard(app, access)


class _Site:
    def __init__(self, root: Path, url_root: str) -> None:
        self._root = root
        self._home = os.path.expanduser("~")
        self._store_options = [] if is_default_store(root) else ["--store", str(root)]
        """The options with which other commands use the same store."""
        self._url_root = url_root
        self._pages = Pages(url_root)
        self._waiting = WaitingConversations()
        self._turns = KnownTurns()
        self._had_store = False

    # --- the list

    def show_list(self, request: Request) -> Response:
        return _answer(self._pages.render_list(self._read_rows(request)))

    def read_list_state(self, request: Request) -> Response:
        """The state of the first page of the list: another one after any change."""
        return JSONResponse({"state": self._read_rows(request).state})

    def _read_rows(self, request: Request) -> RowsPage:
        """A page of the list. ``before``, ``skip``: where the page before it ended: the time of its last row, and how
        many rows with that time were shown."""
        params = request.query_params
        before, skip = params.get("before", ""), _read_number(params.get("skip"), 0)
        agent, cwd, archived = params.get("agent", ""), params.get("cwd"), params.get("archived", "") == "1"
        store = self._open()
        # Times are compared as text: what is one character longer comes right after the time itself.
        rows = store.list_newest(agent, cwd, until=f"{before}~" if before else "", archived=archived)
        rows_left = (row for number, row in enumerate(rows) if number >= skip or row.updated != before)
        found_rows = list(islice(rows_left, _ROWS + 1))
        page_rows, next_query = found_rows[:_ROWS], ""
        if len(found_rows) > _ROWS:
            last_stamp = page_rows[-1].updated
            shown_count = sum(row.updated == last_stamp for row in page_rows) + (skip if last_stamp == before else 0)
            restrictions = {"agent": agent, "cwd": cwd, "archived": "1" if archived else ""}
            next_query = make_address_query({"before": last_stamp, "skip": str(shown_count), **restrictions})
        facts = [
            (row.agent_folder, row.name, row.title, row.updated, row.prompt_count, row.is_running, row.is_pinned)
            for row in page_rows
        ]
        state = hashlib.sha256(repr(facts).encode("utf-8", "replace")).hexdigest()[:16]
        agents = make_distinct_names(store.list_agents())
        has_archived = next(store.list_newest(archived=True), None) is not None
        return RowsPage(
            page_rows,
            agents,
            agent,
            cwd,
            archived,
            has_archived,
            self._home,
            is_first=not before,
            more=next_query,
            state=state,
        )

    # --- a conversation

    def show_session(self, request: Request) -> Response:
        """A part of a conversation. ``turn``, ``piece``: where the part begins. ``before`` instead of ``turn``: where
        it ends, which ``end`` says of all."""
        store, row = self._find(request)
        params = request.query_params
        piece = _read_number(params.get("piece"), 0)
        if (before := params.get("before")) is not None:
            return self._show_session_before(store, row, before, piece)
        position = max(1, _read_number(params.get("turn"), 1)), piece
        conversation = self._waiting.take(row.agent_folder, row.name, position)
        if conversation is not None and not conversation.reader.is_in_its_place:
            conversation.reader.close()
            conversation = None
        if conversation is None:
            conversation = self._open_conversation(store, row, position)
        try:
            part = conversation.read()
            if part is None or (not part.pieces and position != (1, 0)):
                raise HTTPException(404)
            page = self._make_session_page(store, row, conversation.reader, part)
        except BaseException:
            conversation.reader.close()
            raise
        if part.next is None:
            conversation.reader.close()
        else:
            self._waiting.put(row.agent_folder, row.name, conversation)
        return _answer(self._pages.render_session(page))

    def _open_conversation(self, store: CommandStore, row: ListedSession, position: Position) -> OpenConversation:
        """Open a conversation to read it from a place on. Raises HTTPException, OSError."""
        reader = store.open_listed(row)
        try:
            wait_for_last_line(reader)
            start = BEGINNING
            if position != (1, 0):
                turns = self._turns.list_turns(row.agent_folder, row.name, reader, _make_hider(row))
                if position[0] > len(turns):
                    raise HTTPException(404)
                start = turns[position[0] - 1].start
            return OpenConversation(reader, row.session_id, partial(store.open_child, row), start, position)
        except BaseException:
            reader.close()
            raise

    def _show_session_before(self, store: CommandStore, row: ListedSession, before: str, piece: int) -> Response:
        """The part that ends before this piece of a turn."""
        with closing(store.open_listed(row)) as reader:
            wait_for_last_line(reader)
            turns = self._turns.list_turns(row.agent_folder, row.name, reader, _make_hider(row))
            is_end = before == "end"
            end = (len(turns) + 1, 0) if is_end else (_read_number(before, 0), piece)
            if not (1, 0) < end <= (len(turns) + 1, 0):
                raise HTTPException(404)
            start = choose_start([turn.start for turn in turns], end, reader.size)
            open_child = partial(store.open_child, row)
            part = find_part_before(read_pieces(reader, row.session_id, open_child, start), end)
            part = structs.replace(part, next=None) if is_end else part
            return _answer(self._pages.render_session(self._make_session_page(store, row, reader, part)))

    def _make_session_page(
        self, store: CommandStore, row: ListedSession, reader: TranscriptReader, part: ConversationPart
    ) -> SessionPage:
        hider = _make_hider(row)
        usage = measure_session(store, row)
        head = replace(
            hider.hide_in_head(make_head(row, row.title, reader)),
            tokens=usage.count_tokens(usage.total),
            cost=usage.total.cost,
        )
        renderer = html.TurnRenderer(head, _CHOICES)
        pieces = [
            "".join(renderer.render(turn, piece.continuation))
            for piece in part.pieces
            for turn in hider.hide_in_turns([piece.turn])
        ]
        first_position = locate_piece(part.pieces[0]) if part.pieces else (1, 0)
        id = shorten_ids(store, [row])[row.selector]
        options = [*repeat_agent_option(store, row.agent_folder, row.session_id), *self._store_options]
        commands = [
            format_command("show", [id], *options),
            format_command("continue", [id], "--with", "AGENT", *options),
        ]
        return SessionPage(row, head, pieces, first_position, part.next, reader.size, commands)

    def show_contents(self, request: Request) -> Response:
        with self._open_reader(request) as (_, row, reader):
            turns = self._turns.list_turns(row.agent_folder, row.name, reader, _make_hider(row))
        return _answer(self._pages.render_contents(row, ((turn.number, turn.topic) for turn in turns)))

    def show_files(self, request: Request) -> Response:
        with self._open_reader(request) as (store, row, reader):
            files = read_changed_files(reader, row.cwd, _CHOICES, _make_hider(row), partial(store.open_child, row))
            return _answer(self._pages.render_files(row, "".join(html.render_files(files))))

    def read_session_state(self, request: Request) -> Response:
        """How much of the session is recorded, in bytes of its transcript, and whether a turn is running."""
        store, row = self._find(request)
        with closing(store.open_listed(row)) as reader:
            return JSONResponse({"size": reader.size, "isRunning": row.is_running})

    # --- all of them

    def search(self, request: Request) -> Response:
        """``in``: the part of the turns. ``agent``, ``cwd``: only their sessions. ``since``, ``until``: only turns of
        this time, in the words of the command line. ``most``: how many are shown."""
        query, part = request.query_params.get("q", ""), request.query_params.get("in", "")
        agent, cwd = request.query_params.get("agent", ""), request.query_params.get("cwd") or None
        parts = tuple(turn_part for turn_part in TurnPart if turn_part == part)
        most_hits = min(max(_HITS, _read_number(request.query_params.get("most"), _HITS)), _MOST_HITS)
        store = self._open()
        result, unread, about, hint = None, 0, "", SearchHint()
        since, until = (request.query_params.get(name, "").strip() for name in ("since", "until"))
        words, earliest, latest = [query] if '"' in query else query.split(), "", ""
        words = words if store.exists else []  # a search would make its tables where no store is yet
        try:
            earliest, latest = parse_range(since, until)
        except UsageError as problem:
            words, about = [], str(problem).replace("--", "")
        with suppress(UsageError):  # there is nothing to search for
            search_request = SearchRequest(
                make_query(words),
                store.list_agents(agent),
                cwd,
                earliest or None,
                most_hits,
                until=latest or None,
                parts=parts,
            )
            result, unread, about = _search_nearby(store, search_request, words)
            if not result.hits and not unread:
                everywhere = replace(
                    search_request, agent_folders=store.list_agents(), cwd=None, since=None, until=None
                )
                is_elsewhere = everywhere != search_request and _search_nearby(store, everywhere, words)[0].hits
                hint = structs.replace(_find_hint(store, search_request, words), is_elsewhere=bool(is_elsewhere))
        next_most = min(2 * most_hits, _MOST_HITS)
        part, agents = part if parts else "", make_distinct_names(store.list_agents())
        page = SearchPage(
            query,
            part,
            agent,
            cwd,
            since,
            until,
            result,
            about,
            hint,
            unread,
            most_hits,
            next_most,
            agents,
            self._home,
        )
        return _answer(self._pages.render_search(page))

    def show_stats(self, request: Request) -> Response:
        store = self._open()
        by_day, failures = measure_usage(store, by="day")
        by_project, _ = measure_usage(store, by="project")
        agents = make_distinct_names(by_day)
        by_agent = {agents[folder]: (usage.total, usage.count_tokens(usage.total)) for folder, usage in by_day.items()}
        days, projects = sum_groups(by_day), sum_groups(by_project)
        page = StatsPage(days, by_agent, projects, sum_agents(by_day), explain_unprompted(by_day), failures, self._home)
        return _answer(self._pages.render_stats(page))

    # --- what all of them need

    def explain(self, request: Request, problem: Exception) -> Response:
        """A page that says what happened, and what to do."""
        if isinstance(problem, HTTPException | FileNotFoundError):
            status = problem.status_code if isinstance(problem, HTTPException) else 404
            is_session = request.url.path.startswith(f"{self._url_root}session/")
            text = "There is no such session, or it was deleted." if is_session else "There is no such page."
            return _answer(self._pages.render_message("Not found", text), status)
        if isinstance(problem, OSError):
            text = f"The store cannot be read: {problem.strerror}. Run: acp-proxy doctor"
        else:
            text = " ".join(map(str, problem.args))
        return _answer(self._pages.render_message("Not readable", text), 503)

    def _open(self) -> CommandStore:
        """Open the store: a connection to the index belongs to one thread, and each request has its own. Raises
        AcpProxyError."""
        store = CommandStore(self._root, create=False)
        self._had_store |= store.exists
        if self._had_store and not store.exists:  # not an empty one, as before the first session
            raise NoStore(self._root, "It was removed, or its disk is not mounted. Reload this page once it is back.")
        return store

    def _find(self, request: Request) -> tuple[CommandStore, ListedSession]:
        """The session that the address names. Raises HTTPException."""
        store, params = self._open(), request.path_params
        for row in store.find_named(params["name"]):
            if (row.agent_folder, row.name) == (params["agent"], params["name"]):
                return store, row
        raise HTTPException(404)

    @contextmanager
    def _open_reader(self, request: Request) -> Iterator[tuple[CommandStore, ListedSession, TranscriptReader]]:
        store, row = self._find(request)
        with closing(store.open_listed(row)) as reader:
            wait_for_last_line(reader)
            yield store, row, reader


class _TimeIsUp(Exception):
    """A search took its time."""


def _search_for_a_while(store: CommandStore, wanted: SearchRequest) -> tuple[SearchResult, int]:
    """Search, and read what no search has read yet, but not for long: the first one may take minutes. Returns what was
    found so far, newest first, and how many sessions are not read yet. Raises AcpProxyError.
    """
    began = time.monotonic()
    end, unread = 0.0, 0
    hits: dict[tuple[str, str], Hit] = {}

    def stop_in_time(done: int, total: int) -> None:
        nonlocal end, unread
        now, unread = time.monotonic(), total - done
        if not end:  # what was found is told after each batch but the one that ends here: there are at least two
            end = now + max(_SEARCH_SECONDS, now - began)  # to find out what is to be read may take as long
        elif unread and now > end and store.read_only_reason is None:  # a read-only store would keep nothing
            raise _TimeIsUp

    def keep(hit: Hit) -> bool:
        hits[hit.row.agent_folder, hit.row.name] = hit  # once more where the search begins again
        return True

    with suppress(_TimeIsUp):
        return search_store(store, wanted, stop_in_time, keep), 0
    return SearchResult(list(hits.values()), is_all=False), unread


def _search_nearby(store: CommandStore, wanted: SearchRequest, words: Sequence[str]) -> tuple[SearchResult, int, str]:
    """As ``_search_for_a_while``, and if nothing has the words, what comes near; and how that differs from them."""
    (result, unread), about = _search_for_a_while(store, wanted), ""
    for near_search in list_near_searches(wanted, words):
        if result.hits or unread:
            break
        result, unread = _search_for_a_while(store, near_search.request)
        about = near_search.about
    return result, unread, about


def _find_hint(store: CommandStore, wanted: SearchRequest, words: Sequence[str]) -> SearchHint:
    """What the user may have meant by words that nothing has. Raises AcpProxyError."""
    single = " ".join(words).split()
    near_words = correct_words(store, wanted, single)
    rows = find_by_id(store, single)
    in_output = None if TurnPart.OUTPUT in wanted.parts else is_in_parts(store, wanted, (TurnPart.OUTPUT,))
    return SearchHint(
        explain_operators(single), " ".join(near_words or ()), rows[0] if rows else None, len(single) > 1, in_output
    )


def _make_hider(row: ListedSession) -> HomeHider:
    return HomeHider(row.cwd, os.path.expanduser("~"))


def _read_number(text: str | None, default: int) -> int:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) < 10
    return int(text) if is_number and text is not None else default


def _answer(page: str, status: int = 200) -> Response:
    return Response(page.encode("utf-8", "replace"), status, media_type="text/html")


def serve_style(request: Request) -> Response:
    return Response(_read_style(), media_type="text/css")


def serve_script(request: Request) -> Response:
    return Response(f"{html.read_script()}\n{_read_file('web.js')}", media_type="text/javascript")


@cache
def _read_style() -> str:
    return "\n".join((html.read_style(), index_page.read_style(), _read_file("web.css")))


@cache
def _read_file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
