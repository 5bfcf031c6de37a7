"""The pages as HTML. All text of sessions is escaped; scripts and styles are files of this server, and nothing else."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from html import escape
from itertools import groupby
from types import MappingProxyType
from urllib.parse import quote, urlencode

from msgspec import Struct

from acp_proxy import __version__
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.export.highlighting import COPY_BUTTON
from acp_proxy.tools.export.html import render_facts, render_head
from acp_proxy.tools.search.fts_table import Excerpt
from acp_proxy.tools.search.query import TurnPart
from acp_proxy.tools.search.results import split_excerpt
from acp_proxy.tools.search.search import Hit, SearchResult
from acp_proxy.tools.stats.usage import GroupUsage
from acp_proxy.tools.web.charts import draw_bar, draw_columns
from acp_proxy.tools.web.conversation_parts import Position
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views.document import Head
from acp_proxy.views.formatting import (
    format_amounts,
    format_clock_time,
    format_count,
    format_day,
    format_number,
    format_size,
    shorten_home,
    strip_markdown,
)
from acp_proxy.views.sanitize import RUNNING, join_lines

_DAYS = 60
"""Days of the chart."""
_PROJECTS = 30
_LISTED_TURNS = 10


class RowsPage(Struct, frozen=True):
    """A page of the list. ``agents``: the names of agents' folders. ``agent``, ``cwd``: what it is narrowed to.
    ``archived``: it has the archived sessions, instead of the others. ``has_archived``: there are any.

    ``home``: shown as ``~``. ``more``: the query of the next page; empty: there is none. ``state``: differs after any
    change.
    """

    rows: Sequence[ListedSession]
    agents: Mapping[str, str]
    agent: str
    cwd: str | None
    archived: bool
    has_archived: bool
    home: str
    is_first: bool
    more: str
    state: str


class SessionPage(Struct, frozen=True):
    """A part of a conversation. ``turns``: as HTML. ``first``: where it begins. ``next``: where it goes on; None: this
    is the end. ``size``: of the transcript, in bytes. ``commands``: for a terminal."""

    row: ListedSession
    head: Head
    turns: Sequence[str]
    first: Position
    next: Position | None
    size: int
    commands: Sequence[str]


class SearchHint(Struct, frozen=True):
    """What the user may have meant. ``operators``: what is said about them. ``near_words``: those that are there.
    ``row``: a session whose id the word is. ``has_words``: there were several. ``in_output``: whether tools printed
    them; None: nobody has looked. ``is_elsewhere``: other agents, directories or times have them."""

    operators: str = ""
    near_words: str = ""
    row: ListedSession | None = None
    has_words: bool = False
    in_output: bool | None = None
    is_elsewhere: bool = False


class SearchPage(Struct, frozen=True):
    """What was found. ``typed_query``: as the user wrote it. ``part``: of the turns; empty: what was said. ``result``:
    None: there is nothing to search for. ``about``: how it differs from what was asked, or what is wrong with that.
    ``since``, ``until``: as the user wrote them. ``hint``: if nothing was found. ``unread``: how many sessions are
    still to be searched. ``most``: the most that are shown; ``next_most``: by the link to more. ``agents``, ``agent``,
    ``cwd``, ``home``: as in ``RowsPage``.
    """

    typed_query: str
    part: str
    agent: str
    cwd: str | None
    since: str
    until: str
    result: SearchResult | None
    about: str
    hint: SearchHint
    unread: int
    most: int
    next_most: int
    agents: Mapping[str, str]
    home: str


_BAR = {"": "Sessions", "stats": "Statistics"}
"""The pages in the bar at the top, by their place below the path of all pages."""
_CURRENT = ' aria-current="page"'
_NEWS = '<p class="news" id="news" role="status"></p>\n'
"""Where the script says what happens."""
_PARTS = {
    "": "Conversations",
    TurnPart.USER: "Your words",
    TurnPart.AGENT: "The agent's words",
    TurnPart.TOOLS: "Tool calls",
    TurnPart.OUTPUT: "What tools printed",
}

Amounts = tuple[GroupUsage, int | None]
"""An amount of use, and its tokens."""


class StatsPage(Struct, frozen=True):
    """The usage by day, agent and directory, and of all. ``unprompted``: what counts only in size; empty: nothing.
    ``failed``: what could not be counted.
    """

    days: Mapping[str, Amounts]
    agents: Mapping[str, Amounts]
    projects: Mapping[str, Amounts]
    total: Amounts
    unprompted: str
    failed: Sequence[str]
    home: str


class Pages:
    def __init__(self, root: str) -> None:
        """``root``: the path of all pages."""
        self._root = root

    def render_list(self, page: RowsPage) -> str:
        title = "Archived sessions" if page.archived else "Sessions"
        head = f"<h1>{title}</h1>\n{_NEWS}"
        archived = "1" if page.archived else ""
        other_query = make_address_query(
            {"agent": page.agent, "cwd": page.cwd, "archived": "" if page.archived else "1"}
        )
        links = f'<a href="{self._root}{escape(other_query)}">{"Not archived" if page.archived else "Archived"}</a>'
        only = _render_only(page, f"{self._root}{make_address_query({'archived': archived})}")
        head += render_facts([only, links if page.archived or page.has_archived else ""])
        state = make_address_query({"agent": page.agent, "cwd": page.cwd, "archived": archived})
        follow = f' data-list="{self._root}state{escape(state)}" data-state="{page.state}"' if page.is_first else ""
        nothing = "No session is archived." if page.archived else "There is no session yet."
        body = "".join(self._render_days(page)) or f"<p>{'There is none.' if only else nothing}</p>\n"
        more = (
            f'<p><a class="more" href="{self._root}{escape(page.more)}">Older sessions</a></p>\n' if page.more else ""
        )
        place = "" if not only and not page.archived else None
        kept_limits = {"agent": page.agent, "cwd": page.cwd}
        return self._render(
            title,
            f'<header class="head">\n{head}</header>\n',
            f"{body}{more}",
            follow,
            kept_limits=kept_limits,
            place=place,
        )

    def render_session(self, page: SessionPage) -> str:
        row, place = page.row, self._locate(page.row)
        is_long = row.prompt_count > 1 or page.next is not None or page.first > (1, 0)
        links = [f'<a href="{place}/files">Changed files</a>']
        links += [f'<a class="last" href="{place}?before=end#end">Last turn</a>'] if is_long else []
        commands = [f"<code>{escape(join_lines(command))}</code> {COPY_BUTTON}" for command in page.commands]
        commands[0] = f"In a terminal: {commands[0]}"
        more_facts = f"{render_facts(links)}{render_facts(commands)}{_NEWS}"
        head = render_head(page.head, row.prompt_count, is_shared=False).replace("</header>", f"{more_facts}</header>")
        contents = (
            '<nav class="contents" aria-label="Contents">\n<details open><summary>Contents</summary>\n'
            f'<p><a class="load" href="{place}/contents">Show the turns</a></p>\n</details>\n</nav>\n'
        )
        earlier = f'<p><a class="earlier" href="{place}{_make_place_query("before", page.first)}">Earlier</a></p>\n'
        end = f'<p class="end" id="end">{escape(RUNNING) if row.is_running else ""}</p>\n'
        if page.next is not None:
            end = f'<p><a class="more" href="{place}{_make_place_query("turn", page.next)}">Go on</a></p>\n'
        part = f"{place}{_make_place_query('turn', page.first)}"
        follow = f' data-session="{place}" data-part="{part}" data-size="{page.size}"'
        body = "".join([earlier if page.first > (1, 0) else "", *page.turns, end])
        has_contents = row.prompt_count > 1
        return self._render(
            page.head.heading, head + (contents if has_contents else ""), body, follow, has_contents=has_contents
        )

    def render_contents(self, row: ListedSession, topics: Iterable[tuple[int, str]]) -> str:
        """``topics``: the number and the topic of each turn."""
        place = self._locate(row)
        items = "".join(
            f'<li><a href="{place}?turn={number}#turn-{number}"><span>{number}</span>'
            f"<bdi>{escape(topic)}</bdi></a></li>\n"
            for number, topic in topics
        )
        body = f'<nav class="contents" aria-label="Contents"><ol>{items}</ol></nav>\n'
        return self._render(
            "Contents", f'<header class="head"><h1>Contents</h1>{self._link_back(row)}</header>\n', body
        )

    def render_files(self, row: ListedSession, files: str) -> str:
        """``files``: as HTML."""
        body = files or "<p>This session changed no file, as far as it is recorded.</p>\n"
        head = f'<header class="head"><h1>Changed files</h1>{self._link_back(row)}</header>\n'
        return self._render("Changed files", head, body)

    def render_search(self, page: SearchPage) -> str:
        hits = page.result.hits if page.result is not None else []
        has_more = page.result is not None and not page.result.is_all
        if page.result is None:
            about = page.about or "Give words, the beginning of a word (log*), or a phrase in quotes."
        elif not hits and not page.unread:
            fewer = "fewer words, or another part" if page.hint.has_words else "another part"
            nor_in_output = ", nor in what tools printed" if page.hint.in_output is False else ""
            about = f"Nothing matches{nor_in_output}. Try {fewer}. {page.hint.operators}".strip()
            if page.hint.is_elsewhere:
                about = "Nothing matches with these limits. Without them, something does."
        else:
            about = f"{page.about} " if page.about else ""
            about += format_count(len(hits), "session")
            about += f", {page.unread:,} still to be searched" if page.unread else ", and there are more" * has_more
        only = _render_only(page, self._locate_search(page, dict.fromkeys(("agent", "cwd", "since", "until"))))
        head = (
            f'<header class="head">\n<h1>Search</h1>\n{self._render_parts(page)}{self._render_times(page)}'
            f"{render_facts([only])}"
            f'<p class="news" id="news" role="status">{escape(about)}</p>\n</header>\n'
        )
        rows = "".join(self._render_hit(hit, page) for hit in hits)
        body = f'<ul class="sessions">\n{rows}</ul>\n' if rows else ""
        if page.unread or (has_more and page.next_most > page.most):
            most = str(page.most if page.unread else page.next_most)
            address = self._locate_search(page, {"most": most})
            words = "Search on" if page.unread else "Older results"
            body += f'<p><a class="more" href="{escape(address)}">{words}</a></p>\n'
        if (row := page.hint.row) is not None:
            body += f'<p>This is the id of: <a href="{self._locate(row)}"><bdi>{_name(row)}</bdi></a></p>\n'
        elif page.hint.near_words:
            near_search = self._locate_search(page, {"q": page.hint.near_words})
            body += f"<p>Did you mean: {_link(page.hint.near_words, near_search)}</p>\n"
        may_be_printed = page.part != TurnPart.OUTPUT and page.hint.in_output is not False
        if page.result is not None and not hits and not page.unread and may_be_printed:
            output = self._locate_search(page, {"in": TurnPart.OUTPUT})
            text = "A tool printed it" if page.hint.in_output else "Search what tools printed"
            body += f'<p><a href="{escape(output)}">{text}</a></p>\n'
        title = f"{join_lines(page.typed_query)} - Search" if page.typed_query.strip() else "Search"
        return self._render(title, head, body, typed_query=page.typed_query, kept_limits=_list_kept_limits(page))

    def _locate_search(self, page: SearchPage, changed: Mapping[str, str | None]) -> str:
        """The address of the same search, but for what is changed."""
        return f"{self._root}search{make_address_query({'q': page.typed_query, **_list_kept_limits(page), **changed})}"

    def _render_parts(self, page: SearchPage) -> str:
        """Links to the same search in each part of the turns."""
        links = []
        for part, name in _PARTS.items():
            address = self._locate_search(page, {"in": part})
            chosen = _CURRENT if part == page.part else ""
            links.append(f'<a href="{escape(address)}"{chosen}>{escape(name)}</a>')
        return f'<nav class="parts" aria-label="Search in">{"".join(links)}</nav>\n'

    def _render_times(self, page: SearchPage) -> str:
        """A form for the same search in a time."""
        kept = {"q": page.typed_query, **_list_kept_limits(page), "since": "", "until": ""}
        fields = "".join(
            f'<label>{label} <input name="{name}" value="{escape(join_lines(value))}" placeholder="{example}" size="10"'
            ' autocomplete="off" autocapitalize="none" spellcheck="false"></label>'
            for label, name, value, example in (
                ("Since", "since", page.since, "7d"),
                ("until", "until", page.until, "2026-11-30"),
            )
        )
        return (
            f'<form class="times" action="{self._root}search">{_render_hidden_fields(kept)}{fields}'
            "<button>Search</button></form>\n"
        )

    def render_stats(self, page: StatsPage) -> str:
        total, tokens = page.total
        facts = {
            "Sessions": f"{total.sessions:,}",
            "Turns": f"{total.turns:,}",
            "Tokens": format_number(tokens) if tokens is not None else "",
            "Cost": format_amounts(total.cost),
            "Size": format_size(total.bytes),
        }
        rows = "".join(f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in facts.items() if text)
        head = f'<header class="head">\n<h1>Statistics</h1>\n<dl>{rows}</dl>\n</header>\n'
        months: dict[str, Amounts] = {}
        for name, (used, spent) in page.days.items():
            sums, before = months.get(name[:7], (GroupUsage(), None))
            sums.add_group(used)
            months[name[:7]] = sums, spent if before is None else before + (spent or 0)
        days = _list_last_days(page.days)
        projects = sorted(page.projects.items(), key=lambda item: -item[1][0].turns)[:_PROJECTS]
        body = [
            f'<section class="stats"><h2>Turns a day, the last {_DAYS} days</h2>\n',
            draw_columns(f"Turns of each of the last {_DAYS} days; the table of months has sums.", days),
            "</section>\n",
            _render_amounts("Months", "month", sorted(months.items(), reverse=True), has_sessions=False),
            _render_amounts("Agents", "agent", sorted(page.agents.items(), key=lambda item: -item[1][0].turns)),
            _render_amounts(
                "Projects",
                "directory",
                [(shorten_home(name, page.home) or "(none)", amounts) for name, amounts in projects],
            ),
            f"<p>{escape(page.unprompted)}</p>\n" if page.unprompted else "",
            *(f'<p class="notice">Not counted: {escape(join_lines(text))}</p>\n' for text in page.failed),
        ]
        return self._render("Statistics", head, "".join(body), place="stats")

    def render_message(self, title: str, text: str) -> str:
        head = f'<header class="head"><h1>{escape(title)}</h1></header>\n'
        back = f'<p><a href="{self._root}">All sessions</a></p>\n'
        return self._render(title, head, f'<p class="notice">{escape(join_lines(text))}</p>\n{back}')

    def _render(
        self,
        title: str,
        head: str,
        body: str,
        follow: str = "",
        *,
        typed_query: str = "",
        kept_limits: Mapping[str, str | None] = MappingProxyType({}),
        has_contents: bool = False,
        place: str | None = None,
    ) -> str:
        """``head``, ``body``: HTML. ``follow``: attributes for the script. ``typed_query``: of the search.
        ``kept_limits``: what the next search is narrowed to. ``place``: of the page, if the bar at the top leads to
        it."""
        root = self._root
        bar = "".join(
            f'<a href="{root}{page_place}"{_CURRENT if page_place == place else ""}>{name}</a>'
            for page_place, name in _BAR.items()
        )
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f'<title>{escape(title)} · acp-proxy</title>\n<link rel="icon" href="data:,">\n'
            f'<link rel="stylesheet" href="{root}web.css">\n<script src="{root}web.js" defer></script>\n'
            '</head>\n<body>\n<div class="bar">\n<nav aria-label="Pages">'
            f"{bar}</nav>\n"
            f'<form role="search" action="{root}search">'
            '<label class="hidden" for="asked">Search all conversations</label>'
            f'<input id="asked" name="q" type="search" value="{escape(join_lines(typed_query))}"'
            ' placeholder="Search  ( / )" autocomplete="off" autocapitalize="none" spellcheck="false">'
            f"{_render_hidden_fields(kept_limits)}"
            f'</form>\n</div>\n<div class="frame{" two" if has_contents else ""}">\n'
            f"{head}<main{follow}>\n{body}</main>\n"
            f'<footer class="foot">acp-proxy {__version__}. These pages are on this machine only. '
            "Times are local.</footer>\n"
            "</div>\n</body>\n</html>\n"
        )

    def _render_days(self, page: RowsPage) -> Iterator[str]:
        today = date.today()
        names = {str(today): "Today", str(today - timedelta(days=1)): "Yesterday", "": "At an unknown time"}
        for day, rows in groupby(page.rows, lambda row: format_day(row.updated)):
            name = names.get(day, day)
            yield f'<section class="day" data-day="{day}"><h2>{name}</h2>\n<ul class="sessions">\n'
            for row in rows:
                yield self._render_row(row, page)
            yield "</ul></section>\n"

    def _render_row(self, row: ListedSession, page: RowsPage) -> str:
        place = self._locate(row)
        turns = format_count(row.prompt_count, "turn")
        facts = [
            format_clock_time(row.updated),
            self._link_list(page.agents.get(row.agent_folder, row.agent_folder), page.archived, agent=row.agent_folder),
            self._link_list(shorten_home(row.cwd, page.home), page.archived, cwd=row.cwd) if row.cwd else "",
            turns,
            "pinned" if row.is_pinned else "",
            f"copy from {escape(join_lines(name_agent(row.copy_of)))}" if row.copy_of else "",
            f"<strong>{RUNNING}</strong>" if row.is_running else "",
        ]
        return f'<li data-place="{place}"><a href="{place}" dir="auto">{_name(row)}</a>{render_facts(facts)}</li>\n'

    def _render_hit(self, hit: Hit, page: SearchPage) -> str:
        row, place = hit.row, self._locate(hit.row)
        first = f"?turn={hit.turns[0]}#turn-{hit.turns[0]}" if hit.turns else ""
        facts = [
            f"{format_day(hit.last_match_at)} {format_clock_time(hit.last_match_at)}".strip(),
            _link(
                page.agents.get(row.agent_folder, row.agent_folder),
                self._locate_search(page, {"agent": row.agent_folder}),
            ),
            _link(shorten_home(row.cwd, page.home), self._locate_search(page, {"cwd": row.cwd})) if row.cwd else "",
            "archived" if row.is_archived else "",
        ]
        more = hit.turns[len(hit.excerpts) :][:_LISTED_TURNS]
        links = ", ".join(f'<a href="{place}?turn={turn}#turn-{turn}">turn {turn}</a>' for turn in more)
        return (
            f'<li data-place="{place}"><a href="{place}{first}" dir="auto">{_name(row)}</a>'
            f"{render_facts(facts)}"
            f"{''.join(_render_excerpt(place, excerpt, row.cwd) for excerpt in hit.excerpts)}"
            f"{f'<p>and {links}</p>' if links else ''}</li>\n"
        )

    def _link_list(self, text: str, archived: bool, **narrowed: str) -> str:
        query = make_address_query({**narrowed, "archived": "1" if archived else ""})
        return _link(text, f"{self._root}{query}")

    def _link_back(self, row: ListedSession) -> str:
        return f'<p class="links"><a href="{self._locate(row)}"><bdi>{_name(row)}</bdi></a></p>'

    def _locate(self, row: ListedSession) -> str:
        """The path of a session's page."""
        return f"{self._root}{locate_session(row)}"


def _link(text: str, address: str) -> str:
    return f'<a href="{escape(address)}"><bdi>{escape(join_lines(text))}</bdi></a>'


def _render_only(page: RowsPage | SearchPage, everything: str) -> str:
    """What a page is narrowed to, and a link to ``everything``; empty: it is not narrowed."""
    narrowed = [page.agents.get(page.agent, page.agent)] if page.agent else []
    narrowed += [shorten_home(page.cwd, page.home)] if page.cwd is not None else []
    if isinstance(page, SearchPage):
        narrowed += [f"{name} {value}" for name, value in (("since", page.since), ("until", page.until)) if value]
    about = ", ".join(join_lines(restriction) or "no directory" for restriction in narrowed)
    return f'Only: <bdi>{escape(about)}</bdi>. <a href="{escape(everything)}">All of them</a>' if narrowed else ""


def _list_kept_limits(page: SearchPage) -> dict[str, str | None]:
    """What stays from one search to the next, by its names in addresses."""
    return {"in": page.part, "agent": page.agent, "cwd": page.cwd, "since": page.since, "until": page.until}


def _render_hidden_fields(values: Mapping[str, str | None]) -> str:
    """What a form repeats of the address, without what is empty."""
    return "".join(
        f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in values.items() if value
    )


def locate_session(row: ListedSession) -> str:
    """The address of a session's page, from the path of all pages on."""
    return f"session/{_quote(row.agent_folder)}/{_quote(row.name)}"


def _make_place_query(name: str, place: Position) -> str:
    """The query for the part of a conversation that begins or ends there, for HTML."""
    turn, continuation = place
    return escape(make_address_query({name: str(turn), "piece": str(continuation) if continuation else ""}))


def make_address_query(values: Mapping[str, str | None]) -> str:
    """The query of an address, without what is empty; a directory may be."""
    present = {name: value for name, value in values.items() if value or (name == "cwd" and value is not None)}
    return f"?{urlencode(present, errors='replace')}" if present else ""


def _render_excerpt(place: str, excerpt: Excerpt, cwd: str | None) -> str:
    """A part of a turn, with the words that were found marked."""
    pieces = ((escape(piece), is_found) for piece, is_found in split_excerpt(excerpt, cwd))
    text = "".join(f"<mark>{piece}</mark>" if is_found else piece for piece, is_found in pieces)
    turn = excerpt.turn
    name = f'<a href="{place}?turn={turn}#turn-{turn}">turn {turn}</a>' if turn else "title"
    return f'<p class="excerpt"><span>{name}</span> <bdi>{text}</bdi></p>'


def _render_amounts(title: str, heading: str, rows: Sequence[tuple[str, Amounts]], *, has_sessions: bool = True) -> str:
    """A table of use, with a bar for the turns of each row."""
    most = max((used.turns for _, (used, _) in rows), default=0)
    shown = [(name, used, tokens) for name, (used, tokens) in rows if used.turns]
    columns = {
        "turns": [f"{used.turns:,}" for _, used, _ in shown],
        "sessions": [f"{used.sessions:,}" for _, used, _ in shown] if has_sessions else [],
        "tokens": [format_number(tokens) if tokens is not None else "" for *_, tokens in shown],
        "cost": [format_amounts(used.cost) for _, used, _ in shown],
        "size": [format_size(used.bytes) for _, used, _ in shown],
    }
    filled = {name: cells for name, cells in columns.items() if any(cells)}  # agents may not say what they cost
    heads, body = [heading, "", *filled], ""
    for (row_name, used, _), *figures in zip(shown, *filled.values(), strict=True):
        cells = "".join(
            f'<td class="right of-{name}">{escape(figure) or "-"}</td>'
            for name, figure in zip(filled, figures, strict=True)
        )
        body += f'<tr><th scope="row"><bdi>{escape(join_lines(row_name))}</bdi></th>'
        body += f'<td class="bar-cell">{draw_bar(used.turns, most)}</td>{cells}</tr>\n'
    head = "".join(
        f'<th scope="col" class="of-{name}">{name}</th>' if name else '<td class="bar-cell"></td>' for name in heads
    )
    return (
        f'<section class="stats"><h2>{title}</h2>\n<div class="wide" tabindex="0"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></section>\n"
    )


def _list_last_days(days: Mapping[str, Amounts]) -> list[tuple[str, int]]:
    """The turns of each of the last days, oldest first."""
    today = date.today()
    names = [str(today - timedelta(days=ago)) for ago in range(_DAYS - 1, -1, -1)]
    return [(name, days[name][0].turns if name in days else 0) for name in names]


def _name(row: ListedSession) -> str:
    return escape(strip_markdown(join_lines(row.title or "")) or "(no title)")


def _quote(text: str) -> str:
    return quote(text, safe="", errors="replace")
