"""An export is imported byte by byte; nothing else gets into the store, and nothing there is replaced."""

import json
import os
import random
import stat
import subprocess
import sys
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_proxy import shell_quote
from acp_proxy.errors import NewerFormat, NotImported
from acp_proxy.store import delete
from acp_proxy.store.layout import Layout
from acp_proxy.tools.export import import_file
from acp_proxy.tools.export.import_file import import_transcript
from acp_proxy.transcript import file_format
from acp_proxy.transcript.compressed import compress_chunks
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import compressed_path, file_name, unfinished_path
from tests.store import transcript_lines
from tests.store.full_disk import run_on_full_disk
from tests.stored import WholeStore

SAMPLES = Path(__file__).parents[3] / "fixtures" / "transcripts" / "v1"
AGENT = file_name("my-agent")


def export_transcript(
    tmp_path: Path, *lines: bytes, header: Header | None = None, name: str = "exported.jsonl"
) -> Path:
    path = tmp_path / name
    head = header or Header(
        transcript_lines.SESSION,
        transcript_lines.CWD,
        file_format.RECORDED,
        transcript_lines.time(0),
        agent={"id": AGENT},
    )
    turn = [transcript_lines.prompt_line("hello"), transcript_lines.agent_chunk("hi"), transcript_lines.answer()]
    path.write_bytes(file_format.encode_header(head) + b"".join(lines or turn))
    return path


def list_files(store: WholeStore) -> list[Path]:
    """Transcripts, and leftovers of imports."""
    return sorted(path for path in (store.root / "transcripts").rglob("*") if path.is_file() and path.stem != "state")


def import_refused(store: WholeStore, path: Path, *, damaged: bool = False) -> str:
    before = {file: file.read_bytes() for file in list_files(store)}
    with pytest.raises(NotImported) as problem:
        import_transcript(store, path, accepts_damaged=damaged)
    assert {file: file.read_bytes() for file in list_files(store)} == before
    return str(problem.value)


def test_an_import_has_the_exact_bytes_of_the_export(store: WholeStore, tmp_path: Path) -> None:
    path = export_transcript(tmp_path)
    taken = import_transcript(store, path)
    assert (taken.agent_folder, taken.session_id, taken.prompts, taken.is_new) == (
        AGENT,
        transcript_lines.SESSION,
        1,
        True,
    )
    [imported] = list_files(store)
    assert imported == store.root / "transcripts" / AGENT / f"{file_name(transcript_lines.SESSION)}.jsonl"
    assert imported.read_bytes() == path.read_bytes()
    [row] = store.list_all()
    assert (row.session_id, row.agent_folder, row.title, row.cwd) == (
        transcript_lines.SESSION,
        AGENT,
        "hello",
        transcript_lines.CWD,
    )


def test_sessions_of_an_agent_that_uses_ids_again_are_all_imported(store: WholeStore, tmp_path: Path) -> None:
    paths = []
    for number, uid in enumerate(("a" * 32, "b" * 32, "c" * 32)):
        header = Header(
            transcript_lines.SESSION,
            transcript_lines.CWD,
            file_format.RECORDED,
            transcript_lines.time(number),
            agent={"id": AGENT},
            uid=uid,
        )
        paths.append(export_transcript(tmp_path, transcript_lines.prompt_line(uid), header=header, name=uid))
    name = file_name(transcript_lines.SESSION)
    for are_new in (True, False):
        imported = [import_transcript(store, path) for path in paths]
        assert [(session.name, session.is_new) for session in imported] == [
            (name, are_new),
            (f"{name}~1", are_new),
            (f"{name}~2", are_new),
        ]
    assert [path.read_bytes() for path in list_files(store)] == [path.read_bytes() for path in paths]
    assert {row.title for row in store.list_all()} == {"a" * 32, "b" * 32, "c" * 32}
    paths[1].write_bytes(paths[1].read_bytes().replace(b"b" * 32 + b'"}]', b'other"}]'))
    assert f"delete it first: acp-proxy delete {shell_quote.quote(f'{name}~1')}" in import_refused(store, paths[1])


@pytest.mark.parametrize("end", [b"", b"torn"])
@pytest.mark.parametrize(
    "names",
    [
        transcript_lines.note("alias", to="theirs"),
        transcript_lines.note("handover", to="theirs"),
        b'"' + transcript_lines.note("alias", to="x"),
    ],
)
def test_an_imported_file_does_not_say_for_which_session_the_agent_is_asked(
    store: WholeStore, tmp_path: Path, names: bytes, end: bytes
) -> None:
    path = export_transcript(
        tmp_path,
        transcript_lines.prompt_line("hello"),
        names,
        transcript_lines.agent_chunk("hi"),
        transcript_lines.answer() + end,
    )
    assert import_transcript(store, path, accepts_damaged=True).is_new
    assert not import_transcript(store, path, accepts_damaged=True).is_new
    with closing(store.open_reader(AGENT, transcript_lines.SESSION)) as reader:
        while reader.search():
            pass
        found = reader.agent_session
        assert (found.alias, found.is_missing, found.lacks_past) == (None, True, True)
    [imported] = list_files(store)
    with imported.open("ab") as file:
        file.write(transcript_lines.note("handover", to="mine"))
    with closing(store.open_reader(AGENT, transcript_lines.SESSION)) as reader:
        while reader.search():
            pass
        assert (reader.agent_session.alias, reader.agent_session.is_missing) == ("mine", False)


def test_an_imported_file_is_private(store: WholeStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        import_transcript(store, export_transcript(tmp_path))
    finally:
        os.umask(before)
    [imported] = list_files(store)
    assert stat.S_IMODE(imported.stat().st_mode) == 0o600
    assert stat.S_IMODE(imported.parent.stat().st_mode) == 0o700


def test_a_compressed_transcript_is_imported_uncompressed(store: WholeStore, tmp_path: Path) -> None:
    plain = export_transcript(tmp_path)
    path = compressed_path(plain)
    path.write_bytes(b"".join(compress_chunks(iter([plain.read_bytes()]), plain.stat().st_size)))
    assert import_transcript(store, path).is_new
    assert list_files(store)[0].read_bytes() == plain.read_bytes()
    assert not import_transcript(store, plain).is_new
    other = tmp_path / "renamed"
    path.replace(other)
    assert not import_transcript(store, other).is_new


@pytest.mark.parametrize("cut", [-40, -1, 30])
def test_a_damaged_compressed_transcript_is_refused(store: WholeStore, tmp_path: Path, cut: int) -> None:
    plain = export_transcript(tmp_path)
    path = compressed_path(plain)
    path.write_bytes(b"".join(compress_chunks(iter([plain.read_bytes()]), plain.stat().st_size))[:cut])
    import_refused(store, path)
    import_refused(store, path, damaged=True)


def test_importing_a_session_again_changes_nothing(store: WholeStore, tmp_path: Path) -> None:
    path = export_transcript(tmp_path)
    import_transcript(store, path)
    assert not import_transcript(store, path).is_new
    with list_files(store)[0].open("ab") as file:
        file.write(transcript_lines.prompt_line("more"))
    assert not import_transcript(store, path).is_new
    assert len(list_files(store)) == 1


def test_an_import_never_replaces_a_different_session(store: WholeStore, tmp_path: Path) -> None:
    import_transcript(store, export_transcript(tmp_path))
    other = export_transcript(tmp_path, transcript_lines.prompt_line("something else"), transcript_lines.answer())
    assert "acp-proxy delete sess-1" in import_refused(store, other)
    longer = export_transcript(
        tmp_path,
        transcript_lines.prompt_line("hello"),
        transcript_lines.agent_chunk("hi"),
        transcript_lines.answer(),
        transcript_lines.prompt_line("more"),
    )
    import_refused(store, longer)


@pytest.mark.parametrize(("uid", "is_new"), [("0123456789abcdef" * 2, True), ("short", False), ("", False)])
def test_an_import_after_a_delete_has_another_uid_and_is_otherwise_the_same(
    store: WholeStore, tmp_path: Path, uid: str, is_new: bool
) -> None:
    head = Header(transcript_lines.SESSION, None, file_format.RECORDED, transcript_lines.time(0), uid=uid)
    exported = export_transcript(tmp_path, header=replace(head, agent={"id": AGENT}))
    import_transcript(store, exported)
    store.delete_listed(store.list_all()[0], soft=False)
    assert import_transcript(store, exported).is_new
    [path] = list_files(store)
    header = file_format.decode_header(path.read_bytes().partition(b"\n")[0])
    assert header is not None
    assert (header.uid != uid) is is_new
    assert path.read_bytes().replace(header.uid.encode(), uid.encode(), 1 if uid else 0) == exported.read_bytes()
    assert not import_transcript(store, exported).is_new


def test_an_import_of_what_was_deleted_under_another_id_has_another_uid(store: WholeStore, tmp_path: Path) -> None:
    head = Header("sess-1", None, file_format.RECORDED, transcript_lines.time(0), agent={"id": AGENT}, uid="ab" * 16)
    head = replace(head, branch_of="cd" * 16)
    exported = export_transcript(tmp_path, header=head)
    here = replace(head, session_id="as-sync-calls-it", forked_from=["sess-1"])
    import_transcript(store, export_transcript(tmp_path, header=here, name="here.jsonl"))
    store.delete_listed(store.list_all()[0], soft=False)
    assert import_transcript(store, exported).is_new
    [path] = list_files(store)
    header = file_format.decode_header(path.read_bytes().partition(b"\n")[0])
    assert header is not None
    assert header.uid not in (head.uid, head.branch_of)
    assert header.branch_of == header.uid, "it is no branch of what was deleted"
    assert not import_transcript(store, exported).is_new


@pytest.mark.parametrize("soft", [False, True])
def test_an_import_after_a_prune_is_the_same_session_for_other_machines_unless_the_bin_has_it(
    store: WholeStore, tmp_path: Path, soft: bool
) -> None:
    head = Header(transcript_lines.SESSION, None, file_format.RECORDED, transcript_lines.time(0), uid="ab" * 16)
    exported = export_transcript(tmp_path, header=replace(head, agent={"id": AGENT}))
    import_transcript(store, exported)
    delete.delete_by_id(store.layout, AGENT, transcript_lines.SESSION, soft=soft, only_on_this_machine=True)
    assert import_transcript(store, exported).is_new
    path = store.layout.transcript_path(AGENT, file_name(transcript_lines.SESSION))
    assert (path.read_bytes() == exported.read_bytes()) is not soft


def test_an_import_revives_a_deleted_session(store: WholeStore, tmp_path: Path) -> None:
    path = export_transcript(tmp_path)
    import_transcript(store, path)
    store.delete_listed(store.list_all()[0], soft=False)
    assert transcript_lines.SESSION in store.read_deleted(AGENT)
    assert import_transcript(store, path).is_new
    assert store.read_deleted(AGENT) == frozenset()
    assert [row.session_id for row in store.list_all()] == [transcript_lines.SESSION]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"# A page\n",
        b'{"acp-conversation":1,\n"session":{}}\n',
        b'{"acp-transcript":1}\n',
        b'{"acp-transcript":0,"sessionId":"s"}\n',
        b'{"acp-transcript":1,"sessionId":"s"}',
        b"\x00" * 5000,
        b"(\xb5/\xfd",
        b'[{"acp-transcript":1,"sessionId":"s"}]\n',
        b'{"acp-transcript":1,"sessionId":"' + b"s" * 2_000_000 + b'"}\n',
    ],
    ids=lambda data: str(data[:20]),
)
def test_a_file_that_is_not_a_transcript_is_refused(store: WholeStore, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    import_refused(store, path)
    import_refused(store, path, damaged=True)


def left_of_streams(store: WholeStore) -> list[str]:
    usual = {"format", "transcripts", "unindexed"}
    return sorted({path.name for path in store.root.iterdir() if not path.name.startswith("index.")} - usual)


def test_a_transcript_can_be_imported_from_a_pipe(store: WholeStore, tmp_path: Path) -> None:
    path = export_transcript(tmp_path)
    for is_new in (True, False):
        ours, theirs = os.pipe()
        os.write(theirs, path.read_bytes())
        os.close(theirs)
        assert import_transcript(store, Path(f"/dev/fd/{ours}")).is_new == is_new
        os.close(ours)
        assert list_files(store)[0].read_bytes() == path.read_bytes()
    assert left_of_streams(store) == []


@pytest.mark.parametrize("compress", [False, True])
def test_a_long_stream_is_imported_compressed_or_not(store: WholeStore, tmp_path: Path, compress: bool) -> None:
    chance = random.Random(0)
    said = [transcript_lines.agent_chunk(chance.randbytes(50_000).hex()) for _ in range(40)]
    data = export_transcript(tmp_path, transcript_lines.prompt_line("hello"), *said).read_bytes()
    given = b"".join(compress_chunks(iter([data]), len(data))) if compress else data
    assert len(given) > import_file._READ_BYTES
    assert import_transcript(store, BytesIO(given)).is_new
    assert list_files(store)[0].read_bytes() == data


LONG_LINE = 64 * 1024 * 1024
"""Bytes, far more than anything else takes in memory."""
TAKES_IN = """
import resource, sys
from pathlib import Path
from acp_proxy.tools.export.import_file import import_transcript
from tests.stored import WholeStore
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
root, one, other = map(Path, sys.argv[1:])
store = WholeStore(root)
import_transcript(store, one)
before = peak()
import_transcript(store, other)
print(peak() - before)
"""


@pytest.mark.parametrize("compress", [False, True])
def test_a_long_line_takes_a_few_times_its_size(store: WholeStore, tmp_path: Path, compress: bool) -> None:
    """docs/performance.md says how many."""
    begins, ends = transcript_lines.prompt_line("Look: XX").split(b"XX")
    line = [begins, *[b"x" * 1024 * 1024] * (LONG_LINE // 1024 // 1024), ends]
    header = file_format.encode_header(
        Header("long", transcript_lines.CWD, file_format.RECORDED, transcript_lines.time(0), agent={"id": AGENT})
    )
    pieces = [header, transcript_lines.prompt_line("before"), *line, transcript_lines.answer()]
    long = tmp_path / "long"
    long.write_bytes(b"".join(compress_chunks(iter(pieces), sum(map(len, pieces))) if compress else pieces))
    small = export_transcript(tmp_path)
    if compress:
        small.write_bytes(b"".join(compress_chunks(iter([small.read_bytes()]), small.stat().st_size)))
    child = [sys.executable, "-c", TAKES_IN, str(store.root), str(small), str(long)]
    grown = int(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout)
    assert grown < 4 * LONG_LINE
    row = next(row for row in store.list_all() if row.session_id == "long")
    assert (row.title, row.prompt_count, row.size) == ("before", 2, sum(map(len, pieces)))


class Endless(BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size) or b"x" * 1000


@pytest.mark.parametrize("data", [b"", b"# A page\n" * 1_000_000, b"\n"], ids=["bytes", "lines", "an empty line"])
def test_a_stream_that_is_not_a_transcript_is_refused_before_its_end(store: WholeStore, data: bytes) -> None:
    with pytest.raises(NotImported):
        import_transcript(store, Endless(data))
    assert (list_files(store), left_of_streams(store)) == ([], [])


def test_a_device_is_refused_with_what_to_do(store: WholeStore) -> None:
    assert "to a file" in import_refused(store, Path("/dev/zero"))


def test_a_transcript_of_a_later_version_is_refused(store: WholeStore) -> None:
    with pytest.raises(NewerFormat):
        import_transcript(store, SAMPLES / "newer.jsonl")
    assert list_files(store) == []


@pytest.mark.parametrize(
    "sample", ["torn-end", "nul-block", "garbage-line", "two-headers", "glued-after-torn", "torn-character"]
)
def test_a_damaged_transcript_is_imported_only_on_request(store: WholeStore, sample: str) -> None:
    path = SAMPLES / f"{sample}.jsonl"
    assert "--damaged" in import_refused(store, path)
    assert import_transcript(store, path, accepts_damaged=True).is_new
    assert list_files(store)[0].read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "sample",
    [
        *("conversation", "two-runs", "gap", "partial", "imported", "crash-in-turn", "agent-ended", "prompt-failed"),
        *("exact-bytes", "kept-as-string", "unknown-keys", "no-newline-at-end"),
    ],
)
def test_every_intact_transcript_is_imported(store: WholeStore, sample: str) -> None:
    path = SAMPLES / f"{sample}.jsonl"
    assert import_transcript(store, path).is_new
    assert list_files(store)[0].read_bytes() == path.read_bytes()


EVIL = ["../../../../tmp/evil", "/etc/passwd", "..", "state", "", "CON", "a\x00b", "x" * 5000, "\ud800", "~1", "A/B"]
EVIL += ["x" * 5000 + "-0123456789abcdef", "x-0123456789abcdef~1", "-0123456789abcdef"]


@pytest.mark.parametrize("evil", EVIL, ids=range(len(EVIL)))
def test_a_header_cannot_write_outside_the_store(store: WholeStore, tmp_path: Path, evil: str) -> None:
    header = Header(
        evil, transcript_lines.CWD, file_format.RECORDED, transcript_lines.time(0), agent={"id": evil, "name": evil}
    )
    path = tmp_path / "evil.jsonl"
    raw = file_format.encode_header(
        Header("SESSION", transcript_lines.CWD, file_format.RECORDED, transcript_lines.time(0), agent={"id": "AGENT"})
    )
    text = json.dumps(evil)
    path.write_bytes(
        raw.replace(b'"SESSION"', text.encode()).replace(b'"AGENT"', text.encode()) + transcript_lines.prompt_line("hi")
    )

    def around() -> set[Path]:
        return {found for found in tmp_path.rglob("*") if store.root.name not in found.parts}

    before = around()
    taken = import_transcript(store, path)
    assert taken.session_id == header.session_id
    assert around() == before
    [imported] = list_files(store)
    assert imported.parent.parent == store.root / "transcripts"
    assert imported.read_bytes() == path.read_bytes()


def test_the_header_decides_the_agents_folder(store: WholeStore, tmp_path: Path) -> None:
    agents: list[tuple[dict[str, object], str]] = [
        ({"id": AGENT, "name": "other"}, AGENT),
        ({"id": "My Agent"}, file_name("My Agent")),
        ({"name": "Another"}, file_name("Another")),
        ({"id": 7}, file_name("agent")),
    ]
    for agent, folder in agents:
        header = Header(
            transcript_lines.SESSION, transcript_lines.CWD, file_format.RECORDED, transcript_lines.time(0), agent=agent
        )
        assert import_transcript(store, export_transcript(tmp_path, header=header)).agent_folder == folder


def test_a_full_disk_leaves_no_partial_import(store: WholeStore, tmp_path: Path) -> None:
    path = export_transcript(
        tmp_path, *[transcript_lines.prompt_line("hello"), *[transcript_lines.agent_chunk("hi " * 100)] * 200]
    )
    for job in ("import", "import a stream"):
        assert run_on_full_disk(job, store.root, 8192) == ["EFBIG"]
        assert (list_files(store), left_of_streams(store)) == ([], [])
    assert import_transcript(store, path).is_new


def test_leftovers_of_an_interrupted_import_do_not_matter(store: WholeStore, tmp_path: Path) -> None:
    path = export_transcript(tmp_path)
    import_transcript(store, path)
    [imported] = list_files(store)
    left = unfinished_path(imported)
    imported.replace(left)
    assert import_transcript(store, path).is_new
    assert list_files(store) == [imported]


def test_a_session_that_begins_during_its_import_is_kept(store: WholeStore, tmp_path: Path) -> None:
    """Another process begins the session just before the import names its file."""
    path = export_transcript(tmp_path)
    begun: list[bytes] = []

    class Late(Layout):
        def mark(self, agent: str, name: str) -> str:
            mark = super().mark(agent, name)
            transcript_lines.store_lines(store, AGENT, transcript_lines.SESSION)
            begun.append(self.transcript_path(agent, name).read_bytes())
            return mark

    with pytest.raises(NotImported):
        import_file._import_or_find(
            Late(store.root), path, lambda folder: folder.mkdir(), transcript_lines.time(0), accepts_damaged=False
        )
    assert [imported.read_bytes() for imported in list_files(store)] == begun


def test_a_small_file_that_would_become_huge_is_refused(store: WholeStore, tmp_path: Path) -> None:
    head, zeros = export_transcript(tmp_path).read_bytes(), bytes(2**20)
    path = tmp_path / "bomb.jsonl.zst"
    path.write_bytes(b"".join(compress_chunks(iter([head, *[zeros] * 256]), None)))
    assert "MiB in " in import_refused(store, path)
    assert list_files(store) == []
