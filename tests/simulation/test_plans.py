"""Conversations with and without acp-proxy, side by side: kept plans, and a fixed number of seeds."""

from pathlib import Path
from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from simulation import choices, links, running
from simulation.agent import Habits
from simulation.plan import Plan, Step, read, read_file
from simulation.promise import Broken
from simulation.running import report, run
from simulation.shrinking import shrink

PLANS = sorted(Path(__file__).parents[2].joinpath("simulation", "plans").glob("*.json"))
SEEDS = 120
WITH_CONTEXT = 40


def _kept(path: Path) -> object:
    why = read_file(path).open
    return pytest.param(path, id=path.stem, marks=[pytest.mark.xfail(reason=why, strict=True)] if why else [])


@pytest.mark.parametrize("path", [_kept(path) for path in PLANS])
def test_a_kept_plan_shows_nothing_worse_than_without_acp_proxy(path: Path) -> None:
    plan = read_file(path)
    result = run(plan)
    assert not result.broken, "\n".join(report(plan, result))


def test_each_window_has_a_store_of_its_own_as_each_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    init, stores = links.Proxied.__init__, list[ProxyStore]()

    def counts(self: links.Proxied, store: ProxyStore, *args: Any) -> None:
        stores.append(store)
        init(self, store, *args)

    monkeypatch.setattr(links.Proxied, "__init__", counts)
    run(read_file(next(path for path in PLANS if path.stem == "handed-over-again-in-another-window")))
    assert len(stores) > 1
    assert len({id(store) for store in stores}) == len(stores)


@pytest.mark.parametrize("name", ["same-command-after-load", "fork-at-message"])
def test_a_kept_plan_holds_with_real_processes_that_are_killed(name: str) -> None:
    plan = read_file(next(path for path in PLANS if path.stem == name))
    result = run(plan, with_processes=True)
    assert not result.broken, "\n".join(report(plan, result))


def test_transcripts_of_real_processes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "check_transcript", lambda truth, session, words: [Broken("read", str(words))])
    plan = read_file(next(path for path in PLANS if path.stem == "same-command-after-load"))
    assert {each.which for each in run(plan, with_processes=True).broken} == {"read"}


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_random_plans_show_nothing_worse_than_without_acp_proxy(first: int) -> None:
    for seed in range(first, first + 20):
        plan = choices.make(seed)
        result = run(plan)
        assert not result.broken, f"make simulate SEED={seed} PLANS=1\n" + "\n".join(map(str, result.broken))


def test_random_plans_with_context_in_the_agents_replays_show_nothing_worse() -> None:
    for seed in range(WITH_CONTEXT):
        plan = choices.make(seed, has_context=True)
        result = run(plan)
        assert not result.broken, f"make simulate SEED={seed} PLANS=1 CONTEXT=1\n" + "\n".join(map(str, result.broken))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_is_written_as_it_was_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert read(text).text() == text


def test_a_seed_always_gives_the_same_plan_and_the_same_output() -> None:
    plan = choices.make(7)
    assert plan.text() == choices.make(7).text()
    assert list(report(plan, run(plan))) == list(report(plan, run(plan)))


def test_what_does_not_matter_is_shrunk_away() -> None:
    steps: list[Step] = [{"do": "start", "w": "a"}, {"do": "new", "w": "a", "s": 1}, {"do": "list", "w": "a"}]
    plan = Plan(Habits(rewords=True, leaves_out=("calls", "users")), tuple(steps * 3))
    small = shrink(plan, lambda each: any(step["do"] == "list" for step in each.steps) and each.habits.rewords)
    assert small == Plan(Habits(rewords=True), ({"do": "list", "w": "a"},))
