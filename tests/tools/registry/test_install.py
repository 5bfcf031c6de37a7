"""A program is downloaded once, and nothing in its archive gets out."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.tools.registry.agents import Archive, RegisteredAgent, RegistryError
from acp_proxy.tools.registry.install import install
from tests.tools.registry.server import Server, make_tar, make_zip, serve

PROGRAM = b"#!/bin/sh\n"


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as found:
        yield found


@pytest.fixture(autouse=True, params=["filter", "no filter"])
def _python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python with tarfile's filter, and without: 3.11 before 3.11.4."""
    if request.param == "no filter":
        monkeypatch.delattr("tarfile.data_filter")


def agent(url: str, program: str = "./bin/agent", sha256: str | None = None) -> RegisteredAgent:
    return RegisteredAgent("codex-acp", "Codex", "0.9", ("acp",), archive=Archive(url, program, sha256))


def everything(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("c.tar.gz", make_tar({"bin/agent": PROGRAM, "lib/x": b"x"})),
        ("c.zip", make_zip({"bin/agent": PROGRAM})),
        ("agent", PROGRAM),
    ],
)
def test_a_program_is_unpacked_once_and_can_be_started(name: str, body: bytes, server: Server, tmp_path: Path) -> None:
    server.answers[f"/{name}"] = body
    said: list[str] = []
    for _ in range(2):
        program, *rest = install(agent(f"{server.url}/{name}"), tmp_path, said.append)
        assert Path(program).read_bytes() == PROGRAM
        assert os.name != "posix" or os.stat(program).st_mode & stat.S_IXUSR
        assert rest == ["acp"]
    assert server.asked == [f"/{name}"]
    assert said == ["Downloading Codex 0.9 …"]


def test_a_program_that_was_removed_is_downloaded_again(server: Server, tmp_path: Path) -> None:
    server.answers["/c.tgz"] = make_tar({"bin/agent": PROGRAM, "lib/x": b"x"})
    whole = []
    for _ in range(2):
        program = Path(install(agent(f"{server.url}/c.tgz"), tmp_path)[0])
        assert program.read_bytes() == PROGRAM
        whole.append(everything(tmp_path))
        program.unlink()
    assert whole[0] == whole[1]
    assert server.asked == ["/c.tgz"] * 2


def test_a_right_digest_is_accepted_and_a_wrong_one_is_not(server: Server, tmp_path: Path) -> None:
    server.answers["/c.tgz"] = body = make_tar({"bin/agent": PROGRAM})
    right = hashlib.sha256(body).hexdigest()
    with pytest.raises(RegistryError, match="its SHA-256 is"):
        install(agent(f"{server.url}/c.tgz", sha256="0" * 64), tmp_path)
    assert everything(tmp_path) == []
    assert install(agent(f"{server.url}/c.tgz", sha256=right.upper()), tmp_path)


@pytest.mark.parametrize("program", ["../x", "/bin/sh", "a/../../x", "C:\\x", "", "x\0"])
def test_a_program_outside_of_its_archive_is_refused(program: str, server: Server, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="outside of its archive"):
        install(agent(f"{server.url}/c.tgz", program), tmp_path)
    assert server.asked == []


@pytest.mark.parametrize(
    "body",
    [
        make_tar({"../evil": b"x", "bin/agent": PROGRAM}),
        make_tar({"/tmp/evil": b"x"}),
        make_tar({"bin/agent": PROGRAM}, ("out", "/etc")),
        make_tar({"out/evil": b"x", "bin/agent": PROGRAM}, ("out", "../..")),
        make_zip({"../evil": b"x", "bin/agent": PROGRAM}),
        make_zip({"C:/evil": b"x", "bin/agent": PROGRAM}),
        make_zip({"bin/agent": b"/etc/passwd"}, mode=0o120777),
        b"PK\x03\x04 damaged",
        b"",
    ],
)
def test_an_archive_that_leads_out_of_its_place_leaves_nothing(body: bytes, server: Server, tmp_path: Path) -> None:
    server.answers["/c.tar.gz"] = body
    programs = tmp_path / "in" / "programs"
    with pytest.raises(RegistryError):
        install(agent(f"{server.url}/c.tar.gz"), programs)
    assert everything(tmp_path) == []


def test_an_archive_without_the_program_is_an_error(server: Server, tmp_path: Path) -> None:
    server.answers["/c.tgz"] = make_tar({"other": PROGRAM})
    with pytest.raises(RegistryError, match="does not contain"):
        install(agent(f"{server.url}/c.tgz"), tmp_path)


def test_an_archive_that_is_too_large_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.tools.registry.install._LARGEST_ARCHIVE_BYTES", 1000)
    server.answers["/small.tgz"] = make_tar({"bin/agent": bytes(2000)})
    server.answers["/small.zip"] = make_zip({"bin/agent": bytes(2000)})
    server.answers["/large.tgz"] = os.urandom(2000)
    for name, reason in (("small.tgz", "too much in it"), ("small.zip", "too much in it"), ("large.tgz", "more than")):
        with pytest.raises(RegistryError, match=reason):
            install(agent(f"{server.url}/{name}"), tmp_path)
    assert everything(tmp_path) == []


@pytest.mark.parametrize("url", ["http://example.org/a.tgz", "http://127.0.0.1.example.org/a.tgz"])
def test_a_download_that_anybody_on_the_way_could_change_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="has no https"):
        install(agent(url), tmp_path)


def test_a_redirect_to_another_machine_without_https_is_refused(server: Server, tmp_path: Path) -> None:
    server.answers["/c.tgz"] = (302, {"Location": "http://example.org/c.tgz"}, b"")
    with pytest.raises(RegistryError, match="has no https"):
        install(agent(f"{server.url}/c.tgz"), tmp_path)


def test_a_download_of_a_file_of_this_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no address of the web"):
        install(agent("file:///etc/passwd", "passwd"), tmp_path)
