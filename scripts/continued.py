"""Begins a conversation in each of some real agents, continues it in each of the others, and prints what their models
received: `python -m scripts.continued [AGENT…]`. It exits with 1 if one of them got less than the conversation.

It needs the folder with real agents (`scripts/real_agents.py`). Nothing is sent to the network.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import permutations
from pathlib import Path

from acp_proxy.transcript.handover_record_text import INTRODUCTION
from scripts.real_agents import (
    PATIENCE,
    PROXY,
    Workplace,
    blocks,
    environment,
    initialize,
    kill_all,
    launched,
    prompt,
    stand_in_model,
    wait_for_quiet,
)
from scripts.shown import letters, read_shown
from tests.client import Client

USUAL = ("opencode", "copilot", "deepagents")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "mimeType": "image/png", "data": PIXEL}
ANSWERS = ("FAKE-FINAL", "FAKE-ANSWER")
"""How the stand-in model's answers begin."""
TOOL_TURN, SAID, NEXT = "please TOOL THINK now", "the word is heron", "which word was it?"


class Trial:
    """The agents, with one store and one project."""

    def __init__(self, base: Path, port: int) -> None:
        self.base, self.port = base, port
        self.store, self.project = base / "store", base / "project"
        self.project.mkdir()
        self.sees: dict[str, bool] = {}
        """Whether each agent takes images."""

    @contextmanager
    def client(self, name: str) -> Iterator[Client]:
        command = [*PROXY, "--store", str(self.store), "--", *launched(name)]
        place = environment(self.port, self.base / name)
        with Client(command, env=place, cwd=self.project, on_request=Workplace(self.project)) as client:
            try:
                able = initialize(client).get("agentCapabilities") or {}
                self.sees[name] = bool((able.get("promptCapabilities") or {}).get("image"))
                yield client
            finally:
                kill_all(client, self.base)

    def begun(self, name: str) -> str:
        """Hold a conversation. The session's id."""
        with self.client(name) as client:
            session = str(client.request("session/new", self.place(), PATIENCE)["sessionId"])
            prompt(client, session, TOOL_TURN)
            prompt(client, session, [*blocks(SAID), *([IMAGE] if self.sees[name] else [])])
            return session

    def copied(self, session: str, name: str) -> str:
        """Copy the session to another agent. The copy's id."""
        words = ["continue", "--store", str(self.store), session, "--", *launched(name)]
        done = subprocess.run(
            [sys.executable, "-m", "acp_proxy", *words],
            env=environment(self.port, self.base / name),
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout.strip()

    def continued(self, copy: str, name: str) -> list[str]:
        """List, load and prompt the copy with its agent. What is wrong."""
        with self.client(name) as client:
            rows = client.request("session/list", {"cwd": str(self.project)}, PATIENCE)["sessions"]
            since = client.count_lines()
            client.request("session/load", self.place(copy), PATIENCE)
            wait_for_quiet(client)
            seen = read_shown(client.messages(since), copy)
            prompt(client, copy, NEXT)
            again = client.request("session/list", {"cwd": str(self.project)}, PATIENCE)["sessions"]
        wrong = [] if [row["sessionId"] for row in rows].count(copy) == 1 else ["the copy is not listed once"]
        wrong += [f"not shown: {words}" for words in (TOOL_TURN, SAID) if letters(words) not in seen.words("user")]
        return wrong + ([] if len(again) == len(rows) else [f"{len(again)} rows after the prompt, not {len(rows)}"])

    def place(self, session: str | None = None) -> dict[str, object]:
        named = {} if session is None else {"sessionId": session}
        return {**named, "cwd": str(self.project), "mcpServers": []}


def received(log: Path, since: int) -> tuple[str, str]:
    """What the model got with the next prompt after the record: the record, and the last request that has it."""
    for line in log.read_text().splitlines()[since:]:
        for text in texts(json.loads(line)):
            if INTRODUCTION in text:
                return text[text.index(INTRODUCTION) :], line
    return "", ""


def texts(value: object) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


def tried(trial: Trial, log: Path, names: Sequence[str]) -> Iterator[tuple[str, str, str, list[str]]]:
    """For each pair: the agents, the record that the second one's model received, and what is wrong."""
    begun = {name: trial.begun(name) for name in names}
    for first, second in permutations(names, 2):
        copy = trial.copied(begun[first], second)
        since = len(log.read_text().splitlines())
        wrong = trial.continued(copy, second)
        record, request = received(log, since)
        said = TOOL_TURN, SAID, *ANSWERS
        wrong += [f"the model did not get: {words}" for words in said if f"> {words}" not in record]
        wrong += [] if NEXT in request else [f"the model did not get: {NEXT}"]
        yield first, second, record + image_told(trial, first, second, request), wrong


def image_told(trial: Trial, first: str, second: str, request: str) -> str:
    """What became of the image. Some agents take images and keep them from a model that they believe cannot see."""
    if not (trial.sees[first] and trial.sees[second]):
        return "\n(One of the agents takes no images.)"
    return (
        f"\n({'The model got the image' if PIXEL in request else 'The agent took the image, and its model got none'}.)"
    )


@contextmanager
def temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        yield Path(place)


def main(names: Sequence[str]) -> int:
    is_well = True
    with ExitStack() as stack:
        base, logs = (stack.enter_context(temporary()) for _ in range(2))  # who names the base is killed with an agent
        log = logs / "model.jsonl"
        log.touch()
        port = stack.enter_context(stand_in_model(log))
        for first, second, record, wrong in tried(Trial(base, port), log, names):
            is_well = is_well and not wrong
            print(f"## {first} continued in {second}: {'; '.join(wrong) or 'ok'}\n\n{record}\n", flush=True)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or USUAL))
