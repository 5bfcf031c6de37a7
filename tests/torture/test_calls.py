"""Each system call on the store fails: nothing is changed on the wire, written elsewhere or lost in silence.

The short form of the case ``calls`` of `make torture`: a few places of each call.
"""

import random
from collections.abc import Iterator

import pytest

from torture import faults
from torture.cases.calls import FAILURE_COUNTS, list_faults
from torture.faulty_conversations import ALWAYS, ONCE, Fault, FaultyConversations

pytestmark = pytest.mark.skipif(not faults.are_available(), reason="needs Linux and a C compiler")

CALLS = [call for call in faults.CALLS if call not in ("truncate", "utimensat", "statvfs", "chmod")]
"""Those that a conversation makes."""
_PLACES = 3


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyConversations]:
    faulty = FaultyConversations(tmp_path_factory.mktemp("faults") / "worker")
    yield faulty
    faulty.close()


@pytest.fixture(scope="module")
def call_counts(conversations: FaultyConversations) -> dict[str, int]:
    """How often a conversation makes each call; without a fault, it is recorded as it was."""
    findings = conversations.run(None)
    assert not findings.trouble
    return findings.call_counts


@pytest.mark.parametrize("call", CALLS)
def test_a_call_may_fail_anywhere(call: str, conversations: FaultyConversations, call_counts: dict[str, int]) -> None:
    waits_for_a_lock = call == "fcntl"  # SQLite waits for seconds for a lock that it never gets
    possible_faults = [
        fault
        for fault in list_faults(call, call_counts[call], has_sessions=True)
        if fault.failure_count != ALWAYS or not waits_for_a_lock
    ]
    for fault in random.Random(call).sample(possible_faults, min(_PLACES, len(possible_faults))):
        findings = conversations.run(fault)
        assert not findings.trouble, (fault, findings)


@pytest.mark.parametrize(
    "failure_count", [failure_count for failure_count in FAILURE_COUNTS if failure_count != ALWAYS]
)
@pytest.mark.parametrize("call", ["mkdir", "open", "access", "opendir", "read"])
def test_a_store_that_cannot_be_opened_at_the_start_is_used_when_it_can(
    call: str, failure_count: int, conversations: FaultyConversations
) -> None:
    findings = conversations.run(Fault(call, "EIO", first=1, failure_count=failure_count))
    assert findings.step == "start"
    assert not findings.trouble, findings
    assert len(findings.warnings) == 1


def test_no_byte_goes_into_the_file_that_gets_the_number_of_a_transcript(
    conversations: FaultyConversations, call_counts: dict[str, int]
) -> None:
    for call_number in range(1, call_counts["close"] + 1, 5):
        findings = conversations.run(Fault("close", "EDQUOT", first=call_number, failure_count=ONCE))
        assert not findings.trouble, (call_number, findings)


def test_a_failing_fsync_is_a_gap_with_one_warning(conversations: FaultyConversations) -> None:
    findings = conversations.run(Fault("fsync", "EIO", first=1, failure_count=ONCE))
    assert not findings.trouble, findings
    assert findings.missing_count == 0
    assert findings.gap_count >= 1  # a fork has a copy of it
    [warning] = findings.warnings
    assert "the disk may have lost something" in warning
