"""The plans whose outcome is frozen, and the files that say what it is."""

import json
import shutil
import tempfile
from pathlib import Path

from acp_proxy.transcript.file_names import file_name
from simulation.plan import read_file
from tests.golden.frozen_text import commands, freeze, join_sections

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
STORE = EXPECTED / "a-store-with-every-kind-of-file.txt"
_FIXTURES = HERE.parents[1] / "fixtures"
_KEPT = sorted(HERE.parents[1].joinpath("simulation", "plans").glob("*.json"))
PLANS = [
    path
    for path in (*sorted(HERE.joinpath("plans").glob("*.json")), *_KEPT)
    if (EXPECTED / f"{path.stem}.txt").exists()
]
"""Plans of every theme by chance, kept here since another seed would give another plan; and those of the simulation
that have a file in ``EXPECTED``."""


def freeze_file(path: Path) -> str:
    """What the commands say about one file."""
    with tempfile.TemporaryDirectory(prefix="golden-") as root:
        return freeze(read_file(path), Path(root))


def freeze_store() -> str:
    """What the commands say about a store that has every kind of file, damaged ones and those of older versions too."""
    with tempfile.TemporaryDirectory(prefix="golden-") as root:
        store = Path(root) / "store"
        shutil.copytree(_FIXTURES / "stores" / "mixed", store)
        transcripts = store / "transcripts"
        shutil.copytree(_FIXTURES / "stores" / "unfinished-forks", transcripts / "a-1d8e0a5d3f6d2b11")
        first = transcripts / "my-agent-4f1c2d3e4a5b6c7d"
        first.mkdir()
        for path in _FIXTURES.joinpath("transcripts", "v1").glob("*.jsonl"):
            id = f"v1-{path.stem}"  # all samples have one id
            text = path.read_bytes().replace(b'"sess-1"', json.dumps(id).encode())
            first.joinpath(f"{file_name(id)}.jsonl").write_bytes(text)
        for path in [store, *store.rglob("*")]:  # git keeps no modes, and verify looks at them
            path.chmod(0o700 if path.is_dir() else 0o600)
        return join_sections(commands(store, verifies=True), Path(root))
