"""One world: a client, an agent and what it remembers, alone or with acp-proxy between them. A plan runs in it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulation.agent import SAY, USER, Agent, Disk, Habits, Item, Memory, Message
from simulation.editor import View, Window, Word
from simulation.links import Link
from simulation.plan import Plan, Step

MCP: list[Any] = []


@dataclass
class Outcome:
    """What a step led to. ``forked``: the session that a fork makes. ``errors``: the methods that were answered with an
    error. ``rows``: of a list."""

    is_skipped: bool = False
    window: str = ""
    session: int | None = None
    forked: int | None = None
    ok: list[str] = field(default_factory=list)
    errors: dict[str, Message] = field(default_factory=dict)
    rows: list[Message] | None = None
    heard: dict[int, list[Word]] = field(default_factory=dict)
    events: list[list[Any]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    """The ids in updates that came about no session of the window."""
    odd: set[str] = field(default_factory=set)
    """The kinds of updates that the window's version of the protocol does not have."""
    last: Window | None = None
    """The window, if it is gone now."""


class World:
    def __init__(self, plan: Plan, connect: Callable[[Agent], Link], path: Path | None = None) -> None:
        """``path``: where the agent's memory is, if its processes are real."""
        self.habits: Habits = plan.habits
        self.disk = Disk(path=path)
        self.windows: dict[str, Window] = {}
        self.ids: dict[int, str] = {}
        """The client's id of each session."""
        self.journal: list[str] = []
        self._connect = connect
        self._started = 0

    def do(self, at: int, step: Step) -> Outcome:
        """Do a step, if it can be done here."""
        window = self.windows.get(step.get("w", ""))
        session = step.get("s")
        out = Outcome(window=step.get("w", ""), session=session, forked=step.get("to"))
        for each in self.windows.values():
            each.heard, each.titles, each.unknown, each.odd = {}, [], set(), set()
        self.disk.reload()
        act = getattr(self, f"_{step['do'].replace(' ', '_')}")
        out.is_skipped = act(str(at), step, window, session, out) is False
        self.disk.reload()
        for each in self.windows.values():
            out.events += each.events
            each.events = []
        last = out.last or window or self.windows.get(out.window)
        if last is not None:
            out.heard, out.titles, out.unknown = last.heard, last.titles, last.unknown
            out.odd = last.odd
            out.events += last.events if out.last is not None else []
        return out

    def close(self) -> None:
        for window in self.windows.values():
            window.link.end()
        self.windows = {}

    def memory(self, session: int) -> list[Item] | None:
        """What the agent remembers of a session."""
        id = self.disk.of(session)
        return self.disk.sessions[id].items if id is not None else None

    def is_open(self, session: int) -> bool:
        return any(session in window.views for window in self.windows.values())

    # --- processes

    def _start(self, tag: str, step: Step, window: Window | None, session: Any, out: Outcome) -> bool:
        if window is not None:
            return False
        habits = self.habits.of_process(self._started)
        self._started += 1
        window = Window(step["w"], self._connect(Agent(habits, self.disk)), self.journal.append, habits.version)
        self.windows[step["w"]] = window
        window.ids = {id: number for number, id in self.ids.items()}
        can = {"terminal": True, "session": {"compaction": {}}}
        window.ask("initialize", protocolVersion=1, clientCapabilities=can)
        window.wait_for_quiet()
        return True

    def _end(self, tag: str, step: Step, window: Window | None, session: Any, out: Outcome) -> bool:
        if window is None:
            return False
        del self.windows[window.name]
        out.last = window
        window.gone(window.link.end())
        return True

    def _kill(self, tag: str, step: Step, window: Window | None, session: Any, out: Outcome) -> bool:
        if window is None:
            return False
        del self.windows[window.name]
        out.last = window
        window.gone(window.link.kill(step["side"], window.agent))
        return True

    # --- opening sessions

    def _new(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or session in self.ids:
            return False
        id = window.ask("session/new", cwd="/w", mcpServers=MCP, _meta=_marks(session))
        self._opened(window, session, window.wait_for(id), View("new", tag), out)
        window.wait_for_quiet()
        return True

    def _opened(self, window: Window, session: int, answer: Message, view: View, out: Outcome) -> None:
        if "result" in answer:
            self.ids[session] = answer["result"]["sessionId"]
            for each in self.windows.values():
                each.ids[self.ids[session]] = session
            window.views[session] = view
        else:
            out.errors["session/new"] = answer

    def _load(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or session not in self.ids or window.is_busy(session) != step.get("in turn", False):
            return False
        again, cancel, while_told = step.get("again"), step.get("cancel"), step.get("while told")
        view = window.views[session] = View("load", tag, 1 + bool(again))
        view.is_mixed = bool(again or cancel)
        if while_told:
            window.sync(holdLoads=True)
        ids = [self._ask("session/load", window, session)]
        if while_told:
            window.sync()
        if cancel:
            window.tell("$/cancel_request", requestId=ids[0])
        if again:
            ids.append(self._ask("session/load", window, session))
        window.sync(holdLoads=False, finishLoads=True)
        if "then" in step and "result" in window.wait_for(ids[-1]):
            window.sync(flush=step.get("come", 0))
            if self.habits.is_late:
                view.is_mixed = True
                out.events.append(["raced", session])
            then = step["then"]
            self._prompt(tag, {**step, "text": then["text"], "turn": then["turn"]}, window, session, out)
        if step.get("in turn") and self.habits.is_late:
            out.events.append(["told in turn", session, self.habits.call_ids])
        window.wait_for_quiet()
        answer = window.answer(ids[-1])
        out.ok += ["session/load"] * ("result" in answer and (again or not cancel))
        if "error" in answer:
            out.errors["session/load"] = answer
        if ("result" not in answer or (cancel and not again)) and "in turn" not in step:  # there, the turn goes on
            window.views.pop(session, None)
        return True

    def _resume(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or session not in self.ids or window.is_busy(session):
            return False
        window.views[session] = View("resume", tag)
        id = self._ask("session/resume", window, session)
        window.wait_for_quiet()
        if "error" in window.answer(id):
            out.errors["session/resume"] = window.answer(id)
            del window.views[session]
        else:
            out.ok.append("session/resume")
        return True

    def _fork(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        to = step["to"]
        if window is None or session not in window.views or window.is_busy(session) or to in self.ids:
            return False
        meta = _marks(to)
        if "at" in step:
            message = window.views[session].message(step["at"])
            if message is None:
                return False
            meta["jetbrains"] = {"air": {"fork": {"version": 1, "messageId": message}}}
        id = window.ask("session/fork", sessionId=self.ids[session], cwd="/w", mcpServers=MCP, _meta=meta)
        self._opened(window, to, window.wait_for(id), View("fork", tag), out)
        window.wait_for_quiet()
        return True

    def _close(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or session not in window.views or window.is_busy(session):
            return False
        window.ask("session/close", sessionId=self.ids[session])
        window.wait_for_quiet()
        del window.views[session]
        return True

    def _ask(self, method: str, window: Window, session: int) -> int:
        return window.ask(method, sessionId=self.ids[session], cwd="/w", mcpServers=MCP, _meta=_marks(session))

    # --- conversation

    def _prompt(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or session not in window.views:
            return False
        if window.version == 2 and window.is_busy(session):  # there, the agent says when it takes such a prompt
            return False
        text = f"{step['text']} "
        window.views[session].typed(text)
        out.events.append(["typed", session, f"{tag}.0", text])
        marks = _marks(session, tag=tag, turn=step["turn"])
        blocks = [{"type": "text", "text": text}]
        id = window.ask("session/prompt", sessionId=self.ids[session], prompt=blocks, _meta=marks)
        window.turns.setdefault(session, []).append(id)
        window.wait_for_quiet()
        if "error" in window.answer(id):
            out.errors["session/prompt"] = window.answer(id)
            out.events.append(["failed", session, f"{tag}.0"])
        return True

    def _go_on(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or not window.is_busy(session):
            return False
        window.sync(goOn=session)
        window.wait_for_quiet()
        return True

    def _cancel(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or not window.is_busy(session):
            return False
        window.tell("session/cancel", sessionId=self.ids[session])
        window.wait_for_quiet()
        return True

    def _steer(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or session not in window.views or not window.is_busy(session):
            return False
        text = f"{step['text']} "
        blocks = [{"type": "text", "text": text}]
        id = window.ask(
            "_session/steering",
            sessionId=self.ids[session],
            prompt=blocks,
            _meta={**_marks(session, tag=f"{tag}.0"), "steering": {"idleBehavior": "promptRequired"}},
        )
        window.wait_for_quiet()
        if (window.answer(id).get("result") or {}).get("outcome") == "injected":
            window.views[session].typed(text, is_prompt=False)
        return True

    def _rewind(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or session not in window.views or window.is_busy(session):
            return False
        message = window.views[session].message(step["at"])
        if message is None:
            return False
        window.ask("session/rewind", sessionId=self.ids[session], toMessageId=message, _meta=_marks(session))
        window.wait_for_quiet()
        window.views.pop(session)  # what a client shows now is its own affair
        return True

    def _remark(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if window is None or session not in window.views or window.is_busy(session):
            return False
        window.sync(remark=[session, tag, step["text"]])
        window.wait_for_quiet()
        return True

    def _elsewhere(self, tag: str, step: Step, window: Window | None, session: int, out: Outcome) -> bool:
        if self.is_open(session):
            return False
        id = self.disk.of(session)
        if id is None:
            if session in self.ids:
                return False
            id = self.ids[session] = self.disk.new_id()
            self.disk.sessions[id] = Memory(label=session)
            for each in self.windows.values():
                each.ids[id] = session
        says = [Item(f"{tag}.{n}", SAY, f"{text} ", tag) for n, text in enumerate(step["turn"], 1)]
        self.disk.sessions[id].items += [Item(f"{tag}.0", USER, f"{step['text']} ", tag), *says]
        self.disk.save()
        return True

    def _list(self, tag: str, step: Step, window: Window | None, session: Any, out: Outcome) -> bool:
        if window is None:
            return False
        answer = window.wait_for(window.ask("session/list"))
        window.wait_for_quiet()
        out.rows = (answer.get("result") or {}).get("sessions")
        if "error" in answer:
            out.errors["session/list"] = answer
        return True


def _marks(session: int, **more: Any) -> Message:
    return {"simulation": {"session": session, **more}}
