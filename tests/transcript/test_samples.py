"""What this and every later version must read from each transcript in fixtures/transcripts."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import IMPORTED, PARTIAL, RECORDED, Entry, Header
from acp_proxy.transcript.reader import Line, TranscriptReader
from tests.store import transcript_lines

V1 = Path(__file__).parents[2] / "fixtures" / "transcripts" / "v1"
DAMAGE = "(damage)"

ONE_TURN = [
    "proxy opened",
    "client session/prompt one",
    "agent agent_message_chunk an answer",
    "agent answers session/prompt",
]
ANOTHER_TURN = [
    "client session/prompt two",
    "agent agent_message_chunk another answer",
    "agent answers session/prompt",
]


@dataclass(frozen=True)
class Expected:
    """``origin`` is None if there is no header."""

    told: list[str] = field(default_factory=list)
    origin: str | None = RECORDED
    complete: bool = True
    cwd: str | None = "/home/me/project"


SAMPLES = {
    "conversation": Expected(
        [
            "proxy opened",
            "agent available_commands_update",
            "client session/prompt Fix the login\n\nIt fails with an umlaut: ä",
            "agent agent_thought_chunk The user wants…",
            "agent plan",
            "agent agent_message_chunk Looking",
            "agent agent_message_chunk  at it. 😀",
            "agent tool_call",
            "agent session/request_permission",
            "client answers session/request_permission",
            "agent tool_call_update",
            "proxy terminal",
            "agent answers session/prompt",
            "agent session_info_update",
            "client session/set_mode",
            "agent answers session/set_mode",
            "client session/prompt /review",
            "client session/cancel",
            "agent answers session/prompt",
            "proxy closed",
        ]
    ),
    "two-runs": Expected(
        [
            "proxy opened",
            "client session/prompt one",
            "proxy opened",
            "agent agent_message_chunk answer to one",
            "client session/prompt two",
            "agent answers session/prompt",
            "agent agent_message_chunk answer to two",
            "agent answers session/prompt",
        ]
    ),
    "gap": Expected(
        [
            "proxy opened",
            "client session/prompt one",
            "proxy gap",
            "agent agent_message_chunk the end of an answer",
            "agent answers session/prompt",
        ],
        complete=False,
    ),
    "partial": Expected(["agent agent_message_chunk somebody else's words"], origin=PARTIAL, complete=False, cwd=None),
    "imported": Expected(
        ["proxy opened", "agent user_message_chunk hello", "agent agent_message_chunk hello yourself"],
        origin=IMPORTED,
        complete=False,
    ),
    "crash-in-turn": Expected(
        [
            "proxy opened",
            "client session/prompt one",
            "agent answers session/prompt",
            "client session/prompt two",
            "agent agent_message_chunk half an",
        ]
    ),
    "agent-ended": Expected(["proxy opened", "client session/prompt one", "proxy failed"]),
    "prompt-failed": Expected(["proxy opened", "client session/prompt one", "agent answers session/prompt"]),
    "exact-bytes": Expected(["proxy opened", "client session/prompt exact", "agent answers session/prompt"]),
    "kept-as-string": Expected(
        [
            "proxy opened",
            "client session/prompt odd lines",
            "agent agent_message_chunk half a pair: \ud83d",
            "agent agent_message_chunk a mark before it",
            "agent agent_message_chunk latin-1: \udce4",
            "agent answers session/prompt",
        ]
    ),
    "unknown-keys": Expected(["proxy later", "client session/prompt one", "agent answers session/prompt"]),
    "torn-end": Expected([*ONE_TURN, DAMAGE]),
    "torn-character": Expected([*ONE_TURN, DAMAGE]),
    "no-newline-at-end": Expected([*ONE_TURN, "agent agent_message_chunk torn ä€ here"]),
    "torn-then-fresh-line": Expected([*ONE_TURN, DAMAGE, *ANOTHER_TURN]),
    "glued-after-torn": Expected([*ONE_TURN, *ANOTHER_TURN]),
    "nul-block": Expected([*ONE_TURN, *ANOTHER_TURN]),
    "nul-end": Expected([*ONE_TURN, DAMAGE]),
    "garbage-line": Expected([*ONE_TURN[:2], DAMAGE, *ONE_TURN[2:]]),
    "empty": Expected([], origin=None, complete=False),
    "only-nul": Expected([DAMAGE], origin=None, complete=False),
    "no-header": Expected(ONE_TURN, origin=None, complete=False),
    "torn-header": Expected([DAMAGE, *ONE_TURN], origin=None, complete=False),
    "two-headers": Expected([DAMAGE, *ONE_TURN]),
}
NEWER = "newer"


def sample(name: str) -> Path:
    return V1 / f"{name}.jsonl"


def read(path: Path) -> tuple[Header | None, list[Line], bool]:
    opened = TranscriptReader(path)
    try:
        return opened.header, list(opened.read_lines()), opened.is_complete
    finally:
        opened.close()


def describe_entry(entry: Entry | None) -> str:
    """The sender and kind of an entry, and its text if it has one."""
    if entry is None:
        return DAMAGE
    if entry.note is not None:
        return f"proxy {entry.note['type']}"
    assert entry.peer is not None
    if entry.answered_method is not None:
        return f"{entry.peer.value} answers {entry.answered_method}"
    params = acp.member(entry.value, "params")
    update = acp.member(params, "update")
    blocks = acp.member(params, "prompt")
    text = acp.text(acp.member(update, "content"), "text")
    if isinstance(blocks, list):
        text = acp.text(blocks[0], "text")
    words = [entry.peer.value, acp.update_kind(update) or acp.text(entry.value, "method") or "", text]
    return " ".join(word for word in words if word is not None)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_read_as_expected(name: str) -> None:
    expected = SAMPLES[name]
    header, lines, complete = read(sample(name))
    assert [describe_entry(line.entry) for line in lines] == expected.told
    assert complete is expected.complete
    if expected.origin is None:
        assert header is None
        return
    assert header is not None
    assert (header.session_id, header.cwd, header.origin) == ("sess-1", expected.cwd, expected.origin)
    assert header.created_at == "2026-11-20T09:15:01.002Z"
    assert header.agent == {"id": "my-agent-4f1c2d3e4a5b6c7d", "name": "my-agent", "version": "1.2.0"}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_can_be_continued_without_loss(tmp_path: Path, name: str) -> None:
    path = tmp_path / "copy.jsonl"
    path.write_bytes(sample(name).read_bytes())
    transcript = TranscriptAppender(path)
    transcript.append(transcript_lines.agent_chunk("and on"))
    transcript.close()
    _, lines, _ = read(path)
    assert [describe_entry(line.entry) for line in lines] == [*SAMPLES[name].told, "agent agent_message_chunk and on"]


def test_a_newer_version_is_reported_with_what_to_do() -> None:
    with pytest.raises(NewerFormat, match="Upgrade acp-proxy"):
        TranscriptReader(sample(NEWER))


def test_entries_have_a_time_and_a_run() -> None:
    _, lines, _ = read(sample("two-runs"))
    entries = [line.entry for line in lines if line.entry is not None]
    one, two = "k3f9a1", "zz0000"
    assert [entry.run for entry in entries] == [one, one, two, one, two, one, two, two]
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
    assert entries[0].at == "2026-11-20T09:15:02.123Z"


def test_exact_bytes_are_read() -> None:
    _, lines, _ = read(sample("exact-bytes"))
    assert [line.entry.raw for line in lines if line.entry is not None] == [
        None,
        (
            b'{ "jsonrpc" : "2.0", "id":1.0,"method":"session/prompt","params":{"sessionId":"sess-1",'
            b'"prompt":[{"type":"text","text":"exact"}],"n":1180591620717411303424,"n":-0 ,"message":[1e2]}}\r'
        ),
        b'{"jsonrpc":"2.0","id":1.0, "result":{"stopReason":"end_turn"} }',
    ]


def test_exact_bytes_kept_as_a_string_are_read() -> None:
    start = (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sess-1","update":'
        b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
    )
    _, lines, _ = read(sample("kept-as-string"))
    raws = [line.entry.raw for line in lines if line.entry is not None]
    assert raws[2:5] == [
        start + b'half a pair: \\ud83d"}}}}',
        b"\xef\xbb\xbf" + start + b'a mark before it"}}}}',
        start + b'latin-1: \xe4"}}}}',
    ]


def test_every_sample_is_listed_in_the_readme_and_read_by_a_test() -> None:
    readme = (V1 / "README.md").read_text("utf-8")
    on_disk = {path.stem for path in V1.glob("*.jsonl")}
    assert set(re.findall(r"^\| `(.+)\.jsonl` \|", readme, re.MULTILINE)) == on_disk
    assert {*SAMPLES, NEWER} == on_disk
