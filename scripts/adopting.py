"""Adopts sessions that real agents made without acp-proxy, and writes the table in docs/adopt.md: `make adopting`.

    python -m scripts.adopting                                            # the table in the page
    python -m scripts.adopting --only copilot --sessions 10 --keep DIR    # these agents, and no page

Each agent makes its sessions alone. Then copies of what it keeps are loaded by a client, and adopted; the messages of
both are compared. Ends with 1 if anything is missing.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp_proxy.sessions.command_store import CommandStore
from scripts.real_agents import (
    PATIENCE,
    Bench,
    environment,
    initialize,
    kill_all,
    launched,
    offers,
    stand_in_model,
    wait_for_quiet,
)
from scripts.shown import Shown, read_shown
from tests.client import Client

PAGE = Path(__file__).parent.parent / "docs" / "adopt.md"
BEGIN, END = "<!-- agents: made by `make adopting` -->\n", "<!-- end of the agents -->\n"
HEADER = "|agent|sessions made|listed|adopted|messages and tool calls in its own replay|equal in the transcripts|\n"
NAMES = ("opencode", "vibe", "copilot", "zedcodex", "pydanticacp", "gemini", "openhands")
SESSIONS = 100
DIRECTORIES = 5
WITH_A_TOOL, WITH_TWO_TURNS = 10, 5
"""Every tenth session uses a tool, every fifth has a second turn."""
TOGETHER = 20
"""Sessions loaded by one process of the agent."""
PATIENTLY = ("--timeout", "600")
"""For a busy machine."""


@dataclass
class Tried:
    """``said``: what happened, if the agent's sessions cannot be adopted."""

    name: str
    made: int
    listed: int = 0
    adopted: int = 0
    replayed: int = 0
    equal: int = 0
    said: str = ""

    def row(self) -> str:
        cells = [self.made, self.listed, self.adopted, self.replayed, self.equal]
        return f"|{'|'.join([self.name, *map(str, cells)])}|\n" if not self.said else f"|{self.name}|{self.said}|||||\n"

    @property
    def is_well(self) -> bool:
        return self.adopted == self.listed and self.equal == self.replayed


def tried(name: str, number: int, base: Path, port: int) -> Tried:
    base.mkdir(parents=True, exist_ok=True)
    if not can_be_asked(name, base / "state-empty", port):
        done = adopted(base, name, base / "state-empty", port)
        why = re.search(r"the agent [^.,]*", done.stderr)
        return Tried(name, 0, said=why[0] if why else "the agent cannot be started")
    ids = base / "sessions.json"
    if not ids.exists():
        sessions = make_sessions(Bench(base, name, port, None), number)
        ids.write_text(json.dumps(sessions))
    out = Tried(name, len(json.loads(ids.read_text())))
    entries = list_own_sessions(name, copied(base, "listed"), port)
    out.listed = len(entries)
    own = replays(name, entries, copied(base, "replayed"), port)
    done = adopted(base, name, copied(base, "adopted"), port)
    print(done.stdout, done.stderr, sep="", end="", file=sys.stderr)
    kept = dict(transcripts(base / "store"))
    out.adopted = len(kept)
    for session, theirs in own.items():
        ours = parts(kept.get(session, Shown()))
        out.replayed += parts(theirs).total()
        out.equal += (parts(theirs) & ours).total()
        if session in kept and parts(theirs) != ours:
            print(name, session, parts(theirs) - ours, ours - parts(theirs), sep="\n", file=sys.stderr)
    return out


def make_sessions(bench: Bench, number: int) -> list[str]:
    """The ids of new sessions, made by the agent alone, in several directories."""
    sessions = []
    with bench.client() as client:
        initialize(client)
        for at in range(number):
            project = bench.project / f"part-{at % DIRECTORIES}"
            project.mkdir(exist_ok=True)
            params = {"cwd": str(project), "mcpServers": []}
            session = str(client.request("session/new", params, PATIENCE)["sessionId"])
            texts = [f"session {at}: {'hello' if at % WITH_A_TOOL else 'please TOOL now'}"]
            texts += [] if at % WITH_TWO_TURNS else [f"the second prompt of session {at}"]
            for text in texts:
                blocks = [{"type": "text", "text": text}]
                client.request("session/prompt", {"sessionId": session, "prompt": blocks}, PATIENCE)
            sessions.append(session)
        wait_for_quiet(client)
    return sessions


def copied(base: Path, use: str) -> Path:
    """A copy of what the agent keeps: a load may change it."""
    copy = base / f"state-{use}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(base / "state", copy, symlinks=True)
    return copy


def can_be_asked(name: str, state: Path, port: int) -> bool:
    """Whether the agent can list and load."""
    with client_of(name, state, port) as client:
        return {"list", "load"} <= set(offers(initialize(client)))


def list_own_sessions(name: str, state: Path, port: int) -> list[dict[str, Any]]:
    """The agent's own list, all pages."""
    with client_of(name, state, port) as client:
        initialize(client)
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        while True:
            page = client.request("session/list", params, PATIENCE)
            found += page["sessions"]
            if not page.get("nextCursor"):
                return found
            params = {"cursor": page["nextCursor"]}


def replays(name: str, entries: Sequence[dict[str, Any]], state: Path, port: int) -> dict[str, Shown]:
    """What the agent itself replays of each session."""
    found = {}
    for start in range(0, len(entries), TOGETHER):
        with client_of(name, state, port) as client:
            initialize(client)
            for entry in entries[start : start + TOGETHER]:
                params = {"sessionId": entry["sessionId"], "cwd": entry["cwd"], "mcpServers": []}
                client.request("session/load", params, PATIENCE)
                wait_for_quiet(client)
                found[str(entry["sessionId"])] = read_shown(client.messages(), entry["sessionId"])
    return found


@contextmanager
def client_of(name: str, state: Path, port: int) -> Iterator[Client]:
    """A client of the agent alone. At its end, the agent and all its descendants are killed."""
    with Client(launched(name), env=environment(port, state), cwd=state.parent) as client:
        try:
            yield client
        finally:
            kill_all(client, state)


def adopted(base: Path, name: str, state: Path, port: int) -> subprocess.CompletedProcess[str]:
    shutil.rmtree(base / "store", ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "acp_proxy",
        "adopt",
        "--store",
        str(base / "store"),
        "--yes",
        *PATIENTLY,
        "--",
    ]
    return subprocess.run(
        [*command, *launched(name)],
        env=environment(port, state),
        cwd=base,
        capture_output=True,
        text=True,
        timeout=PATIENCE * 10,
        check=False,
    )


def transcripts(root: Path) -> Iterator[tuple[str, Shown]]:
    store = CommandStore(root, create=False)
    for row in store.list_all():
        reader = store.open_listed(row)
        entries = [line.entry for line in reader.read_lines() if line.entry is not None]
        reader.close()
        yield row.session_id, read_shown([entry.value for entry in entries], row.session_id)


def parts(told: Shown) -> Counter[tuple[str, str]]:
    """Its messages, and its tool calls with their last status."""
    return Counter([*((speaker, text) for speaker, text in told.messages if text), *told.tools.items()])


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="adopting", description="Adopts sessions that real agents made alone.")
    parser.add_argument("--only", metavar="AGENT,…", default=",".join(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--sessions", type=int, default=SESSIONS, metavar="N", help="of each, default %(default)s")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep everything there, and reuse sessions made before"
    )
    given = parser.parse_args(words)
    with stand_in_model() as port, tempfile.TemporaryDirectory(prefix="acp-proxy-adopting-") as passing:
        base = (given.keep or Path(passing)).resolve()
        rows = [tried(name, given.sessions, base / name, port) for name in given.only.split(",")]
    print(HEADER, *(row.row() for row in rows), sep="", end="")
    if given.only == parser.get_default("only") and given.sessions == SESSIONS:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0 if all(row.is_well for row in rows) else 1


def page(text: str, rows: Sequence[Tried]) -> str:
    """The page with a new table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{HEADER}|-|-|-|-|-|-|\n{''.join(row.row() for row in rows)}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
