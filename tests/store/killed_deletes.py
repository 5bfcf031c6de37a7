"""Deletes and restores in processes that are killed before the first, the second, … call that changes a store.

for root in kill_while_deleting(folder, "soft"): ...    # each a store of its own; in the last one, the process finished
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from acp_proxy.store.layout import Layout
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT, ROOT
from tests.store.killed_forks import kill_before, run_to_end
from tests.stored import WholeStore
from tests.waiting import SECONDS

SECRET = "secret"
"""Is in the transcript, the title and the backup of the only session whose fate is tried."""


def kill_while_deleting(folder: Path, case: str) -> Iterator[Path]:
    """Do what a case says, once for each moment of a kill; the root of each store."""
    command = [sys.executable, "-m", __name__, str(folder), case]
    result = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=SECONDS, check=True
    )
    yield from (Path(line) for line in result.stdout.decode().splitlines())


def _delete(store: WholeStore, *, soft: bool = False) -> None:
    [row] = [row for row in store.list_all() if SECRET in (row.title or "")]
    store.delete_listed(row, soft=soft)


def _delete_softly(store: WholeStore) -> None:
    _delete(store, soft=True)


def _restore(store: WholeStore) -> None:
    store.restore(store.list_deleted()[0])


def _remove_soft_deleted(store: WholeStore) -> None:
    store.delete_soft_deleted(store.list_deleted()[0])


def _store_newer(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", at=60)


def _do_nothing(store: WholeStore) -> None:
    pass


_Step = Callable[[WholeStore], None]
CASES: dict[str, tuple[_Step, _Step, _Step]] = {
    "permanent": (_do_nothing, _do_nothing, _delete),
    "soft": (_do_nothing, _do_nothing, _delete_softly),
    "restore": (_delete_softly, _do_nothing, _restore),
    "permanent after soft": (_delete_softly, _do_nothing, _remove_soft_deleted),
    "permanent after soft, id reused": (_delete_softly, _store_newer, _remove_soft_deleted),
    "restore beside a newer session": (_delete_softly, _store_newer, _restore),
    "permanent, set aside": (_store_newer, _do_nothing, _delete),
    "soft, set aside": (_store_newer, _do_nothing, _delete_softly),
    "restore, set aside": (_store_newer, _delete_softly, _restore),
}
"""Two steps that prepare a store, and the one that is killed."""


def _make_store(root: Path, *steps: _Step) -> None:
    store = WholeStore(root)
    transcript_lines.store_lines(
        store, AGENT, "s", transcript_lines.prompt_line(f"{SECRET} words", session="s") + transcript_lines.answer()
    )
    [row] = store.list_all()
    store.set_listed_title(row, f"{SECRET} title")
    copy = Layout(root).backup_path(AGENT, row.name, transcript_lines.time(1))
    copy.parent.mkdir(parents=True)
    copy.write_text(f"{SECRET} backup")
    for step in steps:
        step(store)


def _run(root: Path, number: int, last: _Step) -> None:
    store = WholeStore(root)
    kill_before(number)
    last(store)


def main() -> None:
    folder, (first, second, last) = Path(sys.argv[1]), CASES[sys.argv[2]]
    number, is_complete = 0, False
    while not is_complete:
        number += 1
        root = folder / str(number)
        _make_store(root, first, second)
        is_complete = run_to_end(_run, root, number, last)
        print(root, flush=True)


if __name__ == "__main__":
    main()
