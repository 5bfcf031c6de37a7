"""What ``make test-windows`` installs and runs, as far as it needs no Wine."""

import re
import tomllib
from pathlib import Path

import pytest

from scripts import windows


def test_windows_python_gets_the_dependencies_and_what_tests_import() -> None:
    project = tomllib.loads((windows.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = windows.requirements(project)
    assert {"anyio", "orjson", "typer"} <= {name.partition(">")[0] for name in names}
    assert not any("zstd" in name for name in names)  # Python 3.14 has its own
    for tool in windows.FOR_TESTS:
        assert [re.split(r"[~>=]", name)[0] for name in names].count(tool) == 1


def test_a_path_is_given_as_windows_programs_see_it_under_wine() -> None:
    assert windows.windows_path(Path("/work/a b/c")) == r"Z:\work\a b\c"


def test_windows_python_finds_the_checkout_first() -> None:
    environment = windows.environment({"PYTHONPATH": "/elsewhere", "HOME": "/root"})
    assert environment["PYTHONPATH"].split(";")[0] == windows.windows_path(windows.ROOT)
    assert environment["HOME"] == "/root"


def test_windows_python_keeps_its_bytecode_outside_the_checkout() -> None:
    environment = windows.environment({"PYTHONDONTWRITEBYTECODE": "1"})
    assert environment["PYTHONDONTWRITEBYTECODE"] == ""
    assert environment["PYTHONPYCACHEPREFIX"] == windows.windows_path(windows.HOME / "bytecode")


def test_what_cannot_be_installed_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(windows, "HOME", tmp_path)
    monkeypatch.setattr(windows, "_linker", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert windows.main([]) == windows.NOT_INSTALLED
    assert "nothing was tested on Windows" in capsys.readouterr().err
