"""A conversation as a document: md, html, json or cast.

It yields pieces of text as they are ready, with one turn in memory at a time.
"""

from collections.abc import Iterator
from dataclasses import replace

from acp_proxy.errors import NoSuchTurn
from acp_proxy.store.sessions import Reading
from acp_proxy.tools.export.hide_home import HomeHider
from acp_proxy.views import document
from acp_proxy.views.conversation import ConversationTurn, OpenChild, read_turns
from acp_proxy.views.document import Choices, Head


def choose_turns(choices: Choices, reading: Reading, session: str) -> Choices:
    """The choices with turns that the conversation has, counted from its beginning. Raises NoSuchTurn."""
    if (choices.first, choices.last) == (1, None):
        return choices
    count = max((turn.number for turn in read_turns(reading, session)), default=0)
    if choices.first < 0:
        first = count + choices.first + 1
        choices = replace(choices, first=first, last=first)
    if not 1 <= choices.first <= min(count, count if choices.last is None else choices.last):
        raise NoSuchTurn(f"there is no such turn: the conversation has {count}. Give a smaller number with --turn.")
    return choices


def export_turns(
    form: str, head: Head, reading: Reading, choices: Choices, hider: HomeHider, child: OpenChild
) -> Iterator[str]:
    """``hider``: the home directories to hide. ``child``: opens the transcripts of subagents. Raises OSError."""

    def read_hidden_turns() -> Iterator[ConversationTurn]:
        return hider.hide_in_turns(document.selected(read_turns(reading, head.session, child), choices))

    head = hider.hide_in_head(head)

    if form == "cast":
        from acp_proxy.tools.export import cast

        return cast.write_recording(head, (line.entry for line in reading.lines() if line.entry is not None), hider)
    if form == "html":
        from acp_proxy.tools.export.html import render_page

        contents, models = [], dict[str, None]()
        for turn in read_hidden_turns():
            contents.append((turn.number, document.first_line(turn)))
            models |= {turn.model: None} if turn.model else {}
        return render_page(replace(head, models=list(models)), contents, read_hidden_turns(), choices)
    if form == "json":
        from acp_proxy.tools.export import json_document

        return json_document.document(head, read_hidden_turns(), choices)
    from acp_proxy.tools.export import markdown

    return markdown.write_document(head, read_hidden_turns(), choices)
