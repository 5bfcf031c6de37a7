"""What `run` loads for a conversation and a load."""

import sys
from pathlib import Path

from benchmarks.loaded import find_foreign, find_loaded
from benchmarks.subjects import Effort
from tests.benchmarks.test_programs import needs_compiler


@needs_compiler
def test_a_conversation_and_a_load_need_nothing_beyond_the_core(effort: Effort, tmp_path: Path) -> None:
    loaded = find_loaded(sys.executable, effort.built.agent, tmp_path / "store")

    assert loaded["acp_proxy.relay.relay"] > 100
    assert loaded["acp_proxy.transcript_replay.replayer"] > 100
    assert find_foreign(loaded) == []


def test_commands_views_and_tools_are_not_of_the_core() -> None:
    names = (
        "acp_proxy",
        "acp_proxy.relay.pump",
        "acp_proxy.errors",
        "acp_proxy.cli.app",
        "acp_proxy.tools.sync",
        "acp_proxy.views",
    )

    assert find_foreign(names) == ["acp_proxy.cli.app", "acp_proxy.tools.sync", "acp_proxy.views"]
