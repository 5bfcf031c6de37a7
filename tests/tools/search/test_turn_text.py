"""The text of each turn, read from the beginning or from the last turn on."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.tools.search.turn_parts import divide_turns
from acp_proxy.tools.search.turn_text import BEGINNING, SearchedTurn, TurnReader, TurnStart
from acp_proxy.tools.web.conversation_parts import cut_turns
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.views import conversation
from acp_proxy.views.passages import CallHeading, Heading, make_passages
from tests import strategies  # noqa: F401 - no time limits
from tests.store import transcript_lines
from tests.store.transcript_lines import agent_chunk, answer, prompt_line, update

THOUGHT, USER = "agent_thought_chunk", "user_message_chunk"


def text(words: str) -> dict[str, Any]:
    return {"content": {"type": "text", "text": words}}


def write(folder: Path, *lines: bytes) -> Path:
    path = folder / f"{file_name(transcript_lines.SESSION)}.jsonl"
    path.write_bytes(file_format.encode_header(transcript_lines.header()) + b"".join(lines))
    return path


def turns(path: Path, start: TurnStart = BEGINNING) -> tuple[list[SearchedTurn], TurnReader]:
    reader = TranscriptReader(path)
    try:
        made = TurnReader(start)
        return list(made.read(reader)), made
    finally:
        reader.close()


def read_first_texts(path: Path) -> list[str]:
    return [turn.texts[0] for turn in turns(path)[0]]


def test_messages_are_joined_and_tool_calls_named(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        prompt_line("Mend the", {"type": "resource_link", "name": "login.py", "uri": "file:///login.py"}, "page", at=1),
        update(THOUGHT, **text("secretly")),
        agent_chunk("I lo"),
        agent_chunk("ok at "),
        agent_chunk("it."),
        update("usage_update", used=1),
        agent_chunk(" Now."),
        update("tool_call", toolCallId="1", title="Read", rawInput={"path": "raw"}, status="pending"),
        update("tool_call_update", toolCallId="1", title="Read login.py", content=[{"type": "content", **text("raw")}]),
        update("tool_call_update", toolCallId="1", title="Read login.py", status="completed"),
        update("plan", entries=[{"content": "a plan"}]),
        agent_chunk("Do"),
        agent_chunk("ne.", at=9),
        answer(),
        prompt_line("Thanks", at=20),
    )

    found, _ = turns(path)

    assert [turn.texts[0] for turn in found] == [
        "Mend the login.py page\x1eI look at it. Now.\x1eRead\x1eRead login.py\x1eDone.",
        "Thanks",
    ]
    assert [turn.texts[1] for turn in found] == ["secretly\x1ea plan", ""]
    assert [(turn.number, turn.started_at) for turn in found] == [
        (1, transcript_lines.time(1)),
        (2, transcript_lines.time(20)),
    ]


def test_messages_with_different_ids_are_separate(tmp_path: Path) -> None:
    words = (("a", "1"), ("b", "1"), ("c", "2"))
    chunks = [update("agent_message_chunk", messageId=id, **text(word)) for word, id in words]
    assert read_first_texts(write(tmp_path, prompt_line("x"), *chunks)) == ["x\x1eab\x1ec"]


def test_an_echoed_prompt_appears_once_and_other_user_messages_stay(tmp_path: Path) -> None:
    echo = [update(USER, **text("Mend ")), update(USER, **text("it"))]
    assert read_first_texts(
        write(tmp_path, prompt_line("Mend it"), *echo, update(USER, **text("/hook ran")), agent_chunk("ok"))
    ) == ["Mend it\x1e/hook ran\x1eok"]


def test_a_permission_names_its_tool_call(tmp_path: Path) -> None:
    params = {
        "sessionId": transcript_lines.SESSION,
        "toolCall": {"toolCallId": "1", "title": "rm -r build"},
        "options": [],
    }
    asked = transcript_lines.message({"id": 7, "method": "session/request_permission", "params": params}, Peer.AGENT)
    assert read_first_texts(write(tmp_path, prompt_line("x"), asked)) == ["x\x1erm -r build"]


def test_an_imported_conversation_has_turns(tmp_path: Path) -> None:
    told = [update(USER, **text("first")), agent_chunk("one"), update(USER, **text("sec")), update(USER, **text("ond"))]
    path = write(
        tmp_path, *told, agent_chunk("two"), prompt_line("third"), update(USER, **text("aside")), agent_chunk("three")
    )
    assert read_first_texts(path) == ["first\x1eone", "second\x1etwo", "third\x1easide\x1ethree"]


def test_only_the_beginning_of_a_very_long_turn_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.tools.search.turn_text._LONGEST_TURN", 10)
    assert read_first_texts(
        write(
            tmp_path,
            prompt_line("1234567"),
            agent_chunk("abc"),
            agent_chunk("defgh"),
            agent_chunk("x"),
            prompt_line("y"),
        )
    ) == [
        "1234567\x1eabc",
        "y",
    ]


def test_a_turn_is_read_again_until_the_prompts_before_it_have_their_answers_or_get_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.tools.search.turn_text.WAITING_LIMIT", 1000)
    lines = [prompt_line("one"), answer(), prompt_line("two"), prompt_line("three", run="run002")]
    _, reader = turns(write(tmp_path, *lines))
    assert reader.last_start.turns == 1
    answered = [*lines, agent_chunk("a"), agent_chunk("b", run="run002"), answer(run="run002"), answer()]
    path = write(tmp_path, *answered)
    found, reader = turns(path, reader.last_start)
    assert [turn.texts[0] for turn in found] == ["two\x1ea", "three\x1eb"]
    assert [turn.is_independent for turn in found] == [True, False]
    assert (reader.last_start.turns, reader.read_size) == (1, path.stat().st_size)
    for last_lines, turns_before in (
        ([prompt_line("four")], 3),
        ([prompt_line("four"), agent_chunk("c" * 1000), prompt_line("five", run="run002")], 4),
        ([prompt_line("four"), transcript_lines.note("failed", message="gone"), prompt_line("five")], 4),
        ([prompt_line("four"), transcript_lines.note("opened", method="session/fork"), prompt_line("five")], 4),
    ):
        assert turns(write(tmp_path, *answered, *last_lines))[1].last_start.turns == turns_before


def test_damage_hides_no_other_message(tmp_path: Path) -> None:
    garbage = b'\0\0{"at":"torn' + agent_chunk("glued")
    path = write(tmp_path, prompt_line("x"), agent_chunk("a"), garbage, agent_chunk("b"), b'{"at":"2026')
    assert read_first_texts(path) == ["x\x1eagluedb"]


_LINES = [
    prompt_line("hello"),
    prompt_line("again", at=1),
    agent_chunk("a"),
    agent_chunk("b"),
    agent_chunk("longer words " * 20),
    update(THOUGHT, **text("hm")),
    update(USER, **text("hello")),
    update(USER, **text("of the user")),
    update("tool_call", toolCallId="1", title="Read"),
    update("tool_call_update", toolCallId="1", title="Read it"),
    update(THOUGHT, **text("of it")),
    update("tool_call_update", toolCallId="1", status="failed", content=[{"type": "content", **text("ENOENT")}]),
    update("plan", entries=[{"content": "a step"}]),
    update("usage_update", used=1),
    update("unknown", value=1),
    answer(),
    transcript_lines.note("gap", reason="EIO"),
    b"garbage\n",
    b"\n",
    prompt_line("glued")[:-1] + b"  \n",
    b"\0" + prompt_line("one")[:-1] + prompt_line("two"),
    prompt_line("of the other", run="run002"),
    agent_chunk("c", run="run002"),
    update("tool_call", toolCallId="2", title="Edit", run="run002"),
    answer(run="run002"),
    answer(run="run002", error={"code": 1, "message": "no"}),
    transcript_lines.note("failed", message="gone", run="run002"),
]
_lines = st.lists(st.sampled_from(_LINES), max_size=30)


@given(_lines, st.data())
def test_continuing_from_the_last_turn_gives_the_same_turns(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("turns")
    whole = [(turn.number, turn.texts) for turn in turns(write(folder, *lines))[0]]
    known: dict[int, tuple[str, str]] = {}
    place, all_bytes = BEGINNING, write(folder, *lines).read_bytes()
    header = len(file_format.encode_header(transcript_lines.header()))
    ends = sorted(data.draw(st.lists(st.integers(header, len(all_bytes)), max_size=4)))
    for end in [*ends, len(all_bytes)]:
        path = folder / f"{file_name(transcript_lines.SESSION)}.jsonl"
        path.write_bytes(all_bytes[:end])
        found, made = turns(path, place)
        known = {number: words for number, words in known.items() if number <= place.turns}
        known |= {turn.number: turn.texts for turn in found}
        place = made.last_start
    assert sorted(known.items()) == whole


@given(_lines)
def test_a_conversation_can_be_read_from_each_turn_on(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """But for a change of a call that an earlier turn began, which has no title then, and the first prompt's words said
    again, by which a late replay is recognised."""
    lines = [line for line in lines if line != update(USER, **text("hello"))]
    path = write(tmp_path_factory.mktemp("turns"), *lines)
    reader = TranscriptReader(path)
    whole = [
        item
        for piece in cut_turns(conversation.read_parts(reader, transcript_lines.SESSION))
        for item in describe_items(piece.turn)
    ]
    known = turns(path)[0]
    # Not if a later turn repeats a call's id.
    assume({number for number, _ in whole} == {turn.number for turn in known})
    for turn in known:
        if not turn.is_independent or turn.number == 1:
            continue
        start = turn.start
        rest = conversation.read_parts(
            reader,
            transcript_lines.SESSION,
            lines=reader.read_alike(start.offset, start.line),
            earlier_turns=start.turns,
        )
        found = [item for piece in cut_turns(rest) for item in describe_items(piece.turn) if item[0] >= turn.number]
        assert found == [each for each in whole if each[0] >= turn.number]
    reader.close()


def describe_items(turn: conversation.ConversationTurn) -> list[tuple[int, str]]:
    items = [item for item in turn.items if not isinstance(item, conversation.ToolCall)]
    return [
        (turn.number, f"{turn.started_at} {turn.stop_reason} {turn.error}"),
        *((turn.number, re.sub(r"acp-proxy-\w+-\d+", "id", repr(item))) for item in items),
    ]


_SAID: dict[str, Callable[..., bytes]] = {
    "prompt": lambda word, id: prompt_line(word, id=id),
    "agent": lambda word: agent_chunk(f"{word} "),
    "thought": lambda word: update(THOUGHT, **text("hm")),
    "user": lambda word: update(USER, **text(word)),
    "call": lambda word: update("tool_call", toolCallId=word.strip("w"), title=word),  # an id is no word
    "plan": lambda word: update("plan", entries=[{"content": "step", "status": "pending", "priority": "low"}]),
    "usage": lambda word: update("usage_update", used=1),
    "answer": lambda word, id: answer(id=id),
    "other prompt": lambda word, id: prompt_line(word, run="run002", id=id),
    "other agent": lambda word: agent_chunk(f"{word} ", run="run002"),
    "other answer": lambda word, id: answer(run="run002", id=id),
}


def say(kinds: list[str], lines: Mapping[str, Callable[..., bytes]]) -> Iterator[bytes]:
    """The lines of a transcript, each with a word of its own. No two open requests of a connection have one id, and an
    answer is that to the first one."""
    open_ids: dict[str, list[int]] = {transcript_lines.RUN: [], "run002": []}
    for at, kind in enumerate(kinds):
        run = "run002" if kind.startswith("other") else transcript_lines.RUN
        if kind.endswith("prompt"):
            open_ids[run].append(at)
            yield lines[kind](f"w{at}w", at)
        elif kind.endswith("answer") or kind in ("error", "reason"):
            yield lines[kind](f"w{at}w", open_ids[run].pop(0) if open_ids[run] else len(kinds))
        else:
            yield lines[kind](f"w{at}w")


@given(st.lists(st.sampled_from(list(_SAID)), max_size=30))
@example(["prompt", "call", "prompt", "answer", "answer", "prompt"])
@example(["prompt", "agent", "other prompt", "agent", "other agent", "call", "answer", "other agent", "other answer"])
@example(["prompt", "agent", "prompt", "agent", "prompt", "answer", "user", "agent", "answer", "agent"])
def test_turns_are_the_shown_turns_with_all_their_words(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str]
) -> None:
    """Including an echo of the prompt with expanded references, which is not shown."""
    path = write(tmp_path_factory.mktemp("turns"), *say(kinds, _SAID))
    reader = TranscriptReader(path)
    shown = [
        (turn.number, set(re.findall(r"w\d+w", repr(turn.items))))
        for turn in conversation.read_turns(reader, transcript_lines.SESSION)
    ]
    divided = {
        turn.number: set(re.findall(r"w\d+w", turn.text))
        for turn in divide_turns(conversation.read_parts(reader, transcript_lines.SESSION))
    }
    reader.close()
    assert divided == {number: words for number, words in shown if words}
    found = {turn.number: set(re.findall(r"w\d+w", turn.texts[0])) for turn in turns(path)[0]}
    assert list(found) == [number for number, _ in shown]
    assert all(words <= found[number] for number, words in shown)


_SHOWN = _SAID | {
    "thought": lambda word: update(THOUGHT, **text(f"{word} ")),
    "plan": lambda word: update("plan", entries=[{"content": word, "status": "pending", "priority": "low"}]),
    "failed": lambda word: update("tool_call", toolCallId=word, status="failed", rawOutput={"stderr": word}),
    "fails": lambda word: (
        update("tool_call", toolCallId=word.strip("w"), status="pending", content=[{"type": "content", **text(word)}])
        + update("tool_call_update", toolCallId=word.strip("w"), status="failed")
    ),
    "terminal": lambda word: (
        update("tool_call", toolCallId=word, content=[{"type": "terminal", "terminalId": word}], status="failed")
        + transcript_lines.note("terminal", terminalId=word, output=f"{word}\n" * 20)
    ),
    "error": lambda word, id: answer(error={"code": 1, "message": word}, id=id),
    "reason": lambda word, id: answer(error={"code": 1, "message": "no", "data": {"details": word}}, id=id),
    "gone": lambda word: transcript_lines.note("failed", message=word),
}


@given(st.lists(st.sampled_from(list(_SHOWN)), max_size=30))
@example(["prompt", "failed", "fails", "terminal", "thought", "plan", "error", "prompt", "fails", "gone"])
@example(["prompt", "reason"])
def test_all_that_show_shows_is_searched(tmp_path_factory: pytest.TempPathFactory, kinds: list[str]) -> None:
    path = write(tmp_path_factory.mktemp("turns"), *say(kinds, _SHOWN))
    reader = TranscriptReader(path)
    number, shown = 0, dict[int, set[str]]()
    for passage in make_passages(conversation.read_parts(reader, transcript_lines.SESSION)):
        number = passage.number if isinstance(passage, Heading) else number
        if not (isinstance(passage, CallHeading) and passage.is_change):  # its title was told in an earlier turn
            shown.setdefault(number, set()).update(re.findall(r"w\d+w", repr(passage)))
    reader.close()
    found = {turn.number: set(re.findall(r"w\d+w", "".join(turn.texts))) for turn in turns(path)[0]}
    assert {number: words - found[number] for number, words in shown.items() if words - found[number]} == {}


def test_plans_do_not_separate_messages(tmp_path: Path) -> None:
    plan = update("plan", entries=[])
    told = [update(USER, **text("first")), plan, update(USER, **text("more")), plan, agent_chunk("one")]
    path = write(tmp_path, *told, plan, update(USER, **text("second")))
    reader = TranscriptReader(path)
    assert len(list(conversation.read_turns(reader, transcript_lines.SESSION))) == len(read_first_texts(path)) == 2
    reader.close()
