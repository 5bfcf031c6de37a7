"""Conversations in which something was once recorded or shown twice: each runs as it happened.

The stage checks the promise at every step, so a test only says who does what.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.model.habits import Habits
from tests.model.promise import Session
from tests.model.proxies import Proxied
from tests.model.stage import Stage

_version = "1"
only_in_version_1 = pytest.mark.parametrize("version", ["1"], indirect=True)
"""Prompts that are queued, or refused and shown anyway, are other things in version 2."""
_TIMES = 3
"""What grows from load to load grows from the second load on."""


@pytest.fixture(autouse=True, params=["1", "2", "both"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.model.test_mistakes._version", request.param)


def _stage(root: Path, habits: Habits) -> Stage:
    return Stage(root / "store", habits if _version == "1" else habits.in_version_2(_version))


@contextmanager
def _talk(root: Path, habits: Habits) -> Iterator[tuple[Stage, Session]]:
    """A session with three turns whose proxy was killed; nobody has opened it since."""
    stage = _stage(root, habits)
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
def test_a_replay_before_or_after_the_answer_to_a_load_is_never_recorded_again(
    tmp_path: Path, tells: str, kill: bool
) -> None:
    with _talk(tmp_path, Habits(tells=tells)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=kill)


@pytest.mark.parametrize("come", range(4))
def test_a_prompt_at_once_after_the_answer_to_a_load_meets_the_rest_of_the_replay(tmp_path: Path, come: int) -> None:
    with _talk(tmp_path, Habits(tells="split")) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy, then="s", told_until_then=come)
        stage.load(session, proxy)


@pytest.mark.parametrize("tells", ["before", "after"])
def test_the_replay_of_a_fork_is_not_recorded_after_the_copy_of_its_parent(tmp_path: Path, tells: str) -> None:
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
    forgets = frozenset({"calls"})  # so that the transcript is shown
    with _talk(tmp_path, Habits(echoes=echoes, forgets=forgets)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=True)


@only_in_version_1
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


@pytest.mark.parametrize("refuses", ["not found", "invalid", "internal", "no directory"])
def test_a_session_that_the_agent_does_not_know_is_shown_and_continues_in_a_new_one(
    tmp_path: Path, refuses: str
) -> None:
    with _talk(tmp_path, Habits(refuses=refuses)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=True)
        assert session.handed_over


@pytest.mark.parametrize("refuses", ["service failure", "login"])
def test_a_temporary_error_passes_and_changes_nothing(tmp_path: Path, refuses: str) -> None:
    with _talk(tmp_path, Habits(refuses=refuses)) as (stage, session):
        stage.load(session, stage.start())
        assert session.proxy is None
        assert not session.handed_over


def test_a_prompt_that_is_refused_after_a_load_is_sent_again_to_a_new_session(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(refuses_prompt=True)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.prompt(session)
        assert session.handed_over
        stage.kill(proxy)
        _loaded_in_new_processes(stage, session, kill=True)


@only_in_version_1
def test_a_record_that_a_failed_prompt_carried_goes_out_with_the_next_prompt(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(refuses="not found", stumbles=True)) as (stage, session):
        stage.load(session, stage.start())
        stage.prompt(session)
        stage.prompt(session)
        assert session.handed_over


def test_a_command_goes_out_without_the_record_which_follows_with_the_next_prompt(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(refuses="not found", commands=True)) as (stage, session):
        stage.load(session, stage.start())
        stage.prompt(session, text="/compact")
        stage.prompt(session)
        assert session.handed_over


@pytest.mark.parametrize("while_told", [False, True], ids=["at once", "while it is told"])
@pytest.mark.parametrize("never", [frozenset[str](), frozenset({"loads"})], ids=["refused", "never answered"])
@pytest.mark.parametrize("tells", ["before", "after"])
def test_a_load_that_was_cancelled_and_is_repeated_doubles_nothing(
    tmp_path: Path, tells: str, never: frozenset[str], while_told: bool
) -> None:
    with _talk(tmp_path, Habits(tells=tells, never_answers=never)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy, cancel=True, again=True, while_told=while_told)
        stage.prompt(session)
        stage.load(session, proxy)


def test_an_agent_that_forgets_what_the_user_said_and_replays_twice_for_a_cancelled_load_is_shown_once(
    tmp_path: Path,
) -> None:
    with _talk(tmp_path, Habits(forgets=frozenset({"users"}), never_answers=frozenset({"loads"}))) as (stage, session):
        proxy = stage.start()
        stage.elsewhere(session)
        for known in (session, stage.known_to_agent_alone()):
            stage.load(known, proxy, cancel=True, again=True)
            stage.load(known, proxy)


@pytest.mark.parametrize("tells", ["before", "after"])
def test_a_cancelled_load_that_is_still_answered_doubles_nothing(tmp_path: Path, tells: str) -> None:
    with _talk(tmp_path, Habits(tells=tells, answers_cancelled=True)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy, cancel=True, again=True, while_told=True)
        stage.prompt(session)
        stage.load(session, proxy)


@pytest.mark.parametrize(
    ("tells", "order"),
    [
        *itertools.product(["before", "split", "after"], ["at once", "while it is told"]),
        *itertools.product(["before", "after"], ["overtaken"]),  # nobody can tell to which of them a part belongs
    ],
)
def test_two_loads_at_once_show_two_replays_and_double_nothing(tmp_path: Path, tells: str, order: str) -> None:
    with _talk(tmp_path, Habits(tells=tells, overtakes=order == "overtaken")) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy, again=True, while_told=order != "at once")
        stage.prompt(session)
        stage.load(session, proxy)


@pytest.mark.parametrize("tells", ["before", "split", "after"])
@pytest.mark.parametrize("turn", ["s", "sc"])
def test_a_load_during_a_turn_doubles_nothing_and_the_rest_of_the_turn_is_recorded(
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


@only_in_version_1
@pytest.mark.parametrize("cancels", [False, True])
def test_a_load_during_a_turn_before_which_prompts_were_queued_doubles_nothing(tmp_path: Path, cancels: bool) -> None:
    with _talk(tmp_path, Habits()) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        for _ in range(3):
            stage.prompt(session, "s", "s")
        stage.load(session, proxy, cancel=cancels)
        stage.go_on(session)
        stage.go_on(session)
        stage.load(session, proxy)
        stage.load(session, proxy)


@pytest.mark.parametrize("resumed", ["before", "split", "after"])
def test_a_replay_around_the_answer_to_a_resume_is_not_recorded_again(tmp_path: Path, resumed: str) -> None:
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


def test_the_id_of_a_resumed_session_is_used_for_the_next_request(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(frozenset({"load", "resume"}), renames=True)) as (stage, session):
        proxy = stage.start()
        stage.resume(session, proxy)
        stage.prompt(session)
        stage.kill(proxy)
        _loaded_in_new_processes(stage, session, kill=True)


@pytest.mark.parametrize("tells", ["before", "after"])
def test_an_unanswered_cancelled_prompt_hides_no_replay(tmp_path: Path, tells: str) -> None:
    with _talk(tmp_path, Habits(tells=tells, never_answers=frozenset({"prompts"}))) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.prompt(session, "s", later="s")
        stage.cancel(session)
        stage.load(session, proxy)
        stage.prompt(session)
        stage.load(session, proxy)


@only_in_version_1
@pytest.mark.parametrize("is_loaded", [True, False], ids=["loaded", "new"])
@pytest.mark.parametrize("tells", ["before", "split", "after"])
@pytest.mark.parametrize("echoes", ["never", "plain", "chunks"])
def test_the_echo_of_a_prompt_that_was_queued_before_a_load_is_no_replay(
    tmp_path: Path, echoes: str, tells: str, *, is_loaded: bool
) -> None:
    with _talk(tmp_path, Habits(echoes=echoes, tells=tells)) as (stage, session):
        proxy = stage.start()
        if is_loaded:
            stage.load(session, proxy)
        else:
            session = stage.new(proxy)
        stage.prompt(session, "s", later="s")
        stage.prompt(session, "s", later="s")
        stage.load(session, proxy)
        stage.go_on(session)
        stage.go_on(session)
        stage.kill(proxy)
        stage.load(session, stage.start())


@pytest.mark.parametrize("warns", ["first", "last", "after"])
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_a_warning_in_every_process_does_not_change_what_is_shown(tmp_path: Path, warns: str, kill: bool) -> None:
    with _talk(tmp_path, Habits(warns=warns)) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=kill)


@pytest.mark.parametrize("offers", [frozenset({"load"}), frozenset({"resume"}), frozenset[str]()])
@pytest.mark.parametrize("forgets", ["all", "turns", "calls", "users", "thoughts"])
def test_content_that_the_agent_lost_is_shown(tmp_path: Path, offers: frozenset[str], forgets: str) -> None:
    with _talk(tmp_path, Habits(offers, forgets=frozenset({forgets}))) as (stage, session):
        _loaded_in_new_processes(stage, session, kill=True)


@pytest.mark.parametrize("command", ["/undo", "/clear", "/compact"])
@pytest.mark.parametrize("tells", ["before", "split", "after"])
def test_content_that_was_taken_back_is_not_shown(tmp_path: Path, command: str, tells: str) -> None:
    with _talk(tmp_path, Habits(tells=tells, commands=True)) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.prompt(session, "s", text=command)
        stage.load(session, proxy)
        stage.kill(proxy)
        _loaded_in_new_processes(stage, session, kill=True)


@pytest.mark.parametrize(
    "habits",
    [
        Habits(commands=True, equal=True),
        Habits(commands=True, echoes="expanded"),
        Habits(commands=True, injects=True),
    ],
    ids=["equal", "expanded", "injects"],
)
def test_short_commands_are_told_from_each_other_and_from_a_replay(tmp_path: Path, habits: Habits) -> None:
    stage = _stage(tmp_path, habits)
    proxy = stage.start()
    session = stage.new(proxy)
    stage.prompt(session)
    for _ in range(_TIMES):
        stage.prompt(session, "", text="/undo")
        stage.load(session, proxy)
        stage.load(session, proxy)
        stage.remark(session)
        stage.prompt(session, "", text="/undo")
        stage.prompt(session)
        stage.load(session, proxy)
    stage.end(proxy)
    stage.close_all()


@pytest.mark.parametrize("tells", ["before", "split", "after"])
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_turns_made_elsewhere_are_shown_and_recorded_once(tmp_path: Path, tells: str, kill: bool) -> None:
    with _talk(tmp_path, Habits(tells=tells)) as (stage, session):
        stage.elsewhere(session)
        _loaded_in_new_processes(stage, session, kill=kill)


def test_an_unrecorded_session_that_is_loaded_twice_at_once_begins_its_transcript_once(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits()) as (stage, _):
        session = stage.known_to_agent_alone()
        stage.load(session, stage.start(), again=True)
        stage.prompt(session)


def test_a_greeting_after_a_load_is_shown_although_an_earlier_load_was_cancelled_and_never_answered(
    tmp_path: Path,
) -> None:
    with _talk(tmp_path, Habits(greets=True, never_answers=frozenset({"loads"}))) as (stage, session):
        stage.load(session, stage.start(), cancel=True, again=True, while_told=True)


def test_a_user_message_that_nobody_typed_is_not_shown_alone(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(tells="split", injects=True)) as (stage, session):
        stage.load(session, stage.start(), then="s")


@pytest.mark.parametrize("tells", ["before", "split", "after"])
def test_an_unrecorded_session_begins_its_transcript_once(tmp_path: Path, tells: str) -> None:
    with _talk(tmp_path, Habits(tells=tells)) as (stage, _):
        session = stage.known_to_agent_alone()
        _loaded_in_new_processes(stage, session, kill=True)


def test_a_handed_over_session_that_is_loaded_again_before_its_next_prompt_is_shown(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(refuses="not found")) as (stage, session):
        proxy = stage.start()
        for _ in range(_TIMES):
            stage.load(session, proxy)


@pytest.mark.parametrize("warns", ["never", "first", "last"])
def test_a_handed_over_session_with_turns_from_elsewhere_is_shown_when_it_is_loaded_again(
    tmp_path: Path, warns: str
) -> None:
    stage = _stage(tmp_path, Habits(refuses="not found", warns=warns))
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


def test_the_replay_of_a_cancelled_and_never_answered_load_belongs_to_the_next_load(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(never_answers=frozenset({"loads"}))) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.elsewhere(session)
        stage.load(session, proxy)
        stage.load(session, proxy, cancel=True, again=True, while_told=True)
        stage.load(session, proxy)


def test_a_turn_made_elsewhere_is_recorded_although_a_known_warning_follows_it(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(warns="after")) as (stage, session):
        for _ in range(_TIMES):
            proxy = stage.start()
            stage.elsewhere(session)
            stage.load(session, proxy)
            stage.end(proxy)


def test_short_remarks_between_turns_are_recognised_one_by_one(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(warns="after", remembers_remarks=True)) as (stage, session):
        proxy = stage.start()
        for _ in range(_TIMES):
            stage.load(session, proxy)
            stage.remark(session)
            stage.remark(session)


def test_a_turn_made_elsewhere_after_an_unanswered_prompt_is_recorded_with_its_prompt(
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
    stage = _stage(tmp_path, Habits(forgets=frozenset({"calls"})))
    try:
        proxy = stage.start()
        session = stage.new(proxy)
        stage.elsewhere(session)
        stage.prompt(session, "scs")
        stage.end(proxy)
        stage.load(session, stage.start())
    finally:
        stage.close_all()


def test_a_remark_one_turn_after_a_cancelled_load_is_shown(tmp_path: Path) -> None:
    with _talk(tmp_path, Habits(never_answers=frozenset({"loads"}))) as (stage, session):
        proxy = stage.start()
        stage.load(session, proxy)
        stage.load(session, proxy, cancel=True)
        stage.prompt(session)
        stage.remark(session)
