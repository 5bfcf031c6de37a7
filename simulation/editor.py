"""The client: a process of it with one agent, and what its user sees of each session.

Words are compared, not chunks: a ``View`` is a list of kinds and words, so it does not matter how a message was cut.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from simulation.agent import CALL, COMPACTION, KINDS, SAY, SYNC, USER, Message, Update
from simulation.links import Link, Stuck

Word = tuple[str, str]
"""A kind, and one word of it. A tool call counts with the words of its title; ``out`` is its output."""
OUT = "out"
NOTICE_ID = "acp-proxy-handover"
"""The messageId of acp-proxy's own notice of a handover."""
_NAMES = {kind: name for name, kind in KINDS.items()}
_OF_VERSION_2 = ("user_message", "agent_message", "agent_thought", "state_update", "tool_call_content_chunk")
_ROUNDS = 20_000


class View:
    """What a window shows of a session. ``opened``: by new, load, resume or fork; ``at``: by
    which step. ``replays``: how many may be in it."""

    def __init__(self, opened: str, at: str = "", replays: int = 1) -> None:
        self.at = at
        self.opened = opened
        self.replays = replays
        self.since: int | None = None
        """What had been said in the session before this and may not be seen here."""
        self.is_mixed = False
        """A prompt was sent while a replay was still coming, or two loads at once: its order is not compared."""
        self.is_apart = False
        """Something was done in one of the two runs only, so the other run's view of this is another one."""
        self.excused: Counter[Word] = Counter()
        """What was shown before it was taken back."""
        self.prompts: list[str] = []
        """Prompts that were not echoed."""
        self._entries: list[list[str]] = []
        """Kind, text and message id; of a call, its id."""
        self._calls: dict[str, list[str]] = {}
        self.statuses: dict[str, str] = {}
        """By the title of a call: its last status."""
        self._echo = ""

    def typed(self, text: str, *, is_prompt: bool = True) -> None:
        """The user sent this."""
        self._entries.append([USER, text, ""])
        if is_prompt:
            self.prompts.append(text)

    def add(self, update: Update, terminals: dict[str, str]) -> list[Word]:
        """Show an update; its words. ``terminals``: the output of those that the window has."""
        kind, id = str(update.get("sessionUpdate")), str(update.get("messageId", ""))
        if kind in _NAMES:
            text = (update.get("content") or {}).get("text", "")
            name = _NAMES[kind]
            if name == USER and self._echoed(text) is not None:
                return []
            self._end_echo()
            if id != NOTICE_ID:
                self._entries.append([name, text, id])
                return [(name, text)]
        elif kind in ("tool_call", "tool_call_update"):
            self._end_echo()
            return self._call(update, terminals)
        elif kind == "compaction_update":
            text = "".join(block.get("text", "") for block in update.get("summary") or ())
            self._entries.append([COMPACTION, text, ""])
            return [(COMPACTION, text)]
        return []

    def _echoed(self, text: str) -> str | None:
        said = self._echo + text
        for prompt in self.prompts:
            if said.replace("[contents-of-a-file] ", "") == prompt:
                self.prompts.remove(prompt)
                self._echo = ""
                return prompt
            if prompt.startswith(said):
                self._echo = said
                return prompt
        return None

    def _end_echo(self) -> None:
        if self._echo:  # it was none
            self._entries.append([USER, self._echo, ""])
            self._echo = ""

    def _call(self, update: Update, terminals: dict[str, str]) -> list[Word]:
        id = update["toolCallId"]
        outputs = []
        for each in update.get("content") or ():
            if each.get("type") == "terminal":
                if each["terminalId"] not in terminals:
                    return []  # editors drop an update with a terminal that they do not know
                outputs.append(terminals[each["terminalId"]])
            elif each.get("type") == "content":
                outputs.append(each["content"].get("text", ""))
        new: list[Word] = []
        entry = self._calls.get(id)
        if entry is None:
            entry = self._calls[id] = [CALL, update.get("title", ""), id, ""]
            self._entries.append(entry)
            new.append((CALL, entry[1]))
        self.statuses[entry[1]] = update.get("status") or self.statuses.get(entry[1], "")
        if outputs:
            entry[3] = " ".join(outputs)
            new.append((OUT, entry[3]))
        return new

    def words(self) -> list[Word]:
        entries = [*self._entries, *([[USER, self._echo, ""]] if self._echo else [])]
        pieces: list[Word] = []
        for kind, text, _, *output in entries:
            pieces.append((kind, text))
            pieces += [(OUT, each) for each in output if each]
        return split(pieces)

    def message(self, word: str) -> str | None:
        """The id of the message in which this word stands."""
        return next((id for kind, text, id, *_ in self._entries if word in text.split() and id and kind == SAY), None)


def split(pieces: list[Word]) -> list[Word]:
    """The words of pieces of text, of which a word may span several."""
    joined: list[list[str]] = []
    for kind, text in pieces:
        if joined and joined[-1][0] == kind and kind not in (CALL, OUT):
            joined[-1][1] += text
        else:
            joined.append([kind, text])
    out = [(kind, word) for kind, text in joined for word in text.split()]
    return [(kind, word) for kind, word in out if kind != OUT or word.startswith("out-")]


class Window:
    """A process of the client."""

    def __init__(self, name: str, link: Link, note: Callable[[str], None], version: int = 1) -> None:
        """``version``: of the protocol, in which the link speaks."""
        self.name = name
        self.version = version
        self.views: dict[int, View] = {}
        """By the number of the session in the plan; only sessions that are open."""
        self.heard: dict[int, list[Word]] = {}
        """What came since this was last cleared."""
        self.events: list[list[Any]] = []
        """What the agent did since this was last cleared."""
        self.unknown: set[str] = set()
        """The ids of sessions that it did not have when something about them came, since this was last cleared."""
        self.titles: list[str] = []
        self.turns: dict[int, list[int]] = {}
        """The prompts that were sent, by session."""
        self.ids: dict[str, int] = {}
        """The client's ids of sessions."""
        self.odd: set[str] = set()
        """The kinds of updates that a client of its version does not know, since this was last cleared."""
        self.waits: list[str] = []
        self.agent = 0
        """The agent's process id."""
        self.link = link
        self._note = note
        self._next = 0
        self._synced = 0
        self._asked: dict[Any, str] = {}
        self.answers: dict[Any, list[Message]] = {}
        self._holds: list[Any] = []
        self._terminals: dict[str, str] = {}

    # --- sending

    def ask(self, method: str, **params: Any) -> int:
        self._next += 1
        self._asked[self._next] = method
        self._note(f"  {self.name} > {describe_request(method, params)}")
        self.link.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    def tell(self, method: str, **params: Any) -> None:
        self._note(f"  {self.name} > {describe_request(method, params)}")
        self.link.send({"jsonrpc": "2.0", "method": method, "params": params})

    def sync(self, **control: Any) -> Message:
        """Let the agent take what was sent, and do what ``control`` says; everything that it says then has come."""
        self._synced += 1  # apart from the requests, whose ids are recorded: how often this happens depends on threads
        id = f"sync-{self._synced}"
        self.link.send({"jsonrpc": "2.0", "id": id, "method": SYNC, "params": control})
        while True:
            message = self.link.receive()
            if message.get("id") == id and "method" not in message:
                status: Message = message["result"]
                self._holds = status["holds"]
                self.waits, self.agent = status["waits"], status["pid"]
                self.events += status["events"]
                return status
            self._take(message)

    def wait_for_quiet(self) -> None:
        """Wait until everything has passed, and each request has its answer, except those the agent leaves open."""
        for _ in range(_ROUNDS):
            before = len(self.answers)
            status = self.sync()
            if status["backlog"]:
                self.sync(flush=-1)
            elif not (self.waits or self.open or len(self.answers) > before):
                return
        raise Stuck(f"no answer to {', '.join(sorted(self._asked[id] for id in self.open))}")

    @property
    def open(self) -> set[Any]:
        return {id for id in self._asked if id not in self.answers and id not in self._holds}

    def wait_for(self, id: int) -> Message:
        """The answer to a request; the rest of a late replay stays back."""
        for _ in range(_ROUNDS):
            if id in self.answers:
                return self.answer(id)
            self.sync()
        raise Stuck(f"no answer to {self._asked[id]}")

    def answer(self, id: int) -> Message:
        """The answer to a request, which may be open: then it is empty."""
        return self.answers[id][0] if id in self.answers else {}

    def is_busy(self, session: int) -> bool:
        return any(id not in self.answers for id in self.turns.get(session, ()))

    # --- receiving

    def gone(self, rest: list[Message]) -> None:
        """The process is over. ``rest_of_replay``: what it still got."""
        for message in rest:
            if not str(message.get("id", "")).startswith("sync-"):
                self._take(message, answers=False)

    def _take(self, message: Message, *, answers: bool = True) -> None:
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method is None:
            self.answers.setdefault(id, []).append(message)
            if len(self.answers[id]) > 1 or id not in self._asked:
                raise Stuck(f"an answer that nobody waits for: {message}")
            self._note(f"  {self.name} < {self._asked[id]}: {_answer(message)}")
        elif method == "session/update":
            self._update(params["sessionId"], params["update"])
        elif id is not None and answers:
            self.link.send({"jsonrpc": "2.0", "id": id, "result": self._serve(method, params)})

    def _update(self, id: str, update: Update) -> None:
        session = self.ids.get(id)
        if update.get("sessionUpdate") == "session_info_update" and update.get("title"):
            self.titles.append(str(update["title"]))
        if session is None:
            self.unknown.add(id)
        if self.version == 1 and update.get("sessionUpdate") in _OF_VERSION_2:
            self.odd.add(str(update["sessionUpdate"]))
        if session is None or session not in self.views:
            return
        new = self.views[session].add(update, self._terminals)
        self.heard.setdefault(session, []).extend(new)
        if new:
            self._note(f"  {self.name} < {session} {' '.join(f'{kind}:{text!r}' for kind, text in new)}")

    def _serve(self, method: str, params: Message) -> Message:
        if method == "terminal/create":
            id = f"t{self.name}{len(self._terminals) + 1}"
            self._terminals[id] = "".join(f"out-{arg} " for arg in params["args"])
            return {"terminalId": id}
        if method == "terminal/output":
            return {"output": self._terminals.get(params["terminalId"], ""), "truncated": False}
        return {}


def describe_request(method: str, params: Message) -> str:
    text = "".join(str(block.get("text", "")) for block in params.get("prompt", ()))
    return " ".join(part for part in (method, str(params.get("sessionId", "")), text) if part)


def _answer(message: Message) -> str:
    if "error" in message:
        return f"error {message['error'].get('code')} {message['error'].get('message')}"
    result = message.get("result") or {}
    return " ".join(str(result[name]) for name in ("sessionId", "stopReason", "outcome") if name in result) or "ok"
