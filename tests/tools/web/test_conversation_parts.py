"""A conversation in parts, each of a bounded size."""

from pathlib import Path

import pytest

from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.tools.search.turn_text import TurnStart
from acp_proxy.tools.web.conversation_parts import (
    OpenConversation,
    Piece,
    WaitingConversations,
    choose_start,
    cut_turns,
    find_part_before,
    group_pieces,
    name_calls,
)
from acp_proxy.views.conversation import Part, SpokenMessage, ToolCall, TurnBegin, TurnEnd
from tests.stored import WholeStore, chunk, store_session


def begin(number: int) -> TurnBegin:
    return TurnBegin(number, "2026-11-20T09:15:02.123Z", is_prompted=True)


def message(words: str, id: str = "") -> SpokenMessage:
    return SpokenMessage("agent", [{"type": "text", "text": words}], id)


def calls(count: int) -> list[Part]:
    return [ToolCall(f"c{number}", {"title": f"call {number}"}, is_new=True) for number in range(count)]


def count_items(pieces: list[Piece]) -> list[tuple[int, int, int]]:
    """The number, the continuation and the count of items of each piece."""
    return [(piece.turn.number, piece.continuation, len(piece.turn.items)) for piece in pieces]


def test_short_turns_stay_whole() -> None:
    parts: list[Part] = [begin(1), *calls(2), TurnEnd("end_turn", None), begin(2), *calls(1), TurnEnd(None, "failed")]
    first, second = cut_turns(parts)
    assert count_items([first, second]) == [(1, 0, 2), (2, 0, 1)]
    assert (first.turn.stop_reason, second.turn.error) == ("end_turn", "failed")


def test_a_long_turn_comes_in_pieces_and_only_the_last_one_has_its_end() -> None:
    pieces = list(cut_turns([begin(1), *calls(500), TurnEnd("refusal", None, "later")]))
    assert count_items(pieces) == [(1, 0, 200), (1, 1, 200), (1, 2, 100)]
    assert [piece.turn.stop_reason for piece in pieces] == [None, None, "refusal"]
    assert [bool(piece.turn.started_at) for piece in pieces] == [True, False, False]
    assert [item for piece in pieces for item in piece.turn.items] == calls(500)


def test_large_messages_make_a_piece_before_many_do() -> None:
    pieces = list(cut_turns([begin(1), *(message("x" * 200_000, str(n)) for n in range(4)), TurnEnd(None, None)]))
    assert count_items(pieces) == [(1, 0, 2), (1, 1, 2)]


def test_adjacent_parts_of_a_message_are_one() -> None:
    [piece] = cut_turns([begin(1), message("a"), message("b"), TurnEnd(None, None)])
    assert count_items([piece]) == [(1, 0, 1)]


def test_pieces_are_grouped_until_a_part_is_full_and_the_last_part_says_so() -> None:
    turns = [each for number in range(1, 10) for each in (begin(number), *calls(60), TurnEnd(None, None))]
    parts = list(group_pieces(cut_turns(turns)))
    assert [[piece.turn.number for piece in part.pieces] for part in parts] == [[1, 2, 3, 4], [5, 6, 7, 8], [9]]
    assert [part.next for part in parts] == [(5, 0), (9, 0), None]


def test_an_empty_conversation_has_one_part() -> None:
    [part] = group_pieces(cut_turns([]))
    assert (part.pieces, part.next) == ([], None)


def test_a_change_of_a_call_in_a_later_piece_has_the_title_of_the_call() -> None:
    later = ToolCall("c0", {"status": "completed"}, is_new=False)
    *_, last = name_calls(cut_turns([begin(1), *calls(300), later, TurnEnd(None, None)]))
    found = last.turn.items[-1]
    assert isinstance(found, ToolCall)
    assert found.fields == {"title": "call 0", "status": "completed"}
    assert last.continuation == 1


def test_the_part_before_a_place_is_no_longer_than_it_has_to_be() -> None:
    turns = [each for number in range(1, 10) for each in (begin(number), *calls(60), TurnEnd(None, None))]
    part = find_part_before(cut_turns(turns), (9, 0))
    assert ([piece.turn.number for piece in part.pieces], part.next) == ([5, 6, 7, 8], (9, 0))
    long = [begin(1), *calls(500), TurnEnd(None, None), begin(2), *calls(1), TurnEnd(None, None)]
    assert count_items(find_part_before(cut_turns(long), (1, 2)).pieces) == [(1, 1, 200)]
    assert count_items(find_part_before(cut_turns(long), (2, 0)).pieces) == [(1, 1, 200), (1, 2, 100)]
    assert find_part_before(cut_turns([]), (1, 0)).pieces == []


@pytest.mark.parametrize(
    ("end", "offset"),
    [((2, 0), 0), ((5, 0), 200_000), ((5, 1), 400_000), ((4, 0), 100_000), ((6, 0), 200_000), ((7, 0), 450_000)],
)
def test_it_is_read_from_a_turn_not_far_before_it(end: tuple[int, int], offset: int) -> None:
    starts = [TurnStart(at) for at in (0, 100_000, 200_000, 300_000, 400_000, 450_000)]
    assert choose_start(starts, end, 2_000_000).offset == offset


@pytest.fixture
def conversation(tmp_path: Path) -> OpenConversation:
    store = WholeStore(tmp_path / "store")
    store_session(store, "s", ("Mend it", [chunk("done")]))
    reader = CommandStore(store.root, create=False)
    [row] = reader.list_all()
    return OpenConversation(reader.open_listed(row), row.session_id, lambda session: reader.open_child(row, session))


def is_closed(conversation: OpenConversation) -> bool:
    try:
        conversation.reader.measure()
    except (OSError, ValueError):
        return True
    return False


def test_a_conversation_waits_for_the_reader_of_its_next_part(conversation: OpenConversation) -> None:
    waiting = WaitingConversations()
    assert conversation.read() is not None
    conversation.next = (2, 0)
    waiting.put("agent", "name", conversation)
    assert waiting.take("agent", "name", (1, 0)) is None
    assert waiting.take("agent", "name", (2, 0)) is conversation
    assert waiting.take("agent", "name", (2, 0)) is None
    assert not is_closed(conversation)
    conversation.reader.close()


def test_only_a_few_wait_and_the_oldest_is_closed(conversation: OpenConversation) -> None:
    waiting = WaitingConversations(most=1)
    waiting.put("agent", "name", conversation)
    conversation.next = (2, 0)
    waiting.put("agent", "other", conversation)
    assert waiting.take("agent", "name", (1, 0)) is None
    assert is_closed(conversation)


def test_a_conversation_that_nobody_reads_on_is_closed(conversation: OpenConversation) -> None:
    waiting = WaitingConversations(seconds=0)
    waiting.put("agent", "name", conversation)
    while not is_closed(conversation):
        pass
    assert waiting.take("agent", "name", (1, 0)) is None
