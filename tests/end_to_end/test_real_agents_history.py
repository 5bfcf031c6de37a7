"""Real agents, offline: a load after a kill of the agent and the proxy shows the history once.

``make agents`` checks more of them, and forks. These two are light: copilot loses the thoughts, pydanticacp answers a
load and shows nothing.
"""

from collections.abc import Callable, Iterable
from functools import cache

import pytest

from scripts.agents_checks import AGAIN, Past, joined, loaded
from scripts.findings import Finding, format_findings
from scripts.histories import recorded
from scripts.real_agents import PROMPTS, Bench, Lived, Reopened

AGENTS = ("copilot", "pydanticacp")

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


def test_a_loaded_session_is_listed_and_can_be_continued(live_twice: LiveTwice) -> None:
    _, _, found = live_twice("copilot")
    assert found.listed
    assert found.next_turn is not None
    assert found.next_turn.words("agent")


@pytest.mark.parametrize("name", AGENTS)
def test_a_continued_session_is_complete_without_repetition(name: str, live_twice: LiveTwice) -> None:
    bench, lived, found = live_twice(name)
    assert found.next_turn is not None, found.next_error
    before = Past(lived.session, joined(lived.shown, found.next_turn), recorded(bench.store))
    assert not wrong(loaded(bench, before, "", often=AGAIN))


def wrong(found: Iterable[Finding]) -> list[str]:
    return list(format_findings([one for one in found if one.is_wrong]))
