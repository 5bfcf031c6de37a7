"""The meaning of FILE and SESSION on the command line, and the errors if they match nothing."""

import shutil
from pathlib import Path

import pytest

from acp_proxy.cli import recordings
from acp_proxy.errors import AcpProxyError, NoSuchSession, NoTranscript
from tests.store import compressible
from tests.stored import WholeStore, store_session

SAMPLES = Path(__file__).parents[2] / "fixtures" / "transcripts" / "v1"


def session_of(wanted: str, store: Path) -> str:
    with recordings.open_recording(wanted, str(store), "") as (_, header, _):
        return header.session_id


def test_a_file_is_read_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SAMPLES / "conversation.jsonl", tmp_path / "login.jsonl")
    shutil.copy(SAMPLES / "conversation.jsonl", tmp_path / "login")
    (tmp_path / "link").symlink_to("login.jsonl")
    monkeypatch.chdir(tmp_path)
    for word in ("login.jsonl", "./login.jsonl", "login", "link", str(tmp_path / "login")):
        assert session_of(word, tmp_path / "store") == "sess-1"
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("sample", ["conversation.jsonl", "torn-header.jsonl"])
def test_a_file_with_the_name_of_an_export_is_read(tmp_path: Path, sample: str) -> None:
    path = tmp_path / "2026-11-01-mend-it-0123456789abcdef.jsonl"  # as the store names transcripts, but not this one
    shutil.copy(SAMPLES / sample, path)
    assert session_of(str(path), tmp_path / "store") == "sess-1"


def test_a_compressed_file_is_read_too(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    compressible.store_compressible(store)
    assert session_of(str(compressible.compress_now(store)), tmp_path / "none") == "sess-1"


def test_a_session_is_looked_for_in_the_store(tmp_path: Path) -> None:
    store_session(WholeStore(tmp_path / "store"), "abc-1", ("Mend it", []))
    assert [session_of(word, tmp_path / "store") for word in ("abc-1", "ab", "last")] == ["abc-1"] * 3
    with pytest.raises(NoSuchSession):
        session_of("x", tmp_path / "store")


def test_a_damaged_transcript_is_read_as_far_as_it_is_intact(tmp_path: Path) -> None:
    assert session_of(str(SAMPLES / "torn-header.jsonl"), tmp_path) == "sess-1"


def test_a_file_that_is_not_a_transcript_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("nothing of the kind\n")
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "compressed.jsonl.zst").write_bytes(b"no frame")
    for word in ("notes", "empty.jsonl", "compressed.jsonl.zst", "none.jsonl", ""):
        with pytest.raises(NoTranscript, match=f"{tmp_path}.*{word}"):
            session_of(f"{tmp_path}/{word}", tmp_path / "store")


def test_a_transcript_of_a_later_version_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AcpProxyError, match=r"newer\.jsonl.*Upgrade"):
        session_of(str(SAMPLES / "newer.jsonl"), tmp_path)
