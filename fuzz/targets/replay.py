"""Nearly valid entries, replayed in both modes: nothing raises, and only valid updates are sent."""

from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.reader import Line
from fuzz.choices import Choices
from fuzz.targets.transcript import retold

RUNS = ("k3f9a1", "other1")
_MOST = 60  # entries; more find nothing more and take longer


def run(data: bytes) -> None:
    choices, lines = Choices(data), list[Line]()
    while choices.more and len(lines) < _MOST:
        written = entry(choices)
        found = file_format.decode_entry(written)
        lines.append(Line(len(lines) + 1, len(lines) + 1, True, found))
        if found is not None and found.raw is not None:
            assert found.raw in written or b'"line":' in written, "the message's own bytes"
    retold(lines, None)


def entry(choices: Choices) -> bytes:
    """An entry as the recorder writes it."""
    at, run = "2026-11-20T09:15:02.123Z", choices.pick(RUNS)
    match choices.below(8):
        case 0:
            note = choices.members(*choices.some(("output", "exitStatus", "cwd", "additionalDirectories")))
            kind = choices.pick(("terminal", "failed", "gap", "opened", "handover", "odd"))
            return file_format.encode_note(at, run, {"type": kind, "terminalId": choices.pick(("t", "u")), **note})
        case 1:
            params = {"sessionId": "s", "prompt": [choices.item() for _ in range(choices.below(4))]}
            raw = jsonrpc.dump({"id": choices.id(), "method": "session/prompt", "params": params})
            return file_format.encode_message(at, run, Peer.CLIENT, raw, is_plain=choices.below(8) < 7)
        case 2:
            raw = jsonrpc.dump({"id": choices.id(), "result": choices.result()})
            return file_format.encode_message(at, run, Peer.AGENT, raw, "session/prompt")
        case 3:
            raw = jsonrpc.dump(choices.message())
            peer = choices.pick((Peer.CLIENT, Peer.AGENT))
            return file_format.encode_message(at, run, peer, raw, choices.pick((None, "session/prompt")))
        case _:
            params = {"sessionId": choices.pick(("s", "s", "s", "parent", "other")), "update": choices.update()}
            params |= choices.members(*choices.some(("_meta",)), depth=2)
            raw = jsonrpc.dump({"jsonrpc": "2.0", "method": "session/update", "params": params})
            return file_format.encode_message(at, run, Peer.AGENT, raw, is_plain=choices.below(8) < 7)
