"""How the cost of an input grows with its size: no kind of input may have quadratic cost.

A fuzzer's inputs are too short to show it, so they are generated here by size. The work is timed at a size and at four
times the size (processor time, the best of three): a ratio of 4 is linear, 16 quadratic.
A comparison of repetitive words may be quadratic up to a number of letters (`acp_proxy.comparison.comparison`), so the
words here are ordinary.
"""

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.late_updates import LateUpdates
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.comparison.whose_past import choose_past
from acp_proxy.decisions.capabilities import Settings
from acp_proxy.decisions.connection import Connection
from acp_proxy.decisions.events import LinesRead
from acp_proxy.protocol import acp, json_splice, jsonrpc, update_kinds
from acp_proxy.protocol.framing import LineFramer
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, Header, NoteType
from acp_proxy.transcript.summary import Summary
from acp_proxy.transcript_replay.handover_record import HandoverRecord
from acp_proxy.transcript_replay.replayer import Mode, Replayer

TIMES = 4
STEEPEST = 9.0
"""Between 4 (linear, with noise and cache limits) and 16."""
ENOUGH = 0.02  # minimum seconds for the smaller size, so that the ratio is meaningful
LARGEST = 2_000_000
COUNTED = 48  # a count shows quadratic growth at any size

AT, RUN = "2026-11-20T09:15:02.123Z", "k3f9a1"
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Shape:
    """``made`` prepares the work of a size; only the work is timed. ``most`` is the largest possible size."""

    name: str
    made: Callable[[int], Work]
    most: int = LARGEST


@dataclass(frozen=True, slots=True)
class Growth:
    name: str
    size: int
    seconds: float
    times: float

    @property
    def is_well(self) -> bool:
        return self.times <= STEEPEST

    def __str__(self) -> str:
        took = f"{self.size:,} in {self.seconds * 1000:.0f} ms" if self.seconds else f"{self.size:,}"
        return f"{self.name}: {took}; {TIMES} times as many cost {self.times:.1f} times as much"


def measured(shape: Shape) -> Growth:
    size = 64
    while (seconds := _timed(shape, size)) < ENOUGH and size * 2 * TIMES <= shape.most:
        size *= 2
    return Growth(shape.name, size, seconds, _timed(shape, size * TIMES) / seconds)


def counted(shape: Shape) -> Growth:
    """The same without a clock: the number of function calls. Does not count copied bytes."""
    steps = _steps(shape, COUNTED)
    return Growth(shape.name, COUNTED, 0.0, _steps(shape, COUNTED * TIMES) / steps)


def _steps(shape: Shape, size: int) -> int:
    work, steps = shape.made(size), 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return steps


def _timed(shape: Shape, size: int) -> float:
    best = float("inf")
    for _ in range(3):
        work = shape.made(size)
        gc.collect()
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return max(best, 1e-6)


# --- the wire


def _one_long_line(size: int) -> Work:
    framer = LineFramer()
    return lambda: [framer.feed(b"x") for _ in range(size)] + framer.feed(b"\n")


def _many_lines(size: int) -> Work:
    framer, data = LineFramer(), b"{}\n" * size
    return lambda: framer.feed(data)


def _message(text: Callable[[int], str]) -> Callable[[int], Work]:
    def made(size: int) -> Work:
        line = text(size).encode()
        return lambda: jsonrpc.read_message(line)

    return made


def _spans(text: Callable[[int], str]) -> Callable[[int], Work]:
    def made(size: int) -> Work:
        whole = text(size)
        return lambda: json_splice.find_members(whole, json_splice.find_value(whole)[0])

    return made


def _object(member: str, size: int) -> str:
    return "{" + ",".join(member % number for number in range(size)) + "}"


def _elements_replaced(size: int) -> Work:
    text = f"[{'0,' * size}0]"
    return lambda: json_splice.replace_spans(text, [(span, "1") for span in json_splice.find_elements(text)])


# --- conversations


def _talk(*, said: Callable[[int], list[tuple[Peer, bytes]]]) -> Callable[[int], Work]:
    """Each piece is one read."""

    def made(size: int) -> Work:
        core = Connection(Settings(records=True, serves=True, proxy_version="1.2.3"))
        reads = said(size)
        for peer, data in _INITIALIZED:
            core.handle(LinesRead(peer, data.splitlines(keepends=True)))
        return lambda: [core.handle(LinesRead(peer, data.splitlines(keepends=True))) for peer, data in reads]

    return made


def _line(**message: object) -> bytes:
    return jsonrpc.dump({"jsonrpc": "2.0", **message}) + b"\n"


_INITIALIZED = (
    (Peer.CLIENT, _line(id=0, method="initialize", params={"protocolVersion": 1})),
    (
        Peer.AGENT,
        _line(id=0, result={"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}),
    ),
)


def _update(session: str, update: object, **more: object) -> bytes:
    return _line(method="session/update", params={"sessionId": session, "update": update}, **more)


def _chunk(session: str, number: int, kind: str = "agent_message_chunk") -> bytes:
    return _update(session, {"sessionUpdate": kind, "content": {"type": "text", "text": f"{number} "}})


def _unanswered(size: int) -> list[tuple[Peer, bytes]]:
    """Unanswered requests, with updates of known and unknown sessions in between."""
    out = []
    for number in range(size):
        out.append((Peer.CLIENT, _line(id=number + 1, method="session/set_mode", params={"sessionId": "s"})))
        out.append((Peer.AGENT, _chunk(f"s{number % 3}", number)))
    return out


def _openings(size: int) -> list[tuple[Peer, bytes]]:
    """Requests that open sessions, then all answers, each after an update of the state."""
    out = [(Peer.CLIENT, _line(id=f"n{number}", method="session/new", params={"cwd": "/w"})) for number in range(size)]
    for number in range(size):
        out.append((Peer.AGENT, _update(f"s{number}", {"sessionUpdate": "available_commands_update"})))
        out.append((Peer.AGENT, _line(id=f"n{number}", result={"sessionId": f"s{number}"})))
    return out


def _sessions(size: int) -> list[tuple[Peer, bytes]]:
    """Sessions in turn: opened, prompted, updated, answered."""
    out = []
    for number in range(size):
        session = f"s{number}"
        out.append((Peer.CLIENT, _line(id=number + 1, method="session/new", params={"cwd": "/w"})))
        out.append((Peer.AGENT, _line(id=number + 1, result={"sessionId": session})))
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
        out.append((Peer.CLIENT, _line(id=f"p{number}", method="session/prompt", params=prompt)))
        out.append((Peer.AGENT, _chunk(session, 1) + _line(id=f"p{number}", result={"stopReason": "end_turn"})))
    return out


def _waiting(size: int) -> list[tuple[Peer, bytes]]:
    """What waits for a load: prompts, then a cancel of the turn after each, and of every prompt, the last one first."""
    out = [(Peer.CLIENT, _line(id=0, method="session/resume", params={"sessionId": "s", "cwd": "/w"}))]
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "hello"}]}
    for id in range(1, size + 1):
        out.append((Peer.CLIENT, _line(id=id, method="session/prompt", params=prompt)))
        out.append((Peer.CLIENT, _line(method="session/cancel", params={"sessionId": "s"})))
    out += [(Peer.CLIENT, _line(method="$/cancel_request", params={"requestId": id})) for id in range(size, 0, -1)]
    return out


def _one_id(size: int) -> list[tuple[Peer, bytes]]:
    asked = (Peer.CLIENT, _line(id=1, method="session/set_mode", params={"sessionId": "s"}))
    return [asked] * size + [(Peer.AGENT, _line(id=1, result={}))] * size


def _terminals(size: int) -> list[tuple[Peer, bytes]]:
    """Terminals that are created, shown by a call, and never released."""
    out = [*_sessions(1)]
    for number in range(size):
        asked = {"sessionId": "s0", "terminalId": f"t{number}"}
        out.append((Peer.AGENT, _line(id=f"t{number}", method="terminal/create", params={"sessionId": "s0"})))
        out.append((Peer.CLIENT, _line(id=f"t{number}", result={"terminalId": f"t{number}"})))
        shown = [{"type": "terminal", "terminalId": f"t{number}"}]
        call = {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "content": shown}
        out.append((Peer.AGENT, _update("s0", call)))
        out.append((Peer.AGENT, _line(id=f"o{number}", method="terminal/output", params=asked)))
        out.append((Peer.CLIENT, _line(id=f"o{number}", result={"output": "x", "truncated": False})))
    return out


def _loads_of_nothing(size: int) -> list[tuple[Peer, bytes]]:
    """Requests for lists, in reads as large as a pump's."""
    asked = [_line(id=number + 1, method="session/list", params={}) for number in range(size)]
    return [(Peer.CLIENT, b"".join(asked[at : at + 600])) for at in range(0, size, 600)]


def _batch(size: int) -> list[tuple[Peer, bytes]]:
    one = _chunk("s", 1).strip()
    return [(Peer.AGENT, b"[" + b",".join([one] * size) + b"]\n")]


# --- transcripts


def _entry(raw: bytes, peer: Peer = Peer.AGENT, of: str | None = None) -> Entry:
    found = file_format.decode_entry(file_format.encode_message(AT, RUN, peer, raw.removesuffix(b"\n"), of))
    assert found is not None
    return found


def _prompt(number: int) -> Entry:
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": "hello"}]}
    return _entry(_line(id=number, method="session/prompt", params=params), Peer.CLIENT)


def _answer(number: int) -> Entry:
    return _entry(_line(id=number, result={"stopReason": "end_turn"}), of=acp.PROMPT)


def _told(mode: Mode, entries: Callable[[int], list[Entry]], limit: int = 1024 * 1024) -> Callable[[int], Work]:
    def made(size: int) -> Work:
        found = entries(size)

        def work() -> None:
            replayer, record, replayed_lines = (
                Replayer("s", run_id=RUN, mode=mode, tool_limit=limit),
                HandoverRecord(),
                list[bytes](),
            )
            for number, entry in enumerate(found):
                replayed_lines += replayer.add(number, entry)
            for line in [*replayed_lines, *replayer.end(), *replayer.list_states()]:
                record.add(line)
            record.make_text()

        return work

    return made


def _chunks(size: int) -> list[Entry]:
    return [_prompt(0), *(_entry(_chunk("s", number)) for number in range(size)), _answer(0)]


def _echoes(size: int) -> list[Entry]:
    """The prompt, echoed in endless pieces."""
    return [_prompt(0), *(_entry(_chunk("s", number, "user_message_chunk")) for number in range(size))]


def _turns(size: int) -> list[Entry]:
    return [one for at in range(size) for one in (_prompt(at), _entry(_chunk("s", at)), _answer(at))]


def _calls(size: int) -> list[Entry]:
    return [_prompt(0), *(_call(f"t{number}", "tool_call", number) for number in range(size))]


def _one_call(size: int) -> list[Entry]:
    """One call whose content grows with each update, as from agents that send all of it again; bounded here."""
    return [_prompt(0), *(_call("t", "tool_call_update", number) for number in range(size))]


def _restated(size: int) -> list[Entry]:
    """One call begun repeatedly, each time with another field."""
    return [_prompt(0), *(_call("t", "tool_call", number, **{f"x{number}": 1}) for number in range(size))]


def _new_fields(size: int) -> list[Entry]:
    return [_prompt(0), *(_call("t", "tool_call_update", number, **{f"x{number}": 1}) for number in range(size))]


def _call(id: str, kind: str, number: int, **more: object) -> Entry:
    item = {"type": "content", "content": {"type": "text", "text": f"{number} "}}
    return _entry(_update("s", {"sessionUpdate": kind, "toolCallId": id, "content": [item], **more}))


def _shown_terminals(size: int) -> list[Entry]:
    """Calls that show terminals, and the output of each."""
    out = [_prompt(0)]
    for number in range(size):
        shown = [{"type": "terminal", "terminalId": f"t{number}"}]
        call = {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "content": shown}
        out.append(_entry(_update("s", call)))
        note = {"type": NoteType.TERMINAL, "terminalId": f"t{number}", "output": "x"}
        found = file_format.decode_entry(file_format.encode_note(AT, RUN, note))
        assert found is not None
        out.append(found)
    return out


def _one_terminal(size: int) -> list[Entry]:
    """One terminal shown by all calls, with a note at the end of each turn."""
    out = []
    for number in range(size):
        out.append(_prompt(number))
        shown = [{"type": "terminal", "terminalId": "t"}]
        out.append(_entry(_update("s", {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "content": shown})))
        note = {"type": NoteType.TERMINAL, "terminalId": "t", "output": f"{number}"}
        found = file_format.decode_entry(file_format.encode_note(AT, RUN, note))
        assert found is not None
        out += [found, _answer(number)]
    return out


def _compared(entries: Callable[[int], list[Entry]]) -> Callable[[int], Work]:
    """A transcript, and an agent that replays its own part of it after its answer."""

    def made(size: int) -> Work:
        found = entries(size)
        told = [(entry.raw or b"", acp.member(acp.member(entry.value, "params"), "update")) for entry in found]

        def work() -> None:
            builder = TextBuilder()
            for entry in found:
                builder.add(entry)
            comparison = Comparison(builder.finish())
            late = LateUpdates(comparison, hides_replay=True)
            for line, update in told:
                if update_kinds.is_conversation(acp.update_kind(update)):
                    late.add(line, update)
            comparison.end_message()
            choose_past(comparison)
            comparison.find_unrecorded()

        return work

    return made


def _summed(entries: Callable[[int], list[Entry]]) -> Callable[[int], Work]:
    def made(size: int) -> Work:
        found, summary = entries(size), Summary.begin(Header("s", "/w", file_format.RECORDED, AT))

        def work() -> None:
            for entry in found:
                summary.add(entry)

        return work

    return made


def _meta(size: int) -> list[Entry]:
    """Each update of the session's information has another key."""
    return [
        _entry(_update("s", {"sessionUpdate": update_kinds.SESSION_INFO, "_meta": {f"k{at}": at}}))
        for at in range(size)
    ]


def _commands(size: int) -> list[Entry]:
    blocks = [{"type": "text", "text": "/command\n" * size}]
    params = {"sessionId": "s", "prompt": blocks}
    return [_entry(_line(id=1, method="session/prompt", params=params), Peer.CLIENT)]


def _glued(size: int) -> Work:
    """Torn beginnings of entries on one line."""
    line = b'{"at":"2026' * size
    return lambda: file_format.decode_entry(line)


SHAPES = (
    Shape("a line that arrives byte by byte", _one_long_line),
    Shape("many short lines in one read", _many_lines),
    Shape("an object with many members", _message(lambda size: _object('"%d":1', size))),
    Shape("a repeated key", _message(lambda size: "{" + '"id":1.0,' * size + '"method":"m"}')),
    Shape("a long batch", _message(lambda size: "[" + '{"id":1.0,"method":"m"},' * size + "1]")),
    Shape("an id that is a long list", _message(lambda size: '{"id":[' + "1.0," * size + '1],"method":"m"}')),
    Shape("deeply nested", _message(lambda size: "[" * size)),
    Shape("deeply nested, and closed", _message(lambda size: '{"id":' + "[" * size + "]" * size + ',"method":"m"}')),
    Shape("many digits", _message(lambda size: '{"id":' + "1" * size + ',"method":"m"}')),
    Shape("many escapes", _message(lambda size: r'{"id":"\ud800","method":"' + r"\n" * size + '"}')),
    Shape("members, found", _spans(lambda size: _object('"%d" : [1]', size))),
    Shape("white space, skipped", _spans(lambda size: "{" + " " * size + '"a"' + " " * size + ":1}")),
    Shape("many elements, each replaced", _elements_replaced),
    Shape("unanswered requests", _talk(said=_unanswered)),
    Shape("sessions opened all at once", _talk(said=_openings)),
    Shape("sessions in turn", _talk(said=_sessions)),
    Shape("one id, requested and answered", _talk(said=_one_id)),
    Shape("unreleased terminals", _talk(said=_terminals)),
    Shape("lists requested in one read", _talk(said=_loads_of_nothing)),
    Shape("requests that wait for a load", _talk(said=_waiting)),
    Shape("updates in one batch", _talk(said=_batch)),
    Shape("chunks of one message, compact", _told("compact", _chunks)),
    Shape("chunks of one message, full", _told("full", _chunks)),
    Shape("pieces of an echo", _told("compact", _echoes)),
    Shape("turns", _told("compact", _turns)),
    Shape("tool calls, compact", _told("compact", _calls)),
    Shape("tool calls, full", _told("full", _calls)),
    Shape("updates of one call", _told("compact", _one_call)),
    Shape("a restarted call", _told("compact", _restated)),
    Shape("a restarted call, cut", _told("compact", _restated, limit=1000)),
    Shape("new fields of a call", _told("compact", _new_fields)),
    Shape("new fields of a call, uncut", _told("compact", _new_fields, limit=0)),
    Shape("terminals shown, compact", _told("compact", _shown_terminals)),
    Shape("terminals shown, full", _told("full", _shown_terminals)),
    Shape("one terminal in all turns, compact", _told("compact", _one_terminal)),
    Shape("one terminal in all turns, full", _told("full", _one_terminal)),
    Shape("chunks of one message, compared", _compared(_chunks)),
    Shape("pieces of an echo, compared", _compared(_echoes)),
    Shape("turns, compared", _compared(_turns)),
    Shape("tool calls, compared", _compared(_calls)),
    Shape("a restarted call, compared", _compared(_restated)),
    Shape("turns, summed up", _summed(_turns)),
    Shape("keys of _meta, summed up", _summed(_meta)),
    Shape("lines of a prompt, for a title", _summed(_commands)),
    Shape("torn entries on one line", _glued),
)
