"""Each system call on the store fails: nothing is changed on the wire, written elsewhere or lost in silence.

The short form of the case ``calls`` of `make torture`: a few places of each call.
"""

import random
from collections.abc import Iterator

import pytest

from torture import faults
from torture.cases.calls import TIMES, cells_of
from torture.cells import ALWAYS, ONCE, Cell, Cells

pytestmark = pytest.mark.skipif(not faults.can_be_had(), reason="needs Linux and a C compiler")

CALLS = [call for call in faults.CALLS if call not in ("truncate", "utimensat", "statvfs", "chmod")]
"""Those that a conversation makes."""
_PLACES = 3


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    started = Cells(tmp_path_factory.mktemp("cells") / "worker")
    yield started
    started.close()


@pytest.fixture(scope="module")
def counted(cells: Cells) -> dict[str, int]:
    """How often a conversation makes each call; without a fault, it is recorded as it was."""
    found = cells.run(None)
    assert not found.trouble
    return found.counted


@pytest.mark.parametrize("call", CALLS)
def test_a_call_may_fail_anywhere(call: str, cells: Cells, counted: dict[str, int]) -> None:
    slow = call == "fcntl"  # SQLite waits for seconds for a lock that it never gets
    possible = [cell for cell in cells_of(call, counted[call], used=True) if cell.times != ALWAYS or not slow]
    for cell in random.Random(call).sample(possible, min(_PLACES, len(possible))):
        found = cells.run(cell)
        assert not found.trouble, (cell, found)


@pytest.mark.parametrize("times", [times for times in TIMES if times != ALWAYS])
@pytest.mark.parametrize("call", ["mkdir", "open", "access", "opendir", "read"])
def test_a_store_that_cannot_be_opened_at_the_start_is_used_when_it_can(call: str, times: int, cells: Cells) -> None:
    found = cells.run(Cell(call, "EIO", 1, times))
    assert found.step == "start"
    assert not found.trouble, found
    assert len(found.warnings) == 1


def test_no_byte_goes_into_the_file_that_gets_the_number_of_a_transcript(cells: Cells, counted: dict[str, int]) -> None:
    for first in range(1, counted["close"] + 1, 5):
        found = cells.run(Cell("close", "EDQUOT", first, ONCE))
        assert not found.trouble, (first, found)


def test_a_failing_fsync_is_a_gap_with_one_warning(cells: Cells) -> None:
    found = cells.run(Cell("fsync", "EIO", 1, ONCE))
    assert not found.trouble, found
    assert found.missing == 0
    assert found.gaps >= 1  # a fork has a copy of it
    [warning] = found.warnings
    assert "the disk may have lost something" in warning
