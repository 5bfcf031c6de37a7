"""Redaction changes only the bytes of secrets, in place, even while others append."""

import os
import random
import threading
from pathlib import Path

import pytest

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp
from acp_proxy.redaction.masking import Masking
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.tools.redact import redact_files
from acp_proxy.tools.redact.redact_files import redact_file, redact_stored
from acp_proxy.transcript import file_access
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.reader import TranscriptReader
from tests.redaction.made_up_secrets import plant
from tests.store import transcript_lines
from tests.stored import WholeStore, read_files
from tests.waiting import SECONDS

AGENT = "agent"
MASKING = Masking()
TOKEN = plant("GitHub token", random.Random(0)).secret
MASK = "[redacted]" + "*" * (len(TOKEN) - 10)


def path(store: WholeStore, session: str = "s") -> Path:
    [found] = store.root.glob(f"transcripts/{AGENT}/{session}-*.jsonl")
    return found


def holders(store: WholeStore, text: str = TOKEN) -> list[str]:
    """The files of the store that contain this text."""
    return [str(path.relative_to(store.root)) for path, data in read_files(store.root) if text.encode() in data]


def redact(store: WholeStore) -> int:
    found = sum(redact_file(each, MASKING, dry_run=False).total() for each in store.find_redactable(None))
    store.reindex(None)
    return found


def test_only_the_bytes_of_secrets_change(store: WholeStore) -> None:
    transcript_lines.store_lines(
        store,
        AGENT,
        "s",
        transcript_lines.prompt_line(f"use {TOKEN} please"),
        transcript_lines.agent_chunk("no"),
        transcript_lines.agent_chunk(f"a {TOKEN}"),
        b"torn",
    )
    before, found = path(store).stat(), path(store).read_bytes()
    assert redact_file(path(store), MASKING, dry_run=False) == {"GitHub token": 2}
    after = path(store).stat()
    assert (after.st_ino, after.st_size, after.st_mode) == (before.st_ino, before.st_size, before.st_mode)
    assert path(store).read_bytes() == found.replace(TOKEN.encode(), MASK.encode())


def test_the_original_includes_what_is_appended_while_the_file_is_masked(
    store: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(
        store, AGENT, "s", transcript_lines.agent_chunk(f"a {TOKEN} ."), transcript_lines.agent_chunk(f"b {TOKEN} .")
    )
    late = transcript_lines.agent_chunk(f"c {TOKEN} .")
    before = path(store).read_bytes()

    def write_and_append(fd: int, data: bytes, at: int) -> None:
        file_access.write_at(fd, data, at)
        is_it = os.path.samestat(os.fstat(fd), path(store).stat())
        if is_it and path(store).stat().st_size == len(before):
            transcript = TranscriptAppender(path(store))
            transcript.append(late)
            transcript.close()

    monkeypatch.setattr(redact_files, "write_at", write_and_append)
    original = tmp_path / "originals" / "s.jsonl"
    assert redact_file(path(store), MASKING, dry_run=False, original=original) == {"GitHub token": 3}
    assert original.read_bytes() == before + late
    assert holders(store) == []


def test_a_compressed_transcript_has_a_plain_original(store: WholeStore, tmp_path: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s", transcript_lines.prompt_line(TOKEN), transcript_lines.answer())
    plain, before = path(store), path(store).read_bytes()
    [row] = store.list_all()
    assert store.compress(row.agent_folder, row.name, CompressionOptions(min_size=1, older_than=0))
    redact_stored(store, plain, MASKING, dry_run=False, backup=tmp_path / "originals")
    assert (tmp_path / "originals" / plain.relative_to(store.root)).read_bytes() == before
    assert TOKEN.encode() not in plain.read_bytes()


def store_two_secrets(store: WholeStore) -> None:
    """A session with a secret that is cut into two chunks, and the same one whole."""
    transcript_lines.store_lines(
        store,
        AGENT,
        "s",
        transcript_lines.agent_chunk(f"a {TOKEN[:9]}"),
        transcript_lines.agent_chunk(f"{TOKEN[9:]} b"),
        transcript_lines.agent_chunk(TOKEN),
    )


def test_a_second_redaction_finds_and_writes_nothing(store: WholeStore) -> None:
    store_two_secrets(store)
    assert redact_file(path(store), MASKING, dry_run=False) == {"GitHub token": 2}
    found, before = path(store).read_bytes(), path(store).stat().st_mtime_ns
    assert redact_file(path(store), MASKING, dry_run=False) == {}
    assert (path(store).read_bytes(), path(store).stat().st_mtime_ns) == (found, before)


def test_a_dry_run_reports_the_same_number_and_changes_nothing(store: WholeStore) -> None:
    store_two_secrets(store)
    path(store).chmod(0o400)
    found = path(store).read_bytes()
    assert redact_file(path(store), MASKING, dry_run=True) == {"GitHub token": 2}
    assert path(store).read_bytes() == found


def test_a_link_is_not_followed(store: WholeStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(TOKEN)
    link = tmp_path / "link.jsonl"
    link.symlink_to(elsewhere)
    with pytest.raises(OSError):
        redact_file(link, MASKING, dry_run=False)
    assert elsewhere.read_text() == TOKEN


def test_a_file_of_a_later_version_is_not_redacted(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", transcript_lines.agent_chunk(TOKEN))
    later = path(store).read_bytes().replace(b'{"acp-transcript":1', b'{"acp-transcript":2')
    path(store).write_bytes(later)
    with pytest.raises(NewerFormat):
        redact_file(path(store), MASKING, dry_run=False)
    assert path(store).read_bytes() == later


def test_every_file_of_the_store_is_redacted(store: WholeStore) -> None:
    turn = transcript_lines.prompt_line(TOKEN), transcript_lines.agent_chunk(TOKEN), transcript_lines.answer()
    for session in ("s", "s", "partial"):
        transcript_lines.store_lines(store, AGENT, session, *(turn if session == "s" else turn[1:]))
    with (store.root / "transcripts" / AGENT / "state.jsonl").open("a") as journal:
        journal.write(f'{{"at":"2026","event":"deleted","sessionId":"x","title":"{TOKEN}"}}\n')
    backup = store.root / "backups" / AGENT / "s.jsonl"
    backup.parent.mkdir(parents=True)
    backup.write_bytes(b"".join(turn))
    [listed] = store.list_page(AGENT, None, None, "").rows
    assert listed.title == TOKEN
    assert len(holders(store)) >= 6
    assert redact(store) == 2 * 2 + 1 + 1 + 2
    assert holders(store) == []
    assert [row.title for row in store.list_page(AGENT, None, None, "").rows] == ["[redacted]"]


def test_redacting_a_session_redacts_its_transcript_and_backups(store: WholeStore) -> None:
    for session in ("s", "other"):
        transcript_lines.store_lines(
            store, AGENT, session, transcript_lines.prompt_line(TOKEN), transcript_lines.answer()
        )
    [chosen] = [row for row in store.list_all() if row.session_id == "s"]
    name = path(store).stem
    backup = store.root / "backups" / AGENT / "2026" / f"{name}.1.jsonl"
    backup.parent.mkdir(parents=True)
    backup.write_bytes(transcript_lines.agent_chunk(TOKEN))
    assert store.find_redactable([chosen]) == sorted([path(store), backup])
    redact_file(path(store), MASKING, dry_run=False)
    store.reindex([chosen])
    assert {row.session_id: row.title for row in store.list_all()} == {"s": "[redacted]", "other": TOKEN}


def test_entries_appended_during_the_redaction_stay_whole(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", transcript_lines.agent_chunk(f"{TOKEN} ."))
    count, ended = 400, threading.Event()

    def append() -> None:
        transcript = TranscriptAppender(path(store))
        for number in range(count):
            first, second = f"{number} {TOKEN[:7]}", f"{TOKEN[7:]} {'é' * (number * 37 % 3000)}"
            transcript.append(
                transcript_lines.agent_chunk(first)
                + transcript_lines.agent_chunk(second)
                + transcript_lines.agent_chunk(f"{number} {TOKEN} .")
            )
        transcript.close()
        ended.set()

    writer = threading.Thread(target=append)
    writer.start()
    rounds = 0
    while not ended.is_set() or rounds < 2:
        redact_file(path(store), MASKING, dry_run=False)
        rounds += 1
    writer.join(SECONDS)
    redact_file(path(store), MASKING, dry_run=False)
    assert holders(store) == []
    reader = TranscriptReader(path(store))
    texts = [text_of(line.entry.value) for line in reader.read_lines() if line.entry is not None]
    reader.close()
    assert len(texts) == 1 + 3 * count
    for number in range(count):
        first, second, whole = texts[1 + 3 * number : 4 + 3 * number]
        assert first.startswith(f"{number} ")
        assert second.endswith(" " + "é" * (number * 37 % 3000))
        assert whole == f"{number} {MASK} ."
        assert set(first.split(" ")[1] + second.split(" ")[0]) <= set("[redacted]*")


def text_of(value: object) -> str:
    content = acp.member(acp.member(acp.member(value, "params"), "update"), "content")
    return acp.text(content, "text") or ""
