"""The crash cases detect a loss."""

import json
from pathlib import Path

from acp_proxy.transcript.appender import TranscriptAppender
from tests.store import transcript_lines
from torture.turns import Turn, group_by_turn, is_replayed, make_prompt, read_transcript

ONE, OTHER = make_prompt(1, 1), make_prompt(1, 11)


def line(text: str, session: str = transcript_lines.SESSION, kind: str = "agent_message_chunk") -> bytes:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    message = {"method": "session/update", "params": {"sessionId": session, "update": update}}
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


def test_a_turn_takes_only_its_own_updates() -> None:
    turn = Turn(transcript_lines.SESSION, ONE)
    mine = [line(f"{ONE} 0. "), line(f"{ONE} 1. ")]
    others = [line(f"{OTHER} 0. "), line(ONE, "another session"), line(ONE, kind="session_info_update"), b"{}\n"]
    assert turn.take([mine[0], *others, mine[1]]) == 2
    assert [one + b"\n" for one in turn.received] == mine


def test_entries_are_assigned_to_turns_and_damage_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    transcript = TranscriptAppender(path, transcript_lines.header())
    transcript.append(
        transcript_lines.prompt_line(ONE)
        + transcript_lines.agent_chunk(f"{ONE} 0. ")
        + transcript_lines.prompt_line(OTHER)
        + transcript_lines.agent_chunk(f"{OTHER} 0. ")
    )
    transcript.append(b'{"torn\n')
    transcript.close()
    found = read_transcript(path)
    assert (found.prompts, found.damaged) == ([ONE, OTHER], 1)
    assert [len(found.updates[turn]) for turn in (ONE, OTHER)] == [1, 1]


def test_a_replay_must_contain_every_received_message() -> None:
    turn = Turn(transcript_lines.SESSION, ONE)
    turn.take([line(f"{ONE} 0. "), line(f"{ONE} 1. ")])

    def is_enough(text: str) -> bool:
        load = [json.loads(one)["params"]["update"] for one in (line(ONE, kind="user_message_chunk"), line(text))]
        return is_replayed(turn, group_by_turn(load)[ONE])

    assert is_enough(f"{ONE} 0. {ONE} 1. {ONE} 2. ")
    assert not is_enough(f"{ONE} 0. ")
    assert not is_enough(f"{ONE} 1. {ONE} 0. ")
