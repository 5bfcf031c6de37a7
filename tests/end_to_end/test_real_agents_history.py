"""Real agents, offline: after they and the proxy were killed, a load behind the proxy shows what was said.

``docs/agents.md`` has more of them. These are light, and no two restore alike: opencode restores all, copilot loses the
thoughts, pydanticacp answers a load and shows nothing, deepagents cannot load.
"""

from collections.abc import Callable
from functools import cache

import pytest

from scripts.real_agents import PROMPTS, Bench, Lived, Reopened

LiveTwice = Callable[[str], tuple[Lived, Reopened]]


@pytest.fixture(scope="module")
def live_twice(
    tmp_path_factory: pytest.TempPathFactory, stand_in_model: int, need_agent: Callable[[str], None]
) -> LiveTwice:
    """A conversation with an agent, everyone's death, and its return in new processes; once for each agent."""

    @cache
    def live(name: str) -> tuple[Lived, Reopened]:
        need_agent(name)
        bench = Bench(tmp_path_factory.mktemp(name), name, stand_in_model)
        lived = bench.talk()
        return lived, bench.reopen(lived.session)

    return live


@pytest.mark.parametrize("name", ["opencode", "copilot", "pydanticacp", "deepagents"])
def test_after_everyone_was_killed_a_load_shows_all_words_and_tool_calls(name: str, live_twice: LiveTwice) -> None:
    lived, found = live_twice(name)
    assert lived.shown.tools
    assert found.error is None
    assert found.shown is not None
    assert found.shown.words("user") == lived.shown.words("user") == "".join("".join(PROMPTS).split())
    assert lived.shown.words("agent")
    assert found.shown.compared("agent", lived.shown).whole
    assert found.shown.tools == lived.shown.tools


@pytest.mark.parametrize("name", ["opencode", "copilot", "deepagents"])
def test_what_was_loaded_is_in_the_list_and_goes_on(name: str, live_twice: LiveTwice) -> None:
    _, found = live_twice(name)
    assert found.listed
    assert found.next_turn is not None
    assert found.next_turn.words("agent")
