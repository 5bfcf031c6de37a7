"""Sessions as values and as lines of their own: for other programs, and among others in a message."""

from collections.abc import Mapping, Sequence
from typing import Any

from acp_proxy.transcripts.archive import Listed, readable
from acp_proxy.views.terminal import line


def values(row: Listed) -> str:
    """One row for programs: id, title, agent, directory, time, turns, bytes; nothing is cut."""
    texts = (row.named, row.title or "", row.agent, row.cwd or "", row.updated, str(row.prompts), str(row.size))
    return "\t".join(line(text) for text in texts)


def for_programs(row: Listed) -> dict[str, Any]:
    """What every command tells of a session as JSON; docs/json.md says what each means."""
    return {
        "sessionId": row.session,
        "agent": row.agent,
        "cwd": row.cwd,
        "title": row.title,
        "updatedAt": row.updated or None,
        "turns": row.prompts,
        "messageCount": row.prompts + row.replies,
        "hasErrors": row.failed,
        "bytes": row.size,
        "transcript": row.name,
    }


def candidates(rows: Sequence[Listed], ids: Mapping[str, str]) -> list[str]:
    """A line for each of several sessions that may be meant."""
    width = max(len(ids[row.named]) for row in rows)
    return [
        f"{line(ids[row.named]).ljust(width)}  {line(readable(row.agent))}  {line(row.title or '(no title)')}"
        for row in rows
    ]
