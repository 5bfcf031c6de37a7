"""Exported transcripts can be imported: then they are listed, shown and loaded like sessions recorded here."""

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.commands import invoke
from tests.stored import EPOCH, WholeStore, chunk, store_session
from tests.waiting import SECONDS


@pytest.fixture
def other(tmp_path: Path) -> WholeStore:
    return WholeStore(tmp_path / "other")


def run(store: WholeStore, *words: str, stdin: bytes | None = None) -> Result:
    return invoke(*words, "--store", str(store.root), answer=stdin)


def test_a_complete_store_moves_by_export_and_import(store: WholeStore, other: WholeStore, tmp_path: Path) -> None:
    for number in range(3):
        store_session(store, f"s{number}", (f"Question {number}", [chunk("yes")]), at=EPOCH + number)
    files = run(store, "export", "--all", "--format", "jsonl", "-o", str(tmp_path / "out")).stdout.split()
    result = run(other, "import", *files)
    assert result.exit_code == 0
    assert sorted(line.split()[0::2] for line in result.stdout.splitlines()) == [
        [f"s{number}", "imported"] for number in range(3)
    ]
    again = run(other, "import", *files)
    assert (again.exit_code, again.stdout.count("here already")) == (0, 3)

    def rows_of(of: WholeStore) -> list[tuple[str, str | None, str]]:
        return [(row.session_id, row.title, row.updated) for row in of.list_all()]

    assert rows_of(other) == rows_of(store)
    assert (
        run(other, "show", "last").stdout.partition("\n\n")[2] == run(store, "show", "last").stdout.partition("\n\n")[2]
    )
    assert run(other, "verify").exit_code == 0
    for row in other.list_all():
        exported = run(other, "export", row.session_id, "--format", "jsonl").stdout_bytes
        assert exported == run(store, "export", row.session_id, "--format", "jsonl").stdout_bytes


def test_the_newest_session_gets_an_id_that_was_used_again(
    store: WholeStore, other: WholeStore, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for number in (1, 2, 0):
        session = store_session(
            WholeStore(tmp_path / f"machine{number}"), "s", (f"Question {number}", []), at=EPOCH + number
        )
        session.replace(paths[number])
    result = run(other, "import", *map(str, (paths[0], paths[1])))
    assert [line.split()[0::2] for line in result.stdout.splitlines()] == [["s", "imported"], ["s~1", "imported"]]
    assert {row.selector: row.title for row in other.list_all()} == {"s": "Question 1", "s~1": "Question 0"}
    for outcome in ("imported", "here already"):  # a session that has the id keeps it
        result = run(other, "import", str(paths[2]))
        assert result.stdout.split(maxsplit=2)[0::2] == ["s~2", f"{outcome}\n"]


def test_only_new_sessions_without_a_prompt_are_reported(store: WholeStore, other: WholeStore, tmp_path: Path) -> None:
    path = store_session(store, "s", ("Question", []))
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(path.read_bytes()[: path.read_bytes().index(b"\n") + 20])
    result = run(store, "import", str(torn), "--damaged")
    assert (result.stdout.count("here already"), result.stderr) == (1, "")
    result = run(other, "import", str(torn), "--damaged")
    assert (result.stdout.count("imported"), "Lists do not show it" in result.stderr) == (1, True)


@pytest.mark.parametrize("session", ["plain", "two words", "tab\tid", "-x", "$(touch x)"])
def test_the_command_that_removes_the_other_transcript_can_be_typed(
    store: WholeStore, tmp_path: Path, session: str
) -> None:
    path = tmp_path / "changed.jsonl"
    path.write_bytes(store_session(store, session, ("mine", [])).read_bytes().replace(b"mine", b"something else"))
    stderr = run(store, "import", str(path)).stderr
    words = shlex.split(stderr.partition("delete it first: acp-proxy ")[2].rstrip(".\n"))
    assert run(store, *words, "--yes").exit_code == 0
    assert run(store, "import", str(path)).exit_code == 0


def test_a_refused_file_does_not_stop_the_others(store: WholeStore, other: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Question", [chunk("yes")]))
    path = tmp_path / "good.jsonl"
    run(store, "export", "s", "-o", str(path))
    page = tmp_path / "page.html"
    run(store, "export", "s", "-o", str(page))
    result = run(other, "import", str(tmp_path / "missing"), str(page), str(tmp_path), str(path))
    assert result.exit_code == 1
    assert "imported" in result.stdout
    first, second, third = result.stderr.splitlines()
    assert "No such file" in first
    assert "page.html" in second
    assert "Only exports with --format jsonl" in second
    assert "it is a directory. Name the files in it." in third
    assert [row.session_id for row in other.list_all()] == ["s"]


def test_a_damaged_file_is_imported_on_request_and_can_be_repaired(
    store: WholeStore, other: WholeStore, tmp_path: Path
) -> None:
    path = store_session(store, "s", ("Question", [chunk("yes")]))
    with path.open("ab") as file:
        file.write(b"\x00" * 100)
    out = tmp_path / "s.jsonl"
    run(store, "export", "s", "-o", str(out))
    refused = run(other, "import", str(out))
    assert refused.exit_code == 1
    assert "--damaged" in refused.stderr
    assert run(other, "import", str(out), "--damaged").exit_code == 0
    assert run(other, "verify").exit_code == 1
    assert run(other, "repair").exit_code == 0
    assert run(other, "verify").exit_code == 0


def test_a_session_without_a_prompt_is_imported_but_not_listed(store: WholeStore, other: WholeStore) -> None:
    path = store_session(store, "s")
    result = run(other, "import", str(path))
    assert result.exit_code == 0
    assert "Lists do not show it" in result.stderr


def test_a_header_cannot_control_the_terminal(store: WholeStore, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"acp-transcript":1,"sessionId":"\\u001b[2J\\u202e","agent":{"id":"\\u009b"}}\n')
    result = run(store, "import", str(path))
    assert result.exit_code == 0
    assert not set(result.output) & set("\x1b\x9b\u202e")


def test_an_export_can_be_piped_into_an_import(store: WholeStore, other: WholeStore) -> None:
    store_session(store, "s", ("Question", [chunk("yes")]))
    exported = run(store, "export", "s", "--format", "jsonl").stdout_bytes
    result = run(other, "import", "-", stdin=exported)
    assert (result.exit_code, result.stderr) == (0, "")
    assert run(other, "export", "s", "--format", "jsonl").stdout_bytes == exported


def test_a_file_named_dash_can_be_imported(
    store: WholeStore, other: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_session(store, "s", ("Question", [chunk("yes")]))
    (tmp_path / "-").write_bytes(run(store, "export", "s", "--format", "jsonl").stdout_bytes)
    monkeypatch.chdir(tmp_path)
    assert run(other, "import", "./-", stdin=b"").exit_code == 0
    missing = run(other, "import", "../missing.jsonl")
    assert missing.stderr.startswith("acp-proxy: not imported: ../missing.jsonl: ")


def test_an_error_of_stdin_names_stdin(store: WholeStore, other: WholeStore) -> None:
    store_session(store, "s", ("Question", [chunk("yes")]))
    page = run(store, "export", "s").stdout_bytes
    result = run(other, "import", "-", stdin=page)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("acp-proxy: not imported: stdin: ")
    assert "--format jsonl" in result.stderr


def test_a_full_disk_is_reported_with_what_to_do(
    store: WholeStore, other: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_session(store, "s", ("Question", [chunk("yes")]))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full, raising=False)
    result = run(other, "import", "-", stdin=path.read_bytes())
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(f"No space left on device. Free some space in {other.root}.\n")


def test_an_import_that_is_killed_leaves_nothing(store: WholeStore, other: WholeStore) -> None:
    path = store_session(store, "s", ("Question", [chunk("yes " * 1000)] * 2000))
    before = sorted(other.root.rglob("*"))
    command = [sys.executable, "-m", "acp_proxy", "import", "-", "--store", str(other.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        importing.stdin.write(path.read_bytes())  # more than a pipe holds, so most of it has been read
        importing.stdin.flush()
        assert importing.poll() is None
        importing.kill()
    assert sorted(other.root.rglob("*")) == before


def test_a_closed_stdin_is_reported(store: WholeStore) -> None:
    command = [sys.executable, "-m", "acp_proxy", "import", "-", "--store", str(store.root)]
    result = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *command], capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 1
    assert "stdin: closed" in result.stderr


def test_many_files_are_counted(store: WholeStore, other: WholeStore, tmp_path: Path) -> None:
    paths = [store_session(store, f"s{number}", ("Mend it", []), at=EPOCH + number) for number in range(11)]
    assert run(other, "import", str(paths[0])).stderr == ""
    result = run(other, "import", *map(str, paths), str(tmp_path / "none"))
    assert result.stderr.startswith("10 imported, 1 here already, 1 not imported.\n")
