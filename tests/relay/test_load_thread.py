"""A transcript of streamed messages is compared, sent and made a record, however many lines are read at once."""

import json
import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_proxy.comparison.whose_past import PastDecision, PastRule, WhosePast
from acp_proxy.decisions.effects import ChooseAndShowPast
from acp_proxy.decisions.events import PastChosen
from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.relay.load_thread import LoadThread
from acp_proxy.relay.opened_transcript import OpenedTranscript, ShowOptions
from acp_proxy.relay.pipes import WIDE_PIPE_BYTES, Output
from acp_proxy.transcript import file_format
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript_replay.replayer import TOOL_LIMIT, Mode
from tests.pipes import count_held_bytes, needs_wide_pipes, set_capacity
from tests.store import transcript_lines
from tests.transcript_replay.entries import make_handover_record
from tests.waiting import SECONDS

OWN_RUN = "run002"
WANTED = ChooseAndShowPast(RequestId("1"))
WORDS = [f" word{number}" for number in range(300)]
ANSWER = [transcript_lines.agent_chunk(word) for word in WORDS]
TERMINAL = transcript_lines.update(
    "tool_call", toolCallId="t", title="T", content=[{"type": "terminal", "terminalId": "1"}]
)
LACKED = transcript_lines.update(
    "agent_message_chunk", content={"type": "text", "text": "What we lack."}, messageId="m"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def make_thread(
    path: Path,
    mode: Mode,
    writes: int,
    ended: list[PastChosen],
    warnings: list[str],
    *,
    must_compare_first: bool = False,
) -> LoadThread:
    to_client = Output(writes, lambda: None)
    reader = TranscriptReader(path)
    while reader.search():  # as the look-up does
        pass

    def end(what: PastChosen) -> bool:
        ended.append(what)
        return not (what.comparison_was_skipped and must_compare_first)

    return LoadThread(
        transcript_lines.SESSION,
        OpenedTranscript(transcript_lines.SESSION, reader, title=None),
        ShowOptions(mode, TOOL_LIMIT),
        to_client,
        end,
        warnings.append,
        run_id=OWN_RUN,
    )


def show(
    path: Path, lines: list[bytes], mode: Mode, wanted: ChooseAndShowPast = WANTED, *, must_compare_first: bool = False
) -> tuple[list[bytes], PastChosen]:
    path.write_bytes(file_format.encode_header(transcript_lines.header()) + b"".join(lines))
    reads, writes = os.pipe()
    heard: list[bytes] = []

    def listen() -> None:
        with open(reads, "rb") as stream:
            heard.extend(stream)

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    warnings: list[str] = []
    ended: list[PastChosen] = []
    thread = make_thread(path, mode, writes, ended, warnings, must_compare_first=must_compare_first)
    thread.start(wanted)
    thread.join()
    os.close(writes)
    listening.join(SECONDS)
    assert not warnings
    return heard, ended[-1]


def messages(lines: list[bytes]) -> list[bytes]:
    """The messages of these entries, as lines."""
    return [(entry.raw or b"") + b"\n" for line in lines if (entry := file_format.decode_entry(line)) is not None]


def make_request(theirs: list[bytes]) -> ChooseAndShowPast:
    return replace(WANTED, updates=tuple((line, False) for line in theirs), needs_comparison=True)


def test_every_update_is_shown_with_its_own_bytes(path: Path) -> None:
    heard, ended = show(path, [transcript_lines.prompt_line("q"), *ANSWER, transcript_lines.answer()], "full")
    assert heard[1:] == messages(ANSWER)
    assert ended.decision.rule is PastRule.NOTHING_REPLAYED


@pytest.mark.parametrize("before", [[], [TERMINAL]], ids=["at once", "held back for a terminal"])
@pytest.mark.parametrize("mode", ["full", "compact"])
def test_the_agents_replay_in_pieces_is_found_in_the_transcript(path: Path, mode: Mode, before: list[bytes]) -> None:
    ours = [transcript_lines.prompt_line("q"), *before, *ANSWER, transcript_lines.answer()]
    heard, _ = show(path, ours, mode)
    again, ended = show(path, ours, mode, make_request(messages(ANSWER[3:30])))
    assert (again, ended.decision.rule) == (heard, PastRule.REPLAY_IS_WORSE)
    theirs = messages(
        [transcript_lines.update("user_message_chunk", content={"type": "text", "text": "q"}), *before, *ANSWER]
    )
    again, ended = show(path, ours, mode, make_request(theirs))
    assert (again, ended.decision.rule) == ([], PastRule.REPLAY_HAS_ALL)
    again, ended = show(path, ours, mode, make_request(messages([LACKED, *ANSWER])))
    assert (again, ended.decision.rule) == ([], PastRule.REPLAY_HAS_MORE)


@pytest.mark.parametrize("mode", ["full", "compact"])
def test_the_answers_of_two_windows_at_once_are_not_mixed(path: Path, mode: Mode) -> None:
    other = [transcript_lines.agent_chunk(word, run="run003") for word in (" one", " two", " three")]
    own = [transcript_lines.agent_chunk(word) for word in (" eins", " zwei", " drei")]
    asked = [transcript_lines.prompt_line("q"), own[0], transcript_lines.prompt_line("r", run="run003")]
    mixed = [other[0], own[1], other[1], own[2], other[2]]
    ended = [transcript_lines.answer(run="run003"), transcript_lines.answer()]
    heard, ready = show(path, [*asked, *mixed, *ended], mode, replace(WANTED, makes_handover_record=True))
    words = "".join(json.loads(line)["params"]["update"]["content"]["text"] for line in heard)
    assert words == "q eins zwei dreir one two three"
    assert " eins zwei drei" in ready.handover_record


@pytest.mark.parametrize("mode", ["full", "compact"])
def test_each_answer_follows_its_prompt_if_the_agent_queues_prompts(path: Path, mode: Mode) -> None:
    lines = [
        *(transcript_lines.prompt_line(words, id=id) for id, words in enumerate(("one", "two", "three"), 1)),
        transcript_lines.agent_chunk(" eins"),
        transcript_lines.answer(id=1),
        transcript_lines.agent_chunk(" zwei"),
        transcript_lines.answer(id=2),
        transcript_lines.agent_chunk(" drei"),
        transcript_lines.answer(id=3),
    ]
    heard, ready = show(path, lines, mode, replace(WANTED, makes_handover_record=True))
    words = [json.loads(line)["params"]["update"]["content"]["text"] for line in heard]
    assert words == ["one", " eins", "two", " zwei", "three", " drei"]
    record = ready.handover_record
    assert [record.index(word) for word in words] == sorted(record.index(word) for word in words)


@pytest.mark.parametrize("must_compare_first", [False, True])
def test_the_transcript_is_compared_only_if_something_that_waits_may_repeat_it(
    path: Path, *, must_compare_first: bool
) -> None:
    ours = [transcript_lines.prompt_line("q"), *ANSWER, transcript_lines.answer()]
    heard, ended = show(path, ours, "full", must_compare_first=must_compare_first)
    assert heard[1:] == messages(ANSWER)
    assert (ended.decision.rule, ended.comparison_was_skipped) == (PastRule.NOTHING_REPLAYED, not must_compare_first)
    assert (ended.comparison is not None) is must_compare_first


@pytest.mark.parametrize("must_compare_first", [False, True])
def test_a_transcript_that_is_not_shown_is_compared_if_something_waits(path: Path, *, must_compare_first: bool) -> None:
    ours = [transcript_lines.prompt_line("q"), *ANSWER, transcript_lines.answer()]
    wanted = replace(WANTED, planned_decision=PastDecision(WhosePast.NOTHING, PastRule.BY_OPTION))
    heard, ended = show(path, ours, "full", wanted, must_compare_first=must_compare_first)
    assert heard == []
    assert (ended.comparison is not None) is must_compare_first


def test_a_comparison_that_is_given_up_is_not_taken_for_an_agent_that_replayed_nothing(path: Path) -> None:
    path.write_bytes(file_format.encode_header(transcript_lines.header()) + b"".join(ANSWER))
    ended: list[PastChosen] = []
    _, writes = os.pipe()
    thread = make_thread(path, "full", writes, ended, [])
    thread.stop()  # as if the client cancelled in the middle
    thread.start(make_request(messages(ANSWER)))
    thread.join()
    assert ended[0].decision.rule is PastRule.UNREADABLE


def test_a_given_rule_is_not_decided_again(path: Path) -> None:
    ours = [transcript_lines.prompt_line("q"), *ANSWER, transcript_lines.answer()]
    wanted = replace(
        make_request(messages([LACKED, *ANSWER])),
        planned_decision=PastDecision(WhosePast.TRANSCRIPT, PastRule.BY_OPTION),
    )
    heard, ended = show(path, ours, "full", wanted)
    assert (heard[1:], ended.decision.rule) == (messages(ANSWER), PastRule.BY_OPTION)


@pytest.mark.parametrize("mode", ["full", "compact"])
def test_a_transcript_that_is_not_shown_is_still_compared(path: Path, mode: Mode) -> None:
    new = messages([LACKED])
    wanted = replace(
        make_request(messages(ANSWER) + new),
        planned_decision=PastDecision(WhosePast.NOTHING, PastRule.BY_OPTION),
    )
    heard, ended = show(path, [transcript_lines.prompt_line("q"), *ANSWER, transcript_lines.answer()], mode, wanted)
    assert (heard, ended.latest_state_lines) == ([], [])
    assert ended.comparison is not None
    assert ended.comparison.split_tail()[0] == new


@pytest.mark.parametrize("mode", ["full", "compact"])
def test_the_record_has_every_word(path: Path, mode: Mode) -> None:
    ours = [transcript_lines.prompt_line("q"), TERMINAL, *ANSWER, transcript_lines.answer()]
    heard, ended = show(
        path,
        ours,
        mode,
        replace(
            WANTED,
            makes_handover_record=True,
            planned_decision=PastDecision(WhosePast.TRANSCRIPT, PastRule.HANDED_OVER),
        ),
    )
    assert "".join(WORDS) in ended.handover_record
    assert ended.handover_record == make_handover_record(heard)


def test_a_record_that_is_made_beside_the_agents_replay_sends_nothing(path: Path) -> None:
    """An agent that refuses another window's id and agrees to its earlier one may replay all of the session."""
    ours = [transcript_lines.prompt_line("q"), *ANSWER, transcript_lines.answer()]
    theirs = [transcript_lines.update("user_message_chunk", content={"type": "text", "text": "q"}), *ANSWER]
    wanted = replace(make_request(messages(theirs)), makes_handover_record=True)
    heard, ended = show(path, ours, "compact", wanted)
    assert (heard, ended.decision.rule) == ([], PastRule.REPLAY_HAS_ALL)
    assert "".join(WORDS) in ended.handover_record


def test_the_record_ends_before_the_prompt_that_is_sent_again(path: Path) -> None:
    """A prompt of another process may have the same id."""
    ours = [
        transcript_lines.prompt_line("q"),
        *ANSWER,
        transcript_lines.answer(),
        transcript_lines.prompt_line("again", run=OWN_RUN),
        transcript_lines.agent_chunk("never said"),
    ]
    wanted = replace(
        WANTED,
        makes_handover_record=True,
        planned_decision=PastDecision(WhosePast.NOTHING, PastRule.HANDED_OVER),
        before_prompt=RequestId("1"),
    )
    heard, ended = show(path, ours, "compact", wanted)
    assert heard == []
    assert "".join(WORDS) in ended.handover_record
    assert "again" not in ended.handover_record
    assert "never said" not in ended.handover_record


@pytest.mark.parametrize(("titles", "told"), [(True, ["q"]), (False, [])])
def test_the_title_made_from_prompts_is_sent_if_the_list_shows_it(path: Path, *, titles: bool, told: list[str]) -> None:
    ours = [transcript_lines.prompt_line("q"), *ANSWER, transcript_lines.answer()]
    _, ended = show(path, ours, "compact", replace(WANTED, sends_title=titles))
    updates = [json.loads(state)["params"]["update"] for state in ended.latest_state_lines]
    assert [update["title"] for update in updates if "title" in update] == told


@pytest.mark.parametrize("rule", [PastRule.HANDED_OVER, PastRule.BY_OPTION])
def test_ids_from_before_a_handover_are_told_from_those_after_it_in_version_2(path: Path, rule: PastRule) -> None:
    said = {"type": "text", "text": "Said."}
    chunk = transcript_lines.update("agent_message_chunk", content=said, messageId="m-1")
    turn = [transcript_lines.prompt_line("q"), chunk]
    handover = transcript_lines.note(file_format.NoteType.OPENED, method="session/load", anew=True)
    lines = [*turn, transcript_lines.answer(), handover, *turn, transcript_lines.answer()]
    as_v2 = [line.replace(b'{"at"', b'{"v":2,"at"', 1) for line in lines]
    wanted = replace(
        WANTED, planned_decision=PastDecision(WhosePast.TRANSCRIPT, rule), agent_lacks_past=True, protocol_version=2
    )
    heard, _ = show(path, as_v2, "full", wanted)
    updates = [json.loads(line)["params"]["update"] for line in heard]
    ids = [update["messageId"] for update in updates if update["sessionUpdate"].startswith("agent_message")]
    assert ids == ["acp-proxy-0-m-1", "m-1"]


@pytest.mark.parametrize(("only_what_agent_lacks", "expected"), [(True, "m-1"), (False, "acp-proxy-0-m-1")])
def test_a_session_that_only_catches_up_keeps_its_ids_in_version_2(
    path: Path, *, only_what_agent_lacks: bool, expected: str
) -> None:
    said = {"type": "text", "text": "Said."}
    chunk = transcript_lines.update("agent_message_chunk", content=said, messageId="m-1")
    lines = [transcript_lines.prompt_line("q"), chunk, transcript_lines.answer()]
    as_v2 = [line.replace(b'{"at"', b'{"v":2,"at"', 1) for line in lines]
    wanted = replace(
        WANTED,
        planned_decision=PastDecision(WhosePast.TRANSCRIPT, PastRule.BY_OPTION),
        agent_lacks_past=True,
        makes_handover_record=True,
        only_what_agent_lacks=only_what_agent_lacks,
        protocol_version=2,
    )
    heard, _ = show(path, as_v2, "full", wanted)
    updates = [json.loads(line)["params"]["update"] for line in heard]
    ids = [update["messageId"] for update in updates if update["sessionUpdate"].startswith("agent_message")]
    assert ids == [expected]


@needs_wide_pipes
@pytest.mark.parametrize(("words", "is_widened"), [(10, False), (WIDE_PIPE_BYTES // 100, True)])
def test_a_long_transcript_enlarges_the_pipe(path: Path, words: int, is_widened: bool) -> None:
    path.write_bytes(
        file_format.encode_header(transcript_lines.header()) + transcript_lines.agent_chunk("word") * words
    )
    reads, writes = os.pipe()
    set_capacity(writes, before := 64 * 1024)
    with open(reads, "rb") as heard:
        thread = make_thread(path, "compact", writes, [], [])
        thread.start(WANTED)
        thread.join()  # joined, it is one line that fits into any pipe
        assert count_held_bytes(writes) == (WIDE_PIPE_BYTES if is_widened else before)
        os.close(writes)
        assert heard.read().count(b"word") == words
