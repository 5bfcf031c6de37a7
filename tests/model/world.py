"""What was really said in a session, what its transcript may contain, and what a load may show.

Values only. Everything that is said has a number of its own, so that nothing here has to guess what is a copy of what.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

USER, SAY, THOUGHT, CALL, COMPACTION = "user", "say", "thought", "call", "compaction"
ASIDE = "aside"
"""The kind of an item outside any turn: a warning, or a user message that nobody typed."""

KINDS = {USER: "user_message_chunk", SAY: "agent_message_chunk", THOUGHT: "agent_thought_chunk"}
"""The kinds of updates for words."""
STATES = ("available_commands_update", "current_mode_update", "config_option_update", "session_info_update")
"""Kinds of state updates, which are not part of the conversation."""
NOTICE_ID = "acp-proxy-handover"
"""The messageId of the proxy's own notice of a handover."""
WARNING = "[the model is not known]"
"""What some agents say in every process, outside any turn."""
COMMANDS = ("/undo", "/clear", "/compact")
"""Prompts that take words back."""

Update = dict[str, Any]
Token = tuple[str, str]
"""A kind, and the text without white space (for a call, its id)."""


@dataclass(frozen=True)
class Item:
    """One thing that was said. ``number`` is unique and the same in replays. The ``text`` of a call is its title."""

    kind: str
    text: str
    number: int

    @property
    def is_answer(self) -> bool:
        """Whether it is words or a call of the agent: replays are compared by these."""
        return self.kind in (SAY, CALL)

    @property
    def call_id(self) -> str:
        return f"call-{self.number}"


@dataclass(frozen=True)
class Line:
    """One line that the transcript of a session may contain.

    ``value``: an update, or ``{"prompt": text}``. ``item``: its content; None if it has none of its own (an echo, the
    end of a call). ``must``: the promise requires it; otherwise it may be missing, but is never there twice.
    """

    value: Update
    item: Item | None
    must: bool = True


# --- lines


def words(kind: str, text: str, message_id: str | None = None) -> Update:
    more = {} if message_id is None else {"messageId": message_id}
    return {"sessionUpdate": KINDS[kind], "content": {"type": "text", "text": text}, **more}


def call_begins(item: Item, status: str = "pending") -> Update:
    return {"sessionUpdate": "tool_call", "toolCallId": item.call_id, "title": item.text, "status": status}


def call_ends(item: Item) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": item.call_id, "status": "completed"}


def compaction(item: Item) -> Update:
    summary = [{"type": "text", "text": item.text}]
    return {
        "sessionUpdate": "compaction_update",
        "compactionId": f"compaction-{item.number}",
        "status": "completed",
        "summary": summary,
    }


def is_conversation(update: Update) -> bool:
    return update.get("sessionUpdate") not in STATES


# --- views


def tokens(updates: Iterable[Update]) -> list[Token]:
    """What a reader sees of updates, piece by piece; a call is seen once, where it begins."""
    seen: list[Token] = []
    calls: set[str] = set()
    for update in updates:
        kind = str(update.get("sessionUpdate"))
        name = next((name for name, each in KINDS.items() if each == kind), None)
        if name is not None and update.get("messageId") != NOTICE_ID:
            seen.append((name, _letters(update["content"].get("text", ""))))
        elif kind == "tool_call" or (kind == "tool_call_update" and update["toolCallId"] not in calls):
            calls.add(update["toolCallId"])
            seen.append((CALL, update["toolCallId"]))
    return seen


def normal(seen: Sequence[Token]) -> list[Token]:
    """The same view with the pieces of words joined."""
    out: list[Token] = []
    for kind, text in seen:
        if kind != CALL and out and out[-1][0] == kind:
            out[-1] = kind, out[-1][1] + text
        elif text:
            out.append((kind, text))
    return out


def without_warnings(seen: Sequence[Token]) -> list[Token]:
    """A view without its warnings, in normal form."""
    warning = _letters(WARNING)
    return normal([(kind, text.replace(warning, "") if kind == SAY else text) for kind, text in seen])


def warnings(seen: Sequence[Token]) -> int:
    return sum(text.count(_letters(WARNING)) for kind, text in seen if kind == SAY)


def told_by_us(lines: Iterable[Line]) -> list[Token]:
    """What a replay of these lines of a transcript shows."""
    updates = [
        words(USER, line.value["prompt"]) if "prompt" in line.value else line.value
        for line in lines
        if line.item is not None
    ]
    return tokens(updates)


def seen_of(items: Iterable[Item]) -> list[Token]:
    """What a reader sees of items."""
    return tokens(in_one_line(item) for item in items)


def in_one_line(item: Item) -> Update:
    """An item in one line."""
    if item.kind == CALL:
        return call_begins(item, "completed")
    return compaction(item) if item.kind == COMPACTION else words(item.kind, item.text)


def _letters(text: str) -> str:
    return "".join(text.split())


# --- transcripts


def matched(expected: Sequence[Line], actual: Sequence[Update]) -> list[int] | None:
    """The indexes of the expected lines that are there; None if one is missing or something else is there."""
    fits = [[False] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    fits[-1][-1] = True
    for i in range(len(expected) - 1, -1, -1):
        for j in range(len(actual), -1, -1):
            is_taken = j < len(actual) and expected[i].value == actual[j] and fits[i + 1][j + 1]
            fits[i][j] = is_taken or (not expected[i].must and fits[i + 1][j])
    if not fits[0][0]:
        return None
    found: list[int] = []
    for i, line in enumerate(expected):
        j = len(found)
        if j < len(actual) and line.value == actual[j] and fits[i + 1][j + 1]:
            found.append(i)
    return found


# --- whose replay


@dataclass
class Replayer:
    """One replay by an agent: its items, and its lines, once.

    ``late``: a part of it comes after the answer. ``times``: how often it is sent. ``forgot_turns``: whole turns were
    lost by an accident.
    """

    items: list[Item] = field(default_factory=list)
    lines: list[tuple[Update, Item]] = field(default_factory=list)
    late: bool = False
    times: int = 1
    forgot_turns: bool = False


OURS, AGENTS = "ours", "the agent's"
EITHER = frozenset({OURS, AGENTS})


def whose(ours: Sequence[Line], theirs: Replayer, *, handed_over: bool) -> frozenset[str]:
    """Whose replay may be shown: one of the two or, if nobody can say which is better, either.

    ``ours``: what the transcript has at the load.
    """
    if handed_over:
        return frozenset({OURS})
    mine = [line.item for line in ours if line.item is not None]
    known = {item.number for item in mine}
    told = {item.number for item in theirs.items}
    body, tail = parted(theirs, known)
    if any(item.kind == COMPACTION for item in theirs.items):
        return frozenset({AGENTS})
    if any(item.is_answer and item.number not in known for item in body):
        # The late part was not known at the decision.
        return EITHER if theirs.late else frozenset({AGENTS})
    turns = [turn for turn in turns_of(mine) if not is_command(turn)]
    missing = [turn for turn in turns if _is_missing(turn, told)]
    explained = is_explained(ours) or any(item.kind == USER and item.number not in known for item in tail)
    lost = any(_has_lost(turn, told) for turn in turns) or _lost_thoughts(turns, told)
    if missing and explained:
        taken_back = any(is_command(turn) for turn in turns_of(mine))
        partly = any(_has_lost(turn, told) for turn in turns if turn not in missing) or _lost_thoughts(turns, told)
        by_command = taken_back and not partly and not theirs.forgot_turns
        return frozenset({AGENTS}) if by_command else EITHER
    if lost:
        return EITHER if theirs.late and explained else frozenset({OURS})
    return EITHER


def parted(theirs: Replayer, known: set[int]) -> tuple[list[Item], list[Item]]:
    """The items of an agent's replay up to the last known message or call, and the rest: its tail."""
    placed = [
        at for at, item in enumerate(theirs.items) if (item.is_answer or item.kind == USER) and item.number in known
    ]
    last = max(placed, default=-1)
    return theirs.items[: last + 1], theirs.items[last + 1 :]


def tail_of(ours: Sequence[Line], theirs: Replayer) -> list[Item]:
    """The new items in the tail of an agent's replay."""
    known = {line.item.number for line in ours if line.item is not None}
    return [item for item in parted(theirs, known)[1] if item.number not in known]


def turns_of(items: Iterable[Item]) -> list[list[Item]]:
    """The turns, which begin with prompts. What was said before the first prompt is not a turn."""
    turns: list[list[Item]] = []
    for item in items:
        if item.kind == USER:
            turns.append([])
        if turns:
            turns[-1].append(item)
    return turns


def is_command(turn: Sequence[Item]) -> bool:
    return turn[0].text.startswith(COMMANDS)


def _is_missing(turn: Sequence[Item], told: set[int]) -> bool:
    answers = [item for item in turn if item.is_answer]
    return bool(answers) and not any(item.number in told for item in answers)


def _has_lost(turn: Sequence[Item], told: set[int]) -> bool:
    return any(item.number not in told for item in turn if item.is_answer or item.kind == USER)


def _lost_thoughts(turns: Sequence[Sequence[Item]], told: set[int]) -> bool:
    thoughts = [item.number for turn in turns for item in turn if item.kind == THOUGHT]
    return bool(thoughts) and not any(number in told for number in thoughts)


def is_explained(ours: Iterable[Line]) -> bool:
    """Whether the transcript has something that explains why a whole turn is missing in the agent's replay."""
    return any(line.item is not None and _explains(line) for line in ours)


def _explains(line: Line) -> bool:
    """Whether it is a command that takes words back, a compaction, or a turn made elsewhere."""
    if "prompt" in line.value:
        return str(line.value["prompt"]).startswith(COMMANDS)
    assert line.item is not None
    return line.item.kind in (COMPACTION, USER)


# --- text for people


def shown(value: Any) -> str:
    """A message in a short form."""
    if not isinstance(value, dict):
        return repr(value)
    update = value.get("params", {}).get("update") if value.get("method") == "session/update" else None
    if update is not None:
        return f"{value['params'].get('sessionId')}: {shown_update(update)}"
    if "method" in value:
        params = value.get("params") or {}
        said = " ".join(_block(block) for block in params.get("prompt", ()))
        return " ".join(
            str(part)
            for part in (value["method"], f"#{value['id']}" if "id" in value else "", params.get("sessionId", ""), said)
            if part != ""
        )
    answer = value.get("error") or value.get("result")
    return f"answer #{value.get('id')}: {json.dumps(answer)[:160]}"


def shown_update(update: Update) -> str:
    if "prompt" in update:
        return f"prompt {update['prompt']!r}"
    kind = str(update.get("sessionUpdate"))
    name = next((name for name, each in KINDS.items() if each == kind), kind)
    what = [
        repr(update["content"].get("text")) if name in KINDS else "",
        str(update.get("toolCallId", "")),
        str(update.get("title", "")),
        str(update.get("status", "")),
        f"[{update['messageId']}]" if "messageId" in update else "",
    ]
    return " ".join([name, *(part for part in what if part)])


def _block(block: Any) -> str:
    text = str(block.get("text", block))
    return repr(text if len(text) < 60 else f"{text[:40]}… ({len(text)} characters)")
