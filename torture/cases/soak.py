"""A long conversation: `make torture CASE=soak MINUTES=60` for an hour.

2,000 updates a second over four sessions at once, and at random: new sessions, forks, loads (also during a turn),
cancels of turns and of loads, lists, deletes, closes and errors. The text of each update is a number, so that anything
lost, repeated or out of order is noticed at once: on the wire, in each replay, and in each transcript before its
session is deleted. Deletes bound the size of the store.

Twice, after the warm-up and at the end, everything comes to rest: all turns end and all sessions are deleted. Then the
proxy must have exactly as many threads and open files as the first time.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from acp_proxy.transcript.file_names import file_name
from torture.outcome import Outcome, Scale
from torture.sampling import Sample, judge_samples

AGENT = Path(__file__).parents[2] / "fixtures" / "programs" / "pacing.py"
PACE = 2000
LIVE = 4  # simultaneous turns
SESSIONS = 12  # kept at most; then one is deleted
PATIENCE = 60.0  # seconds for any answer: enough for a busy machine
OPEN_FILES, EXTRA_THREADS = SESSIONS + LIVE + 8, LIVE + 4
"""What a busy moment may add to a quiet one: a file per session, a thread and a file per load, those of the index."""

_UPDATE = re.compile(
    rb'\{"jsonrpc":"2\.0","method":"session/update","params":\{"sessionId":"([^"]*)","update":'
    rb'\{"sessionUpdate":"agent_message_chunk","content":\{"type":"text","text":"([0-9 ]*)"\}\}\}\}$'
)
_KEPT = re.compile(rb'"content":\{"type":"text","text":"(\d+) "\}')

Answer = dict[str, Any]


def run(scale: Scale) -> Iterator[Outcome]:
    seconds = 4.0 if scale.short else float(os.environ.get("MINUTES", "2")) * 60
    with Soak(scale) as soak:
        soak.talks(seconds * 0.2)
        quiet = soak.comes_to_rest()
        soak.samples.clear()
        soak.talks(seconds * 0.8)
        end = soak.comes_to_rest()
        soak.ends()
    lasted = f"{seconds / 60:g} minutes" if seconds >= 60 else f"{seconds:g} s"
    yield Outcome(
        f"{lasted} at {PACE:,} updates a second",
        tried=soak.doings,
        checked=soak.heard,
        what="updates",
        lost=len(soak.trouble),
        left=soak.left,
        also=f"{soak.heard / soak.talked:,.0f} a second arrived; {soak.told_again:,} more were replayed",
        trouble=tuple(soak.trouble),
    )
    yield judge_samples(quiet, end, soak.samples, {"files": OPEN_FILES, "threads": EXTRA_THREADS})


@dataclass(slots=True)
class Load:
    """A load in progress: the session's position when the replay began, once it has begun."""

    answered: Future[Answer] = field(default_factory=Future)
    before: int | None = None


@dataclass(slots=True)
class Session:
    """``next`` is the number of the next update."""

    id: str
    next: int = 0
    prompts: int = 0
    turn: Future[Answer] | None = None
    load: Load | None = None

    @property
    def is_idle(self) -> bool:
        return self.turn is None and self.load is None


class Soak:
    """An editor that keeps little in memory, as the proxy must."""

    def __init__(self, scale: Scale) -> None:
        self.samples: list[Sample] = []
        self.trouble: list[str] = []
        self.doings = self.heard = self.told_again = self.left = 0
        self.talked = 0.0
        self._chance = scale.chance("soak")
        self._turn_sizes = scale.of(8000, 800)
        self._step, self._sampled_every = (0.05, 0.1) if scale.short else (0.25, 2.0)
        self._store, self._project = scale.place / "store", scale.place / "project"
        self._project.mkdir()
        self._sessions: dict[str, Session] = {}
        self._pending: dict[int, tuple[Future[Answer], Callable[[Answer], None] | None]] = {}
        self._ids = 0
        self._lock = threading.Lock()
        self._terminals = 0
        command = [sys.executable, "-m", "acp_proxy", "run", "--store", str(self._store), "--"]
        command += [sys.executable, str(AGENT), str(PACE)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._proxy = psutil.Process(self._process.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Soak":
        self._reader.start()
        self._ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        return self

    def __exit__(self, *how: object) -> None:
        for process in [*self._proxy.children(recursive=True), self._proxy] if self._proxy.is_running() else []:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    # --- the course

    def talks(self, seconds: float) -> None:
        began = time.monotonic()
        sampled = 0.0
        while (now := time.monotonic()) < began + seconds and self._process.poll() is None:
            if now - sampled > self._sampled_every:
                self.samples.append(self._sample())
                sampled = now
            self._note_answered()
            self._prompt_enough()
            self.doings += 1
            self._does_something()
            time.sleep(self._step)
        self.talked += time.monotonic() - began

    def comes_to_rest(self) -> Sample:
        """End all turns, delete all sessions, and wait until the figures are stable."""
        for session in self._sessions.values():
            if session.turn is not None:
                self._notify("session/cancel", {"sessionId": session.id})
        for session in list(self._sessions.values()):
            self._await_idle(session)
            self._delete(session)
        self._list()
        until, found = time.monotonic() + PATIENCE, self._sample()
        steady = 0
        while steady < 5 and time.monotonic() < until:
            time.sleep(0.05)
            last, found = found, self._sample()
            steady = steady + 1 if (last.files, last.threads) == (found.files, found.threads) else 0
        return found

    def ends(self) -> None:
        """End the proxy; no deleted transcript and no process may be left."""
        tree = self._proxy.children(recursive=True)
        if left := [path.name for path in self._store.glob("transcripts/*/*.jsonl") if path.name != "state.jsonl"]:
            self._say(f"transcripts left behind by deletes: {left}")
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            if (status := self._process.wait(PATIENCE)) != 0:
                self._say(f"the proxy ended with {status}")
        except subprocess.TimeoutExpired:
            self._say("the proxy did not end")
        _, alive = psutil.wait_procs(tree, PATIENCE)
        self.left = len(alive)

    def _does_something(self) -> None:
        often = [self._load, self._load, self._load, self._delete_one, self._delete_one]
        seldom = [self._new, self._fork, self._list, self._cancel_turn, self._load_and_cancel, self._close_and_load]
        doing: Callable[[], object] = self._chance.choice([*often, *seldom, self._set_mode, self._err])
        doing()
        while len(self._sessions) > SESSIONS and (idle := self._idle()) is not None:
            self._delete(idle)

    def _note_answered(self) -> None:
        """Note answered turns and loads."""
        for session in self._sessions.values():
            if session.turn is not None and session.turn.done():
                session.turn = None
            if session.load is not None and session.load.answered.done():
                session.load = None

    def _prompt_enough(self) -> None:
        while sum(session.turn is not None for session in self._sessions.values()) < LIVE:
            session = self._idle() or self._new()
            session.prompts += 1
            size = self._chance.randrange(self._turn_sizes // 10, self._turn_sizes)
            params = {"sessionId": session.id, "prompt": [{"type": "text", "text": str(size)}]}
            session.turn = self._send("session/prompt", params, partial(self._turn_ended, session))

    # --- the actions

    def _new(self) -> Session:
        answer = self._ask("session/new", {"cwd": str(self._project), "mcpServers": []})
        return self._sessions.setdefault(answer["sessionId"], Session(answer["sessionId"]))

    def _fork(self) -> None:
        if (parent := self._idle()) is not None:
            known = Session("", parent.next)
            known.id = self._ask("session/fork", self._place(parent))["sessionId"]
            self._sessions[known.id] = known

    def _load(self) -> Session | None:
        session = self._some(lambda one: one.load is None and one.prompts > 0)
        if session is not None:
            self._start_load(session)
        return session

    def _load_and_cancel(self) -> None:
        session = self._some(lambda one: one.load is None and one.prompts > 0)
        if session is not None:
            self._start_load(session)
            self._notify("$/cancel_request", {"requestId": self._ids})

    def _cancel_turn(self) -> None:
        if (session := self._some(lambda one: one.turn is not None)) is not None:
            self._notify("session/cancel", {"sessionId": session.id})

    def _close_and_load(self) -> None:
        if (session := self._some(lambda one: one.is_idle and one.prompts > 0)) is not None:
            self._send("session/close", {"sessionId": session.id})
            self._start_load(session)

    def _set_mode(self) -> None:
        if (session := self._idle()) is not None:
            self._ask("session/set_mode", {"sessionId": session.id, "modeId": "ask"})

    def _err(self) -> None:
        for method, params in (("_odd/method", {}), ("session/load", self._place(Session("never-heard-of")))):
            if "error" not in self._answer(self._send(method, params)):
                self._say(f"{method} was answered")

    def _list(self) -> None:
        session_ids = {session["sessionId"] for session in self._ask("session/list", {})["sessions"]}
        there = {session.id for session in self._sessions.values() if session.prompts}
        if session_ids - self._sessions.keys() or there - session_ids:
            self._say(f"listed {sorted(session_ids)}, and there are {sorted(there)}")

    def _delete_one(self) -> None:
        if (session := self._idle()) is not None:
            self._delete(session)

    def _delete(self, session: Session) -> None:
        """Its transcript must be complete up to the last update."""
        paths = list(self._store.glob(f"transcripts/*/{file_name(session.id)}.jsonl"))
        kept = [int(number) for path in paths for number in _KEPT.findall(path.read_bytes())]
        if kept != list(range(session.next)):
            self._say(f"{session.id}: {session.next} updates were heard, and {len(kept)} are kept")
        self._ask("session/delete", {"sessionId": session.id})
        del self._sessions[session.id]

    def _start_load(self, session: Session) -> None:
        session.load = load = Load()
        self._send("session/load", self._place(session), partial(self._load_ended, session, load))

    # --- on the reader's thread

    def _read(self) -> None:
        assert self._process.stdout is not None
        rest: list[bytes] = []
        while data := os.read(self._process.stdout.fileno(), 1024 * 1024):
            first, *lines = data.split(b"\n")
            rest.append(first)
            for line in lines:
                self._take(b"".join(rest))
                rest = [line]

    def _take(self, line: bytes) -> None:
        if (found := _UPDATE.match(line)) is not None:
            self._hear(found[1].decode(), found[2])
            return
        message = json.loads(line)
        match message:
            case {"method": "session/update", "params": {"sessionId": session, "update": update}}:
                if update["sessionUpdate"] == "agent_message_chunk":
                    self._hear(session, update["content"]["text"].encode())
            case {"method": method, "id": id, "params": params}:
                self._grant(id, method, params)
            case {"id": int(id)} if id in self._pending:
                answered, then = self._pending.pop(id)
                if then is not None:
                    then(message)
                answered.set_result(message)
            case _:
                self._say(f"nobody asked for {line[:200]!r}")

    def _hear(self, id: str, text: bytes) -> None:
        session = self._sessions.get(id)
        if session is None:
            self._say(f"an update of {id}, which is not there")
            return
        numbers = list(map(int, text.split()))
        load = session.load
        if load is not None and load.before is None and numbers[0] == 0 < session.next and not load.answered.done():
            load.before, session.next = session.next, 0
        if numbers != list(range(session.next, session.next + len(numbers))):
            self._say(f"{id}: {numbers[0]} to {numbers[-1]} came where {session.next} was due")
        session.next = numbers[-1] + 1
        if load is not None and load.before is not None and not load.answered.done():
            self.told_again += len(numbers)
        else:
            self.heard += len(numbers)

    def _turn_ended(self, session: Session, answer: Answer) -> None:
        told = answer.get("result", {}).get("_meta", {}).get("updates")
        if told != session.next:
            self._say(f"{session.id}: heard {session.next} updates of {told}; the prompt's answer: {answer}"[:300])

    def _load_ended(self, session: Session, load: Load, answer: Answer) -> None:
        cancelled = answer.get("error", {}).get("code") == -32800
        if "error" in answer and not cancelled:
            self._say(f"{session.id}: a load failed: {answer['error']}")
        if load.before is None and session.next and not cancelled:
            self._say(f"{session.id}: nothing was told of {session.next} updates")
        if load.before is not None and session.next != load.before:
            if not cancelled:
                self._say(f"{session.id}: {session.next} updates of {load.before} were told")
            session.next = load.before
        load.answered.set_result(answer)

    def _grant(self, id: Any, method: str, params: Any) -> None:
        result: Any = {}
        if method == "terminal/create":
            self._terminals += 1
            result = {"terminalId": f"terminal-{self._terminals}"}
        elif method == "terminal/output":
            result = {"output": "all is well\n" * 100, "truncated": False, "exitStatus": {"exitCode": 0}}
        elif method == "session/request_permission":
            result = {"outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}}
        self._write({"id": id, "result": result})

    # --- helpers

    def _idle(self) -> Session | None:
        return self._some(lambda one: one.is_idle)

    def _some(self, is_it: Callable[[Session], bool]) -> Session | None:
        self._note_answered()
        found = [session for session in self._sessions.values() if is_it(session)]
        return self._chance.choice(found) if found else None

    def _await_idle(self, session: Session) -> None:
        for future in (session.turn, session.load.answered if session.load is not None else None):
            if future is not None:
                self._answer(future)
        self._note_answered()

    def _place(self, session: Session) -> dict[str, Any]:
        return {"sessionId": session.id, "cwd": str(self._project), "mcpServers": []}

    def _sample(self) -> Sample:
        with self._proxy.oneshot():
            memory, threads = self._proxy.memory_info().rss, self._proxy.num_threads()
            return Sample(time.monotonic(), memory, self._proxy.num_fds(), threads)

    def _say(self, trouble: str) -> None:
        self.trouble.append(trouble)

    def _ask(self, method: str, params: Any) -> Any:
        answer = self._answer(self._send(method, params))
        if "error" in answer:
            self._say(f"{method}: {answer['error']}")
        return answer.get("result")

    def _answer(self, future: Future[Answer]) -> Answer:
        return future.result(PATIENCE)

    def _send(self, method: str, params: Any, then: Callable[[Answer], None] | None = None) -> Future[Answer]:
        """The reader calls ``then`` before it reads anything after the answer."""
        answered: Future[Answer] = Future()
        self._ids += 1
        self._pending[self._ids] = answered, then
        self._write({"id": self._ids, "method": method, "params": params})
        return answered

    def _notify(self, method: str, params: Any) -> None:
        self._write({"method": method, "params": params})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(self._process.stdin.fileno(), view) :]
