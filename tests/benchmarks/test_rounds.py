"""Rows and ratios are computed correctly from measurements."""

import random
from functools import partial

import pytest

from benchmarks.figures import BYTES, BYTES_PER_SECOND, COUNT, PER_SECOND, SECONDS, Reading, format_figure, measured
from benchmarks.rounds import Numbers, interleaved, ratio


def test_every_round_runs_every_subject_in_random_order() -> None:
    order: list[str] = []

    def task(name: str) -> Numbers:
        order.append(name)
        return {"at": float(len(order))}

    names = ["a", "b", "c"]
    seen = interleaved({name: partial(task, name) for name in names}, 20, random.Random(1))

    rounds = [tuple(order[at : at + 3]) for at in range(0, 60, 3)]
    assert all(sorted(each) == names for each in rounds)
    assert len(set(rounds)) > 1
    assert [numbers["at"] - 1 for numbers in seen["b"]] == [at for at, name in enumerate(order) if name == "b"]


def test_a_ratio_is_computed_within_rounds() -> None:
    row = measured("what", SECONDS, {"C": [1.0, 2.0, 9.0], "acp-proxy": [4.0, 1.0, 9.0]}, "C")

    assert row.values["acp-proxy"] == 4.0
    assert row.ratios == {"acp-proxy": 1.0}


def test_a_baseline_of_zero_has_no_ratio() -> None:
    assert ratio([1.0, 2.0], [0.0, 0.0]) is None
    assert measured("what", BYTES, {"a": [1.0]}).ratios == {}


def test_a_row_is_computed_from_the_tries() -> None:
    seen: dict[str, list[Numbers]] = {"C": [{"seconds": 2.0}, {"seconds": 4.0}], "other": [{}]}

    rate = Reading("flood", PER_SECOND, "seconds", "C", of=8.0).row(seen)
    each = Reading("each", SECONDS, "seconds", factor=0.5).row(seen)

    assert rate.values == {"C": 3.0}
    assert each.values == {"C": 1.5}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0000123, SECONDS, "12.3 µs"),
        (0.123, SECONDS, "123 ms"),
        (1.5, SECONDS, "1.50 s"),
        (0.0, SECONDS, "0.00 µs"),
        (-3_000_000.0, BYTES, "-3.00 MB"),
        (1_234_567.0, PER_SECOND, "1.23 M/s"),
        (2_500_000_000.0, BYTES_PER_SECOND, "2.50 GB/s"),
        (1_200.0, COUNT, "1,200"),
    ],
)
def test_figures_have_a_fitting_unit(value: float, unit: str, text: str) -> None:
    assert format_figure(value, unit) == text
