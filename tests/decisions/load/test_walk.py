"""Every event in every state of a load has the effects that are written down in ``golden/``, a file for each kind."""

import pytest

from acp_proxy.decisions.load.load_states import STATES
from tests.decisions.load.walk import GOLDEN, KINDS, describe_move, walk_all


def read_golden(kind: str) -> list[str]:
    return (GOLDEN / f"{kind}.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_in_every_state_has_the_effects_that_are_written_down(kind: str) -> None:
    assert walk_all(kind) == read_golden(kind)


def test_the_walks_meet_every_row_of_the_table() -> None:
    transitions = {describe_move(state, event) for state, row in STATES.items() for event in row.transitions}
    assert transitions <= {line for kind in KINDS for line in read_golden(kind)}
