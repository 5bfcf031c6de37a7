"""The zipapp unpacks itself once, also when two are started at once, and starts children of ours. A stand-in for
acp-proxy is packed: `make release` tries the real one."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]
TAG = sys.implementation.cache_tag
OWN_COMMAND = (ROOT / "acp_proxy" / "invocation.py").read_bytes()
MAIN = b"""
import sys
from acp_proxy import invocation
def main():
    print(invocation.zipapp, *sys.argv[1:])
"""
CHILD = b"import sys; print(__name__, sys.argv[1:])"
FILES = {
    "acp_proxy/__init__.py": b"",
    "acp_proxy/__main__.py": MAIN,
    "acp_proxy/child.py": CHILD,
    "acp_proxy/invocation.py": OWN_COMMAND,
    f"compiled.{TAG}-linux.so": b"mine",
    "compiled.cpython-399-linux.so": b"another Python's",
}


@pytest.fixture(scope="module")
def pyz() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "packaging" / "pyz.py"))


@pytest.fixture
def zipapp(pyz: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "acp-proxy.pyz"
    path.write_bytes(pyz["assemble"](FILES))
    return path


def environment(home: Path) -> dict[str, str]:
    places = {"HOME": home, "USERPROFILE": home, "LOCALAPPDATA": home / "AppData" / "Local"}
    return {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"} | {
        name: str(path) for name, path in places.items()
    }


def start(zipapp: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, zipapp, *words],
        env=environment(zipapp.parent),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def unpacked(home: Path) -> list[Path]:
    return sorted(path for place in home.rglob("pyz") if place.is_dir() for path in place.iterdir())


def test_it_starts_with_its_arguments_and_knows_its_own_path(zipapp: Path) -> None:
    done = start(zipapp, "run", "agent")
    assert (done.stdout, done.stderr, done.returncode) == (f"{zipapp} run agent\n", "", 0)


def test_it_is_unpacked_once(zipapp: Path) -> None:
    start(zipapp)
    (place,) = unpacked(zipapp.parent)
    (place / "acp_proxy" / "child.py").write_text("print('the same files')")
    assert start(zipapp, "-m", "acp_proxy.child").stdout == "the same files\n"
    assert unpacked(zipapp.parent) == [place]


def test_only_the_modules_for_this_python_are_unpacked(zipapp: Path) -> None:
    start(zipapp)
    (place,) = unpacked(zipapp.parent)
    assert [path.name for path in place.glob("compiled*")] == [f"compiled.{TAG}-linux.so"]


def test_a_child_is_started_by_its_module(zipapp: Path) -> None:
    assert start(zipapp, "-m", "acp_proxy.child", "a", "b").stdout == "__main__ ['a', 'b']\n"


def test_starts_at_once_unpack_it_whole(zipapp: Path) -> None:
    """Some editors start two processes of an agent at once."""
    command = [sys.executable, str(zipapp), "x"]
    pipe = subprocess.PIPE
    starts = [subprocess.Popen(command, env=environment(zipapp.parent), stdout=pipe, text=True) for _ in range(4)]
    assert [each.communicate(timeout=SECONDS)[0] for each in starts] == [f"{zipapp} x\n"] * 4
    assert len(unpacked(zipapp.parent)) == 1


def test_a_new_version_removes_what_was_unused_for_a_month(pyz: dict[str, Any], zipapp: Path) -> None:
    start(zipapp)
    (place,) = unpacked(zipapp.parent)
    (recent := place.with_name("recent")).mkdir()
    os.utime(place, (0, 0))
    zipapp.write_bytes(pyz["assemble"](FILES | {"acp_proxy/new.py": b""}))
    start(zipapp)
    assert place not in unpacked(zipapp.parent)
    assert recent in unpacked(zipapp.parent)


@pytest.mark.skipif(sys.platform == "win32", reason="the cache's place on Windows is not in the home directory")
def test_a_cache_that_cannot_be_written_is_named(zipapp: Path) -> None:
    (zipapp.parent / ".cache").write_text("not a directory")
    (zipapp.parent / "Library").write_text("not a directory")
    done = start(zipapp)
    assert done.returncode == 1
    assert "cannot unpack itself into" in done.stderr
    assert "XDG_CACHE_HOME" in done.stderr


def test_a_python_that_it_has_no_modules_for_is_named(zipapp: Path, pyz: dict[str, Any]) -> None:
    zipapp.write_bytes(zipapp.read_bytes().replace(b"cpython-", b"cpython_", 4))
    done = start(zipapp)
    assert done.returncode == 1
    assert sys.executable in done.stderr
    assert not unpacked(zipapp.parent)


def test_the_same_content_makes_the_same_bytes(pyz: dict[str, Any]) -> None:
    assert pyz["assemble"](FILES) == pyz["assemble"](dict(reversed(FILES.items())))
