"""What a FILE or a SESSION on the command line means, and what is said where it means nothing."""

import shutil
from pathlib import Path

import pytest

from acp_proxy.cli import recordings
from acp_proxy.errors import AcpProxyError, NoSuchSession, NoTranscript
from tests.stored import Both, store_session
from tests.transcripts import cold

SAMPLES = Path(__file__).parents[2] / "fixtures" / "transcripts" / "v1"


def session_of(wanted: str, store: Path) -> str:
    with recordings.opened(wanted, str(store), "") as (_, header):
        return header.session


def test_a_file_is_read_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SAMPLES / "conversation.jsonl", tmp_path / "login.jsonl")
    shutil.copy(SAMPLES / "conversation.jsonl", tmp_path / "login")
    (tmp_path / "link").symlink_to("login.jsonl")
    monkeypatch.chdir(tmp_path)
    for word in ("login.jsonl", "./login.jsonl", "login", "link", str(tmp_path / "login")):
        assert session_of(word, tmp_path / "store") == "sess-1"
    assert not (tmp_path / "store").exists()


def test_a_packed_file_is_read_too(tmp_path: Path) -> None:
    store = Both(tmp_path / "store")
    cold.kept(store)
    assert session_of(str(cold.packed_now(store)), tmp_path / "none") == "sess-1"


def test_a_session_is_looked_for_in_the_store(tmp_path: Path) -> None:
    store_session(Both(tmp_path / "store"), "abc-1", ("Mend it", []))
    assert [session_of(word, tmp_path / "store") for word in ("abc-1", "ab", "last")] == ["abc-1"] * 3
    with pytest.raises(NoSuchSession):
        session_of("x", tmp_path / "store")


def test_a_damaged_transcript_is_read_as_far_as_it_is_intact(tmp_path: Path) -> None:
    assert session_of(str(SAMPLES / "torn-header.jsonl"), tmp_path) == "sess-1"


def test_what_is_no_transcript_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("nothing of the kind\n")
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "packed.jsonl.zst").write_bytes(b"no frame")
    for word in ("notes", "empty.jsonl", "packed.jsonl.zst", "none.jsonl", ""):
        with pytest.raises(NoTranscript, match=f"{tmp_path}.*{word}"):
            session_of(f"{tmp_path}/{word}", tmp_path / "store")


def test_a_newer_transcript_is_an_error_that_names_it_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AcpProxyError, match=r"newer\.jsonl.*Upgrade"):
        session_of(str(SAMPLES / "newer.jsonl"), tmp_path)
