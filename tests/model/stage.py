"""A conversation between editors and agents through proxies over one store; every step is checked by the promise.

Each method is an action of an editor, an action of an agent, or an accident. It returns when everything has passed, and
raises ``Broken`` if the promise was broken, which shows the whole conversation and the transcripts.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from acp_proxy.store.store import Store
from tests.model import views, world
from tests.model.agents import LIVE, RENAMED, WARNED, Agent, Message, Plan, Prompted, Said
from tests.model.habits import UNKNOWING, Habits
from tests.model.memory import Disk
from tests.model.promise import Promise, Session, shown
from tests.model.proxies import Proxied, Stuck
from tests.model.views import Before, Opening
from tests.model.world import CALL, SAY, THOUGHT, USER, Item, Line, Replayer, Update

T = TypeVar("T")
KINDS = {"s": SAY, "t": THOUGHT, "c": CALL}
"""The letters for the parts of a turn: ``scs`` is words, a tool call, words."""


class Stage:
    def __init__(self, root: Path, habits: Habits) -> None:
        self.habits = habits
        self.store = Store(root)
        self.disk = Disk()
        self.sessions: list[Session] = []
        self.proxies: list[Proxied] = []
        self.journal: list[str] = [f"The agent: {habits}"]
        self._plans: dict[int, Plan] = {}
        self._started = 0
        self._promise = Promise(self.store, self.sessions, self.journal)

    # --- processes

    def start(self) -> Proxied:
        self._started += 1
        agent = Agent(self.habits, self.disk, self._plans)
        is_second = self.habits.version == "2" or (self.habits.version == "both" and self._started % 2 == 0)
        proxy = Proxied(self.store, agent, str(self._started), self.journal.append, is_second=is_second)
        self.proxies.append(proxy)
        with self._step(proxy):
            proxy.ask("initialize", protocolVersion=1, clientCapabilities={})
            proxy.settle()
            self._promise.folder = proxy.recorder.agent
        return proxy

    def end(self, proxy: Proxied) -> None:
        """The editor ends, and the agent with it; the proxy has the time to record everything."""
        self.journal.append(f"--- editor {proxy.name} ends")
        self._gone(proxy, proxy.end)

    def kill(self, proxy: Proxied) -> None:
        """SIGKILL: what waits in memory is lost."""
        self.journal.append(f"--- proxy {proxy.name} is killed")
        for session in self._of(proxy):
            session.pending = [replace(line, must=False) for line in session.pending]
        self._gone(proxy, proxy.kill)

    def _gone(self, proxy: Proxied, how: Any) -> None:
        try:
            how()
        except Stuck as stuck:
            raise self._promise.broken("4: everything is answered", str(stuck)) from stuck
        proxy.agent.die()
        self.proxies.remove(proxy)
        for session in self._of(proxy):
            self._settled(session)
            session.proxy, session.has_turn = None, False
        self._promise.check_transcripts()

    def close_all(self) -> None:
        """Close everything that is still open."""
        for proxy in self.proxies:
            proxy.kill()
        self.proxies.clear()

    # --- conversation

    def new(self, proxy: Proxied) -> Session:
        with self._step(proxy):
            id = proxy.ask("session/new", cwd="/w", mcpServers=[])
            answer = proxy.wait_for(id)
            return self._opened(answer["result"]["sessionId"], proxy)

    def prompt(self, session: Session, now: str = "s", later: str = "", text: str = "") -> None:
        """A turn. ``now``: said at once. ``later``: said at ``go_on``; if empty, the turn ends at once."""
        with self._step(self._proxy(session)):
            self._prompted(session, now, later, text)

    def go_on(self, session: Session) -> None:
        proxy = self._proxy(session)
        with self._step(proxy):
            proxy.agent.go_on(session.agent_id)
            proxy.say()

    def cancel(self, session: Session) -> None:
        proxy = self._proxy(session)
        with self._step(proxy):
            session.was_cancelled = True
            proxy.tell("session/cancel", sessionId=session.id)

    def remark(self, session: Session) -> None:
        """The agent says something outside any turn."""
        proxy, number = self._proxy(session), self.disk.number()
        session.last = None
        with self._step(proxy):
            proxy.agent.remark(session.agent_id, Item(SAY, f"remark {number}. ", number))
            proxy.say()

    def elsewhere(self, session: Session) -> None:
        """Another client makes a turn in this session."""
        plan = self._plan("s", "", "")
        self.journal.append(f"--- another client says {plan.user.text!r} to {session.agent_id}")
        self.disk.sessions[session.agent_id] += [plan.user, *plan.now]
        session.last, session.is_behind = None, True

    def known_to_agent_alone(self) -> Session:
        """A session that no proxy has ever seen."""
        id = self.disk.new_id()
        self.disk.sessions[id] = []
        session = Session(id, id, has_transcript=False)
        self.sessions.append(session)
        self.elsewhere(session)
        return session

    def loads(self, session: Session) -> bool:
        """Whether a client can load it: from the agent, or from the proxy's transcript."""
        return "load" in self.habits.offers or session.has_transcript

    def load(
        self,
        session: Session,
        proxy: Proxied | None = None,
        *,
        again: bool = False,
        cancel: bool = False,
        while_told: bool = False,
        then: str | None = None,
        told_until_then: int = 0,
    ) -> None:
        """Load it. ``again``: a second load follows at once. ``cancel``: the first is cancelled before that.
        ``while_told``: by then, the agent has sent the part of its replay before the answer. ``then``: a prompt with
        this turn follows the answer at once, after ``told_until_then`` lines of a late replay."""
        proxy = proxy or self._proxy(session)
        if self.habits.greets or self.habits.warns:  # whether these come before an immediate prompt is chance
            then = None
        before = Before.of(session.said, session.pending)
        in_turn, is_kept = session.has_turn, session.has_transcript
        opens = Opening("cancelled" if cancel else "load", in_turn, is_overtaken=again and self.habits.is_late)
        openings = [opens, *[Opening("load", in_turn)] * again]
        session.in_question = True
        with self._step(proxy, session, openings):
            proxy.agent.holds_loads = while_told
            ids = [self._ask_for("session/load", session, proxy)]
            if while_told:
                proxy.pass_on()
                proxy.agent.holds_loads = False
            if cancel:
                proxy.tell("$/cancel_request", requestId=ids[0])
            if again:
                ids.append(self._ask_for("session/load", session, proxy))
            elif while_told:
                proxy.agent.finish_loads()
                proxy.say()
            if then is not None and "error" not in proxy.wait_for(ids[-1]):
                proxy.agent.flush(told_until_then)
                proxy.say()
                session.proxy = proxy
                tellings = [told for id, told in proxy.agent.tellings if self._by_agent(id) is session]
                self._note_tail(session, tellings, before, plain=not self.habits.is_late)
                self._prompted(session, then, "", "")
                if self.habits.is_late and tellings:
                    session.said += views.strange_lines(before.said, tellings[-1])
            proxy.settle()
            if cancel and is_kept:  # acp-proxy answers by itself, in a moment
                proxy.wait_for(ids[0])
            session.is_deaf = cancel and not again and "loads" in self.habits.never_answers
            for id, opening in zip(ids, openings, strict=True):
                is_left_open = opening.kind == "cancelled" and not is_kept and not proxy.answers.get(id)
                opening.is_refused = is_left_open or "error" in proxy.answer(id)
            if then is None and not openings[-1].is_refused:
                session.proxy = proxy
            if openings[-1].is_refused and openings[-1].kind == "load" and before.said and self._is_unknown(session):
                raise self._promise.broken("2: what the agent does not know is shown", f"{session.id} was refused")

    def resume(self, session: Session, proxy: Proxied) -> None:
        opening = Opening("resume")
        session.in_question = True
        with self._step(proxy, session, [opening]):
            id = self._ask_for("session/resume", session, proxy)
            opening.is_refused = "error" in proxy.wait_for(id)
            if not opening.is_refused:
                session.proxy = proxy

    def fork(self, parent: Session) -> Session:
        proxy = self._proxy(parent)
        id = proxy.ask("session/fork", sessionId=parent.id, cwd="/w", mcpServers=[])
        answer = proxy.wait_for(id)
        if "error" in answer:
            raise self._promise.broken("4: everything is answered", f"a fork was refused: {answer}")
        session = self._opened(answer["result"]["sessionId"], proxy)
        session.in_question, session.has_transcript = True, parent.has_transcript
        session.said, session.pending = list(parent.said), [replace(line, must=False) for line in parent.pending]
        with self._step(proxy, session, [Opening("fork")]):
            pass
        return session

    def close(self, session: Session) -> None:
        proxy = self._proxy(session)
        with self._step(proxy):
            proxy.ask("session/close", sessionId=session.id)
            proxy.settle()
            self._settled(session)
            session.proxy = None

    def list_sessions(self, proxy: Proxied) -> None:
        with self._step(proxy):
            id = proxy.ask("session/list")
            rows = [row["sessionId"] for row in proxy.wait_for(id)["result"]["sessions"]]
        wanted = {each.id for each in self.sessions if any("prompt" in line.value for line in each.said)}
        if len(rows) != len(set(rows)) or ("list" not in self.habits.offers and not wanted <= set(rows)):
            raise self._promise.broken("every session is listed once", f"listed {rows}, wanted {sorted(wanted)}")

    # --- the parts of a step

    def _proxy(self, session: Session) -> Proxied:
        assert session.proxy is not None
        return session.proxy

    def _of(self, proxy: Proxied) -> list[Session]:
        return [session for session in self.sessions if session.proxy is proxy]

    def _opened(self, id: str, proxy: Proxied) -> Session:
        session = Session(id, id, proxy, has_transcript=False)
        self.sessions.append(session)
        return session

    def _ask_for(self, method: str, session: Session, proxy: Proxied) -> int:
        return proxy.ask(method, sessionId=session.id, cwd="/w", mcpServers=[])

    def _is_unknown(self, session: Session) -> bool:
        """Whether the agent says that it does not know the session, not that something else is wrong."""
        return session.agent_id not in self.disk.sessions or self.habits.refuses in UNKNOWING

    def _plan(self, now: str, later: str, text: str) -> Plan:
        number = self.disk.number()
        user = Item(USER, text or ("go on" if self.habits.equal else f"question {number}. "), number)
        plan = Plan(user, [self._item(letter) for letter in now], [self._item(letter) for letter in later])
        self._plans[number] = plan
        return plan

    def _item(self, letter: str) -> Item:
        number, kind = self.disk.number(), KINDS[letter]
        return Item(kind, "ok. " if self.habits.equal and kind == SAY else f"{kind} {number}. ", number)

    def _prompted(self, session: Session, now: str, later: str, text: str) -> None:
        self._settled(session)
        session.last = None
        session.was_cancelled = session.is_deaf = session.ends_in_user = False
        plan = self._plan(now, later, text)
        session.said.append(Line({"prompt": plan.user.text}, plan.user))
        blocks = [{"type": "text", "text": plan.user.text}]
        meta = {"plan": plan.user.number}
        self._proxy(session).ask("session/prompt", sessionId=session.id, prompt=blocks, _meta=meta)

    def _settled(self, session: Session) -> None:
        """What waited is in the transcript now, or never will be."""
        session.said += session.pending
        session.pending, session.in_question = [], False

    def _note_tail(self, session: Session, tellings: Sequence[Replayer], before: Before, *, plain: bool) -> None:
        """What is new in a replay may be recorded, and must be if it can be known to be new."""
        if tellings:
            is_import = not session.has_transcript
            if session.has_turn:
                new = views.strange_lines(before.said, tellings[-1])
            else:
                new = views.new_lines(before.said, tellings[-1], is_import=is_import, plain=plain)
            there = [(line.value, line.item) for line in session.pending]
            session.pending += [line for line in new if (line.value, line.item) not in there]
        if not plain:
            session.pending = [replace(line, must=False) for line in session.pending]

    @contextmanager
    def _step(
        self,
        proxy: Proxied,
        session: Session | None = None,
        openings: Sequence[Opening] = (),
    ) -> Iterator[None]:
        """``openings``: the requests in this step that open ``session``."""
        before = Before.of(session.said, session.pending) if session is not None else Before()
        try:
            yield
            proxy.settle()
        except Stuck as stuck:
            raise self._promise.broken("4: everything is answered once", str(stuck)) from stuck
        said, heard, asked = _taken(proxy.said), _taken(proxy.heard), _taken(proxy.agent.asked)
        self._follow(session, asked, is_cancelled=any(opening.kind == "cancelled" for opening in openings))
        self._check_records(_taken(proxy.agent.prompted))
        tellings = [told for id, told in _taken(proxy.agent.tellings) if self._by_agent(id) is session]
        if session is not None and tellings:
            session.is_behind = False
            session.ends_in_user = bool(tellings[-1].items) and tellings[-1].items[-1].kind == USER
        if session is not None and session.in_question:
            is_heard = len(openings) == 1 and openings[0].kind != "cancelled"
            self._note_tail(session, tellings, before, plain=is_heard and not session.has_turn)
        live = self._record(said, session)
        for its in self._of(proxy):
            its.has_turn = proxy.agent.is_in_turn(its.agent_id)
        updates = _by_session(heard)
        for its in self.sessions:
            rest = self._promise.without_live(its, updates.pop(its.id, []), live.get(its.id, []))
            if its is session:
                self._promise.check_shown(session, openings, before, tellings, rest)
            elif world.tokens(rest):
                raise self._promise.broken("4: what passes is what was said", f"{its.id} also heard {shown(rest)}")
        if proxy.warnings:
            raise self._promise.broken("nothing goes wrong", str(proxy.warnings))
        if updates:
            raise self._promise.broken("4: a client hears of its own sessions only", f"it heard of {sorted(updates)}")
        self._promise.check_transcripts()

    def _follow(self, session: Session | None, asked: Sequence[tuple[str, str]], *, is_cancelled: bool) -> None:
        """Check that the agent was asked for ids that it gave, and follow the changes of ids."""
        previous = session.agent_id if session is not None else ""
        for method, id in asked:
            its = self._by_agent(id)
            if its is None and session is not None and id in (session.id, previous, session.previous):
                its = session  # asked while another load is handed over or gets another id, or nobody prompted since
                previous = id
            if method == RENAMED and session is not None:
                session.agent_id = id
            elif method == "session/new":
                if its is None and session is not None:
                    session.earlier |= {session.agent_id} if is_cancelled else set()
                    session.previous, session.agent_id, session.handed_over = previous, id, True
                    session.owes_record |= session.has_transcript
            elif its is None:
                raise self._promise.broken("the agent is asked for the id that it gave", f"{method} {id}")
            elif id == its.previous:
                its.agent_id = id
            session = session or its

    def _check_records(self, prompted: Iterable[Prompted]) -> None:
        """Check that the agent got the record of a session that was handed over to it, and that commands came alone."""
        for each in prompted:
            its = self._by_agent(each.session)
            is_command = each.text.startswith(world.COMMANDS)
            if is_command and each.brings_record:
                raise self._promise.broken("5: a command goes out unchanged", each.text)
            if its is None or not its.owes_record or each.session in its.earlier:  # there the agent has everything
                continue
            if not (is_command or each.has_record):
                raise self._promise.broken("5: the agent gets the record", f"{each.session} got {each.text!r} alone")

    def _record(self, said: Sequence[Said], opened: Session | None) -> dict[str, list[Message]]:
        """Add what the agent said to the expected transcripts; return the new updates, by session."""
        live: dict[str, list[Message]] = {}
        for each in said:
            its = self._by_agent(each.session)
            if its is None or each.what not in (LIVE, WARNED):
                continue
            if each.session in its.earlier and each.session != its.agent_id and not each.in_turn:
                continue  # it belongs to a new session that nobody wanted any more
            if each.what == LIVE or its is not opened:
                live.setdefault(its.id, []).append(each.message["params"]["update"])
            is_hidden = its.ends_in_user or self.habits.rewords  # it may be the agent's wording of something known
            is_sure = each.what == LIVE and (each.in_turn or not is_hidden)
            line = Line(each.message["params"]["update"], each.item, must=is_sure)
            is_new = not its.in_question or (each.in_turn and not its.was_cancelled)
            lines = its.said if is_new else its.pending
            begins = each.what == WARNED and self.habits.warns == "first" and not its.has_transcript
            lines.insert(0 if begins else len(lines), line)
        return live

    def _by_agent(self, id: str) -> Session | None:
        return next((session for session in self.sessions if id in {session.agent_id, *session.earlier}), None)


def _by_session(heard: Iterable[Message]) -> dict[str, list[Update]]:
    """The updates of the conversation that an editor got, by session, without the proxy's notices of handovers."""
    out: dict[str, list[Update]] = {}
    for message in heard:
        if message.get("method") == "session/update":
            update = message["params"]["update"]
            if world.is_conversation(update) and update.get("messageId") != world.NOTICE_ID:
                out.setdefault(message["params"]["sessionId"], []).append(update)
    return out


def _taken(items: list[T]) -> list[T]:
    taken = list(items)
    items.clear()
    return taken
