"""The table in docs/editors.md, from what the steps of each editor found."""

from pathlib import Path

import pytest

from scripts.editors import __main__ as editors
from scripts.editors.desk import OFFLINE_AGENTS, Desk
from scripts.editors.page import BEGIN, END, PAGE, page, table
from scripts.editors.steps import STEPS, Outcome
from scripts.editors.toad import Toad


def outcome(taken: int, problem: str | None = None) -> Outcome:
    return Outcome(Toad, "1.2", "OpenCode", {step: f"screen of {step}" for step in STEPS[:taken]}, problem)


def test_every_step_that_went_well_is_ok() -> None:
    assert table([outcome(len(STEPS))]).splitlines()[2:] == ["|Toad 1.2|OpenCode|ok|ok|ok|ok|ok|ok|"]


def test_a_step_that_fails_is_wrong_and_the_later_ones_are_not_tried() -> None:
    failed = outcome(2, "no answer")
    assert table([failed]).splitlines()[2:] == ["|Toad 1.2|OpenCode|ok|wrong|not tried|not tried|not tried|not tried|"]
    assert failed.told() == "tool call: no answer. The screen:\n\nscreen of tool call"


def test_new_results_replace_the_old_ones_and_nothing_else() -> None:
    old = f"before\n{BEGIN}old\n{END}after\n"
    new = page(old, [outcome(1)])
    assert new.startswith(f"before\n{BEGIN}")
    assert new.endswith(f"{END}after\n")
    assert "old" not in new
    assert page(new, [outcome(1)]) == new


def test_the_page_has_a_place_for_the_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1


def test_results_of_some_editors_alone_are_no_table() -> None:
    assert editors.arguments([]).is_whole
    some = editors.arguments(["--only", "toad", "--agents", "gemini,vibe"])
    assert (some.only, some.agents, some.is_whole) == (["toad"], ["gemini", "vibe"], False)


@pytest.mark.parametrize("words", [["--only", "vi"], ["--agents", "nobody"]])
def test_an_unknown_editor_or_agent_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        editors.arguments(words)


def test_the_snippet_starts_the_proxy_that_is_recorded(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", OFFLINE_AGENTS["opencode"], 1)
    assert f'"{desk.proxy}", "run", "opencode", "acp"' in desk.snippet("codecompanion")


def test_answers_are_found_on_a_tape_by_process_and_request(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", OFFLINE_AGENTS["opencode"], 1)
    assert desk.answered("session/load") == []
    lines = (
        '{"start": 1, "from": "client", "line": "{\\"id\\": 1, \\"method\\": \\"session/load\\"}"}',
        '{"start": 2, "from": "agent", "line": "{\\"id\\": 1, \\"result\\": {\\"of\\": \\"another process\\"}}"}',
        '{"start": 1, "event": "end of what the client says"}',
    )
    desk.tape.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert desk.answered("session/load") == []
    with desk.tape.open("a", encoding="utf-8") as tape:
        tape.write('{"start": 1, "from": "agent", "line": "{\\"id\\": 1, \\"result\\": {\\"modes\\": []}}"}\n')
    assert desk.answered("session/load") == [{"modes": []}]
