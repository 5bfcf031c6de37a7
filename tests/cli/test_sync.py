"""``acp-proxy sync`` with a place between two stores, as two users' machines would use it."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from acp_proxy.protocol import acp
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.tools.sync import push
from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.membership import Busy, SyncMembership
from acp_proxy.tools.sync.open_place import open_logs, read_key
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from tests.cli.commands import invoke
from tests.stored import store_session
from tests.tools.sync.servers import environment, run_overwriting_server

_SECRET = "ghp_" + "a1B2" * 9
_PROJECT, _WORK = os.path.abspath("/project"), os.path.abspath("/home/me/work")


class User:
    """A machine: its store, and the file with its key."""

    def __init__(self, home: Path) -> None:
        self.key = home / "sync.key"
        self.store = ProxyStore(home / "store")

    def sync(self, *words: str, answer: str | None = None) -> Result:
        result = invoke("sync", *words, "--store", str(self.store.root), answer=answer)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    def begin(self, command: str, url: str, *words: str, answer: str | None = None) -> Result:
        return self.sync(command, url, "--key-file", str(self.key), *words, answer=answer)

    def titles(self) -> list[str | None]:
        return sorted((row.title for row in CommandStore(self.store.root).list_newest()), key=str)


@pytest.fixture
def url(place: str) -> str:
    return place


@pytest.fixture
def laptop(tmp_path: Path) -> User:
    user = User(tmp_path / "laptop")
    store_session(user.store, "s", ("Fix the login", []), cwd=_PROJECT)
    store_session(user.store, "t", (f"Use {_SECRET}", []), agent="other")
    return user


@pytest.fixture
def desktop(tmp_path: Path) -> User:
    return User(tmp_path / "desktop")


def join_both(laptop: User, desktop: User, url: str, *words: str) -> None:
    """Both have the same history."""
    assert laptop.begin("init", url, "--yes", "--name", "laptop", *words).exit_code == 0
    desktop.key.write_bytes(laptop.key.read_bytes())
    desktop.key.chmod(0o600)
    assert desktop.begin("join", url, "--yes", "--name", "desktop").exit_code == 0


def test_init_shows_what_would_leave_and_asks(laptop: User, url: str, tmp_path: Path) -> None:
    told = laptop.begin("init", url, answer="n\n")
    assert told.exit_code == 1
    assert "2 sessions" in told.stderr
    assert not (tmp_path / "shared").exists()
    assert f"  1 of agent in {_PROJECT}\n" in told.stderr
    assert "GitHub token" in told.stderr
    assert not laptop.key.exists()
    assert laptop.sync("status").exit_code == 1


def test_the_sessions_of_one_machine_are_listed_on_the_other(laptop: User, desktop: User, url: str) -> None:
    join_both(laptop, desktop, url)
    assert desktop.titles() == laptop.titles()
    if sys.platform != "win32":
        assert stat.S_IMODE(laptop.key.stat().st_mode) == 0o600


def test_nothing_in_the_shared_place_can_be_read_without_the_key(laptop: User, url: str, tmp_path: Path) -> None:
    assert laptop.begin("init", url, "--yes").exit_code == 0
    everything = b"".join(path.read_bytes() for path in (tmp_path / "shared").rglob("*") if path.is_file())
    assert everything
    assert not any(word in everything for word in (b"login", b"project", b"agent", _SECRET.encode()))


def test_only_the_sessions_that_were_chosen_leave(laptop: User, desktop: User, url: str) -> None:
    store_session(laptop.store, "u", ("Deleted", []), cwd=_PROJECT)
    archive = CommandStore(laptop.store.root)
    [row] = archive.find_titled("Deleted")
    archive.delete_listed(row, soft=True)
    told = laptop.begin("init", url, "--agent", "agent", "--cwd", _PROJECT, answer="n\n")
    assert "1 session " in told.stderr
    join_both(laptop, desktop, url, "--agent", "agent", "--cwd", _PROJECT)
    assert desktop.titles() == ["Fix the login"]


def test_secrets_can_be_masked_before_they_leave(laptop: User, desktop: User, url: str) -> None:
    join_both(laptop, desktop, url, "--redact")
    assert _SECRET not in str(desktop.titles())
    assert _SECRET not in str(laptop.titles())


def test_a_store_that_is_synchronized_is_in_order(laptop: User, desktop: User, url: str) -> None:
    join_both(laptop, desktop, url)
    for user in (laptop, desktop):
        assert not list(verify_store(CommandStore(user.store.root)))


def test_status_says_what_was_done(laptop: User, desktop: User, url: str) -> None:
    join_both(laptop, desktop, url)
    status = json.loads(desktop.sync("status", "--json").stdout)
    assert status["machines"] == [{"name": "laptop", "records": 3, "trouble": None}]
    assert (status["machine"], status["received"], status["sent"], status["trouble"]) == ("desktop", 3, 0, None)
    assert "other     laptop: 3 records" in desktop.sync("status").stdout


def test_what_is_advised_for_a_changed_file_brings_it_back_and_takes_it_from_nobody(
    laptop: User, desktop: User, url: str, tmp_path: Path
) -> None:
    join_both(laptop, desktop, url)
    [path] = [path for path in desktop.store.root.glob("transcripts/*/*.jsonl") if b"login" in path.read_bytes()]
    path.write_bytes(path.read_bytes().replace(b"login", b"lojin"))
    told = desktop.sync("now")
    assert "move that file out of the store, then: acp-proxy sync now" in told.stderr
    path.rename(tmp_path / "moved.jsonl")
    assert desktop.sync("now").stderr == ""
    laptop.sync("now")
    assert "Fix the login" in desktop.titles()
    assert desktop.titles() == laptop.titles()


def test_many_deletes_wait_for_a_confirmation(
    laptop: User, desktop: User, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "MANY_DELETES", 4)
    for number in range(5):
        store_session(laptop.store, f"many{number}", ("Many", []))
    join_both(laptop, desktop, url)
    archive = CommandStore(laptop.store.root)
    for row in list(archive.list_newest()):
        if row.title == "Many":
            archive.delete_listed(row, soft=False)
    told = laptop.sync("now")
    assert "5 deleted sessions are still on other machines" in told.stderr
    desktop.sync("now")
    assert len(desktop.titles()) == 7
    assert laptop.sync("now", "--deletes").exit_code == 0
    desktop.sync("now")
    assert len(desktop.titles()) == 2


def test_a_directory_of_another_machine_can_be_shown_as_one_here(laptop: User, desktop: User, url: str) -> None:
    join_both(laptop, desktop, url)
    mapped = desktop.sync("map", "/srv/work", _WORK)
    assert (mapped.exit_code, f"there is no directory {_WORK}" in mapped.stderr) == (0, True)
    store_session(laptop.store, "u", ("There", []), cwd="/srv/work/inner")
    [path] = laptop.store.root.glob("transcripts/*/u-*.jsonl")
    opened = {"type": NoteType.OPENED, "method": acp.LOAD, "cwd": "/srv/work/inner"}
    path.write_bytes(path.read_bytes() + file_format.encode_note("2026-01-02T00:00:00.000Z", "run", opened))
    laptop.sync("now")
    desktop.sync("now")
    assert os.path.join(_WORK, "inner") in [row.cwd for row in CommandStore(desktop.store.root).list_newest()]


def test_leaving_keeps_the_sessions_and_a_second_join_doubles_nothing(laptop: User, desktop: User, url: str) -> None:
    join_both(laptop, desktop, url)
    before = desktop.titles()
    assert desktop.sync("leave", "--yes").exit_code == 0
    assert desktop.sync("now").exit_code == 1
    assert desktop.begin("join", url, "--yes").exit_code == 0
    laptop.sync("now")
    assert desktop.titles() == laptop.titles() == before


@pytest.mark.parametrize("settings", ["", '{"url": 5', "[]", '{"url": 5, "key_file": "", "agents": 3}'])
def test_a_machine_whose_settings_are_damaged_is_told_and_can_leave_or_join_again(
    laptop: User, desktop: User, url: str, settings: str
) -> None:
    join_both(laptop, desktop, url)
    file = desktop.store.root / "sync" / "settings.json"
    file.write_text(settings)
    told = desktop.sync("now")
    assert told.exit_code == 1
    assert f"{file} cannot be read" in told.stderr
    assert "with the options as before: acp-proxy sync join URL" in told.stderr
    assert desktop.begin("join", url, "--yes").exit_code == 0
    file.write_text(settings)
    assert desktop.sync("leave", "--yes").exit_code == 0
    assert desktop.begin("join", url, "--yes").exit_code == 0
    store_session(desktop.store, "u", ("There", []))
    assert desktop.sync("now").exit_code == laptop.sync("now").exit_code == 0
    assert desktop.titles() == laptop.titles()
    assert "There" in laptop.titles()


def test_a_machine_can_be_forgotten_and_comes_back(laptop: User, desktop: User, url: str) -> None:
    join_both(laptop, desktop, url)
    store_session(desktop.store, "u", ("There", []))
    desktop.sync("now")
    assert laptop.sync("forget-machine", "desktop").exit_code == 0
    assert json.loads(laptop.sync("status", "--json").stdout)["machines"] == []
    assert "There" in laptop.titles()
    store_session(desktop.store, "v", ("Back", []))
    desktop.sync("now")
    laptop.sync("now")
    assert "Back" in laptop.titles()
    assert [machine["name"] for machine in json.loads(laptop.sync("status", "--json").stdout)["machines"]] == [
        "desktop"
    ]


@pytest.mark.parametrize(("name", "told"), [("laptop", "is this machine"), ("nobody", "Known are: desktop")])
def test_only_another_machine_can_be_forgotten(laptop: User, desktop: User, url: str, name: str, told: str) -> None:
    join_both(laptop, desktop, url)
    store_session(desktop.store, "u", ("There", []))
    desktop.sync("now")
    laptop.sync("now")
    refused = laptop.sync("forget-machine", name)
    assert refused.exit_code == 2
    assert told in refused.stderr


def test_with_a_new_key_nothing_is_lost_or_doubled_and_the_old_place_is_empty(
    laptop: User, desktop: User, url: str
) -> None:
    join_both(laptop, desktop, url)
    store_session(desktop.store, "u", ("There", []))
    desktop.sync("now")
    old = read_key(str(laptop.key))
    [machine, _] = open_logs(url, old).list_machines()
    told = laptop.sync("rekey", "--empty", "--yes")
    assert told.exit_code == 0
    new = laptop.key.with_name("sync-2.key")
    assert f"acp-proxy sync join {url} --key-file {new}" in told.stdout
    assert open_logs(url, old).get(machine, 1) is None
    desktop.key = desktop.key.with_name("sync-2.key")
    desktop.key.write_bytes(new.read_bytes())
    desktop.key.chmod(0o600)
    assert desktop.begin("join", url, "--yes").exit_code == 0
    assert laptop.sync("now").exit_code == 0
    assert len(laptop.titles()) == 3
    assert desktop.titles() == laptop.titles()
    assert desktop.begin("join", url, "--yes").exit_code == 2


@pytest.mark.parametrize("has_sent", [False, True])
def test_a_machine_whose_place_was_emptied_by_rekey_writes_nothing_there_and_says_what_to_do(
    laptop: User, desktop: User, url: str, has_sent: bool
) -> None:
    join_both(laptop, desktop, url)
    if has_sent:
        store_session(desktop.store, "u", ("There", []))
        assert desktop.sync("now").exit_code == 0
    assert laptop.sync("rekey", "--empty", "--yes").exit_code == 0
    store_session(desktop.store, "v", ("Later", []))
    told = desktop.sync("now")
    assert told.exit_code == 1
    assert "After sync rekey on another machine, run here what that has printed" in told.stderr
    assert open_logs(url, read_key(str(desktop.key))).list_machines() == []
    desktop.key = desktop.key.with_name("sync-2.key")
    desktop.key.write_bytes(laptop.key.with_name("sync-2.key").read_bytes())
    desktop.key.chmod(0o600)
    assert desktop.begin("join", url, "--yes").exit_code == 0
    assert laptop.sync("now").exit_code == 0
    assert laptop.titles() == desktop.titles()
    assert "Later" in laptop.titles()


def test_a_machine_whose_database_is_damaged_is_told_what_brings_it_back(laptop: User, desktop: User, url: str) -> None:
    join_both(laptop, desktop, url)
    (desktop.store.root / "sync" / "state.sqlite3").write_bytes(b"nonsense" * 100)
    told = desktop.sync("now")
    assert told.exit_code == 1
    assert "Run: acp-proxy sync leave, then: acp-proxy sync join URL" in told.stderr
    assert desktop.sync("leave", "--yes").exit_code == 0
    assert desktop.begin("join", url, "--yes").exit_code == 0
    assert desktop.titles() == laptop.titles()


@pytest.mark.skipif(sys.platform == "win32", reason="there, nothing is in a file")
def test_a_file_as_a_place_is_refused_in_plain_words(laptop: User, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        told = laptop.begin("init", str(place), "--yes")
        assert told.exit_code == 1
        assert told.stderr.endswith(": it is a file, or below one. Name a directory\n")


def test_a_machine_can_join_before_there_is_a_session(desktop: User, url: str, tmp_path: Path) -> None:
    first = User(tmp_path / "first")
    assert first.begin("init", url, "--yes").exit_code == 0
    desktop.key.write_bytes(first.key.read_bytes())
    desktop.key.chmod(0o600)
    assert desktop.begin("join", url, "--yes").exit_code == 0
    store_session(first.store, "s", ("Hello", []))
    assert first.sync("now").exit_code == desktop.sync("now").exit_code == 0
    assert desktop.titles() == ["Hello"]


def test_a_process_with_the_old_key_does_nothing_after_a_rekey(laptop: User, url: str) -> None:
    assert laptop.begin("init", url, "--yes").exit_code == 0
    store = SyncMembership(laptop.store.root)
    old = open_logs(url, read_key(store.read_settings().key_file))
    assert laptop.sync("rekey", "--yes").exit_code == 0
    with pytest.raises(Busy):
        store.do_round(old)


def test_the_key_of_another_history_is_refused(laptop: User, desktop: User, url: str, tmp_path: Path) -> None:
    assert laptop.begin("init", url, "--yes").exit_code == 0
    assert desktop.begin("init", (tmp_path / "other").as_uri(), "--yes").exit_code == 0
    desktop.sync("leave", "--yes")
    told = desktop.begin("join", url, "--yes")
    assert told.exit_code == 2
    assert "no history with this key" in told.stderr


def test_a_key_that_opens_nothing_of_its_history_is_refused(laptop: User, desktop: User, url: str) -> None:
    assert laptop.begin("init", url, "--yes").exit_code == 0
    HistoryKey(read_key(str(laptop.key)).history, HistoryKey.create().key).write(desktop.key)
    told = desktop.begin("join", url, "--yes")
    assert told.exit_code == 2
    assert "no history with this key" in told.stderr
    assert desktop.sync("status").exit_code == 1


def test_what_is_advised_for_a_log_that_cannot_be_read_brings_what_comes_after_it(
    laptop: User, desktop: User, url: str
) -> None:
    join_both(laptop, desktop, url)
    store_session(laptop.store, "u", ("Damaged", []))
    assert laptop.sync("now").exit_code == 0
    key = read_key(str(laptop.key))
    [machine] = open_logs(url, key).list_machines()
    open_logs(url, HistoryKey(key.history, HistoryKey.create().key)).replace(machine, 4, b"of nobody")
    store_session(laptop.store, "v", ("After it", []))
    assert laptop.sync("now").exit_code == 0
    told = desktop.sync("now")
    assert told.exit_code == 1
    assert (
        f"run there: acp-proxy sync leave, and join again; then here: acp-proxy sync forget-machine {machine[:8]}"
        in (told.stderr)
    )
    assert laptop.sync("leave", "--yes").exit_code == 0
    assert laptop.begin("join", url, "--yes").exit_code == 0
    assert desktop.sync("forget-machine", machine[:8]).exit_code == 0
    assert desktop.sync("now").exit_code == laptop.sync("now").exit_code == 0
    assert desktop.titles() == laptop.titles()
    assert {"Damaged", "After it"} <= {*desktop.titles()}


def test_a_key_that_others_can_read_is_refused(laptop: User, url: str) -> None:
    assert laptop.begin("init", url, "--yes").exit_code == 0
    laptop.key.chmod(0o644)
    told = laptop.sync("now")
    assert told.exit_code == 1
    assert f"chmod 600 {laptop.key}" in told.stderr


def test_a_key_in_the_store_is_refused(laptop: User, url: str) -> None:
    told = laptop.sync("init", url, "--key-file", str(laptop.store.root / "key"), "--yes")
    assert told.exit_code == 2


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "s3://user:word@bucket", "s3://bucket/x?key=word", "s3:///x", "nonsense"]
)
def test_a_url_that_is_none_of_the_known_ones_is_refused(laptop: User, url: str) -> None:
    told = laptop.begin("init", url, "--yes")
    assert told.exit_code == 2
    assert "word" not in told.stderr.replace("password", "")
    assert not laptop.key.exists()


def test_a_file_url_that_names_a_server_is_refused(laptop: User) -> None:
    told = laptop.begin("init", "file://mnt/nas", "--yes")
    assert told.exit_code == 2
    assert not laptop.key.exists()


def test_a_place_that_cannot_be_used_is_reported_and_kept_for_status(laptop: User, tmp_path: Path) -> None:
    trouble = "lacks what this machine wrote" if sys.platform == "win32" else "cannot be used"  # nothing is in a file
    drive = tmp_path / "drive"
    assert laptop.begin("init", drive.as_uri(), "--yes").exit_code == 0
    drive.rename(tmp_path / "away")
    drive.write_bytes(b"a file")
    told = laptop.sync("now")
    assert told.exit_code == 1
    assert trouble in told.stderr
    assert trouble in laptop.sync("status").stdout


def test_a_directory_is_a_place_by_its_path(laptop: User, desktop: User, tmp_path: Path) -> None:
    join_both(laptop, desktop, str(tmp_path / "my drive"))
    assert desktop.titles() == laptop.titles()
    assert laptop.sync("rekey", str(tmp_path / "another"), "--yes").exit_code == 0
    assert any((tmp_path / "another").iterdir())
    assert "or a directory's absolute path" in User(tmp_path / "third").begin("init", "drive").stderr


def test_no_history_begins_where_a_drive_is_not_mounted(laptop: User, tmp_path: Path) -> None:
    told = laptop.begin("init", (tmp_path / "drive" / "history").as_uri(), "--yes")
    assert told.exit_code == 1
    assert "there is no such directory. Is the drive mounted?" in told.stderr
    assert not (tmp_path / "drive").exists()


def test_nothing_is_written_to_a_drive_that_is_not_mounted(laptop: User, tmp_path: Path) -> None:
    drive = tmp_path / "drive"
    assert laptop.begin("init", drive.as_uri(), "--yes").exit_code == 0
    drive.rename(tmp_path / "away")
    for what in ("there is no such directory. Is the drive mounted?", "lacks what this machine wrote"):
        told = laptop.sync("now")
        assert told.exit_code == 1
        assert what in told.stderr
        drive.mkdir(exist_ok=True)
    assert not list(drive.iterdir())


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets where the S3 server is."""

    def set_endpoint(endpoint: str) -> None:
        for name, value in environment(endpoint).items():
            monkeypatch.setenv(name, value)

    return set_endpoint


def test_a_server_that_does_not_answer_is_reported_soon(laptop: User, aws: Callable[[str], None]) -> None:
    aws("http://127.0.0.1:1")
    told = laptop.begin("init", "s3://bucket/prefix", "--yes")
    assert told.exit_code == 1
    assert "it does not answer. Check the network, AWS_ENDPOINT" in told.stderr
    assert not laptop.key.exists()


def test_missing_credentials_are_reported(laptop: User) -> None:
    told = laptop.begin("init", "az://container/prefix", "--yes")
    assert told.exit_code == 1
    assert "there are no credentials. Set AZURE_STORAGE_ACCOUNT_NAME" in told.stderr


def test_a_server_that_overwrites_what_it_should_create_is_refused(laptop: User, aws: Callable[[str], None]) -> None:
    with run_overwriting_server() as endpoint:
        aws(endpoint)
        told = laptop.begin("init", "s3://bucket/prefix", "--yes")
    assert told.exit_code == 1
    assert "this place overwrites objects that exist" in told.stderr
    assert not laptop.key.exists()


# --- without the packages that only sync needs


@pytest.mark.parametrize("package", ["nacl", "obstore"])
@pytest.mark.parametrize(
    "words",
    [
        ("init", "PLACE", "--yes"),
        ("join", "PLACE"),
        ("now",),
        ("rekey", "--yes"),
        ("forget-machine", "desktop"),
    ],
)
def test_without_the_packages_it_says_what_to_install(
    laptop: User, tmp_path: Path, package: str, words: tuple[str, ...]
) -> None:
    url = (tmp_path / "place").as_uri()
    if "PLACE" not in words:
        laptop.begin("init", url, "--yes")
    done = without(package, tmp_path, "sync", *words, "--store", str(laptop.store.root), place=url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"acp-proxy: sync needs more packages ({package}). ")
    assert re.search(r"\[[a-z,]*sync[a-z,]*\]", done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("package", ["nacl", "obstore"])
@pytest.mark.parametrize("words", [("sync", "--help"), ("help", "sync"), ("sync", "init", "--help")])
def test_help_needs_none_of_the_packages(tmp_path: Path, package: str, words: tuple[str, ...]) -> None:
    done = without(package, tmp_path, *words)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
    assert "Usage: acp-proxy sync" in done.stdout


def test_without_the_packages_a_synchronized_store_is_told_and_left(laptop: User, tmp_path: Path) -> None:
    laptop.begin("init", (tmp_path / "place").as_uri(), "--yes")
    store_option = ("--store", str(laptop.store.root))
    assert "3 sent" in without("obstore", tmp_path, "sync", "status", *store_option).stdout
    assert without("obstore", tmp_path, "sync", "leave", "--yes", *store_option).returncode == 0


def without(package: str, folder: Path, *words: str, place: str = "") -> "subprocess.CompletedProcess[str]":
    """Runs acp-proxy in a Python that does not have the package. ``place``: for PLACE."""
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "acp_proxy", *(place if word == "PLACE" else word for word in words)]
    env = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "500"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
