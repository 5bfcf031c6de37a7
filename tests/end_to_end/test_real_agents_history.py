"""Real agents, offline: a load after a kill of the agent and the proxy shows the history once.

``docs/agents.md`` has more of them. These are light, and no two restore alike: copilot loses the thoughts, pydanticacp
answers a load and shows nothing, deepagents cannot load. opencode replays a fork before it answers.
"""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

from scripts.agents_checks import AGAIN, Past, checked, joined, loaded
from scripts.findings import Finding, told
from scripts.histories import recorded
from scripts.real_agents import PROMPTS, Bench, Lived, Reopened

AGENTS = ("copilot", "pydanticacp", "deepagents")

LiveTwice = Callable[[str], tuple[Bench, Lived, Reopened]]


@pytest.fixture(scope="module")
def live_twice(
    tmp_path_factory: pytest.TempPathFactory, stand_in_model: int, need_agent: Callable[[str], None]
) -> LiveTwice:
    """Hold a conversation with an agent, kill every process, and reopen it in new ones; once for each agent."""

    @cache
    def live(name: str) -> tuple[Bench, Lived, Reopened]:
        need_agent(name)
        bench = Bench(tmp_path_factory.mktemp(name), name, stand_in_model)
        lived = bench.talk()
        return bench, lived, bench.reopen(lived.session)

    return live


@pytest.mark.parametrize("name", AGENTS)
def test_a_load_after_a_kill_shows_all_messages_and_tool_calls(name: str, live_twice: LiveTwice) -> None:
    _, lived, found = live_twice(name)
    assert lived.shown.tools
    assert found.error is None
    assert found.shown is not None
    assert found.shown.words("user") == lived.shown.words("user") == "".join("".join(PROMPTS).split())
    assert lived.shown.words("agent")
    assert found.shown.compared("agent", lived.shown).whole
    assert found.shown.tools == lived.shown.tools


@pytest.mark.parametrize("name", ["copilot", "deepagents"])
def test_a_loaded_session_is_listed_and_can_be_continued(name: str, live_twice: LiveTwice) -> None:
    _, _, found = live_twice(name)
    assert found.listed
    assert found.next_turn is not None
    assert found.next_turn.words("agent")


@pytest.mark.parametrize("name", AGENTS)
def test_a_continued_session_is_complete_without_repetition(name: str, live_twice: LiveTwice) -> None:
    bench, lived, found = live_twice(name)
    assert found.next_turn is not None, found.next_error
    before = Past(lived.session, joined(lived.shown, found.next_turn), recorded(bench.store))
    assert not wrong(loaded(bench, before, "", often=AGAIN))


def test_a_fork_that_replays_its_history_early_shows_it_once(
    tmp_path: Path, stand_in_model: int, need_agent: Callable[[str], None]
) -> None:
    need_agent("opencode")
    assert not wrong(checked("fork", Bench(tmp_path / "bench", "opencode", stand_in_model)))


def wrong(found: Iterable[Finding]) -> list[str]:
    return list(told([one for one in found if one.is_wrong]))
