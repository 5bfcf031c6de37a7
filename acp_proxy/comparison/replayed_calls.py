"""Finds the tool calls that an agent replays among those of the transcript."""

from bisect import bisect_left

from acp_proxy.comparison.transcript_text import TranscriptText


class ReplayedCalls:
    """The calls of one agent's replay: each is known by its id, or else as the next call with the same title, since
    many agents give new ids when they replay."""

    def __init__(self, text: TranscriptText) -> None:
        self._text = text
        self.known: set[int] = set()
        """The indexes in ``text.calls`` of those that were sent."""
        self.last = -1
        """The index of the last one of the current replay; -1 if none was sent."""
        self._by_id: dict[str, int | None] = {}
        """By ``toolCallId`` in the replay: the index in ``text.calls``; None: the transcript lacks the call."""

    def find(self, id: str, title: str | None, turn: int, *, may_begin: bool) -> int | None:
        """The index of a call; None if the transcript lacks it. ``turn``: the number of the turn to which the replay
        has come. ``may_begin``: an update of this kind may begin a call."""
        found = self._by_id.get(id)
        # Some agents number their calls anew in each turn.
        is_of_earlier_turn = found is not None and self._text.calls[found].turn < turn
        if id not in self._by_id or (may_begin and is_of_earlier_turn):
            self._by_id[id] = found = self._find(id, title)
        return found

    def add(self, number: int) -> None:
        """The agent has sent this call."""
        self.known.add(number)
        self.last = max(self.last, number)

    def restart(self) -> None:
        """The agent begins its replay once more."""
        self.last = -1

    def _find(self, id: str, title: str | None) -> int | None:
        if (numbers := self._text.calls_by_id.get(id)) is not None:
            later = bisect_left(numbers, self.last + 1)
            return numbers[later] if later < len(numbers) else numbers[-1]
        if title is None:
            return None
        numbers = self._text.calls_by_title.get(title, [])
        later = bisect_left(numbers, self.last + 1)
        return numbers[later] if later < len(numbers) else None
