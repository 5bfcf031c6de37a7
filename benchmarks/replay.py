"""What a load costs: lines, bytes, time to the first and the last update, memory; for ``full`` and ``compact``."""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from acp_proxy.demo.client import Client
from acp_proxy.transcripts.store import Store
from acp_proxy.wire import record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Header

AT = "2026-11-20T09:15:02.123Z"
RUN = "bench1"
AGENT_NAME = "acp-proxy-demo-agent"
SESSION = "measured"
SECONDS = 600.0
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Measured:
    """One load. Seconds count from the request; ``copy`` is what copying the transcript took, in the same run."""

    session: str
    mode: str
    transcript_bytes: int
    lines: int
    sent_bytes: int
    first: float
    last: float
    copy: float
    memory_growth: int


def main(words: list[str]) -> None:
    share = 0.01 if "--quick" in words else 1.0
    chunks, outputs = int(100_000 * share), int(500 * share)
    sessions = {
        f"{chunks} chunks": list(streamed(chunks)),
        f"{outputs} MB of tool output": list(tools(outputs)),
    }
    results = [measured(name, mode, lines) for name, lines in sessions.items() for mode in ("full", "compact")]
    if "--json" in words:
        print(json.dumps([asdict(result) for result in results], indent=2))
        return
    head = ("session", "mode", "kept MB", "lines", "sent MB", "first", "last", "x copy", "memory")
    print("{:24} {:8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>7} {:>8}".format(*head))
    for found in results:
        print(
            f"{found.session:24} {found.mode:8} {found.transcript_bytes / MEGABYTE:8.1f} {found.lines:8} "
            f"{found.sent_bytes / MEGABYTE:8.1f} {found.first * 1e3:6.0f} ms {found.last * 1e3:6.0f} ms "
            f"{found.last / found.copy:7.1f} {found.memory_growth / MEGABYTE:5.0f} MB"
        )


def streamed(count: int) -> Iterator[bytes]:
    """An answer as models stream it: a token a chunk, in turns of a thousand."""
    for at in range(count):
        if at % 1000 == 0:
            yield from prompt(at // 1000)
        yield update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f" word{at}"}})


def tools(megabytes: int) -> Iterator[bytes]:
    """Commands that print a megabyte each, ten in a turn."""
    for at in range(megabytes):
        if at % 10 == 0:
            yield from prompt(at // 10)
        call = {"toolCallId": f"call{at}", "title": "make test", "kind": "execute", "status": "pending"}
        yield update({"sessionUpdate": "tool_call", **call})
        output = {"type": "content", "content": {"type": "text", "text": "output line\n" * (MEGABYTE // 12)}}
        done = {"toolCallId": f"call{at}", "status": "completed", "content": [output]}
        yield update({"sessionUpdate": "tool_call_update", **done})


def prompt(number: int) -> Iterator[bytes]:
    params = {"sessionId": SESSION, "prompt": [{"type": "text", "text": f"question {number}"}]}
    asked = {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}
    yield record.encode_message(AT, RUN, Peer.CLIENT, json.dumps(asked).encode())


def update(body: dict[str, object]) -> bytes:
    said = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": body}}
    return record.encode_message(AT, RUN, Peer.AGENT, json.dumps(said, separators=(",", ":")).encode())


def measured(name: str, mode: str, lines: list[bytes]) -> Measured:
    with tempfile.TemporaryDirectory(prefix="acp-proxy-bench-") as folder:
        root = Path(folder)
        transcript = written(root / "store", lines)
        copy = copied(transcript, root / "copy")
        script = root / "agent.json"
        script.write_text(json.dumps({"methods": {"session/resume": {"result": {}}}}))
        proxy = [sys.executable, "-m", "acp_proxy", "run", "--store", str(root / "store"), "--replay", mode, "--"]
        agent = [
            sys.executable,
            "-m",
            "acp_proxy.demo.agent",
            "--memory",
            str(root / "memory"),
            "--script",
            str(script),
        ]
        with Client([*proxy, *agent], cwd=root) as editor:
            editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, SECONDS)
            process = psutil.Process(editor.pid)
            before = process.memory_info().rss
            since, begun = len(editor.lines), time.monotonic()
            wanted = {"sessionId": SESSION, "cwd": folder, "mcpServers": []}
            number = editor.start_request("session/load", wanted)
            editor.wait_for_method("session/update", SECONDS, since=since)
            first = time.monotonic() - begun
            editor.answer_of(number, SECONDS)
            last = time.monotonic() - begun
            grown = process.memory_info().rss - before
            told = editor.lines[since:]
        sent = sum(len(line.raw) for line in told)
        return Measured(name, mode, transcript.stat().st_size, len(told), sent, first, last, copy, grown)


def written(root: Path, lines: list[bytes]) -> Path:
    store = Store(root)
    agent = store.choose_agent(None, AGENT_NAME, "python")
    transcript = store.begin(agent, Header(SESSION, "/project", record.RECORDED, AT), fresh=True)
    for line in lines:
        transcript.append(line)
    transcript.close()
    store.mark(agent, SESSION)
    return transcript.path


def copied(source: Path, target: Path) -> float:
    """Seconds that copying takes: the best of three, with the file in the page cache."""
    times = []
    for _ in range(3):
        begun = time.monotonic()
        shutil.copyfile(source, target)
        times.append(time.monotonic() - begun)
        os.unlink(target)
    return min(times)


if __name__ == "__main__":
    main(sys.argv[1:])
