"""Two stores with a real place between them, sealed."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_proxy.redaction.masking import Masking
from acp_proxy.sessions import relatives
from acp_proxy.store import delete
from acp_proxy.store.layout import Layout
from acp_proxy.store.remote_turns import append_remote_turns
from acp_proxy.tools.export.import_file import import_transcript
from acp_proxy.tools.maintenance.prune import find_candidates, prune_sessions
from acp_proxy.tools.maintenance.repair import repair_transcript
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.tools.sync import cache, push, segment_cut
from acp_proxy.tools.sync.copy_masker import CopyMasker
from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.object_store import SealedLogs
from acp_proxy.tools.sync.sync_store import SyncStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import Header, NoteType
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.stored import WholeStore, chunk, find_files_with, store_session
from tests.tools.sync.homes import AGENT, Home


@pytest.fixture
def homes(tmp_path: Path, place: str) -> tuple[Home, Home]:
    url, key = place, HistoryKey.create()
    SealedLogs(url, key).check("probe")
    return Home(tmp_path / "one", url, key, "laptop"), Home(tmp_path / "two", url, key, "desktop")


def test_a_session_begins_here_continues_there_and_comes_back(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", [chunk("Hi")]))
    one.sync()
    two.sync()
    assert two.prompts() == {"Hello": ["Hello"]}
    two.say("Hello", "Again")
    two.sync()
    one.sync()
    assert one.prompts() == two.prompts() == {"Hello": ["Hello", "Again"]}
    assert [[row.machine for row in home.store.list_newest()] for home in homes] == [[""], ["laptop"]]
    assert [one.elsewhere(), two.elsewhere()] == [[("desktop", "Again")], [("laptop", "Hello")]]


def test_turns_on_both_machines_at_once_become_two_sessions(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", [chunk("Hi")]))
    for home in homes:
        home.sync()
    one.say("Hello", "Here")
    two.say("Hello", "There")
    for home in (one, two, one):
        home.sync()
    assert one.prompts() == {"Hello": ["Hello", "Here"], "Hello (desktop)": ["Hello", "There"]}
    assert two.prompts() == {"Hello": ["Hello", "There"], "Hello (laptop)": ["Hello", "Here"]}


def test_a_second_branch_of_a_folder_whose_name_is_not_used_here_gets_its_title(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", [chunk("Hi")]))
    transcripts = one.store.layout.transcripts
    (transcripts / AGENT).rename(transcripts / "Made by hand")
    for home in homes:
        home.sync()
    for home, text in ((one, "Here"), (two, "There")):
        home.say("Hello", text)
    for home in (one, two, one):
        home.sync()
    assert one.prompts() == {"Hello": ["Hello", "Here"], "Hello (desktop)": ["Hello", "There"]}
    assert two.prompts() == {"Hello": ["Hello", "There"], "Hello (laptop)": ["Hello", "Here"]}


@pytest.fixture
def waiting(homes: tuple[Home, Home]) -> tuple[Home, Home, Path]:
    """A session has got a turn on the first machine, and is open on the second. The file with the turn."""
    one, two = homes
    store_session(one.store, "s", ("Hello", [chunk("Hi")]))
    for home in homes:
        home.sync()
    [row] = two.store.list_newest()
    editor = TranscriptAppender(two.store.layout.transcript_path(AGENT, row.name))
    one.say("Hello", "Again")
    for home in homes:
        home.sync()
    editor.close()
    return one, two, two.store.layout.waiting_turns_path(AGENT, row.name)


def test_a_load_adds_the_turns_that_waited_and_the_next_round_knows_them(waiting: tuple[Home, Home, Path]) -> None:
    one, two, turns = waiting
    [row] = two.store.list_newest()
    assert two.prompts() == {"Hello": ["Hello"]}
    assert two.store.has_remote_turns(AGENT, row.session_id)
    assert append_remote_turns(two.store.layout, AGENT, file_name(row.session_id))
    assert not turns.exists()
    for home in (two, one):
        home.sync()
    assert one.prompts() == two.prompts() == {"Hello": ["Hello", "Again"]}
    assert not list(verify_store(two.store))


def test_turns_are_not_added_to_a_session_that_went_on_meanwhile(waiting: tuple[Home, Home, Path]) -> None:
    one, two, turns = waiting
    two.say("Hello", "There")
    [row] = two.store.list_newest()
    assert not append_remote_turns(two.store.layout, AGENT, file_name(row.session_id))
    for home in (two, one):
        home.sync()
    assert not turns.exists()
    assert two.prompts() == {"Hello": ["Hello", "There"], "Hello (laptop)": ["Hello", "Again"]}


def test_turns_that_wait_go_with_their_session(waiting: tuple[Home, Home, Path]) -> None:
    _, two, turns = waiting
    [row] = two.store.list_newest()
    two.store.delete_listed(row, soft=False)
    assert not turns.exists()


def test_turns_that_wait_go_if_another_machine_deletes_the_session(waiting: tuple[Home, Home, Path]) -> None:
    one, two, turns = waiting
    assert turns.exists()
    [row] = one.store.list_newest()
    one.store.delete_listed(row, soft=False)
    for home in (one, two):
        home.sync()
    assert not turns.exists()
    assert two.prompts() == {}


def test_the_same_id_of_two_sessions_is_kept_apart(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "1", ("One", []))
    store_session(two.store, "1", ("Two", []))
    for home in (one, two, one):
        home.sync()
    assert one.prompts() == two.prompts() == {"One": ["One"], "Two": ["Two"]}


def test_titles_archives_and_deletes_follow(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "a", ("A", []))
    store_session(one.store, "b", ("B", []))
    store_session(one.store, "c", ("Gone", []))
    for home in homes:
        home.sync()
    assert b"Gone" in _read_place(one)
    rows = {row.title: row for row in two.store.list_newest()}
    two.store.set_listed_title(rows["A"], "Better")
    two.store.set_listed_archived(rows["B"], True)
    two.store.delete_listed(rows["Gone"], soft=False)
    two.sync()
    one.sync()
    assert {(row.title, row.is_archived) for row in one.store.list_newest()} == {("Better", False), ("B", True)}
    assert b"Gone" not in _read_place(one)


@pytest.mark.parametrize("is_branch", [False, True])
def test_no_machine_keeps_the_title_of_what_is_deleted_for_good(homes: tuple[Home, Home], is_branch: bool) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", [chunk("Hi")]))
    for home in homes:
        home.sync()
    if is_branch:
        one.say("Hello", "Here")
        two.say("Hello", "There")
    for home in (one, two, one):
        home.sync()
    [row] = [row for row in one.store.list_newest() if is_branch == (row.title == "Hello (desktop)")][:1]
    one.store.set_listed_title(row, "Precious")
    for home in homes:
        home.sync()
    assert b"Precious" in _read_place(one)
    one.store.delete_listed(*one.store.find_titled("Precious"), soft=False)
    for home in (one, two, one, two):
        home.sync()
    assert b"Precious" not in _read_place(one)
    assert [find_files_with(home.store, "Precious") for home in homes] == [[], []]


def test_many_deletes_leave_the_words_where_they_are_until_confirmed(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "MANY_DELETES", 1)
    one, two = homes
    for title in ("A", "B"):
        store_session(one.store, title, (title, []))
    one.sync()
    for row in list(one.store.list_newest()):
        one.store.delete_listed(row, soft=False)
    one.sync()
    assert one.joined.read_status().waiting_deletes == 2
    two.sync()
    assert two.prompts() == {"A": ["A"], "B": ["B"]}
    one.joined.do_round(one.logs, confirms_deletes=True)
    two.sync()
    assert two.prompts() == {}
    assert b'"method":"session/prompt"' not in _read_place(one)


def test_a_soft_delete_and_its_restore_follow(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "a", ("A", []))
    for home in homes:
        home.sync()
    [row] = one.store.list_newest()
    one.store.delete_listed(row, soft=True)
    one.sync()
    two.sync()
    assert two.prompts() == {}
    [kept] = two.store.list_deleted()
    two.store.restore(kept)
    two.sync()
    one.sync()
    assert one.prompts() == two.prompts() == {"A": ["A"]}


DAY = 24 * 60 * 60


def _delete_softly(home: Home) -> None:
    home.store.layout.bin_days = 30
    [row] = home.store.list_newest()
    home.store.delete_listed(row, soft=True)


def _let_pass(days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + days * DAY
    monkeypatch.setattr(time, "time", lambda: later)


def test_what_is_removed_here_after_its_time_comes_back_if_it_was_restored_elsewhere(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = homes
    store_session(one.store, "a", ("A", []))
    for home in homes:
        home.sync()
    _delete_softly(one)
    for home in homes:
        home.sync()
    [kept] = two.store.list_deleted()
    two.store.restore(kept)
    _let_pass(31, monkeypatch)
    one.store.remove_expired()
    assert one.store.layout.list_soft_deleted_names(AGENT) == []
    for home in (one, two, one):
        home.sync()
    assert one.prompts() == two.prompts() == {"A": ["A"]}


@pytest.mark.parametrize("before", [False, True])
def test_the_words_of_a_soft_delete_leave_the_shared_place_in_the_end(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """``before``: the delete is published before the session is removed here."""
    one, two = homes
    store_session(one.store, "a", ("A", []))
    for home in homes:
        home.sync()
    _delete_softly(one)
    if before:
        one.sync()
    _let_pass(31, monkeypatch)
    one.store.remove_expired()
    one.sync()
    two.sync()
    assert two.prompts() == {}
    assert b"session/prompt" in _read_place(one)
    assert len(two.store.list_deleted()) == 1
    _let_pass(61, monkeypatch)
    one.sync()
    two.sync()
    assert two.store.layout.list_soft_deleted_names(AGENT) == []
    assert b"session/prompt" not in _read_place(one)


def test_a_session_that_was_soft_deleted_before_leaves_only_when_it_is_restored(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "a", ("A", []))
    [row] = one.store.list_newest()
    one.store.delete_listed(row, soft=True)
    one.sync()
    assert b'"method":"session/prompt"' not in _read_place(one)
    [kept] = one.store.list_deleted()
    one.store.restore(kept)
    for home in homes:
        home.sync()
    assert two.prompts() == {"A": ["A"]}


def test_a_session_may_be_longer_than_the_longest_part(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = homes
    path = store_session(one.store, "s", *((f"Hello {number}", [chunk("Hi")]) for number in range(9)))
    size = path.stat().st_size
    for module, name, most in (
        (segment_cut, "LARGE_BYTES", size // 9),
        (push, "LARGE_BYTES", size // 9),
        (push, "LARGEST_BYTES", size // 2),
    ):
        monkeypatch.setattr(module, name, most)
    for home in homes:
        home.sync()
    assert one.joined.read_status().sent > 3
    assert two.prompts() == {"Hello 0": [f"Hello {number}" for number in range(9)]}
    one.say("Hello 0", "x" * size)
    one.sync()
    assert [why for _, _, why in one.joined.read_status().troubled] == ["too large"]


def test_a_redaction_follows_and_the_secret_leaves_the_shared_place(homes: tuple[Home, Home]) -> None:
    one, two = homes
    secret = "ghp_" + "a1B2" * 9
    path = store_session(one.store, "a", (f"Use {secret}", []))
    for home in homes:
        home.sync()
    assert secret.encode() in _read_place(one)
    assert redact_stored(one.store, path, Masking(), dry_run=False)
    one.sync()
    two.sync()
    assert secret not in str(two.prompts())
    assert secret.encode() not in _read_place(one)


@pytest.mark.parametrize("is_published", [False, True])
def test_a_redaction_reaches_the_copies_and_backups_of_another_machine(
    homes: tuple[Home, Home], tmp_path: Path, is_published: bool
) -> None:
    one, two = homes
    secret = "ghp_" + "a1B2" * 9
    path = store_session(one.store, "a", (f"Use {secret}", [chunk("Hi")]))
    for home in homes:
        home.sync()
    [row] = two.store.list_newest()
    two.store.copy_for_agent(row, file_name("other"), {"name": "other", "version": "1"})
    backup = two.store.layout.backups / row.agent_folder / f"{row.name}.1.jsonl"
    backup.parent.mkdir(parents=True)
    backup.write_bytes(two.store.find_path(row).read_bytes())
    if is_published:
        two.sync()
    assert len(find_files_with(two.store, secret)) >= 3
    assert redact_stored(one.store, path, Masking(), dry_run=False)
    for home in (one, two, two):
        home.sync()
    assert not {name for name in find_files_with(two.store, secret) if name.endswith(".jsonl")}
    list(two.store.list_newest())
    assert find_files_with(two.store, secret) == []
    assert secret.encode() not in _read_place(one)
    assert two.joined.read_status().troubled == []
    assert b"Hi" in backup.read_bytes()


def test_a_backup_that_cannot_be_masked_keeps_a_redaction_from_no_other_file(homes: tuple[Home, Home]) -> None:
    one, two = homes
    secret = "ghp_" + "a1B2" * 9
    path = store_session(one.store, "a", (f"Use {secret}", [chunk("Hi")]))
    for home in homes:
        home.sync()
    [row] = two.store.list_newest()
    two.store.copy_for_agent(row, file_name("other"), {"name": "other", "version": "1"})
    (two.store.layout.backups / row.agent_folder / f"{row.name}.1.jsonl").mkdir(parents=True)
    redact_stored(one.store, path, Masking(), dry_run=False)
    one.sync()
    with pytest.raises(OSError):
        two.sync()
    assert not {name for name in find_files_with(two.store, secret) if name.endswith(".jsonl")}
    two.sync()  # there is nothing left to mask
    assert two.joined.read_status().troubled == []


def test_two_redactions_that_overlap_leave_nothing_of_what_either_hides(homes: tuple[Home, Home]) -> None:
    store_session(homes[0].store, "a", ("Tell alice@work bob", []))
    for home in homes:
        home.sync()
    for home, pattern in zip(homes, (r"alice@work", r"@work bob"), strict=True):
        [row] = home.store.list_newest()
        assert redact_stored(home.store, home.store.find_path(row), Masking([pattern]), dry_run=False)
    for home in (*homes, *homes):
        home.sync()
    assert [home.joined.read_status().troubled for home in homes] == [[], []]
    for home in homes:
        assert not re.search("alice|work|bob", str(home.prompts()))
    assert homes[0].prompts() == homes[1].prompts()


def test_a_secret_that_contains_another_one_is_masked_as_on_the_machine_that_redacted_it(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = homes
    secret = "ghp_" + "a1B2" * 9
    path = store_session(one.store, "a", (f"export GITHUB_TOKEN=prod-{secret}", []), (f"Use prod-{secret}", []))
    for home in homes:
        home.sync()
    assert redact_stored(one.store, path, Masking(), dry_run=False)
    one.sync()
    with monkeypatch.context() as patched:
        patched.setattr(SyncStore, "overwrite", _raise_no_space)
        with pytest.raises(OSError, match="no space"):
            two.sync()
    for home in (two, one, two):
        home.sync()
    assert "Use prod-[redacted]" in str(one.prompts())
    assert one.prompts() == two.prompts()
    assert two.joined.read_status().troubled == []


def test_a_round_reads_once_which_sessions_are_copies_whatever_was_masked(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = homes
    secrets = ["ghp_" + letters * 9 for letters in ("a1B2", "c3D4", "e5F6")]
    paths = [store_session(one.store, session, (f"Use {secrets[0]} {session}", [])) for session in ("a", "b")]
    one.sync()
    for secret in secrets[1:]:
        for row in one.store.list_newest():
            one.say(row.title or "", f"Use {secret} {row.session_id}")
        one.sync()
    two.sync()
    for row in two.store.list_newest():
        two.store.copy_for_agent(row, file_name("other"), {"name": "other", "version": "1"})
    prompts = [f'"text":"Use {secret}' for secret in secrets[1:]]
    assert [len(find_files_with(two.store, prompt)) for prompt in prompts] == [4, 4]
    for path in paths:
        assert redact_stored(one.store, path, Masking(), dry_run=False)
    one.sync()
    read_headers, layouts = relatives._read_headers, list[Layout]()

    def read_and_count(layout: Layout) -> Iterator[tuple[relatives.TranscriptKey, Header]]:
        layouts.append(layout)
        return read_headers(layout)

    monkeypatch.setattr(relatives, "_read_headers", read_and_count)
    two.sync()
    assert len(layouts) == 1
    assert [find_files_with(two.store, prompt) for prompt in prompts] == [[], []]


def test_of_two_secrets_the_longer_one_is_masked_whole_in_copies(tmp_path: Path) -> None:
    store = WholeStore(tmp_path)
    store_session(store, "a", ("Use secret-word-1 and secret-word-1-and-more", []))
    [row] = store.list_newest()
    copy_id = store.copy_for_agent(row, file_name("other"), {"name": "other", "version": "1"})
    copy_path = store.layout.transcript_path(file_name("other"), file_name(copy_id))
    CopyMasker(store.layout).mask(row.agent_folder, row.name, [b"secret-word-1", b"secret-word-1-and-more"])
    assert b"Use [redacted]*** and [redacted]************" in copy_path.read_bytes()
    assert b"secret-word-1-and-more" in store.find_path(row).read_bytes()


def test_a_round_that_ends_between_two_masks_that_overlap_is_completed(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = homes
    store_session(one.store, "a", ("Tell alice@workplace bobby-brown", []))
    for home in homes:
        home.sync()
    for home, pattern in ((one, r"workplace bobby-brown"), (two, r"alice@workplace")):
        [row] = home.store.list_newest()
        assert redact_stored(home.store, home.store.find_path(row), Masking([pattern]), dry_run=False)
    one.sync()
    overwrite = SyncStore.overwrite

    def overwrite_and_raise(store: SyncStore, agent_folder: str, name: str, spans: list[tuple[int, bytes]]) -> None:
        overwrite(store, agent_folder, name, spans)
        _raise_no_space()

    with monkeypatch.context() as patched:
        patched.setattr(SyncStore, "overwrite", overwrite_and_raise)
        with pytest.raises(OSError, match="no space"):
            two.sync()
    for home in (two, one, two):
        home.sync()
    assert [home.joined.read_status().troubled for home in homes] == [[], []]
    assert one.prompts() == two.prompts()
    assert not re.search("alice|work|bobby", str(one.prompts()))


def _raise_no_space(*_args: object) -> None:
    raise OSError("no space")


@pytest.fixture
def shared_path(homes: tuple[Home, Home]) -> Path:
    """The second machine's file of a session that both have."""
    one, two = homes
    store_session(one.store, "s", ("NEVER delete it", []))
    for home in homes:
        home.sync()
    [row] = two.store.list_newest()
    return two.store.layout.transcript_path(row.agent_folder, row.name)


def test_a_changed_word_stays_where_it_is_until_its_file_is_fetched_again(
    homes: tuple[Home, Home], shared_path: Path, tmp_path: Path
) -> None:
    one, two = homes
    shared_path.write_bytes(shared_path.read_bytes().replace(b"NEVER", b"NEWER"))
    one.say("NEVER delete it", "Again")
    for home in (two, one, two):
        home.sync()
    assert [why for _, _, why in two.joined.read_status().troubled] == ["changed"]
    assert b"NEWER" in shared_path.read_bytes()
    assert b"NEWER" not in _read_place(one)
    shared_path.rename(tmp_path / "moved.jsonl")
    for home in (two, one):
        home.sync()
    assert one.prompts() == two.prompts() == {"NEVER delete it": ["NEVER delete it", "Again"]}
    assert two.joined.read_status().troubled == []


def test_a_line_that_is_no_entry_is_called_damaged_and_comes_back_after_repair(
    homes: tuple[Home, Home], shared_path: Path, tmp_path: Path
) -> None:
    one, two = homes
    shared_path.write_bytes(shared_path.read_bytes().replace(b'"NEVER', b"\0NEVER"))
    one.say("NEVER delete it", "Again")
    for home in (one, two):
        home.sync()
    assert [why for _, _, why in two.joined.read_status().troubled] == ["damaged"]
    assert repair_transcript(shared_path, tmp_path / "backup")
    for home in (two, one):
        home.sync()
    assert one.prompts() == two.prompts() == {"NEVER delete it": ["NEVER delete it", "Again"]}
    assert two.joined.read_status().troubled == []


def test_the_rest_of_a_line_whose_end_was_cut_off_stays_as_repair_left_it(
    homes: tuple[Home, Home], shared_path: Path, tmp_path: Path
) -> None:
    _, two = homes
    shared_path.write_bytes(shared_path.read_bytes()[:-9] + b"\n")
    two.say("NEVER delete it", "After it")
    assert repair_transcript(shared_path, tmp_path / "backup")
    before = shared_path.read_bytes()
    two.sync()
    assert shared_path.read_bytes() == before
    assert [why for _, _, why in two.joined.read_status().troubled] == ["changed"]


def test_a_machine_whose_next_record_is_not_its_own_goes_on_under_a_new_id(
    homes: tuple[Home, Home], place: str
) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", []))
    for home in homes:
        home.sync()
    [machine] = one.logs.list_machines()
    number = next(number for number in range(1, 99) if one.logs.get(machine, number) is None)
    other_key = HistoryKey(one.logs.history, HistoryKey.create().key)
    SealedLogs(place, other_key).replace(machine, number, b"of somebody else")
    one.say("Hello", "Again")
    for home in homes:
        home.sync()
    assert two.prompts() == {"Hello": ["Hello", "Again"]}


@pytest.mark.parametrize("damage", [b"\0", b"\n"])
def test_what_was_damaged_and_repaired_here_comes_back_and_is_lost_nowhere(
    homes: tuple[Home, Home], tmp_path: Path, damage: bytes
) -> None:
    one, two = homes
    path = store_session(one.store, "s", ("Hello", [chunk("intact"), chunk("precious"), chunk("words")]))
    for home in homes:
        home.sync()
    before = path.read_bytes()
    path.write_bytes(before.replace(b'"precious"', damage + b'precious"'))
    assert repair_transcript(path, tmp_path / "backup")
    assert path.read_bytes() != before
    for home in (one, two, one):
        home.sync()
    assert path.read_bytes() == before
    assert b"precious" in _read_place(one)
    assert len(find_files_with(two.store, "precious")) >= 1
    assert list(verify_store(one.store)) == []


def test_what_repair_notes_at_the_end_goes_once_what_was_lost_is_back(homes: tuple[Home, Home], tmp_path: Path) -> None:
    one, two = homes
    path = store_session(one.store, "s", ("Hello", [chunk("precious")]))
    for home in homes:
        home.sync()
    before = path.read_bytes()
    start = before.rindex(b"\n", 0, before.index(b"precious")) + 1
    damaged = bytearray(before)
    end = before.index(b"\n", start)
    damaged[start + 40 : end : 40] = b"\n" * len(range(start + 40, end, 40))  # no part has room for a note
    path.write_bytes(damaged)
    assert repair_transcript(path, tmp_path / "backup")
    assert path.stat().st_size > len(before)
    two.say("Hello", "Again")
    for home in (two, one):
        home.sync()
    assert path.read_bytes().startswith(before.partition(b"\n")[2], path.read_bytes().index(b"\n") + 1)
    assert one.prompts() == {"Hello": ["Hello", "Again"]}
    assert list(verify_store(one.store)) == []


def test_what_repair_notes_in_place_of_words_that_are_nowhere_else_stays(
    homes: tuple[Home, Home], tmp_path: Path
) -> None:
    one, two = homes
    path = store_session(one.store, "s", ("Hello", [chunk("precious")]))
    for home in homes:
        home.sync()
    published = path.read_bytes()
    unpublished = published[published.rindex(b"\n", 0, published.index(b"precious")) + 1 :].partition(b"\n")[0]
    path.write_bytes(published + b"\0" * len(unpublished * 2) + b"\n")
    assert repair_transcript(path, tmp_path / "backup")
    two.say("Hello", "Again")
    for home in (two, one, two, one):
        home.sync()
    assert b'"reason":"repair"' in path.read_bytes()
    assert one.prompts()["Hello"]


@pytest.mark.parametrize("soft", [True, False])
def test_a_session_that_is_imported_after_its_delete_stays_and_is_shared(
    homes: tuple[Home, Home], tmp_path: Path, soft: bool
) -> None:
    one, two = homes
    path = store_session(one.store, "s", ("Hello", []))
    exported = tmp_path / "s.jsonl"
    exported.write_bytes(path.read_bytes())
    for home in homes:
        home.sync()
    one.store.delete_listed(*one.store.list_newest(), soft=soft)
    for home in homes:
        home.sync()
    assert import_transcript(one.store, exported).is_new
    assert not import_transcript(one.store, exported).is_new
    one.say("Hello", "Again")
    for home in (one, two, one):
        home.sync()
    assert one.prompts() == two.prompts() == {"Hello": ["Hello", "Again"]}


def test_a_session_that_is_imported_on_another_machine_after_its_delete_stays_and_is_shared(
    homes: tuple[Home, Home], tmp_path: Path
) -> None:
    one, two = homes
    exported = tmp_path / "s.jsonl"
    exported.write_bytes(store_session(one.store, "s", ("Hello", [])).read_bytes())
    for home in homes:
        home.sync()
    one.store.delete_listed(*one.store.list_newest(), soft=False)
    for home in homes:
        home.sync()
    assert import_transcript(two.store, exported).is_new
    two.say("Hello", "Again")
    for home in (two, one, two):
        home.sync()
    assert one.prompts() == two.prompts() == {"Hello": ["Hello", "Again"]}


@pytest.mark.parametrize("is_deleted_elsewhere", [False, True])
def test_a_session_that_is_imported_after_a_prune_is_there_once(
    homes: tuple[Home, Home], tmp_path: Path, is_deleted_elsewhere: bool
) -> None:
    one, two = homes
    exported = tmp_path / "s.jsonl"
    exported.write_bytes(store_session(one.store, "s", ("Hello", [])).read_bytes())
    for home in homes:
        home.sync()
    delete.delete_by_id(one.store.layout, AGENT, "s", soft=False, only_on_this_machine=True)
    one.sync()
    if is_deleted_elsewhere:
        two.store.delete_listed(*two.store.list_newest(), soft=False)
        for home in (two, one):
            home.sync()
    assert import_transcript(one.store, exported).is_new
    one.say("Hello", "Again")
    for home in (one, two, one):
        home.sync()
    assert len([*one.store.list_newest()]) == len([*two.store.list_newest()]) == 1
    assert one.prompts() == two.prompts() == {"Hello": ["Hello", "Again"]}


def test_a_missing_session_comes_back_beside_an_import_that_has_its_id(
    homes: tuple[Home, Home], tmp_path: Path
) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", []))
    for home in homes:
        home.sync()
    [row] = two.store.list_newest()
    exported = tmp_path / "s.jsonl"
    exported.write_bytes(two.store.layout.transcript_path(row.agent_folder, row.name).read_bytes())
    two.store.delete_listed(row, soft=True)
    assert import_transcript(two.store, exported).is_new
    [name] = two.store.layout.list_soft_deleted_names(row.agent_folder)
    two.store.layout.soft_deleted_path(row.agent_folder, name).unlink()
    for _ in range(2):
        two.sync()
    assert [each.title for each in two.store.list_newest()] == ["Hello", "Hello"]


@pytest.mark.parametrize("then", ["delete here", "delete elsewhere", "say elsewhere"])
def test_a_session_whose_header_has_lost_its_uid_stays_the_same_session(homes: tuple[Home, Home], then: str) -> None:
    one, two = homes
    path = store_session(one.store, "s", ("Hello", []))
    for home in homes:
        home.sync()
    line, _, entries = path.read_bytes().partition(b"\n")
    header = file_format.decode_header(line)
    assert header is not None
    repaired = replace(header, uid="", origin=file_format.PARTIAL)
    path.write_bytes(file_format.encode_header(repaired) + entries)
    if then == "say elsewhere":
        two.say("Hello", "Again")
    else:
        changed = one if then == "delete here" else two
        changed.store.delete_listed(*changed.store.list_newest(), soft=False)
    for home in (two, one, two, one):
        home.sync()
    assert one.prompts() == two.prompts() == ({"Hello": ["Hello", "Again"]} if then == "say elsewhere" else {})
    assert len([*one.store.list_newest()]) == len([*two.store.list_newest()]) == (then == "say elsewhere")


def test_an_open_session_waits_until_it_is_closed(homes: tuple[Home, Home]) -> None:
    one, two = homes
    path = store_session(one.store, "s", ("Hello", []))
    for home in homes:
        home.sync()
    two.say("Hello", "There")
    two.sync()
    transcript = TranscriptAppender(path)
    one.sync()
    assert one.prompts() == {"Hello": ["Hello"]}
    assert one.joined.read_status().open_here == 1
    transcript.close()
    one.sync()
    assert one.prompts() == {"Hello": ["Hello", "There"]}


def test_a_session_that_is_being_loaded_gets_its_turns_later(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", []))
    for home in homes:
        home.sync()
    two.say("Hello", "There")
    two.sync()
    with closing(one.store.open_locked_reader(AGENT, "s")):
        one.sync()
        assert one.prompts() == {"Hello": ["Hello"]}
    one.sync()
    assert one.prompts() == {"Hello": ["Hello", "There"]}


def test_a_pruned_session_stays_on_the_other_machine(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", []))
    for home in homes:
        home.sync()
    assert [
        why for _, why in prune_sessions(one.store, find_candidates(one.store), soft=False, only_on_this_machine=True)
    ] == [None]
    for home in (one, two, one):
        home.sync()
    assert (one.prompts(), two.prompts()) == ({}, {"Hello": ["Hello"]})


def test_a_compressed_session_gets_its_turns(homes: tuple[Home, Home]) -> None:
    from acp_proxy.store.compress import CompressionOptions

    one, two = homes
    store_session(one.store, "s", ("Hello", []))
    for home in homes:
        home.sync()
    list(one.store.list_newest())
    assert one.store.compress(AGENT, file_name("s"), CompressionOptions(min_size=0, older_than=-1)) is not None
    two.say("Hello", "There")
    two.sync()
    one.sync()
    assert one.prompts() == {"Hello": ["Hello", "There"]}


def test_a_missing_file_is_fetched_again(homes: tuple[Home, Home]) -> None:
    one, _ = homes
    path = store_session(one.store, "s", ("Hello", []))
    one.sync()
    path.unlink()
    one.sync()
    assert one.prompts() == {"Hello": ["Hello"]}


def test_a_round_with_nothing_new_asks_once_for_the_machines_and_once_for_each(homes: tuple[Home, Home]) -> None:
    one, two = homes
    for number in range(5):
        store_session(one.store, f"s{number}", ("Hello", []))
    store_session(two.store, "t", ("Hello", []))
    for home in (one, two, one):
        home.sync()
    before = one.logs.requests
    one.sync()
    assert one.logs.requests - before == 1 + 2


def test_a_join_fetches_each_record_once_however_much_that_is(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_MOST_BYTES_IN_MEMORY", 100)
    one, two = homes
    for number in range(3):
        store_session(one.store, f"s{number}", (f"Hello {number}", [chunk("Hi")]))
    one.sync()
    before = two.logs.requests
    two.sync()
    assert two.logs.requests - before == 1 + 2 + 3
    assert two.prompts() == one.prompts()


def _read_place(home: Home) -> bytes:
    """Everything in the shared place, in clear."""
    found = b""
    for machine in home.logs.list_machines():
        number = 1
        while (data := home.logs.get(machine, number)) is not None:
            found, number = found + data, number + 1
    return found


def test_an_agent_is_never_asked_for_an_id_that_an_agent_of_another_machine_gave(homes: tuple[Home, Home]) -> None:
    one, two = homes
    path = store_session(one.store, "1", ("Hello", []))
    one.sync()
    two.sync()
    [row] = two.store.list_newest()
    assert row.session_id not in ("1", "")
    with closing(two.store.open_listed(row)) as reader:
        reader.search()
        assert reader.agent_session.is_missing
    note = file_format.encode_note(
        transcript_lines.time(0), transcript_lines.RUN, {"type": NoteType.HANDOVER, "to": "2"}
    )
    there = TranscriptAppender(two.store.layout.transcript_path(AGENT, row.name))
    there.append(note)
    there.close()
    two.say("Hello", "There")
    two.sync()
    one.sync()
    with closing(two.store.open_listed(row)) as reader:
        reader.search()
        assert reader.agent_session.alias == "2"
    with closing(TranscriptReader(path)) as reader:
        reader.search()
        found = reader.agent_session
        assert (found.alias, found.is_missing, found.is_behind) == (None, False, True)


def test_a_delete_of_a_session_whose_id_was_given_again_does_not_delete_the_older_one(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "1", ("Older", []))
    one.sync()
    store_session(one.store, "1", ("Newer", []))
    [newer] = one.store.find_titled("Newer")
    one.store.delete_listed(newer, soft=False)
    for home in (one, two):
        home.sync()
    assert one.prompts() == two.prompts() == {"Older": ["Older"]}


def test_a_machine_that_leaves_and_takes_part_again_doubles_no_branch(homes: tuple[Home, Home]) -> None:
    one, two = homes
    store_session(one.store, "s", ("Hello", []))
    one.sync()
    two.sync()
    one.say("Hello", "from one")
    two.say("Hello", "from two")
    for home in (one, two, one, two):
        home.sync()
    branches = [["Hello", "from one"], ["Hello", "from two"]]
    assert [sorted(home.prompts().values()) for home in homes] == [branches, branches]
    settings = one.joined.read_settings()
    one.joined.leave()
    one.joined.join(settings, "laptop")
    for home in (one, two, one, two):
        home.sync()
    assert [sorted(home.prompts().values()) for home in homes] == [branches, branches]
