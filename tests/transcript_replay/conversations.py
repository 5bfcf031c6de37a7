"""Conversations that hypothesis generates: everything that agents were seen to do, and more.

``conversations()`` gives steps: an entry each and, for the chunks of an echo, its kind. After a prompt, an echo, and an
answer that begins another turn, the agent says something else, so that a later user chunk is a message of its own.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry

SESSION, PARENT = "s", "parent"
RUNS = ("run1", "run2")
Value = dict[str, Any]
Kind = Literal["exact", "other"]


@dataclass(frozen=True)
class Step:
    """``echo``: ``exact`` (the words of the prompt ``of``) or ``other`` (other words); ``of`` differs for each echo."""

    entry: Entry
    echo: Kind | None = None
    of: int = 0


words = st.text("ab é😀\n", max_size=4)
numbers = st.sampled_from([1, 1.0, 100.0, 2**70, -0.5])
anything = st.one_of(numbers, words, st.booleans(), st.fixed_dictionaries({"x": st.one_of(numbers, words, st.none())}))
metas = st.sampled_from([{}, {"x": 1.0}, {"y": {"z": [2]}}])
ids = st.sampled_from(["t1", "t2", "t3"])
terminals = st.sampled_from(["1", "2"])


def maybe(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Value]:
    """Each member may be present, null or absent."""
    return st.fixed_dictionaries({}, optional={key: st.one_of(st.none(), value) for key, value in members.items()})


def joined(*parts: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


def fixed(**members: Any) -> st.SearchStrategy[Value]:
    strategies = {
        key: value if isinstance(value, st.SearchStrategy) else st.just(value) for key, value in members.items()
    }
    return st.fixed_dictionaries(strategies)


def seldom(strategy: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.one_of(*[st.just({})] * 3, strategy)


texts = joined(fixed(type="text", text=words), seldom(maybe(annotations=st.just({"priority": 0.5}), _meta=metas)))
others: st.SearchStrategy[Value] = st.sampled_from(
    [
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", "_meta": {"x": 1}},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}},
    ]
)
blocks: st.SearchStrategy[Value] = st.one_of(texts, texts, texts, others)
chunks = joined(
    fixed(
        sessionUpdate=st.sampled_from(["agent_message_chunk", "agent_message_chunk", "agent_thought_chunk"]),
        content=blocks,
    ),
    maybe(messageId=st.sampled_from(["m", "n"])),
    seldom(maybe(_meta=metas)),
)
spoken = joined(
    fixed(sessionUpdate="agent_message_chunk", content=fixed(type="text", text=words)),
    maybe(messageId=st.sampled_from(["m", "n"])),
)
bursts = st.lists(st.one_of(spoken, chunks, fixed(sessionUpdate="plan", entries=[])), min_size=2, max_size=4)
"""Updates in a row, so that joining them matters."""
strange_user_chunks = fixed(
    sessionUpdate="user_message_chunk", content=fixed(type="text", text=words.map("not the prompt: {}".format))
)
items = st.one_of(
    fixed(type="content", content=blocks),
    fixed(type="terminal", terminalId=terminals),
    st.sampled_from([{"type": "diff", "path": "/a", "oldText": None, "newText": "x"}]),
)
fields = maybe(
    title=words,
    kind=st.sampled_from(["read", "edit", "execute"]),
    status=st.sampled_from(["pending", "in_progress", "completed", "failed"]),
    content=st.lists(items, max_size=2),
    locations=st.lists(joined(fixed(path="/a"), maybe(line=st.just(3))), max_size=2),
    rawInput=anything,
    rawOutput=anything,
    _meta=metas,
    odd=anything,
)
starts = joined(fields, fixed(sessionUpdate="tool_call", toolCallId=ids, title=words))
changes = joined(fields, fixed(sessionUpdate="tool_call_update", toolCallId=ids))
steps_of_plans = fixed(content=words, priority=st.just("low"), status=st.sampled_from(["pending", "completed"]))
plans = joined(fixed(sessionUpdate="plan", entries=st.lists(steps_of_plans, max_size=2)), seldom(maybe(_meta=metas)))
unknown = fixed(sessionUpdate=st.sampled_from(["new_kind", "plan_update"]), value=anything)
compaction_ids = st.sampled_from(["c1", "c2"])
compactions = st.one_of(
    joined(
        fixed(
            sessionUpdate="compaction_update",
            compactionId=compaction_ids,
            status=st.sampled_from(["in_progress", "completed", "failed"]),
        ),
        maybe(summary=st.lists(blocks, max_size=2), error=words, _meta=metas),
    ),
    fixed(sessionUpdate="compaction_summary_chunk", compactionId=compaction_ids, content=blocks),
)
# Calls with the output of one of the agent's own terminals.
own_ids = st.sampled_from(["own1", "own2"])
own_starts = own_ids.flatmap(
    lambda id: fixed(
        sessionUpdate="tool_call",
        toolCallId=id,
        title=words,
        status=st.sampled_from(["pending", "in_progress"]),
        content=[{"type": "terminal", "terminalId": f"terminal of {id}"}],
        _meta={"terminal_info": {"terminal_id": f"terminal of {id}"}},
    )
)
own_changes = joined(
    fixed(sessionUpdate="tool_call_update", toolCallId=own_ids),
    maybe(status=st.sampled_from(["in_progress", "completed", "failed"]), rawOutput=anything),
    st.one_of(st.just({}), fixed(_meta=fixed(terminal_output=fixed(data=words)))),
)
states = st.one_of(
    fixed(sessionUpdate="current_mode_update", currentModeId="ask"),
    fixed(sessionUpdate="usage_update", used=st.integers(0, 9), size=st.just(10)),
    fixed(sessionUpdate="notice", message=words),
    fixed(
        sessionUpdate="available_commands_update",
        availableCommands=st.lists(fixed(name=words, description="x"), max_size=1),
    ),
)
owned = st.one_of(own_starts, own_changes)
updates = st.one_of(
    chunks, chunks, chunks, starts, changes, changes, owned, compactions, plans, unknown, states, strange_user_chunks
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Step]:
    steps = draw(activity(RUNS[0]))
    waiting: list[tuple[int, str]] = []
    for number in range(draw(st.integers(0, 4))):
        run = draw(st.sampled_from(RUNS))
        steps += draw(prompts(number, run))
        steps += draw(activity(run))
        waiting.append((number, run))
        if draw(st.booleans()):
            steps += draw(endings(waiting.pop(0)))
            steps += draw(activity(run, most=2))
    for each in waiting:
        steps += draw(endings(each))
    return once_noted(steps)


@st.composite
def activity(draw: st.DrawFn, run: str, most: int = 10) -> list[Step]:
    single = st.one_of(updates, updates, updates, asking(), notes()).map(lambda value: [value])
    found = draw(st.lists(st.one_of(single, single, single, bursts), max_size=most))
    return [Step(entry(draw, run, value)) for values in found for value in values]


def asking() -> st.SearchStrategy[Value]:
    return fixed(permission=joined(fields, fixed(toolCallId=ids)))


def notes() -> st.SearchStrategy[Value]:
    more = st.one_of(st.none(), fixed(exitCode=st.integers(0, 2)))
    return fixed(
        note=fixed(type="terminal", terminalId=terminals, output=st.text("ab\né", max_size=5), exitStatus=more)
    )


@st.composite
def prompts(draw: st.DrawFn, number: int, run: str) -> list[Step]:
    prompt: list[Value] = [{"type": "text", "text": f"{number}: "}, *draw(st.lists(blocks, max_size=3))]
    params = {"sessionId": SESSION, "prompt": prompt}
    asked = {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}
    steps = [Step(message(draw, run, asked, Peer.CLIENT))]
    if draw(st.booleans()):
        said = "".join(block["text"] for block in prompt if block["type"] == "text")
        kind: Kind = draw(st.sampled_from(["exact", "other"]))
        steps += draw(echoes(number, run, kind, said if kind == "exact" else f"in other words {number}"))
    return [*steps, parting(draw, run)]


@st.composite
def echoes(draw: st.DrawFn, of: int, run: str, kind: Kind, said: str) -> list[Step]:
    """An echo in two pieces, with other white space."""
    cut = draw(st.integers(0, len(said)))
    more = draw(maybe(messageId=st.just(f"echo {of}")))
    steps = []
    for part in (said[:cut], f"{said[cut:]}\n"):
        value = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": part}, **more}
        steps += [Step(entry(draw, run, value), kind, of), *map(Step, draw(silence(run)))]
    return steps


def parting(draw: st.DrawFn, run: str) -> Step:
    value = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "-"}}
    return Step(entry(draw, run, value))


@st.composite
def silence(draw: st.DrawFn, run: str) -> list[Entry]:
    return [entry(draw, run, value) for value in draw(st.lists(states, max_size=1))]


@st.composite
def endings(draw: st.DrawFn, waiting: tuple[int, str]) -> list[Step]:
    """An answer, a cancel, the agent's end, or nothing, as when the machine stops."""
    number, run = waiting
    how = draw(st.sampled_from(["answered", "answered", "cancelled", "failed", "nothing"]))
    steps = []
    if how == "cancelled":
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}
        steps.append(Step(message(draw, run, cancel, Peer.CLIENT)))
    if how in ("answered", "cancelled"):
        answer = {"jsonrpc": "2.0", "id": number, "result": {"stopReason": "end_turn"}}
        steps.append(Step(message(draw, run, answer, Peer.AGENT, "session/prompt")))
        if draw(st.booleans()):
            steps += draw(echoes(-1 - number, run, "other", "of a turn that begins now"))
        steps.append(parting(draw, run))
    if how == "failed":
        steps.append(Step(note(run, {"type": "failed", "method": "session/prompt", "message": "agent ended"})))
    return steps


def entry(draw: st.DrawFn, run: str, value: Value) -> Entry:
    if "note" in value:
        return note(run, value["note"])
    session = draw(st.sampled_from([SESSION, SESSION, SESSION, PARENT]))
    if "permission" in value:
        params = {"sessionId": session, "toolCall": value["permission"], "options": []}
        asked = {"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}
        return message(draw, run, asked, Peer.AGENT)
    more = draw(seldom(maybe(_meta=metas)))
    params = {"sessionId": session, "update": value, **more}
    return message(draw, run, {"jsonrpc": "2.0", "method": "session/update", "params": params}, Peer.AGENT)


def message(draw: st.DrawFn, run: str, value: Value, peer: Peer, of: str | None = None) -> Entry:
    """An entry whose message has one of several spellings."""
    separators, ascii_only = draw(st.sampled_from([((",", ":"), True), ((",", ":"), False), ((" , ", " : "), True)]))
    raw = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()
    found = file_format.decode_entry(file_format.encode_message("2026-11-20T09:15:02.123Z", run, peer, raw, of))
    assert found is not None
    return found


def note(run: str, value: Value) -> Entry:
    found = file_format.decode_entry(file_format.encode_note("2026-11-20T09:15:02.123Z", run, value))
    assert found is not None
    return found


def once_noted(steps: list[Step]) -> list[Step]:
    """The steps without a second note of any terminal."""
    seen = set()
    kept = []
    for step in steps:
        if step.entry.note is not None and "terminalId" in step.entry.note:
            terminal = (step.entry.run, step.entry.note["terminalId"])
            if terminal in seen:
                continue
            seen.add(terminal)
        kept.append(step)
    return kept
