"""Machines that crash, and that write at the same moment, with a real place between them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.object_store import SealedLogs
from tests.tools.sync import servers
from tests.tools.sync.killed import run_killed

WRITERS = 8


def test_of_eight_machines_that_write_the_same_record_one_wins(place: str) -> None:
    key = HistoryKey.create()
    SealedLogs(place, key).check("probe")
    begin = Barrier(WRITERS)

    def write(writer: int) -> list[bool]:
        logs = SealedLogs(place, key)
        logs.list_machines()
        won = []
        for number in range(1, 6):
            begin.wait()
            won.append(logs.create("machine", number, b"%d" % writer))
        return won

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(write, range(WRITERS)))
    winners = [[writer for writer in range(WRITERS) if won[writer][number]] for number in range(5)]
    assert [len(winner) for winner in winners] == [1] * 5
    logs = SealedLogs(place, key)
    assert [logs.get("machine", number) for number in range(1, 6)] == [b"%d" % writer for [writer] in winners]


def test_a_machine_that_is_killed_after_any_write_loses_and_doubles_nothing(place: str, tmp_path: Path) -> None:
    shared = tmp_path / servers.BUCKET
    shared.mkdir(exist_ok=True)
    (tmp_path / "stores").mkdir()
    ends = list(run_killed(tmp_path / "stores", place, shared, commits=bool(servers.PROGRAM)))
    writes = {end.after for end in ends}
    assert writes >= {
        "SealedLogs.create",
        "SyncStore.create",
        "SyncStore.append_turns",
        "SyncStore.mask",
        "SyncStore.delete",
    }
    whole = ends[-1]
    assert (
        sorted(whole.one.values())
        == sorted(whole.two.values())
        == [
            ["Begins here"],
            ["Begins there"],
            ["Grows here", "Here"],
            ["Grows there", "There"],
            ["Is masked there [redacted]" + "*" * 30],
        ]
    )
    for end in ends:
        assert (end.one, end.two, end.records, end.words) == (whole.one, whole.two, whole.records, False), end.after
