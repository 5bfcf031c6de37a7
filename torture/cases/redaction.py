"""Secrets of every form in every kind of entry, whole and cut into chunks.

A recorder writes them with and without redaction; ``sessions redact`` masks the rest. A secret counts as lost if any
part of it remains, and so does any other changed byte.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp_proxy.decisions.effects import (
    BeginTranscript,
    IdentifyAgent,
    RecordMessage,
    RecordNote,
    RecordUnparsedUpdates,
    TranscriptEffect,
)
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.recording.recorder import Recorder
from acp_proxy.redaction.masking import Masking
from acp_proxy.tools.redact.redact_files import redact_file
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from tests.redaction.made_up_secrets import RULE_NAMES, plant
from tests.stored import WholeStore
from torture.outcome import Outcome, Scale

SESSION = "s"
HERE = "\ue000"
"""The placeholder for a message's secret."""
AT, RUN = "2026-11-20T09:15:02.123Z", "k3f9a1"
_FIXED = len(f'{{"at":"{AT}","run":"{RUN}')
"""Bytes of a line that differ between runs."""
_MASK = re.compile(rb"(?:\[redacted(?: private key)?\])?\**")

Spell = Callable[[str, random.Random], str]


@dataclass(frozen=True, slots=True)
class Written:
    """An entry: the recorder's input, its line, and the secret's place in the line."""

    effect: TranscriptEffect
    line: bytes
    start: int = 0
    end: int = 0


Trial = list[Written]
"""The entries across which one secret is split."""


def run(scale: Scale) -> Iterator[Outcome]:
    whole = list(_make_whole_trials(scale))
    cut = list(_make_cut_trials(scale))
    yield _run_trials(scale, "in one entry, masked while recording", whole, live=True, later=False)
    yield _run_trials(scale, "in one entry, redacted later", whole, live=False, later=True)
    yield _run_trials(scale, "in chunks, masked while recording, then redacted", cut, live=True, later=True)
    yield _run_trials(scale, "in chunks, redacted later", cut, live=False, later=True)


def _run_trials(scale: Scale, fault: str, trials: list[Trial], *, live: bool, later: bool) -> Outcome:
    masking = Masking()
    path = _record(WholeStore(scale.place / str(len(list(scale.place.iterdir())))), trials, masking if live else None)
    size = path.stat().st_size
    caught, _ = _count_masked(path, trials)
    also = f"{caught:,} masked while recording" if live else ""
    if later:
        redact_file(path, masking, dry_run=False)
        again = redact_file(path, masking, dry_run=False)
        also += f"{', ' if also else ''}{again.total()} found by a second run"
    masked, trouble = _count_masked(path, trials)
    if path.stat().st_size != size:
        trouble.append("the file has another length")
    return Outcome(fault, len(trials), len(trials), "secrets", len(trials) - masked, 0, also, tuple(trouble))


def _record(store: WholeStore, trials: list[Trial], masking: Masking | None) -> Path:
    """The transcript of all entries."""
    trouble: list[str] = []
    recorder = Recorder(store, ["agent"], None, "never", trouble.append, masking.mask_lines if masking else None)
    recorder.start()
    recorder.add(IdentifyAgent("agent", None))
    recorder.add(BeginTranscript(SESSION, "/project", [], file_format.RECORDED))
    for trial in trials:
        for written in trial:
            recorder.add(written.effect)
        recorder.wait_until_recorded()
    recorder.stop(10.0)
    if trouble:
        raise OSError(trouble[0])
    [path] = store.find_redactable(None)
    return path


def _count_masked(path: Path, trials: list[Trial]) -> tuple[int, list[str]]:
    """The number of fully masked secrets, and the other changes."""
    masked, trouble = 0, []
    with path.open("rb") as file:
        file.readline()
        for trial in trials:
            gone = True
            for written in trial:
                line, start, end = file.readline(), written.start, written.end
                gone = gone and _MASK.fullmatch(line, start, end) is not None
                beside = (line[_FIXED:start] + line[end:]) if end else line[_FIXED:]
                if beside != ((written.line[_FIXED:start] + written.line[end:]) if end else written.line[_FIXED:]):
                    trouble.append(f"beside the secret: {written.line[:300]!r} has become {line[:300]!r}")
            masked += gone
            if not gone:
                trouble.append(f"not masked: {b''.join(written.line for written in trial)[:600]!r}")
        if file.read():
            trouble.append("there are more lines than were written")
    return masked, trouble


# --- spellings of a text in JSON


def _spell_plain(text: str, chance: random.Random) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _spell_ascii(text: str, chance: random.Random) -> str:
    return json.dumps(text)[1:-1]


def _spell_escaped(text: str, chance: random.Random) -> str:
    return "".join(f"\\u{ord(one):04X}" for one in text)


def _spell_partly_escaped(text: str, chance: random.Random) -> str:
    return "".join(
        _spell_escaped(one, chance).lower() if chance.random() < 0.3 else _spell_plain(one, chance) for one in text
    )


def _spell_slashes(text: str, chance: random.Random) -> str:
    return _spell_plain(text, chance).replace("/", "\\/")


SPELLINGS: tuple[Spell, ...] = (_spell_plain, _spell_ascii, _spell_escaped, _spell_partly_escaped, _spell_slashes)


# --- places of a text


def _update(kind: str, **fields: Any) -> dict[str, Any]:
    params = {"sessionId": SESSION, "update": {"sessionUpdate": kind} | fields}
    return {"jsonrpc": "2.0", "method": acp.UPDATE, "params": params}


def _tool(**fields: Any) -> dict[str, Any]:
    return _update("tool_call_update", toolCallId="1", **fields)


_TEXT = {"type": "text", "text": f"é {HERE} and"}
_BLOCKS = [{"type": "text", "text": "the first"}, {"type": "resource", "resource": {"uri": "file:///a", "text": HERE}}]
PLACES: tuple[tuple[Peer, dict[str, Any]], ...] = (
    (Peer.CLIENT, {"id": 1, "method": acp.PROMPT, "params": {"sessionId": SESSION, "prompt": [_TEXT]}}),
    (Peer.CLIENT, {"id": 1, "method": acp.PROMPT, "params": {"sessionId": SESSION, "prompt": _BLOCKS}}),
    (Peer.AGENT, {"id": 1, "error": {"code": -32603, "message": f"the key {HERE} is wrong", "data": {"n": 1.0}}}),
    (Peer.CLIENT, {"id": 1, "result": {"outcome": {"outcome": "selected", "_meta": {"id": HERE}}}}),
    (Peer.AGENT, {"id": 9, "method": acp.REQUEST_PERMISSION, "params": {"toolCall": {"title": f"curl '{HERE}'"}}}),
    (Peer.AGENT, _update(update_kinds.USER_CHUNK, content=_TEXT)),
    (Peer.AGENT, _update(update_kinds.AGENT_CHUNK, content=_TEXT, messageId="1")),
    (Peer.AGENT, _update(update_kinds.THOUGHT_CHUNK, content=_TEXT)),
    (Peer.AGENT, _update(update_kinds.TOOL_CALL, toolCallId="1", title=f"curl {HERE}", status="pending")),
    (Peer.AGENT, _tool(content=[{"type": "content", "content": {"type": "text", "text": f"$ env\n{HERE}\nend"}}])),
    (Peer.AGENT, _tool(content=[{"type": "diff", "path": "/a", "oldText": None, "newText": f'KEY="{HERE}"'}])),
    (Peer.AGENT, _tool(rawInput={"command": ["curl", HERE], "id": 1})),
    (Peer.AGENT, _tool(rawOutput={"id": HERE, "type": [1, {"status": "x"}]})),
    (Peer.AGENT, _update("plan", entries=[{"content": f"use {HERE}", "priority": "high", "status": "pending"}])),
    (Peer.AGENT, _update("available_commands_update", availableCommands=[{"name": "x", "description": HERE}])),
    (Peer.AGENT, _update(update_kinds.SESSION_INFO, title=f"Use {HERE}")),
    (Peer.AGENT, _update("something_new", deep=[[{"a": {"b": [HERE]}}]])),
)


def _make_whole_trials(scale: Scale) -> Iterator[Trial]:
    """Every form in every place in every spelling; also in messages kept as a string, and in notes."""
    number = 0
    for turn in range(scale.of(5, 1)):
        for rule in RULE_NAMES:
            chance = scale.chance("whole", rule, turn)
            for peer, value in PLACES:
                for spell in SPELLINGS:
                    number += 1
                    if scale.short and number % 11:
                        continue
                    before, secret, after = _split_message(value, rule, spell, chance)
                    is_plain = chance.random() < 0.9
                    yield [_write_message(peer, before, secret, after if is_plain else after[:-1] + b',"x":"\\ud800"}')]
            yield [_write_note(rule, chance)]


def _split_message(value: dict[str, Any], rule: str, spell: Spell, chance: random.Random) -> tuple[bytes, bytes, bytes]:
    """The line's bytes before, in and after the secret."""
    example = plant(rule, chance)
    before, after = json.dumps(value, ensure_ascii=False).split(HERE)
    return (
        (before + spell(example.before, chance)).encode(),
        spell(example.secret, chance).encode(),
        (spell(example.after, chance) + after).encode(),
    )


def _write_message(peer: Peer, before: bytes, secret: bytes, after: bytes) -> Written:
    raw = before + secret + after
    is_plain = b"\\ud800" not in raw
    line = file_format.encode_message(AT, RUN, peer, raw, is_plain=is_plain)
    if not is_plain:
        before, secret = (json.dumps(each.decode())[1:-1].encode() for each in (before, secret))
        raw = json.dumps(raw.decode())[1:-1].encode()
    start = line.index(raw) + len(before)
    effect = (
        RecordUnparsedUpdates(SESSION, before + secret + after + b"\n") if is_plain and peer is Peer.AGENT else None
    )
    return Written(effect or RecordMessage(SESSION, peer, _read_raw(line)), line, start, start + len(secret))


def _read_raw(line: bytes) -> bytes:
    entry = file_format.decode_entry(line)
    assert entry is not None
    assert entry.raw is not None
    return entry.raw


def _write_note(rule: str, chance: random.Random) -> Written:
    """The last output of a terminal."""
    example = plant(rule, chance)
    note = {"type": NoteType.TERMINAL, "terminalId": "1", "output": f"$ env\n{example.text}\n", "truncated": False}
    line = file_format.encode_note(AT, RUN, note)
    secret = _spell_plain(example.secret, chance).encode()
    start = line.index(secret)
    return Written(RecordNote(SESSION, note), line, start, start + len(secret))


# --- split into chunks


def _make_cut_trials(scale: Scale) -> Iterator[Trial]:
    for number in range(scale.of(60, 2)):
        for rule in RULE_NAMES:
            chance = scale.chance("cut", rule, number)
            example = plant(rule, chance)
            start, end = len(f"use {example.before}"), len(f"use {example.before}{example.secret}")
            text = f"use {example.text} in peace."
            places = sorted(chance.sample(range(1, len(text)), chance.randint(1, 12)))
            spell, kind = (
                chance.choice(SPELLINGS),
                chance.choice((update_kinds.AGENT_CHUNK, update_kinds.THOUGHT_CHUNK)),
            )
            message = f"{rule}-{number}" if chance.random() < 0.5 else None
            trial: Trial = []
            for first, last in zip([0, *places], [*places, len(text)], strict=True):
                inside = max(first, min(start, last)), min(last, max(end, first))
                parts = (text[first : inside[0]], text[inside[0] : inside[1]], text[inside[1] : last])
                trial.append(_write_chunk(kind, message, [spell(part, chance).encode() for part in parts]))
                trial += _interrupt(chance)
            # It ends a message without an id.
            prompt = {"id": 1, "method": acp.PROMPT, "params": {"sessionId": SESSION, "prompt": []}}
            yield [*trial, _write_message(Peer.CLIENT, json.dumps(prompt).encode(), b"", b"")]


def _write_chunk(kind: str, message: str | None, parts: list[bytes]) -> Written:
    fields: dict[str, Any] = {"content": {"type": "text", "text": HERE}}
    fields |= {"messageId": message} if message is not None else {}
    before, after = json.dumps(_update(kind, **fields), ensure_ascii=False).split(HERE)
    return _write_message(Peer.AGENT, before.encode() + parts[0], parts[1], parts[2] + after.encode())


def _interrupt(chance: random.Random) -> Trial:
    """Sometimes, another update comes between two chunks."""
    if chance.random() < 0.8:
        return []
    others = (
        _update("usage_update", used=1),
        _tool(status="in_progress"),
        _update(update_kinds.SESSION_INFO, title="x"),
    )
    return [_write_message(Peer.AGENT, json.dumps(chance.choice(others)).encode(), b"", b"")]
