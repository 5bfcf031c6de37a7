"""Conversations in which what was said was once written down or shown a second time: each is told as it happened.

The stage holds every step to the promise, so that a test only has to tell who does what.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.model.habits import Habits
from tests.model.promise import Session
from tests.model.proxies import Proxied
from tests.model.stage import Stage

_TIMES = 3
"""What grows from load to load does so from the second on."""


@contextmanager
def _talk(root: Path, habits: Habits) -> Iterator[tuple[Stage, Session]]:
    """A conversation of three turns, whose proxy was killed; nobody has opened it since."""
    stage = Stage(root / "store", habits)
    try:
        proxy = stage.start()
        session = stage.new(proxy)
        for turn in ("s", "scs", "ts"):
            stage.prompt(session, turn)
        stage.kill(proxy)
        yield stage, session
    finally:
        stage.close_all()


def _loaded_in_new_processes(stage: Stage, session: Session, *, kill: bool) -> Proxied:
    for _ in range(_TIMES):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.load(session, proxy)
        stage.prompt(session)
        (stage.kill if kill else stage.end)(proxy)
    proxy = stage.start()
    stage.load(session, proxy)
    return proxy


@pytest.mark.parametrize("tells", ["before", "split", "after"])
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_a_past_told_before_or_behind_the_answer_to_a_load_is_never_written_down_again(
    tmp_path: Path, tells: str, kill: bool
) -> None:
    with _talk(tmp_path, Habits(tells=tells)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=kill)


@pytest.mark.parametrize("come", range(4))
def test_a_prompt_at_once_behind_the_answer_to_a_load_meets_the_rest_of_the_past(tmp_path: Path, come: int) -> None:
    with _talk(tmp_path, Habits(tells="split")) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy, then="s", told_until_then=come)
        stage.load(session, proxy)


@pytest.mark.parametrize("tells", ["before", "after"])
def test_the_past_that_a_fork_is_told_with_is_not_written_down_behind_the_copy_of_its_parent(
    tmp_path: Path, tells: str
) -> None:
    with _talk(tmp_path, Habits(frozenset({"load", "fork"}), tells_forked=tells)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        fork = stage.fork(session)
        stage.prompt(fork)
        stage.load(fork)
        stage.prompt(session)
        stage.kill(proxy)
        _loaded_in_new_processes(stage, fork, kill=True)


@pytest.mark.parametrize("echoes", ["plain", "expanded", "chunks", "id"])
def test_a_prompt_and_its_echo_are_one_message(tmp_path: Path, echoes: str) -> None:
    forgets = frozenset({"calls"})  # so that ours is shown
    with _talk(tmp_path, Habits(echoes=echoes, forgets=forgets)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=True)


def test_queued_prompts_and_their_echoes_are_one_message_each(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(echoes="expanded", forgets=frozenset({"calls"}))) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.prompt(session, "s", later="s")
        stage.prompt(session, "s", later="s")
        stage.go_on(session)
        stage.go_on(session)
        stage.kill(proxy)
        _loaded_in_new_processes(stage, session, kill=True)


@pytest.mark.parametrize("refuses", ["not found", "invalid", "internal"])
def test_a_session_that_the_agent_does_not_know_is_shown_and_goes_on_in_a_new_one(tmp_path: Path, refuses: str) -> None:
    with _talk(tmp_path, Habits(refuses=refuses)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=True)
        assert session.handed_over


@pytest.mark.parametrize("refuses", ["service failure", "login"])
def test_what_may_pass_is_told_to_the_client_and_changes_nothing(tmp_path: Path, refuses: str) -> None:
    with _talk(tmp_path, Habits(refuses=refuses)) as (stage, session):
        stage.load(session, stage.start())
        assert session.proxy is None
        assert not session.handed_over


def test_a_prompt_that_is_refused_behind_a_load_is_sent_again_to_a_new_session(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(refuses_prompt=True)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=True)
        assert session.handed_over


@pytest.mark.parametrize("while_told", [False, True], ids=["at once", "while it is told"])
@pytest.mark.parametrize("never", [frozenset[str](), frozenset({"loads"})], ids=["refused", "never answered"])
@pytest.mark.parametrize("tells", ["before", "after"])
def test_a_load_that_was_cancelled_and_is_loaded_again_doubles_nothing(
    tmp_path: Path, tells: str, never: frozenset[str], while_told: bool
) -> None:
    with _talk(tmp_path, Habits(tells=tells, never_answers=never)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy, cancel=True, again=True, while_told=while_told)
        stage.prompt(session)
        stage.load(session, proxy)


@pytest.mark.parametrize("tells", ["before", "after"])
def test_a_cancelled_load_that_is_answered_all_the_same_doubles_nothing(tmp_path: Path, tells: str) -> None:
    with _talk(tmp_path, Habits(tells=tells, answers_cancelled=True)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy, cancel=True, again=True, while_told=True)
        stage.prompt(session)
        stage.load(session, proxy)


@pytest.mark.parametrize("tells", ["before", "split", "after"])
@pytest.mark.parametrize("while_told", [False, True], ids=["at once", "while it is told"])
def test_two_loads_at_once_are_shown_twice_and_double_nothing(tmp_path: Path, tells: str, while_told: bool) -> None:
    with _talk(tmp_path, Habits(tells=tells)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy, again=True, while_told=while_told)
        stage.prompt(session)
        stage.load(session, proxy)


@pytest.mark.parametrize("tells", ["before", "split", "after"])
@pytest.mark.parametrize("turn", ["s", "sc"])
def test_a_load_during_a_turn_doubles_nothing_and_the_rest_of_the_turn_is_written_down(
    tmp_path: Path, tells: str, turn: str
) -> None:
    with _talk(tmp_path, Habits(tells=tells)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.prompt(session, turn, later="s")
        stage.load(session, proxy)
        stage.go_on(session)
        stage.prompt(session)
        stage.load(session, proxy)


@pytest.mark.parametrize("resumed", ["before", "split", "after"])
def test_a_past_told_around_the_answer_to_resume_is_not_written_down_again(tmp_path: Path, resumed: str) -> None:
    with _talk(tmp_path, Habits(frozenset({"load", "resume"}), tells_resumed=resumed)) as (stage, session):
        for _ in range(_TIMES):
            proxy = stage.start()
            stage.resume(session, proxy)
            stage.prompt(session)
            stage.kill(proxy)


@pytest.mark.parametrize("resumed", ["never", "before", "split", "after"])
def test_a_load_served_by_resume_shows_the_past_once(tmp_path: Path, resumed: str) -> None:
    with _talk(tmp_path, Habits(frozenset({"resume"}), tells_resumed=resumed)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=True)


def test_the_id_under_which_a_session_was_resumed_is_the_one_that_is_asked_for_next(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(frozenset({"load", "resume"}), renames=True)) as (stage, session):
        proxy = stage.start()
        stage.resume(session, proxy)
        stage.prompt(session)
        stage.kill(proxy)
        _loaded_in_new_processes(stage, session, kill=True)


@pytest.mark.parametrize("tells", ["before", "after"])
def test_a_cancelled_prompt_that_is_never_answered_hides_no_replay(tmp_path: Path, tells: str) -> None:
    with _talk(tmp_path, Habits(tells=tells, never_answers=frozenset({"prompts"}))) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.prompt(session, "s", later="s")
        stage.cancel(session)
        stage.load(session, proxy)
        stage.prompt(session)
        stage.load(session, proxy)


@pytest.mark.parametrize("warns", ["first", "last", "after"])
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_a_warning_in_every_process_does_not_change_what_is_shown(tmp_path: Path, warns: str, kill: bool) -> None:
    with _talk(tmp_path, Habits(warns=warns)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=kill)


@pytest.mark.parametrize("offers", [frozenset({"load"}), frozenset({"resume"}), frozenset[str]()])
@pytest.mark.parametrize("forgets", ["all", "turns", "calls", "users", "thoughts"])
def test_what_the_agent_lost_is_shown(tmp_path: Path, offers: frozenset[str], forgets: str) -> None:
    with _talk(tmp_path, Habits(offers, forgets=frozenset({forgets}))) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=True)


@pytest.mark.parametrize("command", ["/undo", "/clear", "/compact"])
@pytest.mark.parametrize("tells", ["before", "split", "after"])
def test_what_was_taken_back_stays_away(tmp_path: Path, command: str, tells: str) -> None:
    with _talk(tmp_path, Habits(tells=tells, commands=True)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.prompt(session, "s", text=command)
        stage.load(session, proxy)
        stage.kill(proxy)
        _loaded_in_new_processes(stage, session, kill=True)


@pytest.mark.parametrize("tells", ["before", "split", "after"])
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_turns_made_elsewhere_are_shown_and_written_down_once(tmp_path: Path, tells: str, kill: bool) -> None:
    with _talk(tmp_path, Habits(tells=tells)) as (stage, session):
        stage.elsewhere(session)
        _loaded_in_new_processes(stage, session, kill=kill)


def test_a_session_of_the_agents_that_is_loaded_twice_at_once_begins_its_transcript_once(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits()) as (stage, _):
        session = stage.known_to_agent_alone()
        stage.load(session, stage.start(), again=True)
        stage.prompt(session)


def test_a_greeting_behind_a_load_is_heard_where_an_earlier_load_was_cancelled_and_never_answered(
    tmp_path: Path,
) -> None:
    with _talk(tmp_path, Habits(greets=True, never_answers=frozenset({"loads"}))) as (stage, session):
        stage.load(session, stage.start(), cancel=True, again=True, while_told=True)


def test_a_message_of_the_users_that_nobody_typed_is_not_shown_alone(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(tells="split", injects=True)) as (stage, session):
        stage.load(session, stage.start(), then="s")


@pytest.mark.parametrize("tells", ["before", "split", "after"])
def test_a_session_of_the_agents_begins_its_transcript_once(tmp_path: Path, tells: str) -> None:
    with _talk(tmp_path, Habits(tells=tells)) as (stage, _):
        session = stage.known_to_agent_alone()
        _loaded_in_new_processes(stage, session, kill=True)


def test_a_session_that_was_handed_over_and_is_loaded_again_before_its_next_prompt_is_shown(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(refuses="not found")) as (stage, session):
        proxy = stage.start()
        for _ in range(_TIMES):
            stage.load(session, proxy)


def test_a_session_with_turns_from_elsewhere_is_shown_when_it_was_handed_over_and_is_loaded_again(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path / "store", Habits(refuses="not found"))
    try:
        proxy = stage.start()
        session = stage.known_to_agent_alone()
        proxy.agent._open.add(session.agent_id)
        stage.load(session, proxy)
        stage.end(proxy)
        proxy = stage.start()
        for _ in range(_TIMES):
            stage.load(session, proxy)
    finally:
        stage.close_all()


def test_what_is_told_for_a_load_that_was_cancelled_and_is_never_answered_is_the_next_one_s(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(never_answers=frozenset({"loads"}))) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.elsewhere(session)
        stage.load(session, proxy)
        stage.load(session, proxy, cancel=True, again=True, while_told=True)
        stage.load(session, proxy)


def test_a_turn_made_elsewhere_is_written_down_although_a_known_warning_follows_it(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(warns="after")) as (stage, session):
        proxy = stage.start()
        for _ in range(_TIMES):
            stage.elsewhere(session)
            stage.load(session, proxy)
            stage.load(session, proxy)
            stage.prompt(session)


def test_short_remarks_between_turns_are_known_again_one_by_one(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(warns="after", remembers_remarks=True)) as (stage, session):
        proxy = stage.start()
        for _ in range(_TIMES):
            stage.load(session, proxy)
            stage.remark(session)
            stage.remark(session)


def test_a_turn_made_elsewhere_behind_a_prompt_without_an_answer_is_written_down_with_its_prompt(
    tmp_path: Path,
) -> None:
    with _talk(tmp_path, Habits()) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.prompt(session, "", "s")
        stage.cancel(session)
        stage.elsewhere(session)
        stage.load(session, proxy)
        stage.prompt(session)


def test_turns_from_before_the_session_was_recorded_are_shown_although_the_agent_lost_others(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "store", Habits(forgets=frozenset({"calls"})))
    try:
        proxy = stage.start()
        session = stage.new(proxy)
        stage.elsewhere(session)
        stage.prompt(session, "scs")
        stage.end(proxy)
        stage.load(session, stage.start())
    finally:
        stage.close_all()


def test_what_is_said_a_whole_turn_behind_a_cancelled_load_is_heard(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(never_answers=frozenset({"loads"}))) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.load(session, proxy, cancel=True)
        stage.prompt(session)
        stage.remark(session)
