"""A hostile agent and a hostile editor.

The case plays both sides of a proxy. An honest session has turns before, during and after the attack, and is listed and
loaded at the end. Checked: whether all of it arrived, was recorded, and is replayed; the proxy's peak memory; its CPU
(four times the attack may cost ten times as much: quadratic growth costs twenty times); and whether anything outside
the store was touched.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from torture.both_sides import BothSides, line
from torture.outcome import Outcome, Scale

MB = 1024 * 1024
PLAIN_MB = 200  # MB: the limit unless an attack sets its own; idle, the proxy has about 40
SHARED_MB = 300  # MB: the limit for a proxy that went through all attacks
GROWTH = 10  # times the CPU for four times as much; linear is four
REWRITES = 40  # times: each permanent delete rewrites the index, which has ids of a megabyte then
NOT_WORTH_MEASURING = 1.0  # seconds of CPU
DEEP = 100_000
FILES = 100  # created at once: thousands may keep a busy disk so long that the store counts as hanging

Body = dict[str, Any]
Attack = Callable[[BothSides, range], None]


@dataclass(frozen=True)
class Planned:
    """``attack`` gets a range of numbers at a time. ``megabytes``, and ``growth`` (of its CPU, in times,
    if four times as much follows): the limits for the proxy."""

    fault: str
    attack: Attack
    full: int
    short: int
    megabytes: int = PLAIN_MB
    growth: float = GROWTH


def run(scale: Scale) -> Iterator[Outcome]:
    """The short form uses one proxy for all attacks, since starts would take most of the time."""
    for number, group in enumerate([ATTACKS] if scale.short else [[planned] for planned in ATTACKS]):
        yield from under_attack(group, scale, scale.place / str(number))


def under_attack(group: list[Planned], scale: Scale, place: Path) -> list[Outcome]:
    project, pipes = place / "outside", place.with_name(f"{place.name}-pipes")
    for directory in (pipes, project / "etc"):
        directory.mkdir(parents=True)
    before = touched(place)
    sides = BothSides(place / "store", project, pipes)
    try:
        sides.begin()
        outcomes = [attacked(sides, planned, scale, place) for planned in group]
    finally:
        left, warnings = sides.end()
    trouble = [text for text in warnings if "internal error" in text or any(outcome.trouble for outcome in outcomes)]
    if touched(place) != before:
        trouble.append("something outside the store was touched")
    last = outcomes.pop()
    return [*outcomes, replace(last, lost=last.lost + len(trouble), left=left, trouble=(*last.trouble, *trouble))]


def attacked(sides: BothSides, planned: Planned, scale: Scale, place: Path) -> Outcome:
    count = scale.of(planned.full, planned.short)
    small, looked_at = count // 5, sides.checked
    trouble: list[str] = []
    first = rest = 0.0
    try:
        sides.turn()
        first = sides.measure_cpu(lambda: planned.attack(sides, range(small)))
        sides.turn()
        rest = sides.measure_cpu(lambda: planned.attack(sides, range(small, count)))
        sides.turn()
        if (
            not scale.short
            and rest > NOT_WORTH_MEASURING
            and rest > planned.growth * max(first, NOT_WORTH_MEASURING / GROWTH)
        ):
            trouble.append(f"{small:,} cost {first:.1f} s of CPU, {count - small:,} more cost {rest:.1f} s")
        trouble += sides.check_at_end()
    except (TimeoutError, AssertionError) as problem:
        trouble.append(f"{type(problem).__name__}: {problem}")
    peak, most = sides.read_peak_bytes() // MB, max(planned.megabytes, SHARED_MB) if scale.short else planned.megabytes
    if peak > most:
        trouble.append(f"it took {peak} MB, and {most} were expected at most")
    return Outcome(
        fault=planned.fault,
        tried=count,
        checked=sides.checked - looked_at,
        what="honest lines",
        lost=len(trouble),
        also=f"{peak} MB, {first + rest:.1f} s CPU",
        trouble=tuple(f"{planned.fault}: {text}" for text in trouble),
    )


def touched(place: Path) -> dict[str, tuple[int, int]]:
    """Every file around the store, with the properties that a write would change."""
    found = {}
    for path in [*place.parent.iterdir(), *place.rglob("*")]:
        if path != place / "store" and place / "store" not in path.parents:
            seen = path.lstat()
            found[str(path)] = (seen.st_size if path.is_file() else 0, seen.st_mode)
    return found


# --- input


def update(session: Any, body: Any) -> bytes:
    return line({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": body}})


def chunk(session: Any, text: Any, kind: str = "agent_message_chunk") -> bytes:
    return update(session, {"sessionUpdate": kind, "content": {"type": "text", "text": text}})


def request(id: Any, method: str, params: Any = None) -> bytes:
    return line({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def notification(method: str, params: Any = None) -> bytes:
    return line({"jsonrpc": "2.0", "method": method, "params": params})


def result(id: Any, value: Any) -> bytes:
    return line({"jsonrpc": "2.0", "id": id, "result": value})


def evil_texts() -> list[Any]:
    """Hostile ids, titles and directories of every kind."""
    return [
        "../../outside/escaped", "/etc/passwd", "..", ".", "/", "", " ", "a/b/c", "a\\b", "C:\\x", "~", "$HOME", "`id`",
        "-rf", "%00", "con", "CON", "NUL.jsonl", "aux", "COM1", "state", "state.jsonl", "index.sqlite3", "~1", "trail.",
        "trail ", "trail", "Case", "case", "CASE", "e\u0301", "\u00e9", "\u212b", "\u00c5", "a\x00b", "\x00",
        "\x1b[2J\x1b]52;c;ZXZpbA==\x07", "\x9b31m", "\x7f", "\u202egnp.exe", "\u2066x\u2069", "z\u200bw", "\ufeffbom",
        "\u2028", "\n", "\r\n", "\t", "\ud800", "\udfff\ud800", "\ud83d\ude00", "\U000e0041", "x" * 255, "x" * 4096,
        "y" * MB, "/" + "d/" * 40_000, "../" * 5000, 0, 1, 1.5, True, None, [], {}, ["x"], {"x": 1},
    ]  # fmt: skip


# --- from the agent


def unknown_sessions(sides: BothSides, numbers: range) -> None:
    for some in portions(numbers, FILES):
        sides.agent.write(b"".join(chunk(f"sub-agent-{number}", "a") for number in some))
        sides.wait_until_passed(sides.agent)


def opened_sessions(sides: BothSides, numbers: range) -> None:
    for some in portions(numbers, FILES):
        sides.editor.write(b"".join(request(f"n{n}", "session/new", {"cwd": f"/w/{n}"}) for n in some))
        sides.wait_until_passed(sides.editor)
        sides.agent.write(b"".join(result(f"n{n}", {"sessionId": f"opened-{n}"}) for n in some))
        sides.wait_until_passed(sides.agent)


def kinds_of_messages(sides: BothSides, numbers: range) -> None:
    for some in portions(numbers):
        said = b"".join(
            update(sides.session, {"sessionUpdate": f"kind_{n}", "x": n}) + notification(f"_method/{n}", {"n": n})
            for n in some
        )
        sides.agent.write(said)
        sides.editor.write(b"".join(notification(f"_method/{n}", {"n": n}) for n in some))


def one_call_over_and_over(sides: BothSides, numbers: range) -> None:
    for some in portions(numbers):
        body: Body = {"sessionUpdate": "tool_call_update", "toolCallId": "one", "status": "in_progress", "title": "t"}
        sides.agent.write(b"".join(update(sides.session, body | {"rawOutput": n}) for n in some))


def many_calls_in_a_turn(sides: BothSides, numbers: range) -> None:
    for some in portions(numbers):
        body: Body = {"sessionUpdate": "tool_call", "title": "t", "status": "completed"}
        sides.agent.write(b"".join(update(sides.session, body | {"toolCallId": f"call-{n}"}) for n in some))


def plans_and_chunks(sides: BothSides, numbers: range) -> None:
    entries = [{"content": "x", "priority": "low", "status": "pending"}] * len(numbers)
    sides.agent.write(update(sides.session, {"sessionUpdate": "plan", "entries": entries}))
    bodies: tuple[Any, ...] = (
        {"sessionUpdate": "agent_message_chunk"}, {"sessionUpdate": "user_message_chunk", "content": None}, {}, None,
        [], 1, {"sessionUpdate": 1}, {"sessionUpdate": "plan", "entries": {}}, {"sessionUpdate": "tool_call"},
        {"sessionUpdate": "tool_call", "toolCallId": 1}, {"sessionUpdate": "tool_call", "toolCallId": {"x": []}},
        {"sessionUpdate": "agent_message_chunk", "content": []}, {"sessionUpdate": "session_info_update", "title": 1},
    )  # fmt: skip
    sides.agent.write(b"".join(update(sides.session, body) for body in bodies))


def titles_and_meta(sides: BothSides, numbers: range) -> None:
    sides.agent.write(update("titled", {"sessionUpdate": "session_info_update", "title": "\u202e\x1b[31m" * (MB // 2)}))
    for some in portions(numbers):
        body: Body = {"sessionUpdate": "session_info_update", "title": "\x1b]0;x\x07"}
        sides.agent.write(b"".join(update("titled", body | {"_meta": {f"key-{n}": n}}) for n in some))


def terminals(sides: BothSides, numbers: range) -> None:
    for some in portions(numbers, 200):
        for n in some:
            sides.agent.write(request(f"c{n}", "terminal/create", {"sessionId": sides.session, "command": "x"}))
        sides.wait_until_passed(sides.agent)
        for n in some:
            sides.editor.write(result(f"c{n}", {"terminalId": f"t{n}"}))
        sides.wait_until_passed(sides.editor)
        for n in some:
            content = [{"type": "terminal", "terminalId": f"t{n}"}]
            body: Body = {"sessionUpdate": "tool_call", "toolCallId": f"t{n}", "title": "x", "content": content}
            asked = {"sessionId": sides.session, "terminalId": f"t{n}"}
            sides.agent.write(update(sides.session, body) + request(f"o{n}", "terminal/output", asked))
        sides.wait_until_passed(sides.agent)
        for n in some:
            sides.editor.write(result(f"o{n}", {"output": "x" * 1000, "truncated": False}))


# --- from the editor


def cursors(sides: BothSides, numbers: range) -> None:
    chance = Random(numbers.start)
    good = "WzEsICJ4IiwgIjIwMjYtMTEtMjBUMDA6MDA6MDAuMDAwWiIsICI2MSJd"
    special = ["", "=", "!", "\ud800", "x" * MB, "WzEs" * 1000, "W1tb" * DEEP, good + good, "\x00", "../..", 1, [], {}]
    for number in numbers:
        flipped = bytearray(good.encode())
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(7)
        cursor = special[number] if number < len(special) else flipped.decode("latin-1")
        answer = sides.ask("session/list", {"cursor": cursor})
        assert answer["error"]["code"] == -32602, f"the cursor {cursor!r:.60} is taken"


def loads_and_cancels(sides: BothSides, numbers: range) -> None:
    """The agent answers every second resume, late, and never the others of the first hundred."""
    for some in portions(numbers, 50):
        for n in some:
            sides.editor.write(request(f"l{n}", "session/load", {"sessionId": f"s{n % 700}", "cwd": "/"}))
            sides.editor.write(notification("$/cancel_request", {"requestId": f"l{n}"}))
        sides.wait_until_passed(sides.editor)
        sides.agent.write(b"".join(result(f"l{n}", {}) for n in some if n % 2 or n > 100))


def deletes(sides: BothSides, numbers: range) -> None:
    for some in portions(numbers):
        sides.editor.write(b"".join(request(f"d{n}", "session/delete", {"sessionId": f"gone-{n}"}) for n in some))


# --- from either


def questions_without_answers(sides: BothSides, numbers: range) -> None:
    methods = ("_any", "session/prompt", "session/new", "session/set_mode", "terminal/output", "initialize")
    for some in portions(numbers):
        asks = [(n, methods[n % len(methods)], {"sessionId": f"asked-{n % 10}", "prompt": []}) for n in some]
        sides.editor.write(b"".join(request(f"q{n}", method, params) for n, method, params in asks))
        questions = ("session/request_permission", "terminal/create", "fs/read_text_file", "_any")
        sides.agent.write(b"".join(request(n, questions[n % 4], {"sessionId": sides.session}) for n in some))


def answers_without_questions(sides: BothSides, numbers: range) -> None:
    ids: tuple[Any, ...] = ("acp-proxy/1", "acp-proxy/2", 1, "1", 1.0, True, None, [], {"x": 1}, 10**30)
    for some in portions(numbers):
        for side in (sides.editor, sides.agent):
            both = {"result": {"sessionId": "forged"}, "error": {"code": 1, "message": "x"}}
            side.write(b"".join(line({"id": ids[n % len(ids)], **both}) for n in some))
            side.write(b"".join(result(f"acp-proxy/{n}", {"sessionId": "forged"}) for n in some))


def one_id_over_and_over(sides: BothSides, numbers: range) -> None:
    for some in portions(numbers):
        ids: tuple[Any, ...] = (7, "7", 7.0, "acp-proxy/1")
        for side in (sides.editor, sides.agent):
            side.write(b"".join(request(ids[n % 4], "_same", {}) for n in some))
        sides.agent.write(b"".join(result(ids[n % 4], {}) for n in some if n % 3))


def deep(sides: BothSides, numbers: range) -> None:
    session = json.dumps(sides.session).encode()
    for number in numbers:
        opening, closing = (b"[", b"]") if number % 2 else (b'{"x":', b"}")
        nested = opening * DEEP + b"1" + closing * DEEP
        for text in (
            b"%s", b'{"id":%s,"method":"session/prompt"}', b'{"id":1,"method":"session/prompt","params":%s}',
            b'{"id":"deep","method":"session/prompt","params":{"sessionId":"deep","prompt":[{"x":%s}]}}',
            b'{"id":"deep","method":"session/load","params":{"sessionId":"deep","cwd":"/","_meta":%s}}',
            b'{"id":"deep","method":"session/list","params":{"cursor":%s}}', b'{"id":"x","result":%s}', b"[%s,1]",
            b'{"method":"$/cancel_request","params":{"requestId":%s}}', b'{"id":"x","error":%s}',
            b'{"id":"i","method":"initialize","params":{"clientCapabilities":%s}}',
        ):  # fmt: skip
            sides.editor.write(text % nested + b"\n")
        for text in (
            b"%s", b'{"id":"acp-proxy/1","result":%s}', b'{"id":"deep","result":{"x":%s}}', b'{"id":%s,"result":1}',
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":' + session + b',"update":{"x":%s}}}',
            b'{"method":"session/update","params":{"sessionId":' + session + b',"update":%s}}', b"[1,%s]",
            b'{"id":1,"method":"session/request_permission","params":{"sessionId":' + session + b',"toolCall":%s}}',
        ):  # fmt: skip
            sides.agent.write(text % nested + b"\n")


def a_line_without_end(sides: BothSides, numbers: range) -> None:
    """As many MB as there are numbers, with a newline at the end; the line after it must arrive."""
    for side, method in ((sides.agent, "session/update"), (sides.editor, "_large")):
        side.write(b'{"jsonrpc":"2.0","method":"%s","params":{"x":"' % method.encode())
        for _ in numbers:
            side.write(b"x" * MB)
        side.write(b'"}}\n')


def wrong_types(sides: BothSides, numbers: range) -> None:
    methods = ("initialize", "authenticate", "session/new", "session/load", "session/resume", "session/fork",
               "session/list", "session/delete", "session/close", "session/prompt", "session/cancel",
               "session/set_mode", "session/set_config_option", "session/update", "session/request_permission",
               "terminal/create", "terminal/release", "$/cancel_request")  # fmt: skip
    chance, texts = Random(numbers.start), evil_texts()
    for _ in numbers:
        method, value = chance.choice(methods), chance.choice(texts)
        keys = ("sessionId", "cwd", "prompt", "update", "mcpServers", "requestId", "additionalDirectories")
        params = chance.choice([value, {key: chance.choice(texts) for key in keys}])
        said = chance.choice([request(value, method, params), notification(method, params)])
        chance.choice([sides.editor, sides.agent]).write(said)
        if method != "initialize" and chance.random() < 0.2:
            batch = b"[" + b",".join([said[:-1]] * 3) + b"]\n"
            sides.agent.write(batch)
            sides.editor.write(batch)


def evil_sessions(sides: BothSides, numbers: range) -> None:
    """Open, prompt, title, list, load and delete sessions with hostile names."""
    for number in numbers:
        id = evil_texts()[number % len(evil_texts())]
        cwd = evil_texts()[(number * 7) % len(evil_texts())]
        sides.editor.write(request(f"o{number}", "session/new", {"cwd": cwd, "additionalDirectories": [cwd, id]}))
        sides.wait_until_passed(sides.editor)
        sides.agent.write(result(f"o{number}", {"sessionId": id}))
        sides.wait_until_passed(sides.agent)
        prompt = [{"type": "text", "text": id}, {"type": "resource_link", "uri": id, "name": cwd}, id]
        sides.editor.write(request(f"p{number}", "session/prompt", {"sessionId": id, "prompt": prompt}))
        sides.wait_until_passed(sides.editor)
        sides.agent.write(chunk(id, id) + update(id, {"sessionUpdate": "session_info_update", "title": id}))
        sides.agent.write(result(f"p{number}", {"stopReason": id}))
        sides.ask("session/list", {"cwd": cwd})
        sides.editor.write(request(f"l{number}", "session/load", {"sessionId": id, "cwd": cwd}))
        sides.wait_until_passed(sides.editor)
        sides.agent.write(result(f"l{number}", {"sessionId": id}))
        if number % 3 == 0:
            sides.ask("session/delete", {"sessionId": id})


def large_batches(sides: BothSides, numbers: range) -> None:
    batch = b"[" + b",".join(chunk(f"batched-{n % 5}", "x")[:-1] for n in numbers) + b"]\n"
    sides.agent.write(batch)
    sides.editor.write(batch)


def portions(numbers: range, size: int = 1000) -> Iterator[range]:
    for at in range(0, len(numbers), size):
        yield numbers[at : at + size]


ATTACKS = [
    Planned("evil ids, directories, titles and words", evil_sessions, 600, 65, megabytes=300, growth=REWRITES),
    Planned("updates for sessions that nobody opened", unknown_sessions, 1_000_000, 1_000),
    Planned("sessions opened", opened_sessions, 100_000, 100),
    Planned("requests never answered", questions_without_answers, 100_000, 1_000),
    Planned("answers to requests never sent", answers_without_questions, 100_000, 1_000),
    Planned("requests with an id in use", one_id_over_and_over, 100_000, 1_000),
    Planned("parameters of the wrong type", wrong_types, 3_000, 100),
    Planned("19 lines nested 100,000 levels deep", deep, 20, 1),
    Planned("MB of a line that does not end", a_line_without_end, 256, 4, megabytes=2400),
    Planned("messages in one batch", large_batches, 200_000, 1_000, megabytes=1000),
    Planned("loads, cancelled at once", loads_and_cancels, 20_000, 100),
    Planned("deletes of unknown sessions", deletes, 20_000, 100),
    Planned("forged cursors", cursors, 5_000, 60),
    Planned("unknown kinds of message", kinds_of_messages, 300_000, 500),
    Planned("titles and metadata", titles_and_meta, 100_000, 1_000),
    Planned("plan entries and empty chunks", plans_and_chunks, 1_000_000, 1_000, megabytes=2400),
    Planned("terminals in one turn", terminals, 20_000, 200),
    Planned("updates of one tool call", one_call_over_and_over, 1_000_000, 1_000),
    Planned("tool calls in one turn", many_calls_in_a_turn, 1_000_000, 1_000, megabytes=4000),
]
