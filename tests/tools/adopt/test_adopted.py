"""What an adopted transcript may replace, and what it may not."""

import multiprocessing
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from acp_proxy.errors import NotImported
from acp_proxy.protocol.proxy_ids import make_other_agents_id
from acp_proxy.tools.adopt.adopted import KnownSession, find_known, write_adopted
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import Header, NoteType
from acp_proxy.transcript.file_names import file_name
from tests.store import transcript_lines
from tests.stored import WholeStore

AGENT = file_name("my-agent")
NOTE = {"type": NoteType.ADOPTED, "title": None, "updatedAt": transcript_lines.time(0)}


def make_replay(*texts: str) -> bytes:
    header = Header(
        transcript_lines.SESSION,
        transcript_lines.CWD,
        file_format.IMPORTED,
        transcript_lines.time(0),
        agent={"id": AGENT},
    )
    said = [transcript_lines.agent_chunk(text) for text in texts]
    return b"".join(
        [
            file_format.encode_header(header),
            *said,
            file_format.encode_note(transcript_lines.time(9), transcript_lines.RUN, NOTE),
        ]
    )


def path(store: WholeStore) -> Path:
    return store.root / "transcripts" / AGENT / f"{file_name(transcript_lines.SESSION)}.jsonl"


def list_remaining(store: WholeStore) -> list[Path]:
    """Everything in the agent's folder but its journal."""
    return [each for each in path(store).parent.iterdir() if each.name != "state.jsonl"]


def test_a_session_is_unknown_then_adopted_then_recorded(store: WholeStore) -> None:
    assert find_known(store, AGENT, transcript_lines.SESSION) == KnownSession()
    assert write_adopted(store, make_replay("hi")).is_new
    assert find_known(store, AGENT, transcript_lines.SESSION) == KnownSession(is_here=True, note=NOTE)
    with closing(TranscriptAppender(path(store))) as opened:
        opened.append(transcript_lines.note(NoteType.CLOSED))
    assert find_known(store, AGENT, transcript_lines.SESSION) == KnownSession(is_here=True)
    with pytest.raises(NotImported, match="something was recorded in it"):
        write_adopted(store, make_replay("hi", "ho"))
    store.delete(AGENT, transcript_lines.SESSION, soft=False)
    assert find_known(store, AGENT, transcript_lines.SESSION) == KnownSession(is_deleted=True)
    with pytest.raises(NotImported, match="it was deleted here"):
        write_adopted(store, make_replay("hi", "ho"))
    assert list_remaining(store) == []


def test_a_session_in_which_a_copy_continues_is_here(store: WholeStore) -> None:
    copy = make_other_agents_id(file_name("other"), "s1")
    store.add_alias(AGENT, copy, "agents-own")
    assert find_known(store, AGENT, "agents-own") == KnownSession(is_here=True)
    assert find_known(store, AGENT, "another") == KnownSession()
    store.delete(AGENT, copy, soft=False)
    assert find_known(store, AGENT, "agents-own") == KnownSession(is_deleted=True)


def test_a_newer_replay_replaces_the_older_one_in_lists_and_searches(store: WholeStore) -> None:
    write_adopted(store, make_replay("one"))
    assert [row.size for row in store.list_all()] == [len(make_replay("one"))]
    store.set_listed_title(store.list_all()[0], "Mine")
    assert not write_adopted(store, make_replay("one", "two")).is_new
    assert path(store).read_bytes() == make_replay("one", "two")
    [row] = store.list_all()
    assert (row.size, row.title) == (len(make_replay("one", "two")), "Mine")
    assert list_remaining(store) == [path(store)]


def test_an_empty_or_damaged_transcript_is_left_alone(store: WholeStore) -> None:
    write_adopted(store, make_replay("hi"))
    for data in (b"", b"\0" * 100, make_replay("hi")[:-5]):
        path(store).write_bytes(data)
        assert find_known(store, AGENT, transcript_lines.SESSION) == KnownSession(is_here=True)
        with pytest.raises(NotImported, match="something was recorded in it"):
            write_adopted(store, make_replay("hi", "ho"))
        assert path(store).read_bytes() == data


def hold(place: Path, ready: Event, end: Event) -> None:
    with closing(TranscriptAppender(place)):
        ready.set()
        end.wait(60)


def test_a_session_that_is_in_use_elsewhere_is_not_replaced(store: WholeStore) -> None:
    write_adopted(store, make_replay("hi"))
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    other = context.Process(target=hold, args=(path(store), ready, end))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(NotImported, match="an editor has it open now"):
            write_adopted(store, make_replay("hi", "ho"))
    finally:
        end.set()
        other.join(60)
    assert path(store).read_bytes() == make_replay("hi")
    assert not write_adopted(store, make_replay("hi", "ho")).is_new
