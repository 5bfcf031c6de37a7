"""Processes are killed: the proxy, the agent, the editor, or all three.

Several conversations at a time go on over several kills each, in one store. Every start checks the list and loads the
session; then SIGKILL comes at a random moment of a turn, a load, a list or the start itself. The three are separate
processes, as in reality; the next start examines everything that they leave.
"""

import contextlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from acp_proxy.recording.recorder import GATHERED_BYTES
from tests.client import OutputEnded, RequestFailed, prompt_params
from tests.end_to_end.proxied import AGENT, PROXY, Editor
from tests.scripted.memory import Memory
from torture import editor as editor_program
from torture.outcome import Outcome, Scale
from torture.processes import runs
from torture.turns import Count, Turn, find_transcript, group_by_turn, is_replayed, make_prompt, read_transcript

VICTIMS = {"proxy": (1,), "agent": (2,), "editor": (0,), "all": (0, 1, 2)}
"""Whom to kill, by depth in the process tree: the editor, its child, or that one's child."""
FAULTS = {
    "proxy": "SIGKILL to the proxy",
    "agent": "SIGKILL to the agent",
    "editor": "SIGKILL to the editor",
    "all": "SIGKILL to all three",
}
MOMENTS = ("stream", "stream", "stream", "prompt", "second turn", "load", "list", "start")
CONVERSATIONS = 4  # at a time: both cores are busy, and each conversation still progresses between two kills
KILLS_OF_ONE = 8  # then a new conversation, so that loads stay short
START_SECONDS = 0.5  # about the duration of a start
MOMENT_SECONDS = 0.02  # covers everything that a prompt, a list or a load starts
LOADS_AGAIN = 5  # a store that does not answer for most of a second is reported, and a user would try again
LARGE = 200_000  # bytes: more than a pipe or a read takes
ENDS_SECONDS = 60.0  # far longer than an end takes, even on a busy machine

Step = dict[str, Any]


def agent_step(text: str, kind: str = "agent_message_chunk") -> Step:
    return {"update": {"sessionUpdate": kind, "content": {"type": "text", "text": text}}}


def calls(number: int, kind: str, status: str) -> Step:
    call = {"toolCallId": f"call {number} of {{prompt}}", "title": "{prompt}", "status": status}
    return {"update": {"sessionUpdate": kind, **call}}


def flood(count: int, *, batch: bool = False) -> Step:
    return {"flood": {"count": count, "text": "{prompt} {i}. ", "batch": batch}}


SCRIPT = {
    "turns": [
        [step for number in range(30) for step in (flood(40), calls(number, "tool_call", "pending"), {"sleep": 0.002})],
        [agent_step("{prompt} thinks. ", "agent_thought_chunk"), flood(6_000, batch=True), flood(500)],
        [agent_step("{prompt} is long: " + "\u00e9" * LARGE) for _ in range(6)],
        [flood(3_000), calls(1, "tool_call", "in_progress"), flood(10), calls(1, "tool_call_update", "completed")],
        [agent_step("{prompt} is short. ")],
    ]
}


def run(scale: Scale) -> Iterator[Outcome]:
    kills = [(victim, MOMENTS[at % len(MOMENTS)]) for victim in VICTIMS for at in range(scale.of(250, 5))]
    scale.chance("kills").shuffle(kills)
    counts = {victim: Count(fault, "updates") for victim, fault in FAULTS.items()}
    (scale.place / "project").mkdir()
    (scale.place / "script.json").write_text(json.dumps(SCRIPT))
    lives = [KilledConversation(number, scale, counts) for number in range(CONVERSATIONS)]
    with ThreadPoolExecutor(CONVERSATIONS) as threads:
        list(threads.map(lambda life: life.live(kills[life.number :: CONVERSATIONS]), lives))
    for count in counts.values():
        yield count.outcome()


class KilledConversation:
    """Conversations in turn, and what was seen of them."""

    def __init__(self, number: int, scale: Scale, counts: dict[str, Count]) -> None:
        self.number = number
        self._place = scale.place
        self._chance = scale.chance("life", number)
        self._counts = counts
        self._count = counts["proxy"]
        self._received = Path()
        self._started = 0
        self._asked = 0
        self._session: str | None = None
        self._turns: list[Turn] = []
        self._under_way: list[tuple[int, Turn]] = []
        self._listed: list[str] = []

    def live(self, kills: list[tuple[str, str]]) -> None:
        for at, (victim, moment) in enumerate(kills):
            if at % KILLS_OF_ONE == 0:
                self._session, self._turns = None, []
            self._kill(victim, moment)
        with self._start() as editor:
            self._guarded(lambda: self._begin(editor))

    def _guarded(self, work: Any) -> bool:
        try:
            work()
        except (OSError, OutputEnded, RequestFailed, AssertionError, KeyError) as problem:
            self._count.trouble(f"conversation {self.number}, {self._session}: {type(problem).__name__}: {problem}")
            self._session, self._turns = None, []
            return False
        return True

    def _start(self) -> Editor:
        self._started += 1
        self._received = self._place / f"received-{self.number}-{self._started}"
        agent = [*AGENT, "--memory", str(self._place / "memory"), "--script", str(self._place / "script.json")]
        proxy = [*PROXY, "run", "--store", str(self._place / "store"), "--", *agent]
        editor = Editor([sys.executable, "-S", str(editor_program.__file__), str(self._received), *proxy])
        editor.project = self._place / "project"
        return editor

    # --- the activity at the kill

    def _kill(self, victim: str, moment: str) -> None:
        self._under_way = []
        with self._start() as editor:
            if moment == "start":
                self._hurry(editor)
            elif not self._guarded(lambda: self._begin(editor)) or not self._guarded(lambda: self._act(editor, moment)):
                return
            self._count = self._counts[victim]
            family = family_of(editor)
            chosen = [family[place] for place in VICTIMS[victim] if place < len(family)]
            self._chance.shuffle(chosen)
            for process in chosen:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            left = (
                [] if editor.all_ended(ENDS_SECONDS) and are_gone(family) else [each for each in family if runs(each)]
            )
            self._count.add(tried=1, left=len(left))
            for process in left:
                process.kill()
            # A torn line of the agent is expected there.
            if re.search("acp-proxy|Traceback", said := editor.read_stderr()):
                self._count.trouble(f"{victim}, {moment}: on stderr: {said}")
        self._look(moment, may_lose=victim in ("proxy", "all"))

    def _begin(self, editor: Editor) -> None:
        """A start after the last kill: it lists the session, and replays all of it."""
        editor.initialize()
        session_ids = [session["sessionId"] for session in editor.sessions()]
        for session in self._listed:
            assert session_ids.count(session) == 1, f"{session} is listed {session_ids.count(session)} times"
        if self._session is None:
            self._session = editor.new_session()
            return
        loaded = editor.load(self._session)
        for _ in range(LOADS_AGAIN):
            if "ETIMEDOUT" not in str(loaded.answer.get("error")):
                break
            self._count.add(loads_that_a_busy_disk_kept_waiting=1)
            loaded = editor.load(self._session)
        assert "result" in loaded.answer, loaded.answer
        told = group_by_turn(loaded.updates)
        prompted = [turn for turn in self._turns if turn.is_prompted]
        assert [said for said in told if said] == [turn.asked for turn in prompted], list(told)
        for turn in prompted:
            assert is_replayed(turn, told[turn.asked]), f"{turn.asked}: a load does not tell what was received"
        self._count.add(loads_after_it=1)

    def _hurry(self, editor: Editor) -> None:
        """Everything at once, and a kill anywhere between the first instruction and the end of the load."""
        with contextlib.suppress(OSError):
            editor.start_request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            editor.start_request("session/list", {})
            if self._session is not None:
                editor.start_load(self._session)
        pause(self._chance.uniform(0, START_SECONDS))

    def _act(self, editor: Editor, moment: str) -> None:
        assert self._session is not None
        match moment:
            case "stream" | "second turn":
                since, answer = editor.count_lines(), self._ask(editor)
                if moment == "second turn":
                    editor.wait_for_answer(answer)
                    since, answer = editor.count_lines(), self._ask(editor)
                await_lines(editor, int(10 ** self._chance.uniform(0, 3.5)), answer, since)
                pause(self._chance.choice([0, self._chance.uniform(0, MOMENT_SECONDS)]))
            case "prompt":
                self._ask(editor)
                pause(self._chance.uniform(0, MOMENT_SECONDS))
            case "load":
                since, answer = editor.count_lines(), editor.start_load(self._session)
                await_lines(editor, self._chance.randrange(6), answer, since)
                pause(self._chance.uniform(0, MOMENT_SECONDS))
            case "list":
                for _ in range(self._chance.randrange(1, 6)):
                    editor.start_request("session/list", {})
                pause(self._chance.uniform(0, MOMENT_SECONDS))

    def _ask(self, editor: Editor) -> int:
        assert self._session is not None
        self._asked += 1
        turn = Turn(self._session, make_prompt(self.number, self._asked))
        self._turns.append(turn)
        self._under_way.append((editor.count_lines(), turn))
        params = prompt_params(self._session, turn.asked)
        if self._chance.random() < 0.3:
            params["prompt"].append({"type": "resource", "resource": {"uri": "file:///large", "text": "y" * LARGE}})
        return editor.start_request("session/prompt", params)

    # --- what is left

    def _look(self, moment: str, *, may_lose: bool) -> None:
        """Everything received is recorded, in order and byte for byte."""
        lines = self._received.read_bytes().split(b"\n")[:-1] if self._received.exists() else []
        self._received.unlink(missing_ok=True)
        if self._session is None:
            return
        for mark, turn in self._under_way:
            self._count.add(checked=turn.take(lines[mark:]))
        transcript = read_transcript(find_transcript(self._place / "store", self._session))
        for turn in self._turns:
            self._compare(turn, transcript.updates[turn.asked], moment, may_lose=may_lose and turn is self._turns[-1])
            turn.is_prompted = turn.is_prompted or turn.asked in transcript.prompts
        known = Memory(self._place / "memory").recall(self._session)
        for exchange in known.exchanges if known is not None else []:
            if exchange.prompt not in transcript.prompts:
                self._lost(1, f"{moment}: the agent received {exchange.prompt}, which is not in the transcript")
        if transcript.prompts != [turn.asked for turn in self._turns if turn.is_prompted]:
            self._lost(1, f"{moment}: these prompts are in the transcript: {transcript.prompts}")
        if transcript.prompts and self._session not in self._listed:
            self._listed.append(self._session)

    def _compare(self, turn: Turn, kept: list[bytes], moment: str, *, may_lose: bool) -> None:
        both = min(len(kept), len(turn.received))
        if kept[:both] != turn.received[:both]:
            self._lost(1, f"{moment}: {turn.asked}: changed, or in another order")
        missing = turn.received[both:]
        if missing and may_lose and sum(len(line) + 1 for line in missing) < GATHERED_BYTES:
            self._count.add(last_updates_not_kept=len(missing))
        elif missing:
            self._lost(len(missing), f"{moment}: {turn.asked}: {len(missing)} of {len(turn.received)} are not kept")
        del turn.received[both:]

    def _lost(self, count: int, text: str) -> None:
        self._count.add(lost=count)
        self._count.trouble(f"{self._session}: {text}")


def family_of(editor: Editor) -> list[psutil.Process]:
    """The editor, the proxy and the agent; waits until all exist."""
    deadline = time.monotonic() + ENDS_SECONDS
    while True:
        family = [psutil.Process(editor.pid)]
        with contextlib.suppress(psutil.NoSuchProcess):
            while children := family[-1].children():
                family.append(children[0])
        if len(family) == 3 or time.monotonic() > deadline:
            return family
        pause(0.001)


def are_gone(processes: list[psutil.Process]) -> bool:
    """Whether they end; whoever holds their streams has ended by now."""
    deadline = time.monotonic() + ENDS_SECONDS
    while any(map(runs, processes)) and time.monotonic() < deadline:
        pause(0.001)
    return not any(map(runs, processes))


def await_lines(editor: Editor, count: int, answer: int, since: int) -> None:
    """Wait for so many lines after a request, or for its answer."""
    seen = 0

    def look(message: Any) -> bool:
        nonlocal seen
        seen += 1
        return seen >= count or (isinstance(message, dict) and message.get("id") == answer)

    editor.wait_for(look, since=since)


def pause(seconds: float) -> None:
    """Wait for a random time."""
    threading.Event().wait(seconds)
