"""What the scripted agent does, as data: the script's format, reading it, and filling in its words.

`fixtures/agents/README.md` has every script of the tests. The whole format, all of it optional:

    {"initialize": {"result": {...}, "steps": [...]},
     "sessionIds": "random",
     "methods": {"session/resume": {"before": [...], "result": {}, "error": {...}, "after": [...]}},
     "turns": [[...], [...]]}

- `initialize.result` is merged, object by object, over the usual result; `steps` run before the answer.
- `sessionIds`: `random`, or `counting` (`session-1`, `session-2`, beginning anew in each process, as some agents do).
- `methods`: `before` runs before the answer and `after` after it; `result` or `error` is given in place of the usual
  answer. A method named here is served though it is not advertised; `{}` serves it as usual.
- `turns`: the n-th prompt of a session, counted over all processes, plays turn n, and round again.

A step is an object with one of these keys:

    {"update": {...}, "session": ID}           session/update, of this session if no other is named
    {"flood": {"count": N, "text": T, "batch": B}}    N agent_message_chunk updates, each write one of them, or 64 KiB
                                               of them if B; {i} in T is the update's number, from 0
    {"request": METHOD, "params": {...}, "keep": NAME, "wait": false}   asks the client, with this sessionId put in, and
                                               waits for the answer, unless told not to
    {"say_answer": true}                       an agent_message_chunk with the last answer, as JSON
    {"notify": METHOD, "params": {...}}        any notification
    {"echo_prompt": true}                      a user_message_chunk for each text block of the prompt
    {"remember": true, "messageId": ID}        an agent_message_chunk that says what the agent remembers
    {"sleep": SECONDS}   {"wait_cancel": true}   {"hang": true}      waits; only a hang is not ended by a cancel
    {"stop": REASON}   {"result": ANY}   {"error": {...}}    answers the request now; later steps follow the answer
    {"line": TEXT}   {"raw": TEXT}             written to stdout as it is, with and without a newline
    {"stderr": TEXT}                           a line on stderr
    {"exit": STATUS}   {"signal": NAME}        the end of the agent
    {"close_stdout": true}
    {"spawn": {"seconds": N, "holds_stdout": B, "ignore_eof": B, "pidfile": PATH}}   a child of the agent: it ends when
                                               the agent does, unless it ignores EOF, and after N seconds at the latest

Where no step answers, the request gets its usual answer; once cancelled, that is the stop reason `cancelled` for a
prompt and the error -32800 for anything else. Strings may hold {prompt}, {session}, {cwd}, {n} (the prompt's number),
{request} (the id of the last request made) and {NAME.FIELD} of an answer kept as NAME.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # as in typing, which takes a fifth of a start
if TYPE_CHECKING:
    from typing import Any

    Step = dict[str, Any]


WAITING = frozenset({"flood", "request", "sleep", "wait_cancel", "hang"})
STEPS = WAITING | {
    "update", "say_answer", "notify", "echo_prompt", "remember", "stop", "result", "error",
    "line", "raw", "stderr", "exit", "signal", "close_stdout", "spawn",
}  # fmt: skip


class ScriptError(Exception):
    """The script cannot be played; the text says where it is wrong."""


class MethodScript:
    def __init__(self, before: list[Step], after: list[Step] | None, answer: dict[str, Any]) -> None:
        """``answer``: "result" or "error", if the script gives one."""
        self.before = before
        self.after = after
        self.answer = answer

    def waits(self) -> bool:
        return any(WAITING & step.keys() for step in [*self.before, *(self.after or [])])


SILENT = MethodScript([], None, {})


class Script:
    def __init__(
        self,
        initialize: dict[str, Any] | None = None,
        counting_ids: bool = False,
        methods: dict[str, MethodScript] | None = None,
        turns: list[list[Step]] | None = None,
    ) -> None:
        self.initialize = initialize or {}
        self.counting_ids = counting_ids
        self.methods = methods or {}
        self.turns = turns or []


def read_script(path: str) -> Script:
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError) as problem:
        raise ScriptError(f"{path}: {problem}") from problem
    return parse_script(value)


def parse_script(value: Any) -> Script:
    if not isinstance(value, dict):
        raise ScriptError("a script is a JSON object")
    _only(value, {"initialize", "sessionIds", "methods", "turns"}, "script")
    initialize = value.get("initialize", {})
    _only(initialize, {"result", "steps"}, "initialize")
    methods = {name: _method(name, given) for name, given in value.get("methods", {}).items()}
    if "steps" in initialize:
        methods.setdefault("initialize", MethodScript([], None, {})).before += _steps(initialize["steps"], "initialize")
    turns = [_steps(turn, f"turn {number}") for number, turn in enumerate(value.get("turns", []), 1)]
    return Script(initialize.get("result", {}), value.get("sessionIds") == "counting", methods, turns)


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`: objects are merged, anything else replaces."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def _method(name: str, given: dict[str, Any]) -> MethodScript:
    _only(given, {"before", "result", "error", "after"}, name)
    answer = {key: value for key, value in given.items() if key in ("result", "error")}
    after = _steps(given["after"], name) if "after" in given else None
    return MethodScript(_steps(given.get("before", []), name), after, answer)


def _steps(value: Any, where: str) -> list[Step]:
    if not isinstance(value, list):
        raise ScriptError(f"{where}: steps are a list")
    for step in value:
        if not isinstance(step, dict) or len(STEPS & step.keys()) != 1:
            raise ScriptError(f"{where}: no step, or more than one: {json.dumps(step)}")
    return value


def _only(value: Any, known: set[str], where: str) -> None:
    if not isinstance(value, dict):
        raise ScriptError(f"{where}: not an object")
    if unknown := value.keys() - known:
        raise ScriptError(f"{where}: unknown: {', '.join(sorted(unknown))}")
