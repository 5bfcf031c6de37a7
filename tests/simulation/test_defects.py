"""Defects that acp-proxy once had, put back one by one: the simulation finds each within a few plans."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.comparison import whose_past
from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.context_messages import ContextMessages
from acp_proxy.comparison.late_updates import LateUpdates
from acp_proxy.comparison.letters import read_block_letters
from acp_proxy.comparison.replay_place import ReplayPlace
from acp_proxy.comparison.tail import Tail
from acp_proxy.comparison.text_builder import TextBuilder
from acp_proxy.comparison.transcript_text import TranscriptText, UserMessage
from acp_proxy.comparison.updates_in_turn import SortedLine, UpdatesInTurn
from acp_proxy.decisions.handover import handover_lines
from acp_proxy.decisions.lists import amend_list
from acp_proxy.decisions.load.compared_replay import ComparedReplay
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.relay import load_thread
from acp_proxy.relay.load_thread import LoadThread
from acp_proxy.transcript import file_format, salvage
from acp_proxy.transcript_replay.handover_record import Attachments
from acp_proxy.transcript_replay.terminal_output import ReplayedTerminals
from simulation import choices, links
from simulation.agent import Habits, Message
from simulation.plan import Plan, Step, read_file
from simulation.running import run

KEPT = Path(__file__).parents[2] / "simulation" / "plans"
PLANS = 150
"""The most plans for one defect."""
_CERTAIN = 16
_ANY_NOTE = re.compile(rb'"note":(\{"type":"([a-z-]+)"[^{}]*\})')

Patch = pytest.MonkeyPatch


def _swallow_known_words(patch: Patch) -> None:
    add = UpdatesInTurn.add

    def add_unless_known(
        self: UpdatesInTurn, line: bytes, update: object, prompts: list[str], *, replay_may_come: bool
    ) -> list[SortedLine]:
        said = read_block_letters(acp.member(update, "content"))
        is_known = (
            acp.update_kind(update) == update_kinds.AGENT_CHUNK
            and len(said) >= _CERTAIN
            and said in self._text.agent_letters
        )
        return [] if is_known else add(self, line, update, prompts, replay_may_come=replay_may_come)

    patch.setattr(UpdatesInTurn, "add", add_unless_known)


def _believe_notes_anywhere(patch: Patch) -> None:
    def find_notes_anywhere(lines: bytes, kinds: Collection[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
        for found in _ANY_NOTE.finditer(lines):
            if found[2].decode() in kinds:
                yield found.start(), json.loads(found[1])

    patch.setattr(file_format, "find_notes", find_notes_anywhere)


def _copy_the_whole_parent(patch: Patch) -> None:
    patch.setattr("acp_proxy.decisions.session_tracker.parse_fork_point", lambda params: None)
    patch.setattr(whose_past, "_was_forked_before", lambda past, lost: False)


def _ignore_rewinds(patch: Patch) -> None:
    def read_everything(reader: Any, lines: Any = None) -> Any:
        return reader.read_alike() if lines is None else lines

    patch.setattr("acp_proxy.relay.load_thread.drop_rewound", read_everything)
    patch.setattr("acp_proxy.transcript.drop_rewound.drop_rewound", read_everything)
    patch.setattr("acp_proxy.transcript.rewinds.is_rewind", lambda entry: False)
    patch.setattr("acp_proxy.transcript.rewinds.update_kinds.HISTORY_TRUNCATED", "")
    patch.delitem(update_kinds._BY_NAME, "history_truncated")


def _take_what_is_inside_an_entry_for_one(patch: Patch) -> None:
    parts = file_format.encode_message_parts
    patch.setattr(
        file_format, "encode_message_parts", lambda *given, **named: parts(*given, **{**named, "is_plain": True})
    )
    for check in ("_was_passed_unparsed", "_may_be_unparsed"):
        patch.setattr(file_format, check, lambda *_: False)
    patch.setattr(salvage, "_is_value", lambda line, start: False)


def _attach_what_tools_sent(patch: Patch) -> None:
    named = Attachments.add_block
    patch.setattr(Attachments, "add_block", lambda self, block, *, is_users: named(self, block, is_users=True))


def _hide_an_unanswered_message_at_the_end(patch: Patch) -> None:
    split = Tail.split
    patch.setattr(Tail, "split", lambda self, *, reply_may_follow, **more: split(self, reply_may_follow=True, **more))
    for name in ("is_tail_new_without_reply", "is_surely_new"):
        patch.setattr(Comparison, name, property(lambda self: False))


def _compare_only_whole_messages(patch: Patch) -> None:
    for name in ("find_chunk_spans", "find_last_words"):
        patch.setattr(ReplayPlace, name, lambda self, run: None)
    patch.setattr(Comparison, "_try_take_beginning", lambda self, run: False)
    for name in ("has_message", "ends_message"):
        patch.setattr(TranscriptText, name, lambda *_: False)


def _leave_cut_turns_as_they_are(patch: Patch) -> None:
    find_unrecorded = Tail.find_unrecorded

    def without_rest(self: Tail, **given: Any) -> list[bytes]:
        self.completes_turn = self.is_rest_of_turn = False
        return find_unrecorded(self, **given)

    patch.setattr(Tail, "find_unrecorded", without_rest)


def _let_a_turn_made_elsewhere_explain_any_gap(patch: Patch) -> None:
    patch.setattr(whose_past, "_were_taken_back_elsewhere", lambda comparison, missing: bool(missing))


def _list_the_sessions_of_handovers(patch: Patch) -> None:
    patch.setattr(amend_list, "amend_rows", lambda raw, *_, **__: raw)


def _forget_steering(patch: Patch) -> None:
    patch.setattr(acp, "is_steered", lambda result: False)


def _send_the_tail_of_a_resume(patch: Patch) -> None:
    init = LateUpdates.__init__

    def shows(self: LateUpdates, comparison: Any, *, hides_replay: bool, **_: bool) -> None:
        init(self, comparison, hides_replay=hides_replay)

    patch.setattr(LateUpdates, "__init__", shows)


def _take_any_note_for_the_output(patch: Patch) -> None:
    def lacks(self: ReplayedTerminals, shown: Any) -> bool:
        from acp_proxy.transcript_replay.terminal_output import _find_terminals

        return any((shown.run, id) not in self._noted_terminals for id in _find_terminals(shown))

    patch.setattr(ReplayedTerminals, "_may_change", lacks)


def _pass_titles_of_handover_records(patch: Patch) -> None:
    for module in (amend_list, handover_lines):
        patch.setattr(module, "is_of_handover_record", lambda title: False)


def _swallow_what_comes_after_a_load(patch: Patch) -> None:
    patch.setattr(LateUpdates, "add", lambda self, line, update: [])


def _swallow_short_known_words(patch: Patch) -> None:
    patch.setattr("tests.simulation.test_defects._CERTAIN", 1)
    _swallow_known_words(patch)


def _take_no_message_for_a_replay_in_a_turn(patch: Patch) -> None:
    patch.setattr(UpdatesInTurn, "_find_proof", lambda self, letters: None)


def _compare_nothing_from_outside_turns(patch: Patch) -> None:
    add = TextBuilder.add_update

    def leaves_out(self: TextBuilder, update: object) -> None:
        if self._open_prompts or acp.update_kind(update) != update_kinds.AGENT_CHUNK:
            add(self, update)

    patch.setattr(TextBuilder, "add_update", leaves_out)


def _replay_version_2_as_it_is(patch: Patch) -> None:
    patch.setattr("acp_proxy.relay.load_thread.read_as_v1", lambda lines: lines)
    patch.setattr("acp_proxy.relay.compare_with_transcript.read_as_v1", lambda lines: lines)


def _hand_over_without_a_handover_record(patch: Patch) -> None:
    patch.setattr(handover_lines, "with_handover_record", lambda line, *_: line)


def _send_the_handover_record_with_commands(patch: Patch) -> None:
    patch.setattr(handover_lines, "is_slash_command", lambda blocks: False)


def _give_calls_to_the_prompts_that_waited(patch: Patch) -> None:
    patch.setattr(TranscriptText, "find_possible_calls", TranscriptText.find_call_indexes)
    patch.setattr(UserMessage, "find_turn_call", lambda self, next_call: self.first_call_index)


def _believe_the_transcript(patch: Patch) -> None:
    patch.setattr(whose_past, "_find_rule_by_comparison", lambda comparison, **_: whose_past.PastRule.REPLAY_IS_WORSE)


def _show_nothing_but_the_transcript(patch: Patch) -> None:
    _believe_the_transcript(patch)
    patch.setattr(Tail, "split", lambda self, **_: ([], []))


def _explain_nothing_by_later_commands(patch: Patch) -> None:
    patch.setattr(whose_past, "_was_unanswered_taken_back", lambda comparison, spans, turn: False)


@pytest.mark.parametrize(
    ("put_back", "themes", "kinds"),
    [
        (_swallow_known_words, {"repeats"}, {"swallowed"}),
        (_believe_notes_anywhere, {"hostile", "crash"}, {"foreign", "worse", "lost"}),
        (_take_what_is_inside_an_entry_for_one, {"hostile"}, {"recorded twice"}),
        (_attach_what_tools_sent, {"handover", "hostile"}, {"forged"}),
        (_copy_the_whole_parent, {"fork"}, {"taken back"}),
        (_ignore_rewinds, {"rewind"}, {"taken back"}),
        (_forget_steering, {"steering"}, {"worse", "lost"}),
        (_hide_an_unanswered_message_at_the_end, {"elsewhere"}, {"worse"}),
        (_pass_titles_of_handover_records, {"handover"}, {"title"}),
        (_list_the_sessions_of_handovers, {"handover"}, {"list"}),
        (_hand_over_without_a_handover_record, {"handover"}, {"record"}),
        (_send_the_handover_record_with_commands, {"handover", "commands"}, {"record"}),
        (_swallow_what_comes_after_a_load, {"remarks"}, {"swallowed"}),
        (_swallow_short_known_words, {"equal"}, {"swallowed"}),
        (_take_no_message_for_a_replay_in_a_turn, {"steering"}, {"recorded twice"}),
        (_compare_nothing_from_outside_turns, {"remarks", "crash"}, {"recorded twice", "twice"}),
        (_replay_version_2_as_it_is, {"crash"}, {"version"}),
    ],
)
def test_a_defect_that_is_put_back_is_found(
    put_back: Callable[[Patch], None], themes: set[str], kinds: set[str], monkeypatch: Patch
) -> None:
    def is_found(plan: Plan) -> bool:
        with monkeypatch.context() as patch:
            put_back(patch)
            found = run(plan).kinds & kinds
        return bool(found) and not run(plan).kinds & kinds

    assert any(is_found(choices.make(seed, frozenset(themes))) for seed in range(PLANS))


@pytest.mark.parametrize(
    ("put_back", "plan", "kinds"),
    [
        (_compare_only_whole_messages, "known-words-beside-new-ones", {"twice"}),
        (_leave_cut_turns_as_they_are, "turn-finished-without-us", {"lost"}),
        (_take_any_note_for_the_output, "output-in-a-later-turn", {"lost"}),
        (_explain_nothing_by_later_commands, "cleared-turns-without-words", {"taken back"}),
        (_give_calls_to_the_prompts_that_waited, "prompt-while-the-calls-of-queued-prompts-come", {"order"}),
        (_let_a_turn_made_elsewhere_explain_any_gap, "prompt-right-after-a-load-without-old-turns", {"lost"}),
        (_let_a_turn_made_elsewhere_explain_any_gap, "commands-before-a-turn-made-elsewhere", {"lost"}),
        (_let_a_turn_made_elsewhere_explain_any_gap, "calls-before-a-turn-made-elsewhere", {"lost"}),
    ],
)
def test_a_rare_defect_is_found_by_the_plan_that_was_kept_for_it(
    put_back: Callable[[Patch], None], plan: str, kinds: set[str], monkeypatch: Patch
) -> None:
    put_back(monkeypatch)
    assert run(read_file(KEPT / f"{plan}.json")).kinds == kinds


def _know_no_context(patch: Patch) -> None:
    patch.setattr(ContextMessages, "is_context", lambda self, message, *, follows_call: False)


def _know_context_by_its_form_only(patch: Patch) -> None:
    patch.setattr(ContextMessages, "add", lambda self, message: None)


def _forget_the_rest_of_a_turn(patch: Patch) -> None:
    patch.setattr(ReplayPlace, "is_inside_turn", property(lambda self: False))


@pytest.mark.parametrize("put_back", [_know_no_context, _know_context_by_its_form_only, _forget_the_rest_of_a_turn])
def test_context_in_replays_that_is_taken_for_the_users_words_is_found(
    put_back: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    put_back(monkeypatch)
    assert any("foreign" in run(choices.make(seed, has_context=True)).kinds for seed in range(PLANS))


_PROMPTED: list[Step] = [
    {"do": "new", "w": "a", "s": 1},
    {"do": "prompt", "w": "a", "s": 1, "text": "ask-4", "turn": []},
]


@pytest.mark.parametrize(
    ("put_back", "change", "kinds"),
    [
        (_swallow_what_comes_after_a_load, lambda steps: [*steps[:4], *steps[3:]], {"swallowed", "worse"}),
        (_hide_an_unanswered_message_at_the_end, lambda steps: [*steps[:2], *_PROMPTED, *steps[4:]], {"worse"}),
        (_believe_the_transcript, lambda steps: [*steps[:6], {**steps[6], "turn": ["answer-7"]}, steps[7]], {"worse"}),
    ],
    ids=["the remark is swallowed", "the remark is after a prompt", "the last message has an answer"],
)
def test_a_defect_beside_a_remark_that_looks_like_an_answer_is_found(
    put_back: Callable[[Patch], None], change: Callable[[list[Step]], list[Step]], kinds: set[str], monkeypatch: Patch
) -> None:
    plan = read_file(KEPT / "remark-after-a-message-made-elsewhere.json")
    plan = plan.with_steps(change([*plan.steps]))
    assert not run(plan).broken
    put_back(monkeypatch)
    assert run(plan).kinds == kinds


_WAITS = "unanswered-message-elsewhere-shown-after-the-next-prompt"
_SPLIT = "unanswered-message-elsewhere-before-a-resume-in-a-split-replay"
_COMPACTED = "compaction-before-a-handover-in-another-window"


def _rewind_before_the_handover(steps: list[Step]) -> list[Step]:
    """With a turn that is taken back, and then one in the window that was handed over."""
    loaded, said = steps[5], {"do": "prompt", "w": "a", "s": 1, "text": "ask-41", "turn": ["say answer-42"]}
    return [*steps[:3], loaded, said, steps[8], *steps[3:5], steps[6], steps[9]]


_ELSEWHERE = {"do": "elsewhere", "s": 1, "text": "ask-41", "turn": ["answer-42"]}
_ANSWERED = {"do": "prompt", "w": "a", "s": 1, "text": "ask-41", "turn": ["say answer-42"]}


def _record_what_is_new_backwards(patch: Patch) -> None:
    find_unrecorded = ComparedReplay.find_unrecorded
    patch.setattr(ComparedReplay, "find_unrecorded", lambda self, **given: find_unrecorded(self, **given)[::-1])


@pytest.mark.parametrize(
    ("put_back", "name", "change", "kinds"),
    [
        (
            _believe_the_transcript,
            "compaction-taken-back-before-a-remark",
            lambda steps: [*steps[:3], _ANSWERED, *steps[3:]],
            {"taken back"},
        ),
        (
            _believe_the_transcript,
            "command-with-an-answer-taken-back-and-lost-last-words",
            lambda steps: [*steps[:2], _ANSWERED, *steps[2:]],
            {"taken back"},
        ),
        (
            _show_nothing_but_the_transcript,
            "unanswered-message-elsewhere-before-a-repeated-warning",
            lambda steps: [*steps[:8], {**steps[8], "turn": ["answer-41"]}, steps[9]],
            {"worse"},
        ),
        (
            _swallow_what_comes_after_a_load,
            "unanswered-message-elsewhere-in-a-late-replay-without-a-command",
            lambda steps: [*steps[:5], {**steps[5], "turn": ["answer-41"]}, steps[6]],
            {"worse"},
        ),
        (
            _show_nothing_but_the_transcript,
            "fork-without-its-last-command",
            lambda steps: [*steps[:6], {"do": "end", "w": "a"}, {**_ELSEWHERE, "s": 3}, steps[6]],
            {"worse"},
        ),
        (
            _record_what_is_new_backwards,
            "greeting-of-a-resume-before-a-turn-made-elsewhere",
            lambda steps: [steps[0], {**steps[1], "turn": ["answer-4", "answer-41"]}, *steps[2:]],
            {"recorded in another order"},
        ),
        (
            _believe_the_transcript,
            "unanswered-message-elsewhere-before-a-resume-and-a-prompt",
            lambda steps: [*steps[:4], {**steps[4], "turn": ["answer-41"]}, *steps[5:]],
            {"worse"},
        ),
        (_believe_the_transcript, "turn-made-elsewhere-after-a-lost-answer", list, {"worse"}),
        (_swallow_what_comes_after_a_load, _WAITS, list, {"worse"}),
        (_hide_an_unanswered_message_at_the_end, _WAITS, list, {"worse"}),
        (
            _swallow_what_comes_after_a_load,
            _WAITS,
            lambda steps: [*steps[:6], {**steps[6], "turn": ["answer-41"]}, *steps[7:9]],
            {"worse"},
        ),
        (
            _swallow_what_comes_after_a_load,
            _SPLIT,
            lambda steps: [*steps[:4], {**steps[4], "turn": ["answer-41"]}, *steps[5:]],
            {"worse"},
        ),
        (
            _swallow_what_comes_after_a_load,
            _SPLIT,
            lambda steps: [*steps[:5], {**steps[5], "do": "load"}, *steps[6:]],
            {"worse"},
        ),
        (
            _record_what_is_new_backwards,
            _SPLIT,
            lambda steps: [*steps[:4], {**steps[4], "turn": ["answer-41"]}, {**steps[5], "do": "load"}, *steps[6:]],
            {"twice"},
        ),
        (_believe_the_transcript, _COMPACTED, lambda steps: [*steps[:4], steps[6]], {"taken back"}),
        (_ignore_rewinds, "rewind-beside-a-session-that-was-handed-over", _rewind_before_the_handover, {"taken back"}),
        (_swallow_what_comes_after_a_load, "remembered-remark-after-a-greeting-of-a-handover", list, {"swallowed"}),
        (_swallow_what_comes_after_a_load, "load-in-a-turn-that-tells-a-remark-late", list, {"worse"}),
        (_hide_an_unanswered_message_at_the_end, "message-from-before-a-resume", list, {"worse"}),
        (_take_no_message_for_a_replay_in_a_turn, "late-replay-in-a-turn-with-new-call-ids", list, {"recorded twice"}),
        (_let_a_turn_made_elsewhere_explain_any_gap, "turn-made-elsewhere-in-a-turn-after-a-load", list, {"worse"}),
    ],
)
def test_a_defect_beside_what_cannot_be_told_is_found(
    put_back: Callable[[Patch], None],
    name: str,
    change: Callable[[list[Step]], list[Step]],
    kinds: set[str],
    monkeypatch: Patch,
) -> None:
    plan = read_file(KEPT / f"{name}.json")
    plan = plan.with_steps(change([*plan.steps]))
    assert not run(plan).broken
    put_back(monkeypatch)
    assert run(plan).kinds == kinds


def _spoil(patch: Patch, how: str, word: str, load: int) -> None:
    """What comes with this word is lost, repeated, or after the next update, from the load with this number on until
    the next one. Loads are counted from 1, over all windows."""
    send, receive, count = links.Proxied.send, links.Proxied.receive, [0]

    def counts(self: links.Proxied, message: Message) -> None:
        count[0] += message.get("method") == "session/load"
        send(self, message)

    def spoils(self: links.Proxied) -> Message:
        message = receive(self)
        is_update = message.get("method") == "session/update"
        if is_update and waiting:
            self._heard.appendleft(waiting.pop())
            return message
        if not is_update or word not in str(message) or count[0] != load or any(message is each for each in spoilt):
            return message
        spoilt.append(message)
        if how == "lost":
            return receive(self)
        if how == "repeated":
            again = json.loads(json.dumps(message))
            spoilt.append(again)
            self._heard.appendleft(again)
            return message
        waiting.append(message)
        return spoils(self)

    spoilt, waiting = list[Message](), list[Message]()
    patch.setattr(links.Proxied, "send", counts)
    patch.setattr(links.Proxied, "receive", spoils)


_LATE = Plan(
    Habits(tells="split"),
    (
        {"do": "start", "w": "a"},
        {"do": "new", "w": "a", "s": 1},
        {"do": "prompt", "w": "a", "s": 1, "text": "ask-1", "turn": ["say answer-2"]},
        {"do": "prompt", "w": "a", "s": 1, "text": "ask-3", "turn": ["say answer-4"]},
        {"do": "end", "w": "a"},
        {"do": "elsewhere", "s": 1, "text": "ask-5", "turn": ["answer-6"]},
        {"do": "start", "w": "b"},
        *[{"do": "load", "w": "b", "s": 1}] * 3,
    ),
)
_LATE_COMMAND = _LATE.with_steps(
    [*_LATE.steps[:4], {**_LATE.steps[3], "text": "/undo", "turn": []}, _LATE.steps[4], *_LATE.steps[6:]]
)
_TWO_WINDOWS = "command-taken-back-in-two-windows-of-which-one-was-handed-over"
_LOST_ANSWER = "turn-elsewhere-after-a-lost-answer-in-two-late-replays"
_RACED = "prompt-while-a-remark-that-was-not-recorded-is-replayed"
_REMARK = "remark-in-other-words-before-the-first-prompt-of-a-handover"


def _load_again(plan: Plan) -> Plan:
    """With a turn, and loads in the window that was handed over only."""
    turn = {**plan.steps[2], "text": "ask-1", "turn": ["say answer-2"]}
    return plan.with_steps([*plan.steps[:2], turn, *plan.steps[3:5], plan.steps[4]])


def _begin_with_a_turn(plan: Plan) -> Plan:
    return plan.with_steps([*plan.steps[:2], _LATE.steps[2], *plan.steps[2:]])


@pytest.mark.parametrize(
    ("plan", "load", "word", "how", "kinds"),
    [
        (_LATE, 3, "answer-2", "lost", {"worse"}),
        (_LATE, 3, "answer-2", "repeated", {"twice"}),
        (_LATE, 3, "answer-2", "after the next", {"order"}),
        (_LATE_COMMAND, 3, "answer-2", "lost", {"worse"}),
        (_LATE_COMMAND, 3, "answer-2", "repeated", {"twice"}),
        (_LATE_COMMAND, 3, "answer-2", "after the next", {"order"}),
        (_load_again(read_file(KEPT / f"{_TWO_WINDOWS}.json")), 2, "answer-2", "lost", {"lost", "not again"}),
        (_load_again(read_file(KEPT / f"{_TWO_WINDOWS}.json")), 2, "answer-2", "repeated", {"twice", "not again"}),
        (_load_again(read_file(KEPT / f"{_TWO_WINDOWS}.json")), 2, "ask-1", "after the next", {"not again"}),
        (read_file(KEPT / f"{_REMARK}.json"), 3, "answer-17", "lost", {"worse"}),
        (read_file(KEPT / f"{_REMARK}.json"), 3, "answer-17", "repeated", {"twice"}),
        (read_file(KEPT / f"{_REMARK}.json"), 3, "remark-12", "repeated", {"twice"}),
        (read_file(KEPT / f"{_LOST_ANSWER}.json"), 2, "answer-11", "lost", {"worse"}),
        (read_file(KEPT / f"{_LOST_ANSWER}.json"), 2, "answer-11", "repeated", {"twice"}),
        (_begin_with_a_turn(read_file(KEPT / f"{_LOST_ANSWER}.json")), 2, "ask-1", "after the next", {"order"}),
        (read_file(KEPT / f"{_RACED}.json"), 3, "remark-4", "lost", {"worse"}),
        (read_file(KEPT / f"{_RACED}.json"), 3, "ask-1", "lost", {"worse"}),
        (read_file(KEPT / f"{_RACED}.json"), 3, "ask-1", "after the next", {"order"}),
        (read_file(KEPT / f"{_COMPACTED}.json"), 2, "ask-1", "repeated", {"taken back"}),
        (read_file(KEPT / f"{_SPLIT}.json"), 1, "ask-1", "lost", {"worse"}),
        (read_file(KEPT / f"{_SPLIT}.json"), 1, "answer-7", "lost", {"worse"}),
        (read_file(KEPT / f"{_SPLIT}.json"), 1, "answer-7", "repeated", {"twice"}),
        (read_file(KEPT / f"{_COMPACTED}.json"), 2, "ask-4", "repeated", {"twice"}),
        (read_file(KEPT / f"{_COMPACTED}.json"), 2, "ask-1", "after the next", {"order"}),
    ],
)
def test_what_is_lost_repeated_or_in_another_order_is_found_beside_what_is_not_compared(
    plan: Plan, load: int, word: str, how: str, kinds: set[str], monkeypatch: Patch
) -> None:
    assert not run(plan).broken
    _spoil(monkeypatch, how, word, load)
    assert run(plan).kinds == kinds


def test_a_rewind_before_a_handover_is_checked_if_the_message_is_known(monkeypatch: Patch) -> None:
    plan = read_file(KEPT / "rewind-at-id-of-a-replay-before-a-handover.json")
    plan = replace(plan, habits=replace(plan.habits, ids="same"))
    assert not run(plan).broken
    _ignore_rewinds(monkeypatch)
    assert run(plan).kinds == {"taken back"}


def test_the_tail_of_a_resume_is_found_by_the_plan_that_was_kept_for_it(monkeypatch: Patch) -> None:
    plan = read_file(KEPT / "resume-from-the-store.json")
    plan = replace(plan, habits=replace(plan.habits, leaves_out=("calls",), tells="split"))
    _send_the_tail_of_a_resume(monkeypatch)
    assert run(plan).kinds == {"foreign"}


def test_an_order_is_checked_unless_a_prompt_was_sent_while_a_turn_made_elsewhere_was_replayed(
    monkeypatch: Patch,
) -> None:
    receive, swapped = links.Proxied.receive, list[Message]()

    def sends_a_message_after_its_answer(self: links.Proxied) -> Message:
        message = receive(self)
        if "ask-6" not in str(message) or any(message is each for each in swapped):
            return message
        with suppress(links.Stuck):  # of the session's own prompt, nothing may follow
            while not self._heard:
                self._pass_on(1.0)
        if not self._heard:
            return message
        swapped.append(message)
        following = receive(self)
        self._heard.appendleft(message)
        return following

    monkeypatch.setattr(load_thread, "_GATHER_SECONDS", math.inf)  # so that all of it leaves at once
    monkeypatch.setattr(links.Proxied, "receive", sends_a_message_after_its_answer)
    plan = read_file(KEPT / "prompt-while-a-turn-made-elsewhere-is-replayed.json")
    load = {key: value for key, value in plan.steps[2].items() if key not in ("then", "come")}
    assert not run(plan).broken
    assert run(plan.with_steps([*plan.steps[:2], load, *plan.steps[3:]])).kinds == {"order"}


def _show_a_message_after_the_next(patch: Patch, words: bytes) -> None:
    send = LoadThread._send_unsent_locked

    def swaps(self: LoadThread) -> None:
        lines = self._unsent
        for at in [number for number, line in enumerate(lines[:-1]) if words in line]:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        send(self)

    patch.setattr(load_thread, "_GATHER_SECONDS", math.inf)  # so that all of it leaves at once
    patch.setattr(LoadThread, "_send_unsent_locked", swaps)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("prompt-while-a-turn-finished-without-us-is-replayed", b"ask-3"),
        ("output-that-the-agent-has-not-asked-for", b"ask-1"),
    ],
)
def test_the_order_of_all_else_is_checked(name: str, words: bytes, monkeypatch: Patch) -> None:
    plan = read_file(KEPT / f"{name}.json")
    assert not run(plan).broken
    _show_a_message_after_the_next(monkeypatch, words)
    assert run(plan).kinds == {"order"}


def test_a_loss_is_found_although_the_two_runs_have_parted(monkeypatch: Patch) -> None:
    send, receive, rewound = links.Proxied.send, links.Proxied.receive, set[links.Proxied]()

    def notes_rewinds(self: links.Proxied, message: Message) -> None:
        if message.get("method") == "session/rewind":
            rewound.add(self)
        send(self, message)

    def loses_a_message_then(self: links.Proxied) -> Message:
        message = receive(self)
        return message if self not in rewound or "answer-2" not in str(message) else receive(self)

    monkeypatch.setattr(links.Proxied, "send", notes_rewinds)
    monkeypatch.setattr(links.Proxied, "receive", loses_a_message_then)
    found = run(read_file(KEPT / "parted-by-a-rewind.json")).broken
    assert [str(each) for each in found] == [
        "worse: session 1 in window a lacks say:answer-2, which the agent replayed"
    ]
