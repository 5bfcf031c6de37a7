"""What real agents send in their turns: counted from transcripts, and written for the C agent to play.

    python -m benchmarks.tapes            # talks with each installed agent, and saves its tape
    python -m benchmarks.tapes STORE      # only counts the turns in a store, such as your own

A tape has no words: of each message, only the sender, the kind, the bytes, and the milliseconds since the last one.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.transcript.file_format import Entry
from benchmarks import page
from scripts.agents_rows import NAMES
from scripts.real_agents import Bench, installed, stand_in_model

TAPES = Path(__file__).with_name("tapes.json")
NOTES = page.ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- tapes: made by `python -m benchmarks.tapes` -->\n", "<!-- end of the tapes -->\n"
PROMPTS = ("please TOOL THINK now", "please TOOLREAD now", "tell me BIG=4000")
"""What the stand-in model understands: a call and a thought, a reading call, a long answer."""
_PROMPT, _ANSWER = "session/prompt", "answer"
_CHUNK = '"content":{"type":"text","text":"FILLING"}'
_MEMBERS = {
    "tool_call": '"toolCallId":"call-1","status":"pending","title":"FILLING"',
    "tool_call_update": '"toolCallId":"call-1","status":"completed",'
    '"content":[{"type":"content","content":{"type":"text","text":"FILLING"}}]',
    "available_commands_update": '"availableCommands":[{"name":"test","description":"FILLING"}]',
    "session_info_update": '"title":"FILLING"',
    "usage_update": '"used":1,"size":2,"_meta":{"filling":"FILLING"}',
}
"""The members of an update besides its kind, if it is not a chunk."""
_UPDATE = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"bench-session-1",'
    '"update":{"sessionUpdate":"%s",%s}}}'
)
_QUESTION = (
    '{"jsonrpc":"2.0","id":7,"method":"METHOD","params":{"sessionId":"bench-session-1",'
    '"toolCall":{"toolCallId":"call-1","title":"FILLING"},"options":[{"optionId":"allow","name":"Allow","kind":"allow_once"}],"_meta":{"asks":7}}}'
)


class Message(NamedTuple):
    """One message of a turn. ``kind``: of an update, or else the method, or ``answer``. ``size``: in bytes."""

    peer: str
    kind: str
    size: int
    waited: int


Turn = list[Message]


# --- counting


def turns(store: Path) -> dict[str, list[Turn]]:
    """The whole turns in a store, each from a prompt to its answer, by agent."""
    found: dict[str, list[Turn]] = {}
    archive = CommandStore(store, create=False)
    for listed in archive.list_all():
        with closing(archive.open_listed(listed)) as reader:
            said = turns_of(line.entry for line in reader.read_lines() if line.entry is not None)
            found.setdefault(listed.agent_folder, []).extend(said)
    return found


def turns_of(entries: Iterable[Entry]) -> Iterator[Turn]:
    turn: Turn = []
    last = 0.0
    for entry in entries:
        if entry.peer is None or entry.raw is None:
            continue
        at = datetime.fromisoformat(entry.at).timestamp()
        waited, last = round(1000 * (at - last)), at
        kind = _kind(entry)
        if kind == _PROMPT:
            turn = [Message(entry.peer.value, kind, len(entry.raw), 0)]
        elif turn:
            turn.append(Message(entry.peer.value, kind, len(entry.raw), waited))
        if turn and entry.answered_method == _PROMPT:
            yield turn
            turn = []


def _kind(entry: Entry) -> str:
    method = acp.text(entry.value, "method")
    if method != "session/update":
        return method or _ANSWER
    return acp.update_kind(acp.member(acp.member(entry.value, "params"), "update")) or "update"


def table(taped: dict[str, list[Turn]]) -> str:
    """What was counted, as Markdown."""
    messages = [message for said in taped.values() for turn in said for message in turn]
    kinds = Counter((message.peer, message.kind) for message in messages)
    rows = []
    for (peer, kind), count in kinds.most_common():
        its = sorted(message.size for message in messages if (message.peer, message.kind) == (peer, kind))
        share = 100 * count / len(messages)
        rows.append(f"|{peer}|`{kind}`|{share:.1f} %|{its[len(its) // 2]:,}|{its[-1]:,}|")
    whole = f"{len(messages)} messages of {sum(map(len, taped.values()))} turns: {', '.join(taped)}."
    return "\n".join([whole, "", "|from|kind|messages|bytes, p50|bytes, most|", "|-|-|-|-|-|", *rows]) + "\n"


# --- recording, saving


def record() -> dict[str, list[Turn]]:
    """Talk with each installed agent behind acp-proxy."""
    taped: dict[str, list[Turn]] = {}
    with tempfile.TemporaryDirectory(prefix="tapes-") as base, stand_in_model() as port:
        for name in sorted(installed() & set(NAMES)):
            bench = Bench(Path(base).resolve() / name, name, port)
            bench.talk(PROMPTS)
            taped[name] = [turn for said in turns(bench.store).values() for turn in said]
            print(f"{name}: {len(taped[name])} turns", file=sys.stderr, flush=True)
    return taped


def save(taped: dict[str, list[Turn]]) -> None:
    """Write the tapes, a turn per line, and their table."""
    told = [
        f" {json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(turn)}" for turn in said) + "\n ]"
        for name, said in taped.items()
    ]
    TAPES.write_text("{\n" + ",\n".join(told) + "\n}\n", encoding="utf-8")
    text = NOTES.read_text(encoding="utf-8")
    NOTES.write_text(page.between(text, BEGIN, END, table(taped)), encoding="utf-8")


def load() -> list[Turn]:
    taped = json.loads(TAPES.read_text(encoding="utf-8"))
    return [[Message(*message) for message in turn] for said in taped.values() for turn in said]


# --- playing


def played(tape: Sequence[Turn]) -> str:
    """The file that the C agent plays: what the agents sent, except for the answers to prompts."""
    return "\n".join("".join(map(_line, turn)) for turn in tape) + "\n"


def sent(tape: Sequence[Turn]) -> int:
    """How many messages pass in these turns, in both directions."""
    return sum(map(len, tape))


def _line(message: Message) -> str:
    if message.peer != Peer.AGENT.value or message.kind == _ANSWER:
        return ""
    if "/" in message.kind:
        return f"?{_filled(_QUESTION.replace('METHOD', message.kind), message.size)}\n"
    members = _MEMBERS.get(message.kind, _CHUNK)
    return f" {_filled(_UPDATE % (message.kind, members), message.size)}\n"


def _filled(line: str, size: int) -> str:
    """The line with so much text that it has this size, or with none if it is larger already."""
    return line.replace("FILLING", "x" * (size - len(line) + len("FILLING")))


def main(words: Sequence[str]) -> int:
    if words:
        print(table(turns(Path(words[0]))))
    else:
        save(record())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
