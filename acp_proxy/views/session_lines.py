"""Sessions as values for JSON, and as lines for programs and messages."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import name_agent, strip_hash
from acp_proxy.views import formatting
from acp_proxy.views.sanitize import RUNNING, make_line


class SelectableSession(Protocol):
    """A session that a command line can name. ``selector``: its id, or a copy's short id, or one of these and what
    tells it from others of the same id."""

    @property
    def session_id(self) -> str: ...
    @property
    def selector(self) -> str: ...


def shorten_selectors(sessions: Sequence[SelectableSession], other_ids: Iterable[str]) -> dict[str, str]:
    """By selector: the shortest form that shows a session, and that a command line takes. The short id of a copy stays.

    ``other_ids``: the ids of sessions from which they must differ.
    """
    short_ids = formatting.shorten_ids([session.session_id for session in sessions], other_ids)
    return {
        session.selector: session.selector.replace(session.session_id, short_ids[session.session_id], 1)
        for session in sessions
    }


def format_tab_separated(row: ListedSession) -> str:
    """One row for programs: id, title, agent, directory, time, turns, bytes, state; nothing is cut.

    The state is ``running`` or empty.
    """
    state = RUNNING if row.is_running else ""
    title, cwd = row.title or "", row.cwd or ""
    return join_with_tabs(
        row.full_selector, title, row.agent_folder, cwd, row.updated, str(row.prompt_count), str(row.size), state
    )


def join_with_tabs(*texts: str) -> str:
    """A line for programs."""
    return "\t".join(map(make_line, texts))


def encode_row(row: ListedSession) -> dict[str, Any]:
    """The JSON of a session in every command; docs/json.md describes it."""
    return {
        "sessionId": row.session_id,
        "agent": row.agent_folder,
        "agentName": name_agent(row.agent_folder),
        "cwd": row.cwd,
        "title": row.title,
        "createdAt": row.created or None,
        "updatedAt": row.updated or None,
        "turns": row.prompt_count,
        "messageCount": row.prompt_count + row.reply_count,
        "hasErrors": row.has_failed,
        "isRunning": row.is_running,
        "isArchived": row.is_archived,
        "isPinned": row.is_pinned,
        "bytes": row.size,
        "transcript": row.name,
        "machine": row.machine or None,
        "branch": row.git.branch or None,
        "commit": row.git.commit or None,
    }


_HASH_BEGIN = 4
"""Characters of a folder's hash that tell it from others of its name."""


def make_distinct_names(folders: Iterable[str]) -> dict[str, str]:
    """The name that people see for each agent's folder: short, unless two would be the same. ``--agent`` takes each."""
    folder_list = list(folders)
    names: dict[str, str] = {}
    # Such as copilot, github-copilot, github-copilot-80f0, github-copilot-80f05657aff1454e
    for make_name in (name_agent, strip_hash, _name_with_hash, str):
        names_to_try = {folder: make_name(folder) for folder in folder_list if folder not in names}
        counts = Counter([*names.values(), *names_to_try.values()])
        names |= {folder: name for folder, name in names_to_try.items() if counts[name] == 1}
    return {folder: names[folder] for folder in folder_list}


def _name_with_hash(folder: str) -> str:
    slug = strip_hash(folder)
    return folder[: len(slug) + 1 + _HASH_BEGIN] if slug != folder else folder


def has_words(row: ListedSession, words: Sequence[str]) -> bool:
    """Whether a list shows each of these words. ``words``: case folded."""
    return not find_words_elsewhere(row, words)


def find_words_elsewhere(row: ListedSession, words: Sequence[str]) -> list[str]:
    """Those of these words that are not in the session's title, directory, agent or marks, and do not begin its id.

    ``words``: case folded.
    """
    marks = (
        row.is_pinned and formatting.PINNED,
        row.copy_of is not None and formatting.COPY,
        row.is_running and RUNNING,
    )
    shown = (row.title, formatting.strip_markdown(row.title or ""), row.cwd, strip_hash(row.agent_folder), *marks)
    text, id = "\n".join(part for part in shown if part).casefold(), row.selector.casefold()
    return [word for word in words if word not in text and not id.startswith(word)]


def format_short_lines(rows: Sequence[ListedSession], ids: Mapping[str, str]) -> list[str]:
    """The id, agent and title of each session."""
    width = max(len(ids[row.selector]) for row in rows)
    return [
        f"{make_line(ids[row.selector]).ljust(width)}  {make_line(strip_hash(row.agent_folder))}  "
        f"{make_line(formatting.format_title(row.title, is_copy=row.copy_of is not None))}"
        f"{f' ({RUNNING})' if row.is_running else ''}"
        for row in rows
    ]
