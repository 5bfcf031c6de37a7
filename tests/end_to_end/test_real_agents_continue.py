"""A conversation with one real agent continues with another, offline. Without the agents the test is skipped."""

from collections.abc import Callable
from pathlib import Path

from scripts.continued import Trial, temporary, tried
from scripts.real_agents import stand_in_model

AGENTS = ("deepagents", "copilot")


def test_the_other_agents_model_gets_the_whole_conversation(tmp_path: Path, need_agent: Callable[[str], None]) -> None:
    for name in AGENTS:
        need_agent(name)
    log = tmp_path / "model.jsonl"
    log.touch()
    with temporary() as base, stand_in_model(log) as port:
        found = [(first, second, wrong) for first, second, _, wrong in tried(Trial(base, port), log, AGENTS)]
    assert found == [("deepagents", "copilot", []), ("copilot", "deepagents", [])]
