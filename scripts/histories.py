"""The differences between a load and the conversation, and between a store and its earlier content, in words.

Pure except for reading the store. Text is compared without white space and chunk borders, since agents place them
differently. Additional user text and thoughts are no difference: agents add context to prompts.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.shown import SPEAKERS, TOOL_KINDS, Shown, letters, text_of

WORDS = {
    "user": "the user's",
    "agent": "the agent's",
    "thoughts": "the thought",
    "tool": "the tool call",
    "prompt": "the prompt",
}
COMPARED = ("user", "agent", "thoughts")
QUOTED = 40  # characters that identify a message

Unit = tuple[str, str]
"""The speaker and the text without spaces; for a tool call its id."""
Recorded = Mapping[str, Sequence[Unit]]
"""The messages in a store, by session."""


# Shown histories.


def differences(said: Shown, seen: Shown) -> Iterator[str]:
    """What a screen lacks of the conversation, or shows more often or elsewhere."""
    found = [difference for speaker in COMPARED for difference in of_speaker(speaker, said, seen)]
    found += of_tools(said, seen)
    yield from found or out_of_place(said, seen)


def of_speaker(speaker: str, said: Shown, seen: Shown) -> Iterator[str]:
    was, now = said.words(speaker), seen.words(speaker)
    if speaker == "thoughts" and now and not was:
        return
    texts = {letters(text): text for told, text in said.messages if told == speaker and letters(text)}
    counts = {unit: (was.count(unit), now.count(unit)) for unit in texts}
    for unit, (before, after) in counts.items():
        if after < before and not (speaker == "thoughts" and now):
            yield f"missing: {quoted(speaker, texts[unit])}{times(after, before)}"
        elif after > before:
            yield f"doubled: {quoted(speaker, texts[unit])}{times(after, before)}"


def never_said(said: Shown, seen: Shown) -> Iterator[str]:
    """Text of the agent that it did not send before: the rest of each message without the known text."""
    units = {letters(text) for speaker, text in said.messages if speaker == "agent"} - {""}
    for speaker, text in spoken(seen):
        if speaker == "agent":
            for unit in sorted(units, key=len, reverse=True):
                text = text.replace(unit, "\n")
            yield from (f"new: {quoted(speaker, words)}" for words in text.split() if words not in said.words("agent"))


def of_tools(said: Shown, seen: Shown) -> Iterator[str]:
    if (now := len(seen.tools)) != (was := len(said.tools)):
        yield f"{'missing' if now < was else 'doubled'}: a tool call ({now} instead of {was})"
    elif unfinished := [status for number, status in seen.tools.items() if status != said.tools.get(number, status)]:
        yield f"a tool call is {', '.join(unfinished)}"


def out_of_place(said: Shown, seen: Shown) -> Iterator[str]:
    """The first message that does not follow its predecessor."""
    line = list(spoken(seen))
    at, start = 0, 0
    for speaker, text in (one for one in said.messages if one[0] in ("user", "agent")):
        unit = letters(text)
        while at < len(line) and (line[at][0] != speaker or (found := line[at][1].find(unit, start)) < 0):
            at, start = at + 1, 0
        if at == len(line):
            yield f"out of place: {quoted(speaker, text)}"
            return
        start = found + len(unit)


def spoken(screen: Shown) -> Iterator[Unit]:
    """The messages of user and agent in order, without thoughts and tool calls."""
    whole = Shown()
    for speaker, text in screen.messages:
        if speaker in ("user", "agent"):
            whole.say(speaker, text)
    return ((speaker, letters(text)) for speaker, text in whole.messages)


def count_of_user_messages(updates: Iterator[Mapping[str, Any]]) -> int:
    """The number of user messages if ``messageId`` separates them; adjacent chunks without one are one message."""
    count, last = 0, None
    for update in updates:
        if update.get("sessionUpdate") not in SPEAKERS and update.get("sessionUpdate") not in TOOL_KINDS:
            continue
        here = (update["sessionUpdate"], update.get("messageId"))
        count += here[0] == "user_message_chunk" and here != last
        last = here
    return count


# Recorded histories.


def recorded(store: Path) -> Recorded:
    """The messages of each transcript, with adjacent chunks joined; a tool call once, where it begins."""
    return dict(messages_of(path) for path in sorted(store.rglob("*.jsonl")) if path.name != "state.jsonl")


def messages_of(path: Path) -> tuple[str, Sequence[Unit]]:
    """A transcript's session, and its messages."""
    whole = Shown()
    header, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for line in filter(None, map(str.strip, lines)):
        match json.loads(line):
            case {"message": {"method": "session/prompt", "params": {"prompt": list(blocks)}}}:
                whole.messages.append(("prompt", "".join(map(text_of, blocks))))
            case {"message": {"method": "session/update", "params": {"update": dict(update)}}}:
                kind = str(update.get("sessionUpdate"))
                if kind in SPEAKERS:
                    whole.say(SPEAKERS[kind], text_of(update.get("content")))
                elif kind in TOOL_KINDS and (call := ("tool", str(update.get("toolCallId")))) not in whole.messages:
                    whole.messages.append(call)
    return str(json.loads(header)["sessionId"]), [(speaker, text) for speaker, text in whole.messages if text]


def held(said: Shown, messages: Sequence[Unit]) -> Iterator[str]:
    """The differences between a transcript and the conversation."""
    whole = Shown([one for one in messages if one[0] in SPEAKERS.values() and one[0] != "user"])
    whole.tools = {number: said.tools.get(number, "") for speaker, number in messages if speaker == "tool"}
    theirs = Shown([one for one in said.messages if one[0] != "user"], said.tools)
    found = [*differences(theirs, whole), *never_said(theirs, whole)]
    yield from (f"in the transcript {difference}" for difference in found)


def grown(before: Recorded, after: Recorded) -> Iterator[str]:
    """What transcripts gained or lost without a turn."""
    for session in sorted({*before, *after}):
        if session not in before:
            yield f"a new transcript, of {len(after[session])} messages"
            continue
        was, now = Counter(before[session]), Counter(after.get(session, ()))
        if len(before[session]) != len(after.get(session, ())):
            yield f"{len(after.get(session, ()))} messages in the transcript instead of {len(before[session])}"
        yield from (f"new in the transcript: {quoted(*unit)}" for unit in (now - was))
        yield from (f"gone from the transcript: {quoted(*unit)}" for unit in (was - now))


# Text.


def quoted(speaker: str, text: str) -> str:
    short = " ".join(text.split())
    return f"{WORDS.get(speaker, speaker)} “{short[:QUOTED]}{'…' if len(short) > QUOTED else ''}”"


def times(now: int, was: int) -> str:
    return f" ({now} instead of {was})" if (now, was) not in ((0, 1),) else ""
