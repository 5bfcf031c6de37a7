"""Generated stores: many small sessions, or one of any length, as if streamed by an agent."""

import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from acp_proxy.protocol import timestamps
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import file_name

AGENT = "bench"
"""The name of the C agent."""
AGENT_FOLDER = file_name(AGENT)
MEASURED = "measured"
"""The session that the C client loads."""
PROJECTS = 2
"""Few, so that the smallest store already has a full page of one directory."""
MEGABYTE = 1_000_000
_AT = "2026-11-20T09:15:02.123Z"
_BEGAN = 1_795_166_102.123
_RUN = "bench1"
_DOCUMENTS = Path(__file__).parents[1] / "docs"
_WORDS = 5  # the answer in a small session
_CHUNKS = 60  # the answer in one of 40 kB
MODULES = 500
"""The files that the sessions of ``edited`` edit."""
_LINES = 200


def filled(root: Path, count: int) -> Path:
    """A store of so many sessions, in two projects, not yet indexed."""
    if not root.exists():
        store = ProxyStore(root)
        for number in range(count):
            small(store, AGENT_FOLDER, number)
    return root


def small(store: ProxyStore, agent: str, number: int) -> None:
    """One session with a question and an answer; every millisecond there is another."""
    at = f"2026-01-01T00:{number // 60_000:02}:{number // 1000 % 60:02}.{number % 1000:03}Z"
    session = f"session-{number:07}"
    lines = [*turn(session, number, at), *streamed(_WORDS, session, at), answer(number, at)]
    write_transcript(store, agent, Header(session, project(number), file_format.RECORDED, at), lines)


def wordy(root: Path, count: int) -> Path:
    """A store of so many sessions of 40 kB: a prompt, prose in chunks, and the output of a command."""
    if not root.exists():
        store, tokens = ProxyStore(root), prose(200_000)
        for number in range(count):
            at = timestamps.format_now(_BEGAN + 60 * number)
            session = f"session-{number:07}"
            said = tokens[number * 37 % 190_000 :][:_CHUNKS]
            lines = [*turn(session, number, at), *(chunk(token, session, at) for token in said)]
            lines += [*ran(f"make {number}", 22_000, session, at), answer(number, at)]
            write_transcript(store, AGENT_FOLDER, Header(session, project(number), file_format.RECORDED, at), lines)
    return root


def edited(root: Path, count: int, folder: Path) -> Path:
    """A store like ``wordy``, whose sessions also edit a file of ``folder`` each, and run a command that may fail.

    The files are there as the last session left them: ``MODULES`` of 200 lines. Each session changes one line.
    """
    if not root.exists():
        store, tokens = ProxyStore(root), prose(200_000)
        for number in range(count):
            at = timestamps.format_now(_BEGAN + 60 * number)
            session = f"session-{number:07}"
            said = tokens[number * 37 % 190_000 :][:_CHUNKS]
            path, version = folder / module(number % MODULES), number // MODULES
            lines = [*turn(session, number, at), *(chunk(token, session, at) for token in said)]
            lines += edit(path, version, session, at, id="edit")
            status = int(number % 10 == 0)
            lines += ran(f"make {number}", 22_000, session, at, last=f"made {number}", exit_status=status)
            lines += [answer(number, at)]
            write_transcript(store, AGENT_FOLDER, Header(session, str(folder), file_format.RECORDED, at), lines)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text_of(version + 1), encoding="utf-8")
    return root


def edits(root: Path, count: int) -> Path:
    """A store with one session that edits ten files, ``count`` times in all; the files are not there."""
    folder = Path("/bench")
    lines = [*turn(MEASURED, 0, _AT)]
    for number in range(count):
        lines += edit(folder / module(number % 10), number // 10, MEASURED, _AT, id=f"edit{number}")
    long(root, [*lines, answer(0, _AT)])
    return root


def module(number: int) -> str:
    return f"src/module_{number:03}.py"


def text_of(version: int) -> str:
    """A file of ``_LINES`` lines, after so many edits of one line each."""
    edits_of = [(version + _LINES - 1 - line) // _LINES for line in range(_LINES)]
    return "".join(f"value_{line} = compute({line}, edits={count})\n" for line, count in enumerate(edits_of))


def edit(path: Path, version: int, session: str, at: str, *, id: str) -> Iterator[bytes]:
    """The edit after ``version`` others of a file."""
    call = {"toolCallId": id, "title": f"Edit {path.name}", "kind": "edit", "status": "pending"}
    yield update({"sessionUpdate": "tool_call", **call, "locations": [{"path": str(path)}]}, session, at)
    diff = {"type": "diff", "path": str(path), "oldText": text_of(version), "newText": text_of(version + 1)}
    done = {"toolCallId": id, "status": "completed", "content": [diff]}
    yield update({"sessionUpdate": "tool_call_update", **done}, session, at)


def project(number: int) -> str:
    return f"/projects/{number % PROJECTS}"


def long(root: Path, lines: Iterable[bytes]) -> Path:
    """A store with one session to load. The transcript's path."""
    return write_transcript(
        ProxyStore(root), AGENT_FOLDER, Header(MEASURED, "/bench", file_format.RECORDED, _AT), lines
    )


def write_transcript(store: ProxyStore, agent: str, header: Header, lines: Iterable[bytes]) -> Path:
    transcript = store.open_to_append(agent, header, is_new=False)
    for line in gathered(lines):
        transcript.append(line)
    transcript.close()
    return transcript.path


def gathered(lines: Iterable[bytes], size: int = MEGABYTE) -> Iterator[bytes]:
    """The same bytes in large pieces."""
    piece = bytearray()
    for line in lines:
        piece += line
        if len(piece) >= size:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def chunks(count: int, *, turns_of: int = 1000) -> Iterator[bytes]:
    """An answer as models stream it: a token per chunk, in turns of a thousand."""
    for at in range(0, count, turns_of):
        yield from turn(MEASURED, at, _AT)
        yield from streamed(min(turns_of, count - at), MEASURED, _AT)
        yield answer(at, _AT)


def prose(count: int) -> list[str]:
    """So many tokens from our documentation, as long as those of models."""
    text = " ".join(path.read_text(encoding="utf-8") for path in sorted(_DOCUMENTS.glob("*.md")))
    tokens = re.findall(r"\s?\S{1,6}", text)
    return [tokens[at % len(tokens)] for at in range(count)]


def make_answer(tokens: Iterable[str], chance: random.Random) -> Iterator[bytes]:
    """One answer, a token per chunk, each a little later."""
    at = _BEGAN
    yield from turn(MEASURED, 0, timestamps.format_now(at))
    for token in tokens:
        at += chance.uniform(0.005, 0.035)
        body: dict[str, object] = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": token},
        }
        yield update(body, MEASURED, timestamps.format_now(at))
    yield answer(0, timestamps.format_now(at))


def outputs(megabytes: int, *, turns_of: int = 10) -> Iterator[bytes]:
    """Commands that print a megabyte each, ten per turn."""
    for at in range(megabytes):
        if at % turns_of == 0:
            yield from turn(MEASURED, at, _AT)
        yield from ran("make test", MEGABYTE, MEASURED, _AT, id=f"call{at}")


def ran(
    title: str, size: int, session: str, at: str, *, id: str = "call", last: str = "", exit_status: int | None = None
) -> Iterator[bytes]:
    """A command that prints so many bytes, and ``last`` in its last line."""
    output = {"type": "content", "content": {"type": "text", "text": "output line\n" * (size // 12) + last}}
    call = {"toolCallId": id, "title": title, "kind": "execute", "status": "pending"}
    yield update({"sessionUpdate": "tool_call", **call}, session, at)
    done: dict[str, object] = {"toolCallId": id, "status": "completed", "content": [output]}
    if exit_status is not None:
        done |= {"rawInput": {"command": title}, "rawOutput": {"exit_code": exit_status}}
    yield update({"sessionUpdate": "tool_call_update", **done}, session, at)


def turn(session: str, number: int, at: str) -> Iterator[bytes]:
    params = {"sessionId": session, "prompt": [{"type": "text", "text": f"Please look at question {number}"}]}
    yield encode_entry(Peer.CLIENT, {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}, at)


def streamed(count: int, session: str, at: str) -> Iterator[bytes]:
    for number in range(count):
        yield chunk(f" word{number}", session, at)


def chunk(text: str, session: str, at: str) -> bytes:
    content = {"type": "text", "text": text}
    return update({"sessionUpdate": "agent_message_chunk", "content": content}, session, at)


def answer(number: int, at: str) -> bytes:
    said = {"jsonrpc": "2.0", "id": number, "result": {"stopReason": "end_turn"}}
    return encode_entry(Peer.AGENT, said, at, "session/prompt")


def update(body: dict[str, object], session: str, at: str) -> bytes:
    params = {"sessionId": session, "update": body}
    return encode_entry(Peer.AGENT, {"jsonrpc": "2.0", "method": "session/update", "params": params}, at)


def encode_entry(peer: Peer, message: dict[str, object], at: str, of: str | None = None) -> bytes:
    return file_format.encode_message(at, _RUN, peer, json.dumps(message, separators=(",", ":")).encode(), of)
