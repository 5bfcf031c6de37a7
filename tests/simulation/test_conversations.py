"""Conversations in which something was once recorded or shown twice, lost, or held back.

Each is held with agents of both versions of the protocol, and with one that changes it from process to process.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from simulation import choices
from simulation.agent import Habits
from simulation.plan import Plan, Step
from simulation.running import report, run

_PARTS = {"s": "say answer", "t": "think thought", "c": "call read"}
_TIMES = 3
"""What grows from load to load grows from the second load on."""
_WHEN = ("before", "split", "after")


class Script:
    """The steps of a plan: of one session, most of the time, in the newest window."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._windows = 0
        self._words = 0

    def do(self, what: str, session: int = 1, **more: Any) -> None:
        self.steps.append({"do": what, "w": "abcdefghij"[self._windows - 1], "s": session, **more})

    def start(self) -> None:
        self._windows += 1
        self.do("start")

    def begin(self) -> None:
        self.start()
        self.do("new")

    def turn(self, parts: str) -> list[str]:
        return ["wait" if part == "." else f"{_PARTS[part]}-{self._word()}" for part in parts]

    def prompt(self, parts: str = "s", session: int = 1, text: str = "") -> None:
        """A turn. ``parts``: words, calls, thoughts, and a dot where it waits."""
        text = text or f"ask-{self._word()}"
        self.do("prompt", session, text=text, turn=self.turn(parts))

    def elsewhere(self, session: int = 1) -> None:
        self.do("elsewhere", session, text=f"ask-{self._word()}", turn=[f"answer-{self._word()}"])

    def remark(self) -> None:
        self.do("remark", text=f"remark-{self._word()}")

    def kill(self) -> None:
        self.do("kill", side="proxy")

    def load_in_new_processes(self, session: int = 1, *, last: str = "kill") -> None:
        for _ in range(_TIMES):
            self.start()
            self.do("load", session)
            self.do("load", session)
            self.prompt(session=session)
            self.do(last, side="proxy") if last == "kill" else self.do(last)
        self.start()
        self.do("load", session)

    def _word(self) -> str:
        """A number of two digits: no word begins another, as a message that comes in parts would."""
        self._words += 1
        return f"{self._words:02}"


def _script(*, is_loaded: bool = False) -> Script:
    """A session with three turns whose proxy was killed. ``is_loaded``: it is open again."""
    script = Script()
    script.begin()
    for turn in ("s", "scs", "ts"):
        script.prompt(turn)
    script.kill()
    if is_loaded:
        script.start()
        script.do("load")
    return script


@pytest.fixture(params=["1", "2", "both"])
def holds(request: pytest.FixtureRequest) -> Callable[[Habits, Script], None]:
    """Runs a script with an agent of one version."""

    def check(habits: Habits, script: Script) -> None:
        version, alternates = 2 if request.param == "2" else 1, request.param == "both"
        spoken = choices.possible(replace(habits, version=version, alternates=alternates))
        plan = Plan(spoken, tuple(script.steps))
        result = run(plan)
        assert not result.broken, "\n".join((plan.text(), *report(plan, result)))

    return check


Holds = Callable[[Habits, Script], None]


@pytest.mark.parametrize("tells", _WHEN)
@pytest.mark.parametrize("last", ["kill", "end"])
def test_a_replay_before_or_after_the_answer_to_a_load_is_never_recorded_again(
    tells: str, last: str, holds: Holds
) -> None:
    script = _script()
    script.load_in_new_processes(last=last)
    holds(Habits(tells=tells), script)


@pytest.mark.parametrize("come", range(4))
def test_a_prompt_at_once_after_the_answer_to_a_load_meets_the_rest_of_the_replay(come: int, holds: Holds) -> None:
    script = _script()
    script.start()
    script.do("load", then={"text": "ask-at-once", "turn": script.turn("s")}, come=come)
    script.do("load")
    holds(Habits(tells="split"), script)


@pytest.mark.parametrize("tells", ["before", "after"])
def test_the_replay_of_a_fork_is_not_recorded_after_the_copy_of_its_parent(tells: str, holds: Holds) -> None:
    script = _script(is_loaded=True)
    script.do("fork", to=2)
    script.prompt(session=2)
    script.do("load", 2)
    script.prompt()
    script.kill()
    script.load_in_new_processes(2)
    holds(Habits(("load", "fork"), tells_forked=tells), script)


@pytest.mark.parametrize("echoes", ["plain", "expanded", "chunks", "id"])
def test_a_prompt_and_its_echo_are_one_message(echoes: str, holds: Holds) -> None:
    script = _script()
    script.load_in_new_processes()
    holds(Habits(echoes=echoes, leaves_out=("calls",)), script)  # so that the transcript is shown


def test_queued_prompts_and_their_echoes_are_one_message_each(holds: Holds) -> None:
    script = _script(is_loaded=True)
    script.prompt("s.s")
    script.prompt("s.s")
    script.do("go on")
    script.do("go on")
    script.kill()
    script.load_in_new_processes()
    holds(Habits(echoes="expanded", leaves_out=("calls",)), script)


@pytest.mark.parametrize("refuses", ["not found", "invalid", "internal", "request", "service failure", "login"])
def test_a_session_that_the_agent_does_not_know_is_shown_and_continues_in_a_new_one(refuses: str, holds: Holds) -> None:
    script = _script()
    script.load_in_new_processes()
    holds(Habits(refuses=refuses), script)


def test_a_prompt_that_is_refused_after_a_load_is_sent_again_to_a_new_session(holds: Holds) -> None:
    script = _script(is_loaded=True)
    script.prompt()
    script.kill()
    script.load_in_new_processes()
    holds(Habits(refuses_prompt=True), script)


@pytest.mark.parametrize("text", ["", "/compact"])
def test_a_record_that_a_failed_prompt_carried_or_a_command_could_not_goes_out_with_the_next_prompt(
    text: str, holds: Holds
) -> None:
    script = _script(is_loaded=True)
    script.prompt(text=text)
    script.prompt()
    holds(Habits(refuses="not found", stumbles=not text), script)


@pytest.mark.parametrize("more", [{}, {"while told": True}], ids=["at once", "while it is told"])
@pytest.mark.parametrize("cancelled", [{}, {"never_answers": ("loads",)}, {"answers_cancelled": True}], ids=str)
@pytest.mark.parametrize("tells", ["before", "after"])
def test_a_load_that_was_cancelled_and_is_repeated_doubles_nothing(
    tells: str, cancelled: dict[str, Any], more: dict[str, bool], holds: Holds
) -> None:
    script = _script()
    script.start()
    script.do("load", cancel=True, again=True, **more)
    script.prompt()
    script.do("load")
    holds(Habits(tells=tells, **cancelled), script)


def test_an_agent_that_leaves_out_the_user_and_replays_twice_for_a_cancelled_load_is_shown_once(holds: Holds) -> None:
    script = _script()
    script.start()
    script.elsewhere()
    script.elsewhere(2)
    for session in (1, 2):
        script.do("load", session, cancel=True, again=True)
        script.do("load", session)
    holds(Habits(leaves_out=("users",), never_answers=("loads",)), script)


@pytest.mark.parametrize(
    ("tells", "order"),
    [
        *product(_WHEN, ["at once", "while it is told"]),
        *product(["before", "after"], ["overtaken"]),  # nobody can tell to which of them a part belongs
    ],
)
def test_two_loads_at_once_show_two_replays_and_double_nothing(tells: str, order: str, holds: Holds) -> None:
    script = _script()
    script.start()
    script.do("load", again=True, **({} if order == "at once" else {"while told": True}))
    script.prompt()
    script.do("load")
    holds(Habits(tells=tells, overtakes=order == "overtaken"), script)


@pytest.mark.parametrize("tells", _WHEN)
@pytest.mark.parametrize("turn", ["s.s", "sc.s"])
def test_a_load_during_a_turn_doubles_nothing_and_the_rest_of_the_turn_is_recorded(
    tells: str, turn: str, holds: Holds
) -> None:
    script = _script(is_loaded=True)
    script.prompt(turn)
    script.do("load", **{"in turn": True})
    script.do("go on")
    script.prompt()
    script.do("load")
    holds(Habits(tells=tells), script)


@pytest.mark.parametrize("more", [{}, {"cancel": True}], ids=["", "cancelled"])
def test_a_load_during_a_turn_before_which_prompts_were_queued_doubles_nothing(
    more: dict[str, bool], holds: Holds
) -> None:
    script = _script(is_loaded=True)
    for _ in range(3):
        script.prompt("s.s")
    script.do("load", **{"in turn": True}, **more)
    script.do("go on")
    script.do("go on")
    script.do("load", **{"in turn": True})
    script.do("go on")
    script.do("load")
    holds(Habits(), script)


@pytest.mark.parametrize("resumed", _WHEN)
def test_a_replay_around_the_answer_to_a_resume_is_not_recorded_again(resumed: str, holds: Holds) -> None:
    script = _script()
    for _ in range(_TIMES):
        script.start()
        script.do("resume")
        script.prompt()
        script.kill()
    holds(Habits(("load", "resume"), tells_resumed=resumed), script)


@pytest.mark.parametrize("resumed", ["never", *_WHEN])
def test_a_load_served_by_resume_shows_the_past_once(resumed: str, holds: Holds) -> None:
    script = _script()
    script.load_in_new_processes()
    holds(Habits(("resume",), tells_resumed=resumed), script)


def test_the_id_of_a_resumed_session_is_used_for_the_next_request(holds: Holds) -> None:
    script = _script()
    script.start()
    script.do("resume")
    script.prompt()
    script.kill()
    script.load_in_new_processes()
    holds(Habits(("load", "resume"), renames=True), script)


@pytest.mark.parametrize("tells", ["before", "after"])
def test_an_unanswered_cancelled_prompt_hides_no_replay(tells: str, holds: Holds) -> None:
    script = _script(is_loaded=True)
    script.prompt("s.s")
    script.do("cancel")
    script.do("load", **{"in turn": True})
    script.prompt()
    script.do("load", **{"in turn": True})
    holds(Habits(tells=tells, never_answers=("prompts",)), script)


@pytest.mark.parametrize("is_loaded", [True, False], ids=["loaded", "new"])
@pytest.mark.parametrize("tells", _WHEN)
@pytest.mark.parametrize("echoes", ["never", "plain", "chunks"])
def test_the_echo_of_a_prompt_that_was_queued_before_a_load_is_no_replay(
    echoes: str, tells: str, holds: Holds, *, is_loaded: bool
) -> None:
    script = _script(is_loaded=is_loaded)
    if not is_loaded:
        script.begin()
    script.prompt("s.s")
    script.prompt("s.s")
    script.do("load", **{"in turn": True})
    script.do("go on")
    script.do("go on")
    script.kill()
    script.start()
    script.do("load")
    holds(Habits(echoes=echoes, tells=tells), script)


@pytest.mark.parametrize("warns", ["first", "last", "after"])
@pytest.mark.parametrize("last", ["kill", "end"])
def test_a_warning_in_every_process_does_not_change_what_is_shown(warns: str, last: str, holds: Holds) -> None:
    script = _script()
    script.load_in_new_processes(last=last)
    holds(Habits(warns=warns), script)


@pytest.mark.parametrize("offers", [("load",), ("resume",), ()], ids=str)
@pytest.mark.parametrize("left", ["all", "old", "calls", "users", "thoughts"])
def test_what_the_agent_leaves_out_is_shown(offers: Sequence[str], left: str, holds: Holds) -> None:
    script = _script()
    script.load_in_new_processes()
    holds(Habits(tuple(offers), leaves_out=(left,)), script)


@pytest.mark.parametrize("command", ["/undo", "/clear", "/compact"])
@pytest.mark.parametrize("tells", _WHEN)
def test_what_was_taken_back_is_not_shown(command: str, tells: str, holds: Holds) -> None:
    script = _script(is_loaded=True)
    script.prompt(text=command)
    script.do("load")
    script.kill()
    script.load_in_new_processes()
    holds(Habits(tells=tells), script)


@pytest.mark.parametrize("habits", [Habits(), Habits(echoes="expanded"), Habits(injects=True)], ids=str)
def test_short_commands_are_told_from_each_other_and_from_a_replay(habits: Habits, holds: Holds) -> None:
    script = Script()
    script.begin()
    script.prompt()
    for _ in range(_TIMES):
        script.prompt("", text="/undo")
        script.do("load")
        script.do("load")
        script.remark()
        script.prompt("", text="/undo")
        script.prompt()
        script.do("load")
    script.do("end")
    holds(habits, script)


@pytest.mark.parametrize("tells", _WHEN)
@pytest.mark.parametrize("last", ["kill", "end"])
def test_turns_made_elsewhere_are_shown_and_recorded_once(tells: str, last: str, holds: Holds) -> None:
    script = _script()
    script.elsewhere()
    script.load_in_new_processes(last=last)
    holds(Habits(tells=tells), script)


@pytest.mark.parametrize("tells", _WHEN)
def test_an_unrecorded_session_begins_its_transcript_once(tells: str, holds: Holds) -> None:
    script = _script()
    script.elsewhere(2)
    script.start()
    script.do("load", 2, again=True)
    script.prompt(session=2)
    script.kill()
    script.load_in_new_processes(2)
    holds(Habits(tells=tells), script)


def test_a_greeting_after_a_load_is_shown_although_an_earlier_load_was_cancelled_and_never_answered(
    holds: Holds,
) -> None:
    script = _script()
    script.start()
    script.do("load", cancel=True, again=True, **{"while told": True})
    holds(Habits(greets=True, never_answers=("loads",)), script)


def test_a_user_message_that_nobody_typed_is_not_shown_alone(holds: Holds) -> None:
    script = _script()
    script.start()
    script.do("load", then={"text": "ask-at-once", "turn": script.turn("s")})
    holds(Habits(tells="split", injects=True), script)


@pytest.mark.parametrize("warns", ["never", "first", "last"])
def test_a_handed_over_session_that_is_loaded_again_before_its_next_prompt_is_shown(warns: str, holds: Holds) -> None:
    script = _script()
    script.elsewhere()
    script.start()
    for _ in range(_TIMES):
        script.do("load")
    holds(Habits(refuses="not found", warns=warns), script)


def test_the_replay_of_a_cancelled_and_never_answered_load_belongs_to_the_next_load(holds: Holds) -> None:
    script = _script(is_loaded=True)
    script.do("close")
    script.elsewhere()
    script.do("load")
    script.do("load", cancel=True, again=True, **{"while told": True})
    script.do("load")
    holds(Habits(("load", "close"), never_answers=("loads",)), script)


def test_a_turn_made_elsewhere_is_recorded_although_a_known_warning_follows_it(holds: Holds) -> None:
    script = _script()
    for _ in range(_TIMES):
        script.elsewhere()
        script.start()
        script.do("load")
        script.do("end")
    holds(Habits(warns="after"), script)


def test_short_remarks_between_turns_are_recognised_one_by_one(holds: Holds) -> None:
    script = _script()
    script.start()
    for _ in range(_TIMES):
        script.do("load")
        script.remark()
        script.remark()
    holds(Habits(warns="after", remembers_remarks=True), script)


def test_a_turn_made_elsewhere_after_an_unanswered_prompt_is_recorded_with_its_prompt(holds: Holds) -> None:
    script = _script(is_loaded=True)
    script.prompt(".s")
    script.do("cancel")
    script.do("close")
    script.elsewhere()
    script.do("load")
    script.prompt()
    holds(Habits(("load", "close")), script)


def test_turns_from_before_the_session_was_recorded_are_shown_although_the_agent_lost_others(holds: Holds) -> None:
    script = Script()
    script.begin()
    script.do("close")
    script.elsewhere()
    script.do("resume")
    script.prompt("scs")
    script.do("end")
    script.start()
    script.do("load")
    holds(Habits(("load", "resume", "close"), leaves_out=("calls",)), script)


def test_a_remark_one_turn_after_a_cancelled_load_is_shown(holds: Holds) -> None:
    script = _script(is_loaded=True)
    script.do("load", cancel=True)
    script.do("load")
    script.prompt()
    script.remark()
    holds(Habits(never_answers=("loads",)), script)
