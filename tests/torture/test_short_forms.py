"""The short form of the case of `make torture` that no other test shows: processes killed at any moment.
``make torture SHORT=1`` runs all of them."""

from pathlib import Path

from torture.outcome import Scale, run


def test_nothing_is_lost_or_left_behind(tmp_path: Path) -> None:
    outcomes = list(run("crash", Scale(short=True, seed=0, place=tmp_path)))

    assert outcomes
    for outcome in outcomes:
        assert outcome.is_well, (outcome, outcome.trouble)
