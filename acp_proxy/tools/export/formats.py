"""A conversation as a document: md, html, json or cast.

It yields pieces of text as they are ready, with one turn in memory at a time.
"""

from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from acp_proxy.errors import NoSuchTurn
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.changes.describe import ChangedFile, list_files
from acp_proxy.tools.changes.session_changes import read_changes
from acp_proxy.tools.export.hide_home import HomeHider
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.titles import clean
from acp_proxy.views import document
from acp_proxy.views.conversation import ConversationTurn, OpenChild, read_turns
from acp_proxy.views.diffs import DiffRow
from acp_proxy.views.document import Choices, Head
from acp_proxy.views.sanitize import clean_text

_LONGEST_NAME = 100
"""Characters of an agent's name."""


def choose_turns(choices: Choices, reader: TranscriptReader, session_id: str) -> Choices:
    """The choices with turns that the conversation has, counted from its beginning. Raises NoSuchTurn."""
    if (choices.first, choices.last) == (1, None):
        return choices
    count = max((turn.number for turn in read_turns(reader, session_id)), default=0)
    if choices.first < 0:
        first = count + choices.first + 1
        choices = replace(choices, first=first, last=first)
    if not 1 <= choices.first <= min(count, count if choices.last is None else choices.last):
        raise NoSuchTurn(f"there is no such turn: the conversation has {count}. Give a smaller number with --turn.")
    return choices


def make_head(row: ListedSession, title: str | None, reader: TranscriptReader) -> Head:
    """The head of a session's document, without what is counted over all of its turns."""
    header = reader.header or reader.rebuild_header()
    return Head(
        session_id=row.session_id,
        agent=header.agent if header is not None else {"id": row.agent_folder},
        title=title,
        cwd=row.cwd,
        created=header.created_at if header is not None else "",
        updated=row.updated,
        origin=header.origin if header is not None else "partial",
        copied_from=clean(name_agent(row.copy_of or ""), _LONGEST_NAME) or "",
    )


def export_turns(
    form: str, head: Head, reader: TranscriptReader, choices: Choices, hider: HomeHider, open_child: OpenChild
) -> Iterator[str]:
    """The document, piece by piece. ``form``: md, html, json or cast. ``hider``: hides home directories.
    ``open_child``: opens the transcripts of subagents. Raises OSError."""

    def read_hidden_turns() -> Iterator[ConversationTurn]:
        return hider.hide_in_turns(document.select_turns(read_turns(reader, head.session_id, open_child), choices))

    def read_files() -> Iterator[ChangedFile]:
        return read_changed_files(reader, cwd, choices, hider, open_child)

    cwd, head = head.cwd, hider.hide_in_head(head)

    if form == "cast":
        from acp_proxy.tools.export import cast

        return cast.encode_recording(
            head, (line.entry for line in reader.read_lines() if line.entry is not None), hider
        )
    if form == "html":
        from acp_proxy.tools.export.html import render_page

        contents, models = [], dict[str, None]()
        for turn in read_hidden_turns():
            contents.append((turn.number, document.find_topic(turn)))
            models |= {turn.model: None} if turn.model else {}
        return render_page(replace(head, models=list(models)), contents, read_hidden_turns(), choices, read_files())
    if form == "json":
        from acp_proxy.tools.export import json_document

        return json_document.document(head, read_hidden_turns(), choices)
    from acp_proxy.tools.export import markdown

    return markdown.write_document(head, read_hidden_turns(), choices, read_files())


def read_changed_files(
    reader: TranscriptReader, cwd: str | None, choices: Choices, hider: HomeHider, open_child: OpenChild
) -> Iterator[ChangedFile]:
    """The files that the session changed, in printable words. A document has only what the transcript has: the files as
    they are now are not read."""
    if choices.tools == "none":
        return
    changes = read_changes(reader, cwd, open_child, (choices.first, choices.last), looks_at_files=False)
    for file in list_files(changes.changes):
        texts = hider.hide_in_adjacent([row.text for row in file.rows])
        rows = [DiffRow(row.kind, clean_text(text)) for row, text in zip(file.rows, texts, strict=True)]
        yield structs.replace(file, path=hider.hide(file.path), rows=rows)
