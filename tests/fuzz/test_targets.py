"""Earlier findings and the seeds go through their targets; that needs no fuzzer."""

from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import growth
from fuzz.choices import Choices
from fuzz.corpus import FIXTURES, about, list_inputs, mutations, names, seeds, target
from fuzz.growth import Shape
from tests import strategies  # noqa: F401 - a busy machine is no failure

FOUND = [(name, path) for name in names() for path in list_inputs(name)]


@pytest.mark.parametrize(("name", "path"), FOUND, ids=[f"{name}-{path.name}" for name, path in FOUND])
def test_inputs_found_by_fuzzing_break_nothing(name: str, path: Path) -> None:
    target(name)(path.read_bytes())


@pytest.mark.parametrize("name", names())
def test_the_seeds_of_a_target_break_nothing(name: str) -> None:
    take, begins_with = target(name), list(seeds(name))
    for data in (b"", *begins_with):
        take(data)
    assert begins_with
    assert about(name)


@pytest.mark.parametrize("name", names())
@settings(max_examples=200)
@given(data=st.binary(max_size=400))
def test_random_input_breaks_no_target(name: str, data: bytes) -> None:
    target(name)(data)


def test_every_fixture_belongs_to_a_target() -> None:
    folders = [path for path in (FIXTURES / "fuzz").iterdir() if path.is_dir()]
    assert {path.name for path in folders} <= set(names())


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second = (list(islice(mutations("message", Random(7)), 50)) for _ in range(2))
    assert first == second
    assert len(set(first)) > 40


def test_choices_never_run_out() -> None:
    choices = Choices(b"\x07")
    assert choices.byte() == 7
    assert [choices.byte(), choices.value(), choices.free_text(), choices.rest()] == [0, None, "", b""]


@pytest.mark.parametrize("shape", growth.SHAPES, ids=lambda shape: shape.name)
def test_no_input_has_quadratic_cost(shape: Shape) -> None:
    grown = growth.counted(shape)
    assert grown.is_well, str(grown)


def test_a_quadratic_cost_is_detected() -> None:
    square = Shape("each with each", lambda size: lambda: [len("") for _ in range(size) for _ in range(size)])
    assert not growth.counted(square).is_well
