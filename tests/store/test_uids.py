"""The uid in a transcript's header: random, its own for each transcript, and never changed."""

from contextlib import closing

from msgspec.structs import replace

from acp_proxy.redaction.masking import Masking
from acp_proxy.store import delete
from acp_proxy.tools.redact.redact_files import redact_file
from acp_proxy.transcript import file_format, file_names
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.stored import WholeStore, chunk, store_session


def _uid(store: WholeStore, session: str) -> str:
    with closing(store.open_reader(_agent(store), session)) as reader:
        assert reader.header is not None
        return reader.header.uid


def _agent(store: WholeStore) -> str:
    return store.choose_agent(None, "agent", "")


def test_each_new_transcript_has_a_uid_of_its_own(store: WholeStore) -> None:
    path = store_session(store, "1", ("first", [chunk("a")]))
    before = _uid(store, "1")
    assert len(before) == 32
    assert int(before, 16)
    store_session(store, "1", ("second", [chunk("b")]))  # the agent gave the id again: the older one is set aside
    assert _uid(store, "1") != before
    with closing(TranscriptReader(path.with_stem(f"{path.stem}~1"))) as aside:
        assert aside.header is not None
        assert aside.header.uid == before


def test_a_session_that_continues_keeps_its_uid(store: WholeStore) -> None:
    store_session(store, "1", ("first", [chunk("a")]))
    before = _uid(store, "1")
    store.open_to_append(_agent(store), transcript_lines.header("1"), is_new=False).close()
    assert _uid(store, "1") == before


def test_a_fork_has_a_uid_of_its_own(store: WholeStore) -> None:
    store_session(store, "1", ("first", [chunk("a")]))
    store.open_to_append(_agent(store), transcript_lines.header("2"), is_new=True, parent_id="1").close()
    assert _uid(store, "2") not in ("", _uid(store, "1"))


def test_a_session_begun_anew_after_its_delete_has_another_uid(store: WholeStore) -> None:
    store_session(store, "1", ("first", [chunk("a")]))
    before = _uid(store, "1")
    store.delete(_agent(store), "1", soft=False)
    delete.lift_delete(store.layout, _agent(store), "1")
    store.open_to_append(_agent(store), transcript_lines.header("1"), is_new=False).close()
    assert _uid(store, "1") != before


def test_redaction_leaves_the_uid(store: WholeStore) -> None:
    path = store_session(store, "1", ("first", [chunk("a")]))
    before = _uid(store, "1")
    assert not redact_file(path, Masking(), dry_run=False)
    assert _uid(store, "1") == before


def test_the_uid_of_an_older_transcript_is_made_from_its_header() -> None:
    line = file_format.encode_header(replace(transcript_lines.header(), uid=""))
    assert b'"uid"' not in line
    assert (
        file_names.derive_uid(line)
        == file_names.derive_uid(line.rstrip(b"\n"))
        != file_names.derive_uid(line.replace(b"}", b" }"))
    )
    assert len(file_names.derive_uid(line)) == 32
