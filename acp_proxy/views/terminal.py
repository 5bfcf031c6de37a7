"""A conversation and a list as plain lines for a terminal.

Titles and transcripts are somebody else's text: nothing that could steer a terminal comes through.
"""

import json
from collections.abc import Iterable, Iterator, Mapping

from acp_proxy.transcripts.index import Listed
from acp_proxy.wire import acp, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry

_TITLE_WIDTH = 48
_ID_WIDTH = 12
_SPEAKERS = {acp.USER_CHUNK: "User", acp.AGENT_CHUNK: "Agent", acp.THOUGHT_CHUNK: "Thought"}


_HARMLESS = "\n\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"  # parts of words and of emoji


def printable(text: str) -> str:
    """Text without control sequences, and without what is not seen or turns other text around; its line ends stay."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n").expandtabs()
    return "".join(one if one.isprintable() or one in _HARMLESS else "\N{REPLACEMENT CHARACTER}" for one in text)


def line(text: str) -> str:
    return printable(text).replace("\n", " ")


def json_text(value: object, indent: int | None = None) -> str:
    """JSON in printable ASCII: control characters are escapes in it, DEL as well."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def heading(row: Listed) -> str:
    what = (row.session, row.agent, row.cwd or "", row.updated)
    return line(row.title or "(no title)") + "\n" + "  ".join(line(each) for each in what)


def conversation(entries: Iterable[Entry]) -> Iterator[str]:
    """Blocks of text: who speaks, then what is said; adjacent chunks of one speaker together."""
    speaker, words = "", ""
    for entry in entries:
        for who, text in _said(entry):
            if who != speaker and words:
                yield _block(speaker, words)
                words = ""
            speaker = who
            words += text
            if who not in _SPEAKERS.values():
                yield _block(who, words)
                words = ""
    if words:
        yield _block(speaker, words)


def _said(entry: Entry) -> Iterator[tuple[str, str]]:
    if entry.note is not None:
        if entry.note.get("type") in (record.GAP, record.FAILED):
            yield "Note", f"{entry.note.get('type')}: {entry.note.get('message') or entry.note.get('reason')}"
        return
    params = acp.member(entry.value, "params")
    if entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.PROMPT:
        blocks = acp.member(params, "prompt")
        yield "User", "\n".join(_content(block) for block in blocks) + "\n" if isinstance(blocks, list) else ""
    elif entry.of == acp.PROMPT and (error := acp.member(entry.value, "error")) is not None:
        yield "Error", acp.text(error, "message") or "the prompt failed"
    elif acp.text(entry.value, "method") == acp.UPDATE:
        yield from _update(acp.member(params, "update"))


def _update(update: object) -> Iterator[tuple[str, str]]:
    kind = acp.update_kind(update)
    if kind in _SPEAKERS:
        yield _SPEAKERS[kind], _content(acp.member(update, "content"))
    elif kind in ("tool_call", "tool_call_update"):
        title, status = acp.text(update, "title"), acp.text(update, "status")
        if title is not None or status in ("completed", "failed"):
            yield "Tool", " ".join(part for part in (title or acp.text(update, "toolCallId"), status) if part)
    elif kind == "plan":
        entries = acp.member(update, "entries")
        steps = entries if isinstance(entries, list) else []
        yield "Plan", "\n".join(f"[{acp.text(e, 'status') or ' '}] {acp.text(e, 'content') or ''}" for e in steps)


def _content(block: object) -> str:
    kind = acp.text(block, "type")
    if kind == "text":
        return acp.text(block, "text") or ""
    if kind == "resource_link":
        return f"[{acp.text(block, 'name') or acp.text(block, 'uri') or 'resource'}]"
    return f"[{kind}]" if isinstance(block, Mapping) else ""


def _block(speaker: str, words: str) -> str:
    body = "\n".join(f"  {each}" for each in printable(words).strip("\n").split("\n"))
    return f"\n{speaker}:\n{body}"


def _fitted(text: str, width: int) -> str:
    return (text if len(text) <= width else text[: width - 1] + "…").ljust(width)
