"""Old transcripts are compressed without any other change."""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_proxy.redaction.masking import Masking
from acp_proxy.store import compress as store_compress
from acp_proxy.store.compress import CompressionOptions, CompressionResult
from acp_proxy.store.open_session import Deleted
from acp_proxy.tools.maintenance.repair_findings import repair_finding
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.transcript import appender
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_access import open_private
from acp_proxy.transcript.file_names import COMPRESSED_SUFFIX, compressed_path, file_name, unfinished_path
from tests.store import transcript_lines
from tests.store.compressible import (
    AGENT,
    AT_ONCE,
    age,
    compress,
    compress_now,
    decode_before,
    find_path,
    read_content,
    store_compressible,
)
from tests.stored import WholeStore
from tests.waiting import SECONDS


def list_suffixes(store: WholeStore) -> list[str]:
    return sorted(
        path.name.removeprefix(file_name(transcript_lines.SESSION)) for path in find_path(store).parent.iterdir()
    )


def test_a_compressed_transcript_has_the_same_content_and_index_row(store: WholeStore) -> None:
    path = store_compressible(store)
    before, rows, modified = path.read_bytes(), store.list_all(), path.stat().st_mtime_ns
    made = compress(store)
    assert made is not None
    assert made.size == len(before) > 20 * made.compressed_size
    assert list_suffixes(store) == [COMPRESSED_SUFFIX, "state.jsonl"]
    assert compressed_path(path).stat().st_mtime_ns == modified
    assert compressed_path(path).stat().st_mode & 0o777 == 0o600
    assert read_content(path) == before
    assert not list(store.root.glob("unindexed/*/*"))
    assert list(verify_store(store)) == []
    assert store.list_all() == rows
    assert list(verify_store(store, (AGENT, path.stem))) == []


def test_a_rebuilt_index_has_compressed_transcripts(store: WholeStore) -> None:
    store_compressible(store)
    rows = store.list_all()
    compress_now(store)
    for part in store.root.glob("index.sqlite3*"):
        part.unlink()
    assert WholeStore(store.root).list_all() == rows


@pytest.mark.parametrize("options", [CompressionOptions(older_than=0.0), CompressionOptions(min_size=1)])
def test_small_and_recent_transcripts_are_not_compressed(store: WholeStore, options: CompressionOptions) -> None:
    path = store_compressible(store, chunks=10)
    assert compress(store, options=options) is None
    age(path, 8)
    assert (compress(store, options=options) is None) == (options.min_size > 1)


def test_a_transcript_with_a_mark_is_not_compressed(store: WholeStore) -> None:
    store_compressible(store)
    store.mark(AGENT, transcript_lines.SESSION)
    assert compress(store) is None


def test_a_mark_that_nobody_needs_prevents_no_compression(store: WholeStore) -> None:
    store_compressible(store)
    store.mark(AGENT, transcript_lines.SESSION)
    assert [compress(store) is not None for _ in store.list_transcripts_to_compress()] == [True]


def test_a_turn_begun_during_the_compression_stops_it(store: WholeStore) -> None:
    store_compressible(store)

    def go_on() -> bool:
        store.mark(AGENT, transcript_lines.SESSION)
        return True

    assert compress(store, options=CompressionOptions(min_size=1, older_than=0.0, may_continue=go_on)) is None
    assert list_suffixes(store) == [".jsonl", "state.jsonl"]


def test_an_open_transcript_is_not_compressed(store: WholeStore) -> None:
    path = store_compressible(store)
    transcript = TranscriptAppender(path)
    assert compress(store) is None
    assert list_suffixes(store) == [".jsonl"]
    transcript.close()
    assert compress(store) is not None


def test_a_dry_run_reports_what_would_be_saved(store: WholeStore) -> None:
    path = store_compressible(store)
    would = compress(store, options=CompressionOptions(min_size=1, older_than=0.0, dry_run=True))
    assert list_suffixes(store) == [".jsonl"]
    assert would is not None
    made = compress(store)
    assert made is not None
    assert (
        (would.size, would.compressed_size)
        == (made.size, made.compressed_size)
        == (made.size, compressed_path(path).stat().st_size)
    )


def test_a_compression_can_be_stopped(store: WholeStore) -> None:
    path = store_compressible(store, chunks=20_000)
    calls = path.stat().st_size // 2**20
    for number in range(2 * calls):
        asked: list[None] = []

        def go_on(asked: list[None] = asked, number: int = number) -> bool:
            asked.append(None)
            return len(asked) <= number

        assert compress(store, options=CompressionOptions(min_size=1, older_than=0.0, may_continue=go_on)) is None
        assert list_suffixes(store) == [".jsonl"]


def test_continuing_a_session_decompresses_its_transcript(store: WholeStore) -> None:
    path = store_compressible(store)
    before, header = path.read_bytes(), transcript_lines.header()
    compress_now(store)
    transcript = store.open_to_append(AGENT, header, is_new=False)
    assert not transcript.wrote_header
    transcript.append(transcript_lines.agent_chunk("more"))
    transcript.close()
    assert path.read_bytes() == before + transcript_lines.agent_chunk("more")
    assert list_suffixes(store) == [".jsonl", "state.jsonl"]
    assert len(store.list_all()) == 1
    assert list(verify_store(store)) == []


def test_a_transcript_compressed_in_the_meantime_can_be_reopened(store: WholeStore) -> None:
    path = store_compressible(store)
    transcript = TranscriptAppender(path)
    identity = transcript.identity
    transcript.close()
    compress_now(store)
    transcript = store.reopen(AGENT, transcript_lines.SESSION, identity)
    transcript.append(transcript_lines.agent_chunk("late"))
    transcript.close()
    assert read_content(path).endswith(transcript_lines.agent_chunk("late"))


def test_a_new_session_of_the_same_id_sets_a_compressed_one_aside(store: WholeStore) -> None:
    path = store_compressible(store)
    before = path.read_bytes()
    compress_now(store)
    transcript_lines.store_lines(store, AGENT, transcript_lines.SESSION)
    assert list_suffixes(store) == [".jsonl", "state.jsonl", f"~1{COMPRESSED_SUFFIX}"]
    assert read_content(path.with_stem(f"{path.stem}~1")) == before
    assert len(store.list_all()) == 2
    for row in store.list_all():
        store.delete_listed(row, soft=False)
    assert list_suffixes(store) == ["state.jsonl"]


def test_a_compressed_session_can_be_forked(store: WholeStore) -> None:
    store_compressible(store)
    compress_now(store)
    store.open_to_append(
        AGENT, transcript_lines.header("fork"), is_new=False, parent_id=transcript_lines.SESSION
    ).close()
    assert read_content(find_path(store, "fork")).count(b" word") == 2000
    assert not find_path(store).exists()


def test_a_delete_removes_compressed_and_unfinished_files(store: WholeStore) -> None:
    path = store_compressible(store)
    compress_now(store)
    for left in (path, unfinished_path(path), unfinished_path(compressed_path(path))):
        left.write_bytes(compressed_path(path).read_bytes())
    store.delete(AGENT, transcript_lines.SESSION, soft=False)
    assert list_suffixes(store) == ["state.jsonl"]
    assert store.list_all() == []
    with pytest.raises(Deleted):
        store.open_to_append(AGENT, transcript_lines.header(), is_new=False)


def test_an_interrupted_delete_is_finished(store: WholeStore) -> None:
    path = store_compressible(store)
    compress_now(store)
    data = compressed_path(path).read_bytes()
    store.delete(AGENT, transcript_lines.SESSION, soft=False)
    compressed_path(path).write_bytes(data)
    assert WholeStore(store.root).list_all() == []
    assert list_suffixes(store) == ["state.jsonl"]


def test_a_delete_during_the_compression_wins(store: WholeStore) -> None:
    store_compressible(store)
    has_deleted = False

    def delete_once() -> bool:
        nonlocal has_deleted
        if not has_deleted:
            WholeStore(store.root).delete(AGENT, transcript_lines.SESSION, soft=False)
        has_deleted = True
        return True

    assert compress(store, options=CompressionOptions(min_size=1, older_than=0.0, may_continue=delete_once)) is None
    assert has_deleted
    assert list_suffixes(store) == ["state.jsonl"]


@pytest.mark.parametrize("stays_open", [False, True])
def test_a_prompt_during_the_compression_wins_without_waiting(store: WholeStore, stays_open: bool) -> None:
    path, opened = store_compressible(store), list[TranscriptAppender]()
    before = path.read_bytes()

    def go_on() -> bool:
        if not opened:
            opened.append(WholeStore(store.root).open_to_append(AGENT, transcript_lines.header(), is_new=False))
            if not stays_open:
                opened[0].append(transcript_lines.agent_chunk("more"))
                opened[0].close()
        return True

    assert compress(store, options=CompressionOptions(min_size=1, older_than=0.0, may_continue=go_on)) is None
    if stays_open:
        opened[0].append(transcript_lines.agent_chunk("more"))
        opened[0].close()
    assert path.read_bytes() == before + transcript_lines.agent_chunk("more")
    assert list_suffixes(store) == [".jsonl", "state.jsonl"]


def test_a_session_that_others_decompress_and_compress_while_it_is_opened_loses_nothing(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, others = store_compressible(store), list[threading.Thread]()
    before, exists = path.read_bytes(), os.path.lexists

    def compress_unmarked() -> None:
        (store.root / "unindexed" / AGENT / path.stem).unlink(missing_ok=True)  # it would prevent the compression
        compress(WholeStore(store.root))

    def decompress_in_store() -> None:
        WholeStore(store.root).open_to_append(AGENT, transcript_lines.header(), is_new=False).close()

    def let_others(act: Callable[[], None]) -> None:
        others.append(threading.Thread(target=act))
        others[-1].start()
        others[-1].join(0.2)  # while we hold the journal, they wait

    def open_compressed(opened: Path, flags: int) -> int:
        monkeypatch.setattr(appender, "open_private", open_private)
        compress_unmarked()
        monkeypatch.setattr(os.path, "lexists", find_neither)
        return open_private(opened, flags)

    def find_neither(wanted: Path) -> bool:
        monkeypatch.setattr(os.path, "lexists", exists)
        let_others(decompress_in_store)
        found = exists(wanted)
        let_others(compress_unmarked)
        return found

    monkeypatch.setattr(appender, "open_private", open_compressed)
    WholeStore(store.root).open_to_append(AGENT, transcript_lines.header(), is_new=False).close()
    for other in others:
        other.join(SECONDS)
    assert len(others) == 2
    assert read_content(path) == before


def test_concurrent_writes_compressions_and_reads_lose_nothing(store: WholeStore) -> None:
    path, ended = store_compressible(store, chunks=50), threading.Event()
    said: dict[str, list[bytes]] = {"a": [], "b": []}

    compressions: list[CompressionResult] = []
    more = threading.Condition()

    def wait_for_compressions(count: int) -> None:
        with more:
            more.wait_for(lambda: len(compressions) >= count, SECONDS)

    def write(who: str) -> None:
        own = WholeStore(store.root)
        for turn in range(1, 4):
            for _ in range(100):
                transcript = own.open_to_append(AGENT, transcript_lines.header(), is_new=False)
                said[who].append(transcript_lines.agent_chunk(f"{who}{len(said[who])}"))
                transcript.append(said[who][-1])
                transcript.close()
            wait_for_compressions(turn)  # with both writers waiting, nothing prevents a compression

    def compress() -> None:
        own = WholeStore(store.root)
        while not ended.wait(0.002):
            with contextlib.suppress(FileNotFoundError):  # a mark would prevent the compression
                (store.root / "unindexed" / AGENT / path.stem).unlink()
            if (made := own.compress(AGENT, path.stem, AT_ONCE)) is not None:
                with more:
                    compressions.append(made)
                    more.notify_all()

    compressor = threading.Thread(target=compress)
    writers = [threading.Thread(target=write, args=(who,)) for who in said]
    for thread in (compressor, *writers):
        thread.start()
    for thread in writers:
        while thread.is_alive():
            assert read_content(path).count(b" word") == 50
            thread.join(0.001)
    ended.set()
    compressor.join(SECONDS)
    lines = read_content(path).splitlines(keepends=True)
    for each in said.values():
        assert [line for line in lines if line in set(each)] == each
    assert len(compressions) >= 3


def test_a_damaged_compression_is_reported_and_repaired_as_far_as_possible(store: WholeStore) -> None:
    path = store_compressible(store, chunks=20_000)
    before, frame = path.read_bytes(), compress_now(store)
    damaged = bytearray(frame.read_bytes())
    intact = decode_before(bytes(damaged), len(damaged) // 2)
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    frame.write_bytes(damaged)
    finding = next(one for one in verify_store(store) if one.kind == "damaged compression")
    assert (finding.path, finding.is_damage) == (frame, True)
    repair_finding(store, finding)
    assert list_suffixes(store) == [".jsonl", "state.jsonl"]
    assert len(intact) >= 100_000
    assert before.startswith(intact)
    assert path.read_bytes().startswith(intact[: intact.rindex(b"\n") + 1])
    assert not store.open_reader(AGENT, transcript_lines.SESSION).is_complete
    assert [one for one in verify_store(store) if one.is_damage] == []
    [backup] = (store.root / "backups" / AGENT).glob(f"*{COMPRESSED_SUFFIX}")
    assert backup.read_bytes() == damaged
    store.delete(AGENT, transcript_lines.SESSION, soft=False)
    assert list((store.root / "backups" / AGENT).iterdir()) == []


def test_continuing_a_damaged_compression_adds_a_gap(store: WholeStore) -> None:
    path = store_compressible(store, chunks=20_000)
    frame = compress_now(store)
    intact = decode_before(frame.read_bytes(), frame.stat().st_size // 2)
    os.truncate(frame, frame.stat().st_size // 2)
    transcript = store.open_to_append(AGENT, transcript_lines.header(), is_new=False)
    transcript.append(transcript_lines.agent_chunk("more"))
    transcript.close()
    assert path.read_bytes().startswith(intact)
    reader = store.open_reader(AGENT, transcript_lines.SESSION)
    *_, gap, last = reader.read_lines()
    assert gap.entry is not None
    assert gap.entry.note == {"type": "gap", "reason": "repair"}
    assert last.is_whole
    assert path.read_bytes().endswith(transcript_lines.agent_chunk("more"))
    reader.close()


def test_an_unreadable_compression_is_left_to_the_user(store: WholeStore) -> None:
    store_compressible(store)
    frame = compress_now(store)
    frame.write_bytes(b"no frame")
    [finding] = [one for one in verify_store(store) if one.path == frame]
    assert (finding.kind, finding.remedy) == ("damaged compression", "by hand")


def test_compressed_transcripts_are_redacted_and_without_a_secret_stay_compressed(store: WholeStore) -> None:
    secret = "INTERN-4711"
    path, other = store_compressible(store, chunks=100, text=secret), store_compressible(store, "other")
    compress_now(store)
    compress_now(store, "other")
    masking = Masking(["INTERN-[0-9]{4}"])
    assert (
        sum(sum(redact_stored(store, path, masking, dry_run=True).values()) for path in store.find_redactable(None))
        == 100
    )
    assert compressed_path(path).exists()
    assert (
        sum(sum(redact_stored(store, path, masking, dry_run=False).values()) for path in store.find_redactable(None))
        == 100
    )
    store.reindex(None)
    assert not compressed_path(path).exists()
    assert secret.encode() not in path.read_bytes()
    assert compressed_path(other).exists()
    assert not other.exists()


def test_leftovers_of_a_crash_are_removed(store: WholeStore) -> None:
    path = store_compressible(store)
    before = path.read_bytes()
    for left in (compressed_path(path), unfinished_path(compressed_path(path)), unfinished_path(path)):
        left.write_bytes(b"left")
    assert {finding.kind for finding in verify_store(store)} == {"leftover"}
    assert store.list_transcripts_to_compress() == [(AGENT, path.stem)]
    assert list_suffixes(store) == [".jsonl", "state.jsonl"]
    assert path.read_bytes() == before


def test_one_process_compresses_once_a_day(store: WholeStore) -> None:
    with store.claim_daily_compression() as first, WholeStore(store.root).claim_daily_compression() as second:
        assert (first, second) == (True, False)
    with store.claim_daily_compression() as third:
        assert not third
    age(store.root / "compressed", 1.01)
    with pytest.raises(RuntimeError), store.claim_daily_compression():
        raise RuntimeError
    with store.claim_daily_compression() as again:
        assert again
    assert list(verify_store(store)) == []


def test_a_transcript_too_large_to_decompress_quickly_is_not_compressed(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_compressible(store)
    monkeypatch.setattr(store_compress, "MAX_BYTES", 1000)
    assert compress(store) is None
