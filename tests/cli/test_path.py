"""Where things lie, for other programs."""

from pathlib import Path

from tests.cli.commands import printed, refused
from tests.stored import Both, store_session
from tests.transcripts import cold


def test_the_store_and_a_sessions_transcript_are_named(tmp_path: Path) -> None:
    store = Both(tmp_path / "store")
    path = store_session(store, "s", ("mend it", []))
    assert printed(store, "path") == f"{store.root}\n"
    assert printed(store, "path", "s") == printed(store, "path", "last") == f"{path}\n"
    code, said = refused(store, "path", "nobody")
    assert (code, "nobody" in said) == (1, True)


def test_the_store_is_named_also_where_there_is_none_yet(tmp_path: Path) -> None:
    store = Both(tmp_path / "store")
    store.root = tmp_path / "nowhere"
    assert printed(store, "path") == f"{tmp_path / 'nowhere'}\n"
    assert not store.root.exists()


def test_a_compressed_transcript_is_named_as_it_lies(tmp_path: Path) -> None:
    store = Both(tmp_path / "store")
    cold.kept(store)
    packed = cold.packed_now(store)
    assert printed(store, "path", "last") == f"{packed}\n"
