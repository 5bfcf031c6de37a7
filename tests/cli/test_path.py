"""``path`` prints paths for other programs."""

from pathlib import Path

from tests.cli.commands import get_error, get_stdout
from tests.store import compressible
from tests.stored import WholeStore, store_session


def test_the_paths_of_the_store_and_of_a_transcript_are_printed(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    path = store_session(store, "s", ("mend it", []))
    assert get_stdout(store, "path") == f"{store.root}\n"
    assert get_stdout(store, "path", "s") == get_stdout(store, "path", "last") == f"{path}\n"
    code, said = get_error(store, "path", "nobody")
    assert (code, "nobody" in said) == (1, True)


def test_the_path_of_a_missing_store_is_printed(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    store.root = tmp_path / "nowhere"
    assert get_stdout(store, "path") == f"{tmp_path / 'nowhere'}\n"
    assert not store.root.exists()


def test_the_path_of_a_compressed_transcript_has_its_suffix(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    compressible.store_compressible(store)
    compressed = compressible.compress_now(store)
    assert get_stdout(store, "path", "last") == f"{compressed}\n"
