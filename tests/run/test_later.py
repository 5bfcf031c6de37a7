"""Modules that are loaded at their first use."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.run.later import Later

SECONDS = 20.0
NAME = "some_module_of_a_test"

RUN = """
import sys
from acp_proxy.run import start as launch
from acp_proxy.run.later import Later
with Later(*launch.LATER):
    import acp_proxy.run.proxy
print(*sys.modules)
from dataclasses import make_dataclass
print(make_dataclass("Point", [("x", int)]).__doc__, sys.modules["inspect"].isclass(int))
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text("VALUE = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(NAME, None)


def test_a_module_is_loaded_at_its_first_use() -> None:
    with Later(NAME):
        early = __import__(NAME)
    assert NAME not in sys.modules
    value = early.VALUE
    assert sys.modules[NAME].VALUE is value


def test_an_import_afterwards_gives_the_module_itself() -> None:
    with Later(NAME):
        early = __import__(NAME)
    itself = __import__(NAME)
    assert itself is not early
    assert early.VALUE is itself.VALUE


def test_a_module_that_is_used_at_once_is_loaded_at_once() -> None:
    with Later(NAME):
        value = __import__(NAME).VALUE
        assert sys.modules[NAME].VALUE is value
    assert sys.modules[NAME].VALUE is value


def test_a_module_that_is_loaded_already_stays() -> None:
    itself = __import__(NAME)
    with Later(NAME):
        assert __import__(NAME) is itself
    assert sys.modules[NAME] is itself


def test_a_missing_attribute_raises_the_usual_error() -> None:
    with Later(NAME):
        early = __import__(NAME)
    with pytest.raises(AttributeError, match=f"{NAME}.*nothing"):
        early.nothing  # noqa: B018
