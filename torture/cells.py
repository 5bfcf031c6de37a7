"""Conversations with one fault each, in forked processes: a cell takes a fraction of a second. Linux only.

`python -m torture.cells PLACE CONTROL` is preloaded with faults.c and reads cells from stdin, one line of JSON each;
for each it writes a line with what was found. It imports acp-proxy once. Each conversation forks it: the proxy is the
child, which runs ``acp-proxy run``, and the agent is a fork of that. Pauses of acp-proxy are shortened.

A conversation has three sessions, a list, loads of an old and of a compressed session, a fork, a delete and another
list. If the fault passes, every session is prompted again until that is recorded, and listed and loaded.
"""

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from acp_proxy.errors import AcpProxyError
from acp_proxy.recording import recorded_sessions
from acp_proxy.run import changed_sessions, start, worker
from acp_proxy.store import index, store_index
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.transcript.file_format import RECORDED, NoteType
from acp_proxy.transcript.file_names import file_name, find_aside_suffix
from tests.stored import WholeStore
from torture.faults import FOREVER, Disk, calls

SHORT = "short"
"""In place of an errno: reads and writes do half."""
ONCE, THRICE, ALWAYS = 1, 3, 0
"""How often a call fails: then the fault passes. ``ALWAYS``: until the proxy has ended."""
_UNSURE = ("fsync", "fdatasync", "close")
"""If one of these fails, nobody knows what is on the disk: a gap note is right even if nothing is missing."""
_SECONDS = 20.0
"""For an answer. With the pauses below, it takes some milliseconds, but the machine may be busy."""
_NAME, _OLD, _PACKED = "cells", "old1", "old2"
_AGENT = file_name(_NAME)
_BLANK = "used"
_OPENED = b"opened by "
"""Stands, with the method, for the note of a session's beginning."""
_ABOUT_RECORDING = ("nothing is recorded until", "recording is suspended", "the disk may have lost")
"""How the warnings begin of which there may be one."""


@dataclass(frozen=True)
class Cell:
    """The calls ``call`` fail with the errno of this name, beginning with the one with number ``first``, ``times``.

    ``used``: in a store that has sessions; else it does not exist yet.
    """

    call: str
    error: str
    first: int
    times: int = ONCE
    used: bool = True


@dataclass
class Found:
    """What became of one conversation. ``step``: where the fault came; empty: nowhere."""

    hit: int = 0
    step: str = ""
    said: int = 0
    missing: int = 0
    gaps: int = 0
    warnings: list[str] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)


class Cells:
    """A process that runs cells in an empty place, until it is closed."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self._disk = Disk(place.parent, place / "store")
        words = [sys.executable, "-m", "torture.cells", str(place), str(place / "store.control")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=self._disk.env)

    def close(self) -> None:
        self._process.communicate()

    def run(self, cell: Cell | None) -> Found:
        """Run a cell; None: a conversation without a fault."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(cell) if cell is not None else None) + "\n")
        self._process.stdin.flush()
        return Found(**json.loads(self._process.stdout.readline()))


# --- the agent


def _play(prefix: str, log: Path) -> NoReturn:
    """The agent: without list, load and delete."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    opened = 0
    capabilities: dict[str, Any] = {"sessionCapabilities": {"resume": {}, "fork": {}}}
    with log.with_suffix(".to").open("ab", 0) as taken, log.with_suffix(".from").open("ab", 0) as given:
        for line in os.fdopen(0, "rb", closefd=False):
            taken.write(line)
            asked = json.loads(line)
            params, lines = asked.get("params"), list[dict[str, Any]]()
            answer: dict[str, Any] | None = {}
            match asked.get("method"):
                case "initialize":
                    about = {"name": _NAME, "version": "1"}
                    answer = {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": about}
                case "session/new" | "session/fork":
                    opened += 1
                    answer = {"sessionId": f"{prefix}{opened}"}
                case "session/prompt":
                    text = params["prompt"][0]["text"]
                    for number in range(2):
                        content = {"type": "text", "text": f"{number} of {text} "}
                        update = {"sessionUpdate": "agent_message_chunk", "content": content}
                        lines.append({"method": "session/update", "params": params | {"update": update}})
                        del lines[-1]["params"]["prompt"]
                    answer = {"stopReason": "end_turn"}
                case "session/load" | "session/list" | "session/delete":
                    answer = None
            end = {"result": answer} if answer is not None else {"error": {"code": -32601, "message": "unknown"}}
            for one in (*lines, {"id": asked["id"]} | end):
                data = json.dumps({"jsonrpc": "2.0"} | one).encode() + b"\n"
                given.write(data)
                os.write(1, data)
    os._exit(0)


# --- the editor


class NoAnswer(Exception):
    """The proxy does not answer, or its output has ended."""


class ForkedConversation:
    """The proxy and the agent, forked, and the editor's side of the conversation."""

    def __init__(self, place: Path, prefix: str = "new") -> None:
        self.store, self._log = place / "store", place / prefix
        ours, theirs = list[int](), list[int]()
        for number in range(3):
            read, write = os.pipe()
            ours.append(read if number else write)
            theirs.append(write if number else read)
        self._to, self._from, self._errors = ours
        self.pid = os.fork()
        if self.pid == 0:
            self._become(place, prefix, theirs)
        for end in theirs:
            os.close(end)
        self._cwd = str(place)
        self._sent = 0
        self._rest = b""
        self.asked: list[tuple[int, str, bytes]] = []
        """The id, method and line of each request."""
        self.got: list[bytes] = []

    def _become(self, place: Path, prefix: str, streams: list[int]) -> NoReturn:
        try:
            for number, end in enumerate(streams):
                os.dup2(end, number)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            os.chdir(place)
            os.execvp = lambda *_: _play(prefix, self._log)  # in the fork that is the agent
            start.launch(["--store", str(self.store), "--", "agent"])
        finally:
            os._exit(70)

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request; None: an error. Raises NoAnswer."""
        self._sent += 1
        number = self._sent
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        self.asked.append((number, method, line))
        try:
            os.write(self._to, line)
        except OSError as problem:
            raise NoAnswer(f"{method}: {problem}") from problem
        seen, until = len(self.got), time.monotonic() + _SECONDS
        while True:
            for one in self.got[seen:]:
                answer = json.loads(one)
                if answer.get("id") == number and "method" not in answer:
                    return answer.get("result")
            seen = len(self.got)
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._from, 1 << 20) if ready else b""
            if not data:
                raise NoAnswer(f"{method}: {'the output ended' if ready else 'no answer'}")
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.got += [one + b"\n" for one in lines]

    def initialize(self) -> None:
        self.ask("initialize", protocolVersion=1, clientCapabilities={})

    def open(self) -> str:
        return str((self.ask("session/new", cwd=self._cwd, mcpServers=[]) or {}).get("sessionId"))

    def prompt(self, session: str, text: str) -> None:
        self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def load(self, session: str) -> list[bytes] | None:
        """What a load replays; None: it was refused."""
        since = len(self.got)
        done = self.ask("session/load", sessionId=session, cwd=self._cwd, mcpServers=[])
        return self.got[since:-1] if done is not None else None

    def fork(self, session: str) -> str:
        return str((self.ask("session/fork", sessionId=session, cwd=self._cwd, mcpServers=[]) or {}).get("sessionId"))

    def list_ids(self) -> list[str]:
        found = self.ask("session/list")
        return [one["sessionId"] for one in found["sessions"]] if found is not None else []

    def end(self) -> tuple[int, list[str]]:
        """The proxy's exit status, and what it said on stderr."""
        os.close(self._to)
        until = time.monotonic() + _SECONDS
        said = b""
        while True:
            ready, _, _ = select.select([self._errors], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                os.kill(self.pid, signal.SIGKILL)
            if not (data := os.read(self._errors, 1 << 16)):
                break
            said += data
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        for end in (self._from, self._errors):
            os.close(end)
        return status, said.decode(errors="replace").splitlines()

    def wire(self) -> list[str]:
        """What did not arrive unchanged, in either direction."""
        trouble = []
        ours = {"session/load", "session/list", "session/delete"}  # the agent gets a resume for a load
        taken = [line for line in _lines(self._log.with_suffix(".to")) if b'"session/resume"' not in line]
        if taken != [line for _, method, line in self.asked if method not in ours]:
            trouble.append("what the editor sent is not what the agent got")
        changed = {1, *(number for number, method, _ in self.asked if method == "session/load")}
        given = [line for line in _lines(self._log.with_suffix(".from")) if json.loads(line).get("id") not in changed]
        rest = iter(self.got)
        for line in given:
            if line not in rest:
                trouble.append(f"not with the editor, or not in its place: {line[:200]!r}")
                break
        return trouble

    def said(self, before: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
        """What the transcript of each session should have, in order. ``before``: from earlier processes."""
        said = {session: list(lines) for session, lines in before.items()}
        given = [(json.loads(line), line) for line in _lines(self._log.with_suffix(".from"))]
        loaded = {one.get("id") for one in map(json.loads, self.got) if "result" in one}
        for number, method, line in self.asked:
            answer: dict[str, Any] = next((one for one, _ in given if one.get("id") == number), {})
            params = json.loads(line)["params"]
            if method == "session/new":
                said[answer["result"]["sessionId"]] = [_OPENED + b"session/new"]
            elif method == "session/fork":
                said[answer["result"]["sessionId"]] = [*said[params["sessionId"]], _OPENED + b"session/fork"]
            elif method == "session/load" and number in loaded:
                said[params["sessionId"]].append(_OPENED + b"session/load")
            elif method == "session/prompt":
                told = said[params["sessionId"]]
                told.append(line.rstrip(b"\n"))
                while given:
                    one, raw = given.pop(0)
                    if one.get("method") == "session/update" or one.get("id") == number:
                        told.append(raw.rstrip(b"\n"))
                    if one.get("id") == number:
                        break
        return said


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


# --- what became of it


def _entries(store: WholeStore, session: str) -> Iterator[tuple[bytes | None, bool]]:
    """Each message of a transcript, and None for each gap note; and whether it was recorded from its beginning."""
    reading = store.read(_AGENT, session)
    try:
        whole = reading.header is not None and reading.header.origin == RECORDED
        yield None if not whole else b"", whole
        for line in reading.read_lines():
            if line.entry is None:
                continue
            if line.entry.note is not None:
                if line.entry.note.get("type") == NoteType.GAP:
                    yield None, whole
                elif (method := line.entry.note.get("method")) in ("session/new", "session/fork", "session/load"):
                    yield _OPENED + str(method).encode(), whole
            elif line.entry.raw is not None:
                yield line.entry.raw.strip(), whole
    finally:
        reading.close()


def _compare(store: WholeStore, session: str, said: list[bytes], found: Found, *, passes: bool, unsure: bool) -> int:
    """Compare a transcript with what was said; returns the number of prompts in it."""
    at, gap, prompts, late = 0, False, 0, False
    try:
        entries = list(_entries(store, session))
    except (OSError, AcpProxyError) as problem:
        if passes or not isinstance(problem, FileNotFoundError):
            found.trouble.append(f"{session}: no transcript: {problem}")
        found.missing += len(said)
        return 0
    for words, whole in entries:
        if words == b"":
            continue
        if words is None:
            found.gaps += 1
            gap, late = True, not whole
            continue
        prompts += b'"session/prompt"' in words
        if words not in said[at:]:
            found.trouble.append(f"{session}: twice, out of order or never said: {words[:150]!r}")
            continue
        skipped = said.index(words, at) - at
        if skipped and not gap:
            found.trouble.append(f"{session}: {skipped} missing before {words[:150]!r}, and no note says so")
        if gap and not skipped and not unsure and not late:
            found.trouble.append(f"{session}: a gap note where nothing is missing, before {words[:150]!r}")
        found.missing += skipped
        at, gap, late = at + skipped + 1, False, False
    found.missing += len(said) - at
    if passes and at < len(said):
        found.trouble.append(f"{session}: {len(said) - at} missing at the end, where recording went on")
    return prompts


class _Worker:
    """Runs cells in a place of its own, where it makes a store once, to copy."""

    def __init__(self, place: Path, disk: Disk) -> None:
        self._place, self._disk = place, disk
        self._number, self._step = 0, ""
        self._before: dict[str, list[bytes]] = {}
        os.umask(0o077)
        self._make()

    def _make(self) -> None:
        """A store with two sessions, one of them compressed."""
        place = self._place / _BLANK
        place.mkdir()
        talk = ForkedConversation(place, "old")
        talk.initialize()
        for session in (_OLD, _PACKED):
            assert talk.open() == session
            talk.prompt(session, "long ago")
            talk.prompt(session, "not so long ago")
        talk.list_ids()
        status, errors = talk.end()
        assert (status, errors) == (0, []), errors
        store = WholeStore(place / "store")
        assert store.compress(_AGENT, file_name(_PACKED), CompressionOptions(min_size=0, older_than=-1.0)) is not None
        for session in (_OLD, _PACKED):
            self._before[session] = [words for words, _ in _entries(store, session) if words]

    def run(self, cell: Cell | None) -> Found:
        """Run one cell."""
        self._number += 1
        place = self._place / str(self._number)
        shutil.copytree(self._place / _BLANK, place, ignore=shutil.ignore_patterns("old.*"))
        if cell is not None and not cell.used:
            shutil.rmtree(place / "store")
        try:
            return self._conversation(place, cell)
        finally:
            shutil.rmtree(place)

    def _armed(self, cell: Cell | None) -> AbstractContextManager[None]:
        if cell is None:
            return self._disk.counts(0)
        last = cell.first + cell.times - 1 if cell.times else FOREVER
        if cell.error == SHORT:
            return self._disk.shortens(calls(cell.call), first=cell.first, last=last)
        return self._disk.fails(getattr(errno, cell.error), calls(cell.call), first=cell.first, last=last)

    def _conversation(self, place: Path, cell: Cell | None) -> Found:
        unrelated = place / "unrelated"
        found = Found()
        deleted, forked, passes = "", "", cell is None or cell.times != ALWAYS
        before = self._before if cell is None or cell.used else {}
        self._disk.watch(place / "store", unrelated)
        with self._armed(cell):
            talk = ForkedConversation(place)

            def at(step: str) -> None:
                if self._disk.hit and not found.step:
                    found.step = self._step
                self._step = step

            self._step = "start"
            try:
                talk.initialize()
                for number in range(3):
                    at("new session")
                    session = talk.open()
                    at("turn")
                    talk.prompt(session, f"first {number}")
                at("list")
                talk.list_ids()
                for session in before:
                    at("load")
                    told = talk.load(session)
                    at("turn after a load")
                    if told is not None:
                        talk.prompt(session, f"again {session}")
                at("fork")
                forked = talk.fork("new1")
                at("turn of a fork")
                talk.prompt(forked, "forked")
                at("delete")
                if talk.ask("session/delete", sessionId="new3") is not None:
                    deleted = "new3"
                at("list")
                talk.list_ids()
                at("end")
                found.counted = self._disk.counted
                if passes:
                    self._disk.passes()
                    self._recover(talk, [one for one in talk.said(before) if one != "new3"], found)
            except NoAnswer as problem:
                found.trouble.append(str(problem))
            at("end")
            status, errors = talk.end()
            at("")
            found.hit = self._disk.hit
        self._judge(talk, cell, found, status, errors, before, deleted, unrelated)
        return found

    def _recover(self, talk: ForkedConversation, sessions: list[str], found: Found) -> None:
        """The fault has passed: everything must be recorded again, and served."""
        sessions.append(talk.open())
        left, number, until = sessions, 0, time.monotonic() + _SECONDS
        store = WholeStore(talk.store, create=False)
        while left and time.monotonic() < until:
            number += 1
            for session in left:
                talk.prompt(session, f"and now {number} {session}")
            left = [session for session in left if not self._has_turn(store, session, f"and now {number} {session}")]
            if left:
                time.sleep(_PAUSE)
        if left:
            found.trouble.append(f"never recorded again: {left}")
        listed = talk.list_ids()
        if missing := [session for session in sessions if session not in listed]:
            found.trouble.append(f"not listed after the fault: {missing}")
        for session in sessions[:1]:
            told = talk.load(session)
            if told is None or not any(b"and now " in line for line in told):
                found.trouble.append(f"not loaded after the fault: {session}: {told}")

    def _has_turn(self, store: WholeStore, session: str, text: str) -> bool:
        """Whether a prompt of this text and its answer are recorded: without a prompt, a session is not listed."""
        with contextlib.suppress(OSError, AcpProxyError):
            said = [words for words, _ in _entries(store, session) if words is not None and text.encode() in words]
            return any(b'"session/prompt"' in words for words in said) and any(b"1 of " in words for words in said)
        return False

    def _judge(
        self,
        talk: ForkedConversation,
        cell: Cell | None,
        found: Found,
        status: int,
        errors: list[str],
        before: dict[str, list[bytes]],
        deleted: str,
        unrelated: Path,
    ) -> None:
        passes = cell is None or cell.times != ALWAYS
        unsure = cell is not None and cell.call in _UNSURE
        if status:
            found.trouble.append(f"the proxy ended with {status}")
        found.warnings = errors
        found.trouble += talk.wire()
        if self._disk.misused or (unrelated.exists() and unrelated.stat().st_size):
            data = unrelated.read_bytes() if unrelated.exists() else b""
            found.trouble.append(f"{self._disk.misused} calls on a descriptor whose close failed: {data[:200]!r}")
        said = talk.said(before)
        store = WholeStore(talk.store, create=False)
        with contextlib.suppress(OSError, AcpProxyError):
            store.list_all()  # completes a fork's copy
        prompts: dict[str, int] = {}
        for session, lines in said.items():
            if session == "new3":  # a delete that failed may have removed it
                continue
            found.said += len(lines)
            prompts[session] = _compare(store, session, lines, found, passes=passes, unsure=unsure)
        if deleted and store.has_transcript(_AGENT, deleted):
            found.trouble.append(f"{deleted} was deleted, and is there")
        try:
            rows = {row.session_id: row.prompt_count for row in store.list_all() if not find_aside_suffix(row.name)}
        except (OSError, AcpProxyError) as problem:
            found.trouble.append(f"the next process cannot list: {problem}")
        else:
            prompts.pop("new3", None)  # a delete that failed may have hidden it
            wrong = {one: (count, rows.get(one, 0)) for one, count in prompts.items() if rows.get(one, 0) < count}
            if wrong:
                found.trouble.append(f"turns in the transcript and in the list: {wrong}")
        warnings = [line for line in errors if line.startswith("acp-proxy: ")]
        if len(errors) != len(warnings):
            found.trouble.append(f"said on stderr: {[line for line in errors if line not in warnings]}")
        of_recording = [line for line in warnings if line[len("acp-proxy: ") :].startswith(_ABOUT_RECORDING)]
        others = [line.split(":")[1] for line in warnings if line not in of_recording]
        if len(of_recording) > 1 or (found.missing and not of_recording) or len(set(others)) < len(others):
            found.trouble.append(f"one warning, if anything is missing: {len(of_recording)}, and {others}")
        if cell is None and warnings:
            found.trouble.append("warnings without a fault")


_PAUSE = 0.02


def _shorten() -> None:
    """What acp-proxy waits for: seconds would make hours of thousands of cells."""
    # Longer than a busy machine takes from a session's beginning to its first entry: that entry is what is missing.
    recorded_sessions._RETRY_SECONDS = 0.1
    store_index._PAUSE_SECONDS = _PAUSE
    for module in (changed_sessions, worker):
        module.__dict__["DELAY_SECONDS"] = 0.005
    index._BUSY_MS = index._ERASE_BUSY_MS = 20


def main() -> None:
    place, control = map(Path, sys.argv[1:])
    _shorten()
    worker = _Worker(place, Disk.controlled_by(control))
    for line in sys.stdin:
        given = json.loads(line)
        found = worker.run(Cell(**given) if given is not None else None)
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
