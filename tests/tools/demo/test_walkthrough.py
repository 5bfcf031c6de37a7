"""The demo fails if an agent's load differs from the conversation."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.tools.demo.turn import BUILT_IN_TURN, fill, make_chunk
from acp_proxy.tools.demo.walkthrough import PROMPTS, WalkFailed, walk

AGENT = [sys.executable, "-m", "tests.scripted.agent"]
ALL = "resume,list,load,delete,close,fork"


def test_the_demo_fails_if_a_load_is_incomplete() -> None:
    said: list[str] = []
    with pytest.raises(WalkFailed):
        walk(said.append, lambda store, memory: [*AGENT, "--memory", str(memory), "--capabilities", ALL])
    assert any("user:" in line for line in said)


def test_the_demo_accepts_a_complete_load(tmp_path: Path) -> None:
    history: list[dict[str, Any]] = []
    for number, (text, remembered) in enumerate(
        [
            (PROMPTS[0], "I remember no earlier prompt."),
            (PROMPTS[1], f"I remember 1 earlier prompt; the first was: {PROMPTS[0]}"),
        ],
        1,
    ):
        history.append({"update": make_chunk("user_message_chunk", text)})
        turn = fill(BUILT_IN_TURN, {"prompt": text, "n": str(number)})
        remembering = {"update": make_chunk("agent_message_chunk", remembered, f"answer-{number}")}
        history += [remembering if "remember" in step else step for step in turn]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"methods": {"session/load": {"before": history, "result": {}}}}))
    said: list[str] = []
    options = ["--capabilities", ALL, "--script", str(script)]
    walk(said.append, lambda store, memory: [*AGENT, "--memory", str(memory), *options])
    assert "It deletes the session: the list is empty." in said
