"""Finds the session that the user means by a word, and says which ones there are if it is none or several."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TextIO

from acp_proxy import shell_quote
from acp_proxy.cli.next_command import format_command, format_for_agents
from acp_proxy.cli.stdio import find_ascii_forms
from acp_proxy.errors import NoSuchSession
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.soft_deleted import DeletedSession
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import COMPRESSED_SUFFIX, SUFFIX, match_agents
from acp_proxy.views import formatting, sanitize, session_lines

LAST = "last"
"""As SESSION: the newest session."""
_LEAST_LIKENESS = 0.75
"""How alike a wrong word and ``last`` have to be: as `lats` is, and `latest`."""
NOTHING_ARCHIVED = "No session is archived. To archive one: acp-proxy archive SESSION"
_MOST_CANDIDATES = 8
_INDENT, _UNLIMITED_COLUMNS = "  ", 10_000


def list_rows_of_agent(store: CommandStore, agent: str) -> list[ListedSession]:
    """All sessions of the matching agents, newest first."""
    return list(store.list_newest(agent))


def choose_session(store: CommandStore, selector: str, agent: str, *, exact_title: bool = False) -> ListedSession:
    """The one session that the user means, by its id or its file in the store, else by its title. Raises NoSuchSession.

    ``exact_title``: a part of a title is not enough.
    """
    file_location = store.locate_file(selector)
    if file_location is not None and file_location[0] in store.list_agents(agent):
        agent, selector = file_location
    if selector == LAST:
        matches = list(islice(store.list_newest(agent, archived=False), 1))
    else:
        matches = list(
            {(row.agent_folder, row.session_id): row for row in reversed(store.find_named(selector, agent))}.values()
        )[::-1]
    if len(matches) > 1:
        raise NoSuchSession(
            f"{selector!r} matches several sessions:",
            *format_candidates(store, matches),
            *advise_on_several(store, matches),
        )
    if matches:
        return matches[0]
    check_agent(store, agent)
    return _choose_titled(store, selector, agent, exact_title=exact_title)


def _choose_titled(store: CommandStore, selector: str, agent: str, *, exact_title: bool) -> ListedSession:
    """The one session with this title, or part of one. Raises NoSuchSession, as ``choose_session`` does."""
    titled_rows = store.find_titled(selector, agent) if selector != LAST else []
    if not titled_rows and selector != LAST:
        titled_rows = store.find_titled(selector, agent, formatting.strip_markdown)
    if not titled_rows:
        raise _explain_no_such_session(store, selector, agent)
    if len(titled_rows) > 1:
        raise NoSuchSession(
            f"the titles of several sessions match {selector!r}:",
            *format_candidates(store, titled_rows),
            "Give the id instead.",
        )
    if exact_title and selector not in (titled_rows[0].title, formatting.format_title(titled_rows[0].title)):
        raise NoSuchSession(
            f"{selector!r} is only a part of a title:",
            *format_candidates(store, titled_rows),
            "With --yes, give the id instead.",
        )
    return titled_rows[0]


def _explain_no_such_session(store: CommandStore, selector: str, agent: str) -> NoSuchSession:
    """The error for a word that is neither an id nor a title: what it may be instead, and what to do."""
    if selector != LAST and find_deleted_matching(store.list_deleted(), selector, agent):
        restore_command = format_command("restore", [selector])
        return NoSuchSession(f"{selector!r} is deleted. To bring it back: {restore_command}")
    if os.path.isfile(selector):
        path = selector if os.sep in selector else os.path.join(".", selector)
        show_command, import_command = (shell_quote.join(["acp-proxy", word, path]) for word in ("show", "import"))
        return NoSuchSession(
            f"{selector} is a file outside of the store. To show it: {show_command}. To add it: {import_command}"
        )
    if has_form_of_file(selector) and not os.path.exists(selector):
        return NoSuchSession(f"{selector} does not exist. To see all sessions: acp-proxy list")
    if not store.list_agents():
        return NoSuchSession("no session is recorded yet. To set up your editor: acp-proxy setup")
    if selector == LAST:
        text = explain_empty_list(store, is_narrow=bool(agent), agent=agent)
        return NoSuchSession(f"{text[:1].lower()}{text[1:]}")
    if os.path.isdir(selector):
        list_command = format_command("list", [], "--cwd", selector)
        return NoSuchSession(f"no session matches {selector!r}, a directory. To see the sessions in it: {list_command}")
    from difflib import get_close_matches  # imported late: only this message needs it

    suggestion = f" Did you mean: {LAST}?" if get_close_matches(selector, [LAST], cutoff=_LEAST_LIKENESS) else ""
    message = f"no session matches {selector!r}.{suggestion} To see all sessions: acp-proxy list"
    is_id = re.fullmatch(r"[0-9a-f-]*", selector)
    search_advice = [] if is_id else [f"To search in them: {format_command('search', [selector])}"]
    return NoSuchSession(message, *search_advice, *(f"Not read: {text}" for text in store.list_unreadable(agent)))


def check_agent(store: CommandStore, agent: str) -> None:
    """Raises NoSuchSession if no agent is called as ``--agent`` says."""
    if agent_problem := explain_unknown_agent(store, agent):
        raise NoSuchSession(agent_problem)


def explain_unknown_agent(store: CommandStore, agent: str) -> str | None:
    """Which agents there are, if none is called as ``--agent`` says; None if one is."""
    if not agent or store.list_agents(agent) or not (agent_folders := store.list_agents()):
        return None
    names = ", ".join(
        sanitize.make_line(name) for name in sorted(session_lines.make_distinct_names(agent_folders).values())
    )
    return f"no agent called {agent!r} has sessions here. Those that have: {names}"


def explain_empty_list(
    store: CommandStore,
    *,
    is_narrow: bool,
    agent: str = "",
    archived: bool = False,
    words: Sequence[str] = (),
    search_options: Sequence[str] = (),
    near_command: str = "",
) -> str:
    """The message for an empty list: the reason, and what to do. ``is_narrow``: an option may have left out sessions.
    ``search_options``: those that a search for the words repeats. ``near_command``: the one that may have been meant.
    """
    if agent_problem := explain_unknown_agent(store, agent):
        return f"{agent_problem[:1].upper()}{agent_problem[1:]}"
    if words and next(store.list_newest(), None) is not None:
        search = sanitize.make_line(format_command("search", words, *search_options))
        suggestion = f"\nDid you mean: {sanitize.make_line(near_command)}\n" if near_command else " "
        return f"No title, directory or agent has these words.{suggestion}To look in what was said: {search}"
    if is_narrow and next(store.list_newest(archived=archived), None) is not None:
        return f"No session matches. To see all sessions: acp-proxy list{' --archived' if archived else ''}"
    if archived:
        return NOTHING_ARCHIVED
    if next(store.list_newest(archived=True), None) is not None:
        return "All sessions are archived. To see them: acp-proxy list --archived"
    if store.list_deleted():
        return "All sessions are deleted. To bring one back: acp-proxy restore"
    if store.list_agents():
        return "No recorded session has a prompt yet. If you expect one, run: acp-proxy verify"
    return (
        "No sessions are recorded yet. To set up your editor: acp-proxy setup. To take over older ones: acp-proxy adopt"
    )


def has_form_of_file(selector: str) -> bool:
    return selector.endswith((SUFFIX, COMPRESSED_SUFFIX)) or os.sep in selector


def find_deleted_matching(
    deleted_sessions: Iterable[DeletedSession], selector: str | None, agent: str
) -> list[DeletedSession]:
    """Those of the deleted sessions that have the id or transcript name ``selector``, else those whose id, or a copy's
    short id, begins with it. Titles do not count.

    An empty ``selector`` matches none; None: all. ``agent``: only sessions of the agents that the user means by it.
    """
    all_deleted = list(deleted_sessions)
    folders = match_agents({session.agent_folder for session in all_deleted}, agent)
    candidates = [session for session in all_deleted if session.agent_folder in folders]
    if selector is None:
        return candidates
    return (
        [session for session in candidates if session.session_id == selector]
        or [session for session in candidates if selector in (session.selector, session.name)]
        or [session for session in candidates if selector and _begins_with(session, selector)]
    )


def _begins_with(deleted: DeletedSession, word: str) -> bool:
    """Whether ``word`` is the beginning of the id; with the whole number after it, if the session has one."""
    number = deleted.selector.removeprefix(deleted.session_id)
    beginning = word.removesuffix(number) or word
    return deleted.selector.startswith(word) or deleted.session_id.startswith((word, beginning))


def advise_on_several(store: CommandStore, matches: Sequence[ListedSession | DeletedSession]) -> list[str]:
    """What to do if a word matches several sessions. Where they have one id, only the agent tells them apart."""
    if len({session.session_id for session in matches}) > 1:
        return ["Give more of the id, or use --agent."]
    agent_folders = dict.fromkeys(session.agent_folder for session in matches)
    return ["Choose the agent:", *format_for_agents(store, agent_folders)]


def shorten_ids(store: CommandStore, sessions: Sequence[session_lines.SelectableSession]) -> dict[str, str]:
    """By selector: the shortest form that names a session among those of the store, for display."""
    ids = [session.session_id for session in sessions]
    return session_lines.shorten_selectors(sessions, store.find_ids_alike(ids, formatting.SHORTEST_ID))


def format_short_heading(store: CommandStore, row: ListedSession) -> str:
    """A session's title, and a line about it with its short id and local time, for people."""
    when, id = formatting.format_local_time(row.updated), shorten_ids(store, [row])[row.selector]
    return sanitize.format_heading(row, when, id, os.path.expanduser("~"))


def format_candidates(
    store: CommandStore, rows: Sequence[ListedSession], ids: Mapping[str, str] | None = None
) -> list[str]:
    """The lines of a message on stderr that names sessions: a table as that of ``list``. ``ids``: the displayed forms,
    by selector, if they are not those of the store."""
    shown_rows, hidden_count = rows[:_MOST_CANDIDATES], len(rows) - _MOST_CANDIDATES
    if ids is None:
        ids = shorten_ids(store, shown_rows)
    lines = format_table(store, shown_rows, ids, sys.stderr, len(_INDENT))
    return [f"{_INDENT}{line}" for line in [*lines, *([f"and {hidden_count} more"] if hidden_count > 0 else [])]]


def format_table(
    store: CommandStore,
    rows: Sequence[ListedSession],
    ids: Mapping[str, str],
    stream: TextIO,
    indent: int = 0,
    *,
    with_size: bool = False,
) -> list[str]:
    """A table like that of ``list``, without colours, as wide as a terminal, indented by ``indent`` columns. Titles may
    be the same, or cut: agents, directories and times go before them. ``ids``: the displayed forms, by selector.
    ``with_size``: with the sizes, too."""
    from acp_proxy.views import session_table  # imported late, as list does

    width = shutil.get_terminal_size().columns - indent if stream.isatty() else _UNLIMITED_COLUMNS
    now, home, forms = datetime.now().astimezone(), os.path.expanduser("~"), find_ascii_forms(stream)
    agents = session_lines.make_distinct_names({*store.list_agents(), *(row.agent_folder for row in rows)})
    look = session_table.ListLook(width, False, now, home, forms, agents)
    table = session_table.make_table(rows, ids, look, short_titles=True, with_size=with_size)
    return [table.format_heading(), *table.format_rows(rows, ids)]
