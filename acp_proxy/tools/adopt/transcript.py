"""Makes the transcript of an adopted session from the agent's replay. Pure.

It is the one that a load through acp-proxy would begin, followed by an ``adopted`` note. Its messages have the time at
which the agent's list says that the session was last active: when each was said is not known.
"""

from collections.abc import Mapping, Sequence

from acp_proxy.comparison.repeated_replays import drop_context_and_repetition
from acp_proxy.decisions.effects import BeginTranscript, RecordMessage, RecordNote
from acp_proxy.decisions.session_tracker import SessionTracker
from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.tools.adopt.plan import OfferedSession
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header, NoteType
from acp_proxy.transcript.titles import AGENT_TITLE_LENGTH, clean


def split_states(updates: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The lines of a replay that are conversation, each once, and those that tell the state."""
    conversation: list[bytes] = []
    states: list[bytes] = []
    for line in updates:
        (conversation if update_kinds.is_conversation(acp.update_kind(acp.read_update(line))) else states).append(line)
    return drop_context_and_repetition(conversation), states


def read_conversation(transcript: bytes) -> list[bytes]:
    """The lines of conversation in a transcript that ``compose_transcript`` made."""
    entries = (file_format.decode_entry(line) for line in transcript.split(b"\n")[1:])
    raws = (entry.raw for entry in entries if entry is not None and entry.raw is not None)
    return [raw for raw in raws if update_kinds.is_conversation(acp.update_kind(acp.read_update(raw)))]


def compose_transcript(
    offered: OfferedSession,
    agent: Mapping[str, object],
    conversation: list[bytes],
    states: list[bytes],
    result: object,
    now: str,
    run: str,
) -> bytes:
    """The bytes of the transcript.

    ``agent``: as in a header. ``conversation``, ``states``: from ``split_states``. ``result``: the answer to
    ``session/load``. ``now``: in transcript format. ``run``: the id of the connection.
    """
    stamp = min(offered.updated or now, now)
    params = {"cwd": offered.cwd, "additionalDirectories": list(offered.directories), "mcpServers": list[object]()}
    lines: list[bytes] = []
    entries = SessionTracker(is_recording=True)
    for effect in entries.track_opened(offered.session_id, acp.LOAD, params, result, imported=[*conversation, *states]):
        match effect:
            case BeginTranscript(session_id, cwd, directories, origin):
                lines.append(file_format.encode_header(Header(session_id, cwd, origin, stamp, directories, agent)))
            case RecordMessage(_, peer, raw):
                lines.append(file_format.encode_message(stamp, run, peer, raw, is_plain=jsonrpc.is_embeddable(raw)))
            case RecordNote(_, note):
                lines.append(file_format.encode_note(stamp, run, note))
    adopted: dict[str, object] = {"type": NoteType.ADOPTED}
    adopted |= {"title": clean(offered.title, AGENT_TITLE_LENGTH), "updatedAt": offered.updated, "adoptedAt": now}
    lines.append(file_format.encode_note(stamp, run, adopted))
    return b"".join(lines)
