"""The short forms of the two cases of `make torture` that no other test shows: processes killed at any moment, and many
processes over one store. ``make torture SHORT=1`` runs all of them."""

from pathlib import Path

import pytest

from torture.outcome import Scale, run


@pytest.mark.parametrize("case", ["crash", "many"])
def test_nothing_is_lost_or_left_behind(case: str, tmp_path: Path) -> None:
    outcomes = list(run(case, Scale(short=True, seed=0, place=tmp_path)))

    assert outcomes
    for outcome in outcomes:
        assert outcome.is_well, (outcome, outcome.trouble)
