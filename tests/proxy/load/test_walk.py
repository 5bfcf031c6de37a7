"""Every event in every state of a load has the effects that are written down in ``golden/``, a file for each kind."""

import pytest

from acp_proxy.proxy.effects import Effect
from acp_proxy.proxy.load.load_machine import LoadMachine
from acp_proxy.proxy.load.states import TRANSITIONS, Load, LoadEvent, LoadState
from tests.proxy.load.walk import GOLDEN, KINDS, walk_all


class Walked:
    def __init__(self) -> None:
        self.descriptions: dict[str, list[str]] = {}
        self.moves: set[tuple[LoadState, LoadEvent]] = set()


@pytest.fixture(scope="module")
def walked() -> Walked:
    walked, move = Walked(), LoadMachine._move

    def noted(machine: LoadMachine, load: Load, event: LoadEvent, message: object = None) -> list[Effect]:
        walked.moves.add((load.state, event))
        return move(machine, load, event, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoadMachine, "_move", noted)
        walked.descriptions = {kind: walk_all(kind) for kind in KINDS}
    return walked


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_in_every_state_has_the_effects_that_are_written_down(walked: Walked, kind: str) -> None:
    written = (GOLDEN / f"{kind}.txt").read_text(encoding="utf-8").splitlines()
    assert walked.descriptions[kind] == written


def test_the_walks_meet_every_row_of_the_table(walked: Walked) -> None:
    assert {(state, event) for state, row in TRANSITIONS.items() for event in row.moves} <= walked.moves
