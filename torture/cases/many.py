"""Many proxies share one store, some of them one session.

Each proxy has its own editor, which prompts, lists page by page, loads and deletes at random, while
`acp-proxy list` and `delete` run beside them. Four share one session; four more prompt, load and delete
another one at the same time. Finally, agents that number their sessions from 1 all open the same new id at once.
"""

import json
import random
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import RECORDED, Header
from acp_proxy.transcript.file_names import file_name
from tests.client import prompt_params
from tests.end_to_end.proxied import AGENT, NOT_FOUND, PROXY, Editor, Loaded, texts
from tests.scripted.agent import NAME
from torture.outcome import Outcome, Scale
from torture.turns import Count, Turn, find_transcript, make_prompt, read_transcript

TOGETHER = 4
STARTING = 4  # at a time: a start takes a second of work, and two cores have sixty to do
PROMPTS_AFTER = 2
ENDS_SECONDS = 240.0  # long: the machine may be busy, and nothing here is about speed
MEET_SECONDS = 300.0  # the others may have much to do first
NEVER = float("inf")
NOTHING_THERE = "acp-proxy: session {} was not recorded here; it opens without its history\n"
WORDS = re.compile("(turn \\d+\\.\\d+ \u00b7) (\\d+)\\. ")

TURN: list[dict[str, Any]] = [
    {"flood": {"count": 150, "text": "{prompt} {i}. "}},
    {"sleep": 0.01},
    {"flood": {"count": 1_000, "text": "{prompt} {i}. ", "batch": True}},
    {"flood": {"count": 50, "text": "{prompt} {i}. "}},
]


def run(scale: Scale) -> Iterator[Outcome]:
    (scale.place / "project").mkdir()
    crowd = Crowd(scale)
    yield from crowd.outcomes()
    yield same_new_ids(scale)


@dataclass
class Prompted:
    """A turn with the times of its prompt and its answer."""

    turn: Turn
    began: float
    ended: float = NEVER


class Crowd:
    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.store = scale.place / "store"
        self.proxies = scale.of(32, 9)
        self.steps = scale.of(20, 3)
        self.own = Count(f"{self.proxies - 2 * TOGETHER} of {self.proxies} proxies with their own sessions", "updates")
        self.shared = Count(f"{TOGETHER} proxies in one session", "updates")
        self.contested = Count(f"{TOGETHER} proxies prompt and delete one session", "updates")
        self.lists = Count(f"lists, page by page, by {self.proxies} proxies and from the command line", "sessions")
        self.lock = threading.Lock()
        self.prompts: dict[str, list[Prompted]] = {}
        self.deletes: dict[str, list[tuple[float, float]]] = {}
        self.given_up: list[str] = []
        self.is_over = threading.Event()
        self.quarrel_begins = threading.Barrier(TOGETHER, partial(self._calm_down, False))
        self.quarrel_is_over = threading.Barrier(TOGETHER, partial(self._calm_down, True))
        self._quarrel = threading.Lock()
        self._is_calm = True
        self.before = self._made_before(scale.of(1_100, 510))
        (scale.place / "script.json").write_text(json.dumps({"turns": [TURN]}))

    def outcomes(self) -> Iterator[Outcome]:
        with ThreadPoolExecutor(STARTING) as threads:
            editors = list(threads.map(lambda _: start(self.scale, "script.json"), range(self.proxies)))
        try:
            one, other = (Member(self, 100 + at, editors[at], self.own) for at in range(2))
            self.one, self.other = (member.opened() for member in (one, other))
            members = [Member(self, at, editor, self._count_of(at)) for at, editor in enumerate(editors)]
            with ThreadPoolExecutor(self.proxies + 2) as threads:
                beside = [threads.submit(self._command_line, at) for at in range(self.scale.of(2, 1))]
                list(threads.map(self._live, members))
                self.is_over.set()
                for each in beside:
                    each.result()
            for editor in editors:
                self.own.add(left=still_there(editor))
                # A load may come after a revival, before anything is recorded.
                status, said = editor.wait(), editor.read_stderr().replace(NOTHING_THERE.format(self.other), "")
                if status != 0 or said:
                    self.own.trouble(f"a proxy said: {said}")
        finally:
            for editor in editors:
                editor.close()
        self._look()
        yield from (count.outcome() for count in (self.own, self.shared, self.contested, self.lists))

    def _count_of(self, member: int) -> Count:
        return self.shared if member < TOGETHER else self.contested if member < 2 * TOGETHER else self.own

    def _live(self, member: "Member") -> None:
        work = {id(self.shared): member.talk_together, id(self.contested): member.quarrel}
        member.guarded(work.get(id(member.count), member.be_alone))

    def _made_before(self, count: int) -> set[str]:
        """Sessions of another project, which stay unchanged, so that the lists have more than one page."""
        store = ProxyStore(self.store)
        agent = store.choose_agent(None, NAME, NAME)
        made = set()
        for number in range(count):
            session, at = f"before-{number}", f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z"
            transcript = store.open_to_append(agent, Header(session, "/elsewhere", RECORDED, at), is_new=True)
            message = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "session/prompt",
                "params": prompt_params(session, "long ago"),
            }
            answer = jsonrpc.dump({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}})
            transcript.append(file_format.encode_message(at, "before", Peer.CLIENT, jsonrpc.dump(message)))
            transcript.append(file_format.encode_message(at, "before", Peer.AGENT, answer, "session/prompt"))
            transcript.close()
            made.add(session)
        return made

    # --- expected lists

    def steady(self, since: float, *, moved_counts: bool) -> set[str]:
        """Sessions that must be in a list that was requested at ``since`` and has ended now.

        ``moved_counts``: including those that moved to the top meanwhile, which a later page does not repeat.
        """
        with self.lock:
            found = set()
            for session, prompts in self.prompts.items():
                listed = any(one.ended < since for one in prompts) and session not in self.deletes
                moved = any(one.ended > since for one in prompts)
                if listed and (moved_counts or not moved):
                    found.add(session)
            return found

    def gone(self, since: float) -> set[str]:
        """Sessions that were deleted before and not prompted again."""
        with self.lock:
            ended = {session for session, ends in self.deletes.items() if ends and max(end for _, end in ends) < since}
            return ended - {self.other}

    def deleting(self, session: str, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        with self.lock:
            self.deletes.setdefault(session, []).append((began, NEVER))
        done = work()
        with self.lock:
            self.deletes[session].remove((began, NEVER))
            self.deletes[session].append((began, time.monotonic()))
        return done

    def check_list(self, ids: list[str], wanted: set[str], unwanted: set[str]) -> None:
        self.lists.add(tried=1, checked=len(ids))
        if twice := {session for session in ids if ids.count(session) > 1} if len(set(ids)) < len(ids) else set():
            self.lists.add(lost=len(twice))
            self.lists.trouble(f"listed twice: {twice}")
        if missing := wanted - set(ids):
            self.lists.add(lost=len(missing))
            self.lists.trouble(f"not listed: {list(missing)[:5]} and more, {len(missing)} in all")
        if ghosts := unwanted & set(ids):
            self.lists.add(lost=len(ghosts))
            self.lists.trouble(f"listed though deleted: {ghosts}")

    # --- beside the proxies

    def _command_line(self, number: int) -> None:
        """Run `acp-proxy list` and `delete` in turn while the others are active."""
        chance = self.scale.chance("command line", number)
        while not self.is_over.is_set():
            with self.lock:
                session = self.given_up.pop() if self.given_up and chance.random() < 0.5 else None
            if session is None and chance.random() < 0.3:
                with self._quarrel:
                    if not self._is_calm:
                        self._delete_beside(self.other)
            elif session is None:
                self._list_beside()
            else:
                self._delete_beside(session)

    def _calm_down(self, is_calm: bool) -> None:
        """Forbid, or allow again, deletes of the contested session."""
        with self._quarrel:
            self._is_calm = is_calm

    def _list_beside(self) -> None:
        began = time.monotonic()
        gone = self.gone(began)
        ids = [row["sessionId"] for row in json.loads(self._command("list", "--json"))]
        self.check_list(ids, self.before | self.steady(began, moved_counts=True), gone)

    def _delete_beside(self, session: str) -> None:
        allowed = (0, 1) if session == self.other else (0,)  # another may have deleted it
        self.deleting(session, lambda: self._command("delete", session, "--yes", "--force", allowed=allowed))
        self.own.add(deletes_from_the_command_line=1)

    def _command(self, *words: str | None, allowed: tuple[int, ...] = (0,)) -> str:
        command = [*PROXY, "sessions", *(word for word in words if word), "--store", str(self.store)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_SECONDS)
        if result.returncode not in allowed or "Traceback" in result.stderr or "locked" in result.stderr:
            self.own.trouble(f"{' '.join(command[3:])} ended with {result.returncode}: {result.stderr[-2000:]}")
        return result.stdout or "[]"

    # --- at the end

    def _look(self) -> None:
        for session, prompts in self.prompts.items():
            count = {self.one: self.shared, self.other: self.contested}.get(session, self.own)
            path, deletes = find_transcript(self.store, session), self.deletes.get(session, [])
            transcript = read_transcript(path)
            if transcript.damaged:
                count.add(lost=transcript.damaged)
                count.trouble(f"{session}: {transcript.damaged} lines cannot be read")
            if deletes and session != self.other and path is not None:
                count.add(lost=1)
                count.trouble(f"{session}: deleted, and still there")
            since = max((end for _, end in deletes), default=0.0)
            for one in (one for one in prompts if one.began > since):
                count.add(checked=len(one.turn.received))
                if (
                    transcript.updates[one.turn.asked] != one.turn.received
                    or transcript.prompts.count(one.turn.asked) != 1
                ):
                    kept = len(transcript.updates[one.turn.asked])
                    count.add(lost=max(1, len(one.turn.received) - kept))
                    count.trouble(f"{session}: {one.turn.asked}: {kept} of {len(one.turn.received)} kept, or changed")
        self._look_again()

    def _look_again(self) -> None:
        """In a new proxy, each session is listed and can be loaded, or is gone and has no file."""
        with start(self.scale, "script.json") as editor:
            member = Member(self, 200, editor, self.own)
            listed = set(member.list_all())
            for session in self.prompts:
                there = find_transcript(self.store, session) is not None
                if (session in listed) is not there:
                    self.lists.trouble(f"{session}: a file: {there}, listed: {session in listed}")
                elif there:
                    member.guarded(partial(member.load, session, may_be_gone=session == self.other))
            editor.end()


class Member:
    """One editor of the crowd."""

    def __init__(self, crowd: Crowd, number: int, editor: Editor, count: Count) -> None:
        self.count = count
        self._crowd = crowd
        self._number = number
        self._editor = editor
        self._chance: random.Random = crowd.scale.chance("member", number)
        self._asked = 0
        self._mine: list[str] = []

    def guarded(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception as problem:  # noqa: BLE001 - whatever goes wrong is what we are looking for
            self.count.trouble(f"editor {self._number}: {type(problem).__name__}: {problem}")

    def opened(self) -> str:
        opened = self._request("session/new", cwd=str(self._editor.project), mcpServers=[])
        self.ask(opened["sessionId"])
        return str(opened["sessionId"])

    def talk_together(self) -> None:
        for _ in range(self._crowd.steps):
            self.ask(self._crowd.one)
            self._any((1, self.list_all), (1, self.list_here), (1, lambda: self.load(self._crowd.one)))

    def quarrel(self) -> None:
        other = self._crowd.other
        self.load(other)
        self._crowd.quarrel_begins.wait(MEET_SECONDS)  # a refused load leaves a session without a directory, in no list
        for _ in range(self._crowd.steps):
            self._any(
                (2, lambda: self.ask(other)),
                (1, lambda: self.delete(other)),
                (1, lambda: self.load(other, may_be_gone=True)),
                (1, self.list_here),
            )
        self._crowd.quarrel_is_over.wait(MEET_SECONDS)
        for _ in range(PROMPTS_AFTER):  # the first prompts, all at once, begin the transcript again
            self.ask(other)

    def be_alone(self) -> None:
        for _ in range(self._crowd.steps):
            if not self._mine or self._chance.random() < 0.2:
                self._mine.append(self.opened())
            self._with_own(self._chance.choice(self._mine))

    def _with_own(self, session: str) -> None:
        self._any(
            (4, lambda: self.ask(session)),
            (1, lambda: self._give_up(session)),
            (2, lambda: self.load(session)),
            (1, lambda: self.load(self._crowd.one)),
            (1, self.list_all),
            (2, self.list_here),
        )

    def _any(self, *work: tuple[int, Callable[[], object]]) -> None:
        self._chance.choices([one for _, one in work], [weight for weight, _ in work])[0]()

    def ask(self, session: str) -> None:
        self._asked += 1
        turn = Turn(session, make_prompt(self._number, self._asked))
        one = Prompted(turn, time.monotonic())
        with self._crowd.lock:
            self._crowd.prompts.setdefault(session, []).append(one)
        since, number = self._editor.count_lines(), self._editor.start_prompt(session, turn.asked)
        assert self._editor.wait_for_result(number, ENDS_SECONDS)["stopReason"] == "end_turn"
        turn.take(line.raw for line in self._editor.lines[since : self._editor.find_answer(number)])
        one.ended = time.monotonic()
        self.count.add(tried=1)

    def load(self, session: str, *, may_be_gone: bool = False) -> None:
        """A load replays everything from before."""
        with self._crowd.lock:
            began, said = time.monotonic(), list(self._crowd.prompts.get(session, []))
        since = self._editor.count_lines()
        loaded = self._editor.loaded(session, self._editor.start_load(session), since, ENDS_SECONDS)
        self.count.add(loads=1)
        if may_be_gone and loaded.answer.get("error", {}).get("code") == NOT_FOUND:
            return
        assert "result" in loaded.answer, loaded.answer
        told = words(loaded)
        for one in said if not may_be_gone else []:
            live = [int(number) for _, number in WORDS.findall("".join(said_by(one.turn)))]
            assert one.ended > began or told.get(one.turn.asked) == live, f"{one.turn.asked} is not told as it was"

    def list_all(self) -> list[str]:
        """List all pages."""
        began = time.monotonic()
        gone, found, page = self._crowd.gone(began), list[str](), dict[str, Any](nextCursor=None)
        while "nextCursor" in page:
            page = self._request("session/list", cursor=page["nextCursor"])
            times = [session["updatedAt"] for session in page["sessions"]]
            assert times == sorted(times, reverse=True), "not newest first"
            found += [session["sessionId"] for session in page["sessions"]]
        self._crowd.check_list(found, self._crowd.before | self._crowd.steady(began, moved_counts=False), gone)
        return found

    def list_here(self) -> None:
        """List this project: one page."""
        began = time.monotonic()
        gone = self._crowd.gone(began)
        page = self._request("session/list", cwd=str(self._editor.project))
        ids = [session["sessionId"] for session in page["sessions"]]
        assert "nextCursor" not in page
        self._crowd.check_list(ids, self._crowd.steady(began, moved_counts=True), gone)

    def delete(self, session: str) -> None:
        answer = self._crowd.deleting(session, lambda: self._request("session/delete", sessionId=session))
        assert answer == {}
        self.count.add(tried=1, deletes=1)

    def _request(self, method: str, **params: object) -> Any:
        return self._editor.request(method, params, ENDS_SECONDS)

    def _give_up(self, session: str) -> None:
        """Delete it, or have the command line delete it."""
        self._mine.remove(session)
        if self._chance.random() < 0.5:
            self.delete(session)
        else:
            with self._crowd.lock:
                self._crowd.deletes[session] = []  # it may be gone from now on
                self._crowd.given_up.append(session)


def same_new_ids(scale: Scale) -> Outcome:
    """Agents with counted ids, all at once: each session has its own file, with all of its own text."""
    proxies, rounds = scale.of(16, 3), scale.of(40, 6)
    count = Count(f"{proxies} agents give one id to new sessions", "updates")
    script = {"sessionIds": "counting", "turns": [[{"flood": {"count": 20, "text": "{prompt} {i}. "}}]]}
    (scale.place / "counting.json").write_text(json.dumps(script))
    meeting = threading.Barrier(proxies)
    turns: list[Turn] = []

    def work(number: int) -> None:
        with start(scale, "counting.json", "--name", "counting", memory=f"memory-{number}") as editor:
            for at in range(rounds):
                meeting.wait(MEET_SECONDS)
                session = editor.new_session()
                since, turn = editor.count_lines(), Turn(session, make_prompt(300 + number, at))
                answer = editor.start_prompt(session, turn.asked)
                editor.wait_for_result(answer, ENDS_SECONDS)
                turn.take(line.raw for line in editor.lines[since : editor.find_answer(answer)])
                turns.append(turn)
            count.add(left=still_there(editor))
            if editor.wait() != 0 or editor.read_stderr():
                count.trouble(f"a proxy said: {editor.read_stderr()}")

    with ThreadPoolExecutor(proxies) as threads:
        for done in [threads.submit(work, number) for number in range(proxies)]:
            done.result()
    files = [
        read_transcript(path)
        for path in (scale.place / "store" / "transcripts" / file_name("counting")).glob("*.jsonl")
        if path.name != "state.jsonl"
    ]
    count.add(tried=rounds, lost=sum(file.damaged for file in files), files=len(files))
    for turn in turns:
        count.add(checked=len(turn.received))
        holding = [file for file in files if turn.asked in file.prompts]
        if [file.updates[turn.asked] for file in holding] != [turn.received] or len(holding[0].prompts) != 1:
            count.add(lost=1)
            count.trouble(f"{turn.session}, {turn.asked}: in {len(holding)} files, with {[f.prompts for f in holding]}")
    return count.outcome()


def start(scale: Scale, script: str, *agent: str, memory: str = "memory") -> Editor:
    words = [*AGENT, "--memory", str(scale.place / memory), "--script", str(scale.place / script), *agent]
    editor = Editor([*PROXY, "run", "--store", str(scale.place / "store"), "--", *words])
    editor.project = scale.place / "project"
    editor.initialize()
    return editor


def still_there(editor: Editor) -> int:
    """End an editor. 1 if one of its processes stays."""
    editor.close_stdin()
    return int(not editor.all_ended(ENDS_SECONDS))


def said_by(turn: Turn) -> Iterable[str]:
    return (json.loads(line)["params"]["update"]["content"]["text"] for line in turn.received)


def words(loaded: Loaded) -> dict[str, list[int]]:
    """The numbers in the updates of each turn, in order."""
    told: dict[str, list[int]] = {}
    for what, number in WORDS.findall("".join(texts(loaded.updates))):
        told.setdefault(what, []).append(int(number))
    return told
