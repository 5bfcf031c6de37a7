"""The short forms of `make torture`, except two: tests/fuzz shows what fuzzing does, tests/core/test_any_talk.py and
test_floods.py what hostile peers do."""

from pathlib import Path

import pytest

from torture.outcome import Scale, names, run


@pytest.mark.parametrize("case", [name for name in names() if name not in ("fuzz", "hostile")])
def test_nothing_is_lost_or_left_behind(case: str, tmp_path: Path) -> None:
    outcomes = list(run(case, Scale(short=True, seed=0, place=tmp_path)))

    assert outcomes
    for outcome in outcomes:
        assert outcome.is_well, (outcome, outcome.trouble)
