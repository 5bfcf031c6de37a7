"""Conversations with one fault each, in forked processes: each takes a fraction of a second. Linux only.

`python -m torture.faulty_conversations PLACE CONTROL` is preloaded with faults.c and reads faults from stdin, one line
of JSON each; for each it writes a line with what was found. It imports acp-proxy once. Each conversation forks it: the
proxy is the child, which runs ``acp-proxy run``, and the agent is a fork of that. Pauses of acp-proxy are shortened.

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
from acp_proxy.recording import transcript_files
from acp_proxy.relay import worker
from acp_proxy.relay.run_command import launch
from acp_proxy.store import index_database, store_index
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.transcript.file_format import RECORDED, NoteType
from acp_proxy.transcript.file_names import file_name, find_aside_suffix
from tests.stored import WholeStore
from torture.faults import FOREVER, Disk, mask_calls

SHORT = "short"
"""In place of an errno: reads and writes do half."""
ONCE, THRICE, ALWAYS = 1, 3, 0
"""How often a call fails: then the fault passes. ``ALWAYS``: until the proxy has ended."""
_UNSURE_CALLS = ("fsync", "fdatasync", "close")
"""If one of these fails, nobody knows what is on the disk: a gap note is right even if nothing is missing."""
_SECONDS = 20.0
"""For an answer. With the pauses below, it takes some milliseconds, but the machine may be busy."""
_NAME, _OLD, _COMPRESSED = "faulty", "old1", "old2"
_AGENT = file_name(_NAME)
_WITH_SESSIONS = "used"
_OPENED = b"opened by "
"""Stands, with the method, for the note of a session's beginning."""
_ABOUT_RECORDING = ("nothing is recorded until", "recording is suspended", "the disk may have lost")
"""How the warnings begin of which there may be one."""


@dataclass(frozen=True)
class Fault:
    """The calls ``call`` fail with the errno of this name: as many as ``failure_count``, from the one with number
    ``first`` on, counted from 1.

    ``has_sessions``: in a store that has sessions; else it does not exist yet.
    """

    call: str
    error: str
    first: int
    failure_count: int = ONCE
    has_sessions: bool = True


@dataclass
class Findings:
    """What became of one conversation. ``step``: where the fault came; empty: nowhere."""

    hit_count: int = 0
    step: str = ""
    message_count: int = 0
    missing_count: int = 0
    gap_count: int = 0
    warnings: list[str] = field(default_factory=list)
    call_counts: dict[str, int] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)


class FaultyConversations:
    """A process that runs conversations in an empty place, until it is closed."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self._disk = Disk(place.parent, place / "store")
        command = [sys.executable, "-m", "torture.faulty_conversations", str(place), str(place / "store.control")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=self._disk.env)

    def close(self) -> None:
        self._process.communicate()

    def run(self, fault: Fault | None) -> Findings:
        """Run a conversation with this fault; None: without one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(fault) if fault is not None else None) + "\n")
        self._process.stdin.flush()
        return Findings(**json.loads(self._process.stdout.readline()))


# --- the agent


def _play(prefix: str, log: Path) -> NoReturn:
    """The agent: without list, load and delete."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    session_count = 0
    capabilities: dict[str, Any] = {"sessionCapabilities": {"resume": {}, "fork": {}}}
    with log.with_suffix(".to").open("ab", 0) as from_proxy, log.with_suffix(".from").open("ab", 0) as to_proxy:
        for line in os.fdopen(0, "rb", closefd=False):
            from_proxy.write(line)
            request = json.loads(line)
            params, lines = request.get("params"), list[dict[str, Any]]()
            answer: dict[str, Any] | None = {}
            match request.get("method"):
                case "initialize":
                    agent_info = {"name": _NAME, "version": "1"}
                    answer = {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": agent_info}
                case "session/new" | "session/fork":
                    session_count += 1
                    answer = {"sessionId": f"{prefix}{session_count}"}
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
            for message in (*lines, {"id": request["id"]} | end):
                data = json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"
                to_proxy.write(data)
                os.write(1, data)
    os._exit(0)


# --- the editor


class NoAnswer(Exception):
    """The proxy does not answer, or its output has ended."""


class ForkedConversation:
    """The proxy and the agent, forked, and the editor's side of the conversation."""

    def __init__(self, place: Path, prefix: str = "new") -> None:
        self.store, self._log = place / "store", place / prefix
        our_ends, proxy_ends = list[int](), list[int]()
        for number in range(3):
            read, write = os.pipe()
            our_ends.append(read if number else write)
            proxy_ends.append(write if number else read)
        self._editor_pipe, self._output_pipe, self._error_pipe = our_ends
        self.pid = os.fork()
        if self.pid == 0:
            self._become_proxy(place, prefix, proxy_ends)
        for end in proxy_ends:
            os.close(end)
        self._cwd = str(place)
        self._sent = 0
        self._rest = b""
        self.requests: list[tuple[int, str, bytes]] = []
        """The id, method and line of each request."""
        self.received: list[bytes] = []

    def _become_proxy(self, place: Path, prefix: str, streams: list[int]) -> NoReturn:
        try:
            for number, end in enumerate(streams):
                os.dup2(end, number)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            os.chdir(place)
            os.execvp = lambda *_: _play(prefix, self._log)  # in the fork that is the agent
            launch(["--store", str(self.store), "--", "agent"])
        finally:
            os._exit(70)

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request; None: an error. Raises NoAnswer."""
        self._sent += 1
        number = self._sent
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        self.requests.append((number, method, line))
        try:
            os.write(self._editor_pipe, line)
        except OSError as problem:
            raise NoAnswer(f"{method}: {problem}") from problem
        seen_lines, deadline = len(self.received), time.monotonic() + _SECONDS
        while True:
            for one in self.received[seen_lines:]:
                answer = json.loads(one)
                if answer.get("id") == number and "method" not in answer:
                    return answer.get("result")
            seen_lines = len(self.received)
            ready, _, _ = select.select([self._output_pipe], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._output_pipe, 1 << 20) if ready else b""
            if not data:
                raise NoAnswer(f"{method}: {'the output ended' if ready else 'no answer'}")
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.received += [one + b"\n" for one in lines]

    def initialize(self) -> None:
        self.ask("initialize", protocolVersion=1, clientCapabilities={})

    def open(self) -> str:
        return str((self.ask("session/new", cwd=self._cwd, mcpServers=[]) or {}).get("sessionId"))

    def prompt(self, session: str, text: str) -> None:
        self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def load(self, session: str) -> list[bytes] | None:
        """What a load replays; None: it was refused."""
        since = len(self.received)
        done = self.ask("session/load", sessionId=session, cwd=self._cwd, mcpServers=[])
        return self.received[since:-1] if done is not None else None

    def fork(self, session: str) -> str:
        return str((self.ask("session/fork", sessionId=session, cwd=self._cwd, mcpServers=[]) or {}).get("sessionId"))

    def list_ids(self) -> list[str]:
        findings = self.ask("session/list")
        return [session["sessionId"] for session in findings["sessions"]] if findings is not None else []

    def end(self) -> tuple[int, list[str]]:
        """The proxy's exit status, and what it said on stderr."""
        os.close(self._editor_pipe)
        deadline = time.monotonic() + _SECONDS
        stderr = b""
        while True:
            ready, _, _ = select.select([self._error_pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                os.kill(self.pid, signal.SIGKILL)
            if not (data := os.read(self._error_pipe, 1 << 16)):
                break
            stderr += data
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        for end in (self._output_pipe, self._error_pipe):
            os.close(end)
        return status, stderr.decode(errors="replace").splitlines()

    def compare_wire(self) -> list[str]:
        """What did not arrive unchanged, in either direction."""
        trouble = []
        own_methods = {"session/load", "session/list", "session/delete"}  # the agent gets a resume for a load
        agent_input = [line for line in _read_lines(self._log.with_suffix(".to")) if b'"session/resume"' not in line]
        if agent_input != [line for _, method, line in self.requests if method not in own_methods]:
            trouble.append("what the editor sent is not what the agent got")
        changed_ids = {1, *(number for number, method, _ in self.requests if method == "session/load")}
        agent_output = [
            line
            for line in _read_lines(self._log.with_suffix(".from"))
            if json.loads(line).get("id") not in changed_ids
        ]
        received_rest = iter(self.received)
        for line in agent_output:
            if line not in received_rest:
                trouble.append(f"not with the editor, or not in its place: {line[:200]!r}")
                break
        return trouble

    def list_expected(self, before: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
        """What the transcript of each session should have, in order. ``before``: from earlier processes."""
        expected = {session: list(lines) for session, lines in before.items()}
        agent_output = [(json.loads(line), line) for line in _read_lines(self._log.with_suffix(".from"))]
        answered_ids = {message.get("id") for message in map(json.loads, self.received) if "result" in message}
        for number, method, line in self.requests:
            answer: dict[str, Any] = next((message for message, _ in agent_output if message.get("id") == number), {})
            params = json.loads(line)["params"]
            if method == "session/new":
                expected[answer["result"]["sessionId"]] = [_OPENED + b"session/new"]
            elif method == "session/fork":
                expected[answer["result"]["sessionId"]] = [*expected[params["sessionId"]], _OPENED + b"session/fork"]
            elif method == "session/load" and number in answered_ids:
                expected[params["sessionId"]].append(_OPENED + b"session/load")
            elif method == "session/prompt":
                session_lines = expected[params["sessionId"]]
                session_lines.append(line.rstrip(b"\n"))
                while agent_output:
                    message, raw = agent_output.pop(0)
                    if message.get("method") == "session/update" or message.get("id") == number:
                        session_lines.append(raw.rstrip(b"\n"))
                    if message.get("id") == number:
                        break
        return expected


def _read_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


# --- what became of it


def _read_messages(store: WholeStore, session: str) -> Iterator[tuple[bytes | None, bool]]:
    """Each message of a transcript, and None for each gap note; and whether it was recorded from its beginning."""
    reader = store.open_reader(_AGENT, session)
    try:
        whole = reader.header is not None and reader.header.origin == RECORDED
        yield None if not whole else b"", whole
        for line in reader.read_lines():
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
        reader.close()


def _compare(
    store: WholeStore, session: str, expected: list[bytes], findings: Findings, *, passes: bool, is_unsure: bool
) -> int:
    """Compare a transcript with what was said; returns the number of prompts in it."""
    index, has_gap, prompt_count, begins_late = 0, False, 0, False
    try:
        messages = list(_read_messages(store, session))
    except (OSError, AcpProxyError) as problem:
        if passes or not isinstance(problem, FileNotFoundError):
            findings.trouble.append(f"{session}: no transcript: {problem}")
        findings.missing_count += len(expected)
        return 0
    for message, is_whole in messages:
        if message == b"":
            continue
        if message is None:
            findings.gap_count += 1
            has_gap, begins_late = True, not is_whole
            continue
        prompt_count += b'"session/prompt"' in message
        if message not in expected[index:]:
            findings.trouble.append(f"{session}: twice, out of order or never said: {message[:150]!r}")
            continue
        skipped_count = expected.index(message, index) - index
        if skipped_count and not has_gap:
            findings.trouble.append(f"{session}: {skipped_count} missing before {message[:150]!r}, and no note says so")
        if has_gap and not skipped_count and not is_unsure and not begins_late:
            findings.trouble.append(f"{session}: a gap note where nothing is missing, before {message[:150]!r}")
        findings.missing_count += skipped_count
        index, has_gap, begins_late = index + skipped_count + 1, False, False
    findings.missing_count += len(expected) - index
    if passes and index < len(expected):
        findings.trouble.append(f"{session}: {len(expected) - index} missing at the end, where recording went on")
    return prompt_count


class _Worker:
    """Runs conversations in a place of its own, where it makes a store once, to copy."""

    def __init__(self, place: Path, disk: Disk) -> None:
        self._place, self._disk = place, disk
        self._number, self._step = 0, ""
        self._messages_before: dict[str, list[bytes]] = {}
        os.umask(0o077)
        self._make_store()

    def _make_store(self) -> None:
        """A store with two sessions, one of them compressed."""
        place = self._place / _WITH_SESSIONS
        place.mkdir()
        talk = ForkedConversation(place, "old")
        talk.initialize()
        for session in (_OLD, _COMPRESSED):
            assert talk.open() == session
            talk.prompt(session, "long ago")
            talk.prompt(session, "not so long ago")
        talk.list_ids()
        status, errors = talk.end()
        assert (status, errors) == (0, []), errors
        store = WholeStore(place / "store")
        assert (
            store.compress(_AGENT, file_name(_COMPRESSED), CompressionOptions(min_size=0, older_than=-1.0)) is not None
        )
        for session in (_OLD, _COMPRESSED):
            self._messages_before[session] = [words for words, _ in _read_messages(store, session) if words]

    def run(self, fault: Fault | None) -> Findings:
        """Run one conversation."""
        self._number += 1
        place = self._place / str(self._number)
        shutil.copytree(self._place / _WITH_SESSIONS, place, ignore=shutil.ignore_patterns("old.*"))
        if fault is not None and not fault.has_sessions:
            shutil.rmtree(place / "store")
        try:
            return self._hold_conversation(place, fault)
        finally:
            shutil.rmtree(place)

    def _armed(self, fault: Fault | None) -> AbstractContextManager[None]:
        if fault is None:
            return self._disk.counts(0)
        last = fault.first + fault.failure_count - 1 if fault.failure_count else FOREVER
        if fault.error == SHORT:
            return self._disk.shortens(mask_calls(fault.call), first=fault.first, last=last)
        return self._disk.fails(getattr(errno, fault.error), mask_calls(fault.call), first=fault.first, last=last)

    def _hold_conversation(self, place: Path, fault: Fault | None) -> Findings:
        unrelated = place / "unrelated"
        findings = Findings()
        deleted, fork, passes = "", "", fault is None or fault.failure_count != ALWAYS
        before = self._messages_before if fault is None or fault.has_sessions else {}
        self._disk.watch(place / "store", unrelated)
        with self._armed(fault):
            talk = ForkedConversation(place)

            def begin_step(step: str) -> None:
                if self._disk.hit_count and not findings.step:
                    findings.step = self._step
                self._step = step

            self._step = "start"
            try:
                talk.initialize()
                for number in range(3):
                    begin_step("new session")
                    session = talk.open()
                    begin_step("turn")
                    talk.prompt(session, f"first {number}")
                begin_step("list")
                talk.list_ids()
                for session in before:
                    begin_step("load")
                    replayed = talk.load(session)
                    begin_step("turn after a load")
                    if replayed is not None:
                        talk.prompt(session, f"again {session}")
                begin_step("fork")
                fork = talk.fork("new1")
                begin_step("turn of a fork")
                talk.prompt(fork, "forked")
                begin_step("delete")
                if talk.ask("session/delete", sessionId="new3") is not None:
                    deleted = "new3"
                begin_step("list")
                talk.list_ids()
                begin_step("end")
                findings.call_counts = self._disk.call_counts
                if passes:
                    self._disk.passes()
                    self._recover(
                        talk,
                        [session_id for session_id in talk.list_expected(before) if session_id != "new3"],
                        findings,
                    )
            except NoAnswer as problem:
                findings.trouble.append(str(problem))
            begin_step("end")
            status, errors = talk.end()
            begin_step("")
            findings.hit_count = self._disk.hit_count
        self._judge(talk, fault, findings, status, errors, before, deleted, unrelated)
        return findings

    def _recover(self, talk: ForkedConversation, sessions: list[str], findings: Findings) -> None:
        """The fault has passed: everything must be recorded again, and served."""
        sessions.append(talk.open())
        unrecorded, number, deadline = sessions, 0, time.monotonic() + _SECONDS
        store = WholeStore(talk.store, create=False)
        while unrecorded and time.monotonic() < deadline:
            number += 1
            for session in unrecorded:
                talk.prompt(session, f"and now {number} {session}")
            unrecorded = [
                session for session in unrecorded if not self._has_turn(store, session, f"and now {number} {session}")
            ]
            if unrecorded:
                time.sleep(_PAUSE)
        if unrecorded:
            findings.trouble.append(f"never recorded again: {unrecorded}")
        listed_ids = talk.list_ids()
        if missing := [session for session in sessions if session not in listed_ids]:
            findings.trouble.append(f"not listed after the fault: {missing}")
        for session in sessions[:1]:
            replayed = talk.load(session)
            if replayed is None or not any(b"and now " in line for line in replayed):
                findings.trouble.append(f"not loaded after the fault: {session}: {replayed}")

    def _has_turn(self, store: WholeStore, session: str, text: str) -> bool:
        """Whether a prompt of this text and its answer are recorded: without a prompt, a session is not listed."""
        with contextlib.suppress(OSError, AcpProxyError):
            messages = [
                message
                for message, _ in _read_messages(store, session)
                if message is not None and text.encode() in message
            ]
            return any(b'"session/prompt"' in message for message in messages) and any(
                b"1 of " in message for message in messages
            )
        return False

    def _judge(
        self,
        talk: ForkedConversation,
        fault: Fault | None,
        findings: Findings,
        status: int,
        stderr_lines: list[str],
        before: dict[str, list[bytes]],
        deleted_id: str,
        unrelated: Path,
    ) -> None:
        passes = fault is None or fault.failure_count != ALWAYS
        is_unsure = fault is not None and fault.call in _UNSURE_CALLS
        if status:
            findings.trouble.append(f"the proxy ended with {status}")
        findings.warnings = stderr_lines
        findings.trouble += talk.compare_wire()
        if self._disk.misused_count or (unrelated.exists() and unrelated.stat().st_size):
            data = unrelated.read_bytes() if unrelated.exists() else b""
            findings.trouble.append(
                f"{self._disk.misused_count} calls on a descriptor whose close failed: {data[:200]!r}"
            )
        expected = talk.list_expected(before)
        store = WholeStore(talk.store, create=False)
        with contextlib.suppress(OSError, AcpProxyError):
            store.list_all()  # completes a fork's copy
        prompts: dict[str, int] = {}
        for session, lines in expected.items():
            if session == "new3":  # a delete that failed may have removed it
                continue
            findings.message_count += len(lines)
            prompts[session] = _compare(store, session, lines, findings, passes=passes, is_unsure=is_unsure)
        if deleted_id and store.has_transcript_or_original(_AGENT, deleted_id):
            findings.trouble.append(f"{deleted_id} was deleted, and is there")
        try:
            rows = {row.session_id: row.prompt_count for row in store.list_all() if not find_aside_suffix(row.name)}
        except (OSError, AcpProxyError) as problem:
            findings.trouble.append(f"the next process cannot list: {problem}")
        else:
            prompts.pop("new3", None)  # a delete that failed may have hidden it
            wrong_counts = {
                session_id: (count, rows.get(session_id, 0))
                for session_id, count in prompts.items()
                if rows.get(session_id, 0) < count
            }
            if wrong_counts:
                findings.trouble.append(f"turns in the transcript and in the list: {wrong_counts}")
        warnings = [line for line in stderr_lines if line.startswith("acp-proxy: ")]
        if len(stderr_lines) != len(warnings):
            findings.trouble.append(f"said on stderr: {[line for line in stderr_lines if line not in warnings]}")
        recording_warnings = [line for line in warnings if line[len("acp-proxy: ") :].startswith(_ABOUT_RECORDING)]
        other_warnings = [line.split(":")[1] for line in warnings if line not in recording_warnings]
        if (
            len(recording_warnings) > 1
            or (findings.missing_count and not recording_warnings)
            or len(set(other_warnings)) < len(other_warnings)
        ):
            findings.trouble.append(
                f"one warning, if anything is missing: {len(recording_warnings)}, and {other_warnings}"
            )
        if fault is None and warnings:
            findings.trouble.append("warnings without a fault")


_PAUSE = 0.02


def _shorten_pauses() -> None:
    """What acp-proxy waits for: seconds would make hours of thousands of conversations."""
    # Longer than a busy machine takes from a session's beginning to its first entry: that entry is what is missing.
    transcript_files._RETRY_SECONDS = 0.1
    store_index._RETRY_PAUSE_SECONDS = _PAUSE
    worker.DELAY_SECONDS = 0.005
    index_database._BUSY_MS = index_database._ERASE_BUSY_MS = 20


def main() -> None:
    place, control = map(Path, sys.argv[1:])
    _shorten_pauses()
    worker = _Worker(place, Disk.attach(control))
    for line in sys.stdin:
        fields = json.loads(line)
        findings = worker.run(Fault(**fields) if fields is not None else None)
        print(json.dumps(asdict(findings)), flush=True)


if __name__ == "__main__":
    main()
