"""How the checks of real agents report findings, and how they are selected."""

import pytest

from scripts.agents_checks import turns
from scripts.agents_table import arguments
from scripts.findings import NOT_OFFERED, Finding, format_findings, is_well, refused, verdict
from scripts.shown import Shown
from tests.client import RequestFailed


def test_a_remark_is_no_error() -> None:
    remark = Finding("load 2", "the load is answered -32602", is_wrong=False)
    assert is_well([remark])
    assert verdict([remark]) == "ok"
    assert list(format_findings([remark])) == ["remark: the load is answered -32602 [load 2]"]


def test_an_error_outweighs_remarks() -> None:
    assert verdict([NOT_OFFERED, Finding("", "missing: a tool call (0 instead of 1)")]) == "wrong"
    assert verdict([NOT_OFFERED]) == "not offered"


def test_repeated_findings_are_printed_once() -> None:
    found = [Finding(f"load {number}", "doubled") for number in range(1, 11)]
    assert list(format_findings(found)) == ["doubled [load 1 to load 10, 10 of them]"]
    assert list(format_findings(found[:2])) == ["doubled [load 1, load 2]"]
    assert list(format_findings([found[0], Finding("", "doubled"), found[0]])) == ["doubled [load 1]"]


def test_a_refusal_is_reported_without_the_session_id() -> None:
    refusal = RequestFailed({"code": -32602, "message": "Session d52a8b8f-dc6a-40b3-b9b5-accd7a3ae09c is loaded"})
    assert refused("the load", refusal).text == "the load is answered -32602 Session ID is loaded"


def test_turns_are_separated_by_the_users_messages() -> None:
    first, second = [("agent", "I will look."), ("tool", ""), ("agent", "Done.")], [("agent", "Hello.")]
    said = Shown([("user", "mend it"), *first, ("user", "hello"), *second], {"call-1": "completed"})
    assert [(turn.messages, len(turn.tools)) for turn in turns(said)] == [(first, 1), (second, 0)]


def test_agents_and_checks_can_be_named_in_any_order() -> None:
    given = arguments(["--only", "gemini,vibe", "--checks", "fork,loads"])
    assert (given.only, given.checks, given.table) == (("vibe", "gemini"), ("loads", "fork"), False)
    assert arguments([]).table


@pytest.mark.parametrize("words", [["--only", "nobody"], ["--checks", "nothing"], ["--only", ""]])
def test_an_unknown_name_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(words)
