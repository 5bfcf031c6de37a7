"""Sessions as lines of their own: for other programs, and among others in a message."""

from collections.abc import Mapping, Sequence

from acp_proxy.transcripts.index import Listed
from acp_proxy.transcripts.names import readable
from acp_proxy.views.terminal import line


def values(row: Listed) -> str:
    """One row for programs: id, title, agent, directory, time, turns, bytes; nothing is cut."""
    texts = (row.session, row.title or "", row.agent, row.cwd or "", row.updated, str(row.prompts), str(row.size))
    return "\t".join(line(text) for text in texts)


def candidates(rows: Sequence[Listed], ids: Mapping[str, str]) -> list[str]:
    """A line for each of several sessions that may be meant."""
    width = max(len(ids[row.session]) for row in rows)
    return [
        f"{line(ids[row.session]).ljust(width)}  {line(readable(row.agent))}  {line(row.title or '(no title)')}"
        for row in rows
    ]
