"""``make test-s3``: a real S3 server that is killed in the middle, and what users are told of its refusals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.interfaces import Unavailable
from acp_proxy.tools.sync.object_store import SealedLogs
from tests.cli.test_sync import User
from tests.stored import store_session
from tests.tools.sync import servers
from tests.tools.sync.homes import Home

SESSIONS = 3
MOST = 30
"""More requests than a round makes."""
EXPECTED = {f"Hello {number}": [f"Hello {number}"] for number in range(SESSIONS)}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.S3Server]:
    with servers.run_real_server(tmp_path) as server:
        for name, value in servers.environment(f"http://127.0.0.1:{server.port}").items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.parametrize("kind", ["before", "during", "after"])
@pytest.mark.parametrize("who", ["push", "pull"])
def test_a_server_that_is_killed_at_any_request_loses_and_doubles_nothing(
    who: str, kind: str, server: servers.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doorman = servers.Doorman(server)
    with servers.serve(doorman) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT", endpoint)
        failed = 0
        for number in range(1, MOST):
            url, key = f"s3://{servers.BUCKET}/{number}", HistoryKey.create()
            one = Home(tmp_path / f"{number}" / "one", url, key, "laptop")
            two = Home(tmp_path / f"{number}" / "two", url, key, "desktop")
            for title in EXPECTED:
                store_session(one.store, title, (title, []))
            if who == "pull":
                one.sync()
            doorman.kill_at(number, kind)
            is_over = False
            try:
                (one if who == "push" else two).sync()
            except Unavailable as problem:
                assert "it does not answer" in str(problem)  # noqa: PT017 it need not be raised
                failed += 1
            else:
                is_over = doorman.left > 0
                assert is_over or kind == "during"  # one that is killed while it works may have answered
            doorman.kill_at(0, "")
            server.kill()
            server.start()
            for home in (one, two, one):
                home.sync()
            assert one.prompts() == two.prompts() == EXPECTED
            assert len(list((tmp_path / servers.BUCKET / f"{number}").rglob("000000*"))) == SESSIONS
            if is_over:
                break
        assert failed > SESSIONS


def _first(home: Path, url: str) -> str:
    user = User(home)
    store_session(user.store, "s", ("Hello", []))
    told = user.begin("init", url, "--yes")
    assert told.exit_code == 1
    assert not user.key.exists()
    return told.stderr


@pytest.mark.parametrize(("name", "value"), [("AWS_SECRET_ACCESS_KEY", "wrong"), ("AWS_ACCESS_KEY_ID", "nobody")])
def test_wrong_credentials_are_told(
    server: servers.S3Server, name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    told = _first(tmp_path / "home", f"s3://{servers.BUCKET}")
    assert "the credentials were refused" in told
    assert "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in told


def test_a_bucket_that_is_not_there_is_told(server: servers.S3Server, tmp_path: Path) -> None:
    assert "there is no such bucket. Create it, or check the URL" in _first(tmp_path / "home", "s3://nowhere/history")


def test_plain_http_is_told(server: servers.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "set AWS_ALLOW_HTTP=true" in _first(tmp_path / "home", f"s3://{servers.BUCKET}")


def test_missing_credentials_are_told(
    server: servers.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    for number, name in enumerate(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")):
        monkeypatch.delenv(name)
        told = _first(tmp_path / f"{number}", f"s3://{servers.BUCKET}")
        assert "there are no credentials. Set AWS_ACCESS_KEY_ID" in told


def test_a_server_that_is_down_or_empty_is_told_and_nothing_is_lost(server: servers.S3Server, tmp_path: Path) -> None:
    user = User(tmp_path / "home")
    store_session(user.store, "s", ("Hello", []))
    assert user.begin("init", f"s3://{servers.BUCKET}/history", "--yes").exit_code == 0
    server.kill()
    told = user.sync("now")
    assert told.exit_code == 1
    assert "it does not answer. Check the network" in told.stderr
    assert "it does not answer" in user.sync("status").stdout
    server.start()
    (tmp_path / servers.BUCKET / "history").rename(tmp_path / "away")
    assert "lacks what this machine wrote there" in user.sync("now").stderr
    (tmp_path / "away").rename(tmp_path / servers.BUCKET / "history")
    assert user.sync("now").exit_code == 0


def test_an_init_whose_first_round_fails_is_continued_later(
    server: servers.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(tmp_path / "home")
    store_session(user.store, "s", ("Hello", []))
    doorman = servers.Doorman(server)
    with servers.serve(doorman) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT", endpoint)
        doorman.kill_at(4, "before")  # after the test of the place
        told = user.begin("init", f"s3://{servers.BUCKET}/history", "--yes")
        assert "This machine has joined all the same. Later: acp-proxy sync now" in told.stderr
        server.start()
        assert "2 sent" in user.sync("now").stdout


def test_an_http_proxy_of_the_environment_is_used(
    server: servers.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doorman = servers.Doorman(server)
    with servers.serve(doorman) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT", "http://storage.invalid")
        monkeypatch.setenv("HTTP_PROXY", proxy)
        logs = SealedLogs(f"s3://{servers.BUCKET}", HistoryKey.create())
        assert logs.create("machine", 1, b"data")
        assert logs.get("machine", 1) == b"data"
    assert doorman.left < 0
