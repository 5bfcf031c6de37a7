"""Short forms for transcripts and for an agent's replays of them.

past = transcript("> mend it", "It is mended.", "> thanks", "You are welcome.")
decision = choose_past(compare_replay(past, "> mend it", "It is mended."))
"""

import json
from collections.abc import Iterable
from typing import Any

from acp_proxy.comparison import whose_past
from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.comparison.transcript_text import TranscriptText
from acp_proxy.comparison.whose_past import PastDecision
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_format import Entry, NoteType

Update = dict[str, Any]


def agent(text: str, **more: object) -> Update:
    return chunk("agent_message_chunk", text, **more)


def user(text: str, **more: object) -> Update:
    return chunk("user_message_chunk", text, **more)


def thought(text: str, **more: object) -> Update:
    return chunk("agent_thought_chunk", text, **more)


def chunk(kind: str, text: str, **more: object) -> Update:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}


def call(id: str, title: str | None = None, status: str | None = "completed", kind: str = "tool_call") -> Update:
    """A tool call, or an update of one."""
    update = {"sessionUpdate": kind, "toolCallId": id, "title": title, "status": status}
    return {key: value for key, value in update.items() if value is not None}


def line(update: Update) -> bytes:
    return jsonrpc.encode_notification(acp.UPDATE, {"sessionId": "s", "update": update})


def expand(said: str | Update) -> Update:
    """The update of a short form: ``> x`` is a user message, ``~ x`` a thought, any other text an agent message."""
    if not isinstance(said, str):
        return said
    if said.startswith("> "):
        return user(said[2:])
    return thought(said[2:]) if said.startswith("~ ") else agent(said)


def transcript(*said: str | Update, answered: bool = True) -> TranscriptText:
    """A transcript from short forms: ``> x`` is a prompt, and its answer comes before the next prompt."""
    builder, prompts = TextBuilder(), 0
    for each in said:
        if isinstance(each, str) and each.startswith("> "):
            if prompts:
                builder.add(answer())
            prompts += 1
            builder.add(prompt_entry(each[2:]))
        else:
            builder.add(updated(expand(each)))
    if prompts and answered:
        builder.add(answer())
    return builder.finish()


def prompt_entry(*texts: str, id: int = 1) -> Entry:
    blocks = [{"type": "text", "text": text} for text in texts]
    return _entry(Peer.CLIENT, {"id": id, "method": acp.PROMPT, "params": {"sessionId": "s", "prompt": blocks}})


def steering(text: str) -> Entry:
    """The user's words into a running turn, which the agent has taken."""
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    return _entry(Peer.CLIENT, {"id": 0, "method": acp.STEERING, "params": params})


def cancel() -> Entry:
    return _entry(Peer.CLIENT, {"method": acp.CANCEL, "params": {"sessionId": "s"}})


def answer(id: int = 1) -> Entry:
    return _entry(Peer.AGENT, {"id": id, "result": {"stopReason": "end_turn"}}, acp.PROMPT)


def updated(update: Update) -> Entry:
    return _entry(Peer.AGENT, {"method": acp.UPDATE, "params": {"sessionId": "s", "update": update}})


def opened(run: str = "", method: str = acp.LOAD) -> Entry:
    """The note of a load. ``run``: another than that of all other entries, for a load in a new process."""
    return Entry("", run, None, note={"type": NoteType.OPENED, "method": method})


def _entry(peer: Peer, message: dict[str, Any], of: str | None = None) -> Entry:
    return Entry("", "", peer, of, json.dumps(message).encode(), message)


def compare_replay(past: TranscriptText, *said: str | Update, late: Iterable[str | Update] = ()) -> Comparison:
    """The comparison of a replay with the past; ``late``: updates after the answer to the load."""
    comparison = Comparison(past)
    for is_late, all_said in ((False, said), (True, late)):
        for each in all_said:
            update = expand(each)
            comparison.add(line(update), update, is_after_an_answer=is_late)
    comparison.end_message()
    return comparison


def choose_past(comparison: Comparison | None, **known: Any) -> PastDecision:
    """The decision once the agent has answered; None: nothing is compared. ``known``: what else is."""
    if comparison is not None:
        comparison.end_message()
    return whose_past.choose_past(comparison, **known)


def list_new(comparison: Comparison, *, turn_may_run_elsewhere: bool | None = None) -> list[Update]:
    """The updates that have to be recorded."""
    comparison.end_message()
    return updates(comparison.find_unrecorded(turn_may_run_elsewhere=turn_may_run_elsewhere))


def updates(lines: Iterable[bytes]) -> list[Update]:
    return [json.loads(each)["params"]["update"] for each in lines]
