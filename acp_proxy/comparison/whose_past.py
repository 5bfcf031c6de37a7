"""The rules of whose past the client sees for a load: the agent's replay, the transcript or none. ``choose_past`` finds
the one that holds if none was found before, from what ``comparison`` has found. docs/transparency.md has the rules for
users, under "Whose replay you see".

- A rule is found in ``decisions/load``, by a load's plan (``LoadPlan.rule``) or when something happens to it
  (``LoadMachine``), or else by ``choose_past``, on the thread that has the transcript.
- ``PastRule.decide`` says for every rule whose past that is for the client of a load.
- ``Load.decision`` has the result; its docstring says in which order rules override each other. A plan's rule is
  ``Load.planned_decision`` until then. ``ChooseAndShowPast`` takes that to the thread, ``PastChosen`` brings the
  decision back.
"""

import enum
from bisect import bisect_right
from operator import itemgetter

from msgspec import Struct

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.letter_search import Span
from acp_proxy.comparison.transcript_text import TranscriptText


class WhosePast(enum.Enum):
    """What the client sees of a session's past."""

    AGENT = "the agent's"
    TRANSCRIPT = "the transcript's"
    NOTHING = "none"


class PastRule(enum.Enum):
    """Why the agent's replay or the transcript is shown: its number in transcripts, whose past that is if the load
    shows any, and the reason in words. The comments say who finds it.

    From ``UNREADABLE`` on, the rows are in the order in which ``choose_past`` and ``_find_rule_by_comparison`` ask: the
    first that fits holds. The numbers are frozen: transcripts have them, and older versions read those; 0 and 4 stand
    for two rules each. A new rule gets a new number, or None: then no transcript notes it.
    """

    # Before ``choose_past``. What the agent sends may be compared all the same, since some of it may be new.
    PASSES = (None, WhosePast.AGENT, "what the agent sends is not held back")  # a plan, or an event
    CANCELLED = (None, WhosePast.NOTHING, "the client cancelled the load")  # an event, whatever ``choose_past`` finds
    NOT_RECORDED = (None, WhosePast.AGENT, "the session was not recorded here")  # an event, unless it passes
    IN_TURN = (None, WhosePast.TRANSCRIPT, "a turn was under way, and the agent cannot replay the session")  # a plan
    HANDED_OVER = (1, WhosePast.TRANSCRIPT, "the session was handed over")  # a plan, or an event
    BY_OPTION = (6, WhosePast.TRANSCRIPT, "an option asks for the transcript's replay")  # a plan
    # By ``choose_past``, after the agent's answer. ``UNREADABLE`` also stands for a comparison that was given up, since
    # nobody waits for its result.
    UNREADABLE = (0, WhosePast.AGENT, "the transcript could not be read")
    NOTHING_REPLAYED = (4, WhosePast.TRANSCRIPT, "the agent resumed the session and replayed nothing")
    TOO_COSTLY = (0, WhosePast.AGENT, "the comparison would have taken too long")
    REPLAY_HAS_MORE = (2, WhosePast.AGENT, "the agent's replay has something that the transcript lacks")
    TAKEN_BACK = (3, WhosePast.AGENT, "the agent's replay lacks something, for a known reason")
    REPLAY_IS_WORSE = (4, WhosePast.TRANSCRIPT, "the agent's replay lacks something, or has it twice")
    REPLAY_HAS_ALL = (5, WhosePast.AGENT, "the agent's replay lacks nothing")

    def __init__(self, number: int | None, past_if_shown: WhosePast, reason: str) -> None:
        self.number = number
        self.past_if_shown = past_if_shown
        self.reason = reason

    def decide(self, *, shows_past: bool) -> "PastDecision":
        """Whose past the client sees if this rule holds.

        ``shows_past``: whether the client of the load gets any past. False if it has that on the screen, as one has
        that resumes; but a resume that passes shows what the agent sends.
        """
        return PastDecision(self.past_if_shown if shows_past else WhosePast.NOTHING, self)


class PastDecision(Struct, frozen=True):
    """What the client gets of the past, which is nothing if its load shows none; and the rule that decided."""

    whose_past: WhosePast
    rule: PastRule

    @property
    def hides_replay(self) -> bool:
        """Whether the client does not see the agent's replay."""
        return self.whose_past is not WhosePast.AGENT


def list_reasons(number: object) -> list[str]:
    """The reasons of the rules that have this number in transcripts."""
    return [rule.reason for rule in PastRule if rule.number == number] if number is not None else []


def choose_past(
    comparison: Comparison | None,
    *,
    planned: PastDecision | None = None,
    comparison_failed: bool = False,
    can_show_transcript: bool = True,
    is_in_use_elsewhere: bool | None = None,
) -> PastDecision:
    """Decide whose past the client sees, and why.

    Without a planned decision, the load shows the past: ``LoadPlan`` asserts that a plan that does not has a rule.

    ``comparison``: of the agent's replay, whose last message was ended; None if the agent has resumed the session and
    replayed nothing (``Load.needs_comparison``), or if ``comparison_failed``: the transcript could not be read, or the
    comparison was given up. ``planned``: ``Load.planned_decision``, which is returned whatever was compared, or could
    not be read: a part of the transcript may have been sent by then. ``can_show_transcript``: False if no thread could
    start, so that a planned transcript cannot be shown. ``is_in_use_elsewhere``: another process has the transcript
    open to append; None: not known.
    """
    if planned is not None and (can_show_transcript or planned.whose_past is not WhosePast.TRANSCRIPT):
        return planned
    if comparison_failed:
        rule = PastRule.UNREADABLE
    elif comparison is None:
        rule = PastRule.NOTHING_REPLAYED
    else:
        rule = _find_rule_by_comparison(comparison, may_have_waiting_prompts=is_in_use_elsewhere is True)
    return rule.decide(shows_past=True)


def _find_rule_by_comparison(comparison: Comparison, *, may_have_waiting_prompts: bool) -> PastRule:
    """The first rule that fits. ``may_have_waiting_prompts``: prompts may wait in another window for the end of a turn.
    The agent has not begun with them, so they are not missing.

    The agent's replay is the default: where nothing can be decided, nobody may see a worse history than without
    acp-proxy. The transcript's is shown only where it provably has more, or the agent says something twice.
    """
    if comparison.is_too_costly:
        return PastRule.TOO_COSTLY
    # Before any rule about what is missing: an agent that has more than the transcript went on elsewhere, or has
    # rewritten its history, and then what it lacks may be gone on purpose. The transcript would hide what it has.
    if comparison.has_more:
        return PastRule.REPLAY_HAS_MORE
    text, spans = comparison.text, comparison.place.spans.all_spans
    incomplete = [turn for turn in _list_expected_turns(text) if _is_part_missing(comparison, spans, turn)]
    lacks_user_messages = _lacks_user_messages(comparison, may_have_waiting_prompts=may_have_waiting_prompts)
    if _is_loss_explained(comparison, spans, incomplete, lacks_user_messages=lacks_user_messages):
        return PastRule.TAKEN_BACK
    lacks_thoughts = bool(text.thought_letters) and not comparison.has_thoughts
    is_incomplete = incomplete or lacks_user_messages or lacks_thoughts or comparison.lacks_call_output
    if is_incomplete or comparison.has_repetition:
        return PastRule.REPLAY_IS_WORSE
    return PastRule.REPLAY_HAS_ALL


def _is_loss_explained(
    comparison: Comparison, spans: list[Span], incomplete: list[int], *, lacks_user_messages: bool
) -> bool:
    """Whether something of what is missing was taken back, so that the agent lacks it for a reason. ``incomplete``: the
    turns of which something is missing."""
    text = comparison.text
    missing = [turn for turn in incomplete if _is_all_missing(comparison, spans, turn)]
    is_explained = any(turn <= text.taken_back_turn for turn in missing)  # by a later command or compaction
    if is_explained or _were_taken_back_elsewhere(comparison, missing) or _was_forked_before(comparison, missing):
        return True
    # A compaction that was taken back by the next one, whatever else the agent leaves out.
    last_compaction = max(comparison.known_compaction_turns, default=0)
    if any(
        turn < last_compaction and turn not in comparison.known_compaction_turns
        for turn in text.compaction_turns.values()
    ):
        return True
    # A rewind may end in the middle of a turn. What stands before the turn's last words, the agent only leaves out.
    if any(turn <= text.rewound_turn and _is_end_missing(comparison, spans, turn) for turn in incomplete):
        return True
    turns = range(1, len(text.user_messages) + 1)
    return lacks_user_messages and any(_was_unanswered_taken_back(comparison, spans, turn) for turn in turns)


def _lacks_user_messages(comparison: Comparison, *, may_have_waiting_prompts: bool) -> bool:
    """Whether the agent sent fewer user messages than the transcript has."""
    text = comparison.text
    # Agents do not replay commands of their own, so these messages need not be among them.
    commands = sum(1 for index in comparison.place.user_cursor.known_indexes if text.user_messages[index].takes_back)
    expected = sum(
        1 for user in text.user_messages if not (user.takes_back or (may_have_waiting_prompts and user.is_waiting))
    )
    return comparison.user_message_count_before_tail - commands < expected


def _list_expected_turns(text: TranscriptText) -> list[int]:
    """The numbers of the turns that count: those with an answer, except commands that take something back."""
    return [turn for turn, user in enumerate(text.user_messages, 1) if not user.takes_back and text.has_reply(turn)]


def _is_part_missing(comparison: Comparison, spans: list[Span], turn: int) -> bool:
    """Whether any of a turn's words or calls is missing."""
    start, end = comparison.text.find_turn_span(turn)
    if any(
        index not in comparison.place.call_cursor.known_indexes for index in comparison.text.find_call_indexes(turn)
    ):
        return True
    last_span = _find_before(spans, start)
    return start < end and (last_span is None or last_span[1] < end)


def _is_all_missing(comparison: Comparison, spans: list[Span], turn: int) -> bool:
    """Whether all of a turn's words and calls are missing."""
    start, end = comparison.text.find_turn_span(turn)
    if any(index in comparison.place.call_cursor.known_indexes for index in comparison.text.find_call_indexes(turn)):
        return False
    last_span = _find_before(spans, end - 1)
    return start == end or last_span is None or last_span[1] <= start  # known words may surround a turn without any


def _is_end_missing(comparison: Comparison, spans: list[Span], turn: int) -> bool:
    """Whether the last of a turn's words are missing, or calls after them."""
    start, end = comparison.text.find_turn_span(turn)
    last_span = _find_before(spans, end - 1)
    known_calls = comparison.place.call_cursor.known_indexes
    missing = [index for index in comparison.text.find_call_indexes(turn) if index not in known_calls]
    are_calls_missing = any(comparison.text.calls[index].position == end for index in missing)
    return are_calls_missing or (start < end and (last_span is None or last_span[1] < end))


def _find_before(spans: list[Span], position: int) -> Span | None:
    """The last of the ordered spans that begins at or before a position."""
    count = bisect_right(spans, position, key=itemgetter(0))
    return spans[count - 1] if count else None


def _were_taken_back_elsewhere(comparison: Comparison, missing: list[int]) -> bool:
    """Whether missing turns may have been taken back before a turn that was made elsewhere, and that the agent has.

    Who takes back turns takes the last ones, with their user messages. So the agent has nothing of the turn before that
    one. What is missing further up, or without its message, the agent leaves out: commands, calls, cancelled turns.
    """
    text, missing_turns = comparison.text, frozenset(missing)
    is_before_elsewhere = comparison.tail.has_turn
    for turn in range(len(text.user_messages), 0, -1):
        has_user_message = turn - 1 in comparison.place.user_cursor.known_indexes
        if not has_user_message and not text.has_reply(turn):
            continue
        if is_before_elsewhere and turn in missing_turns and not has_user_message:
            return True
        is_before_elsewhere = (
            text.user_messages[turn - 1].bypassed_proxy and text.has_reply(turn) and turn not in missing_turns
        )
    return False


def _was_unanswered_taken_back(comparison: Comparison, spans: list[Span], turn: int) -> bool:
    """Whether all of a command's turn, or the user message of a turn without an answer, is missing, and something later
    took it back."""
    text = comparison.text
    is_command = text.user_messages[turn - 1].takes_back
    if turn - 1 in comparison.place.user_cursor.known_indexes or (
        text.has_reply(turn) and not (is_command and _is_all_missing(comparison, spans, turn))
    ):
        return False
    return turn < text.taken_back_turn or (turn == text.taken_back_turn and not is_command)


def _was_forked_before(comparison: Comparison, missing: list[int]) -> bool:
    """Whether the last of a fork's copied turns are missing, but not all of them: it was made at an earlier point. Of a
    turn after that point, the agent does not have the user message either."""
    copied = [turn for turn in _list_expected_turns(comparison.text) if turn <= comparison.text.copied_turn_count]
    missing_copied = [turn for turn in copied if turn in missing]
    has_user_message = any(turn - 1 in comparison.place.user_cursor.known_indexes for turn in missing_copied)
    return (
        bool(missing_copied)
        and len(missing_copied) < len(copied)
        and missing_copied == copied[-len(missing_copied) :]
        and not has_user_message
    )
