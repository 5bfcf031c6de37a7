"""What the agent has sent for a load, once it is compared with the transcript: its replay, and what came after that."""

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.late_updates import LateUpdates
from acp_proxy.comparison.repeated_replays import drop_repetition
from acp_proxy.comparison.replay_in_turn import ReplayInTurn


class ComparedReplay:
    """One load's comparison with the transcript, and what the agent sends after its answer.

    The transcript may grow after the comparison, since another window may have loaded the session too. So what is new
    is compared once more with what was appended, before it is recorded (``begin_check``).
    """

    def __init__(
        self,
        comparison: Comparison,
        size: int,
        *,
        hides_agents_replay: bool,
        shows_replay: bool,
        has_part: bool,
        is_open_elsewhere: bool | None,
        is_checked: bool,
    ) -> None:
        """``size``: that of the transcript when it was compared. ``hides_agents_replay``, ``shows_replay``,
        ``has_part``: as for ``LateUpdates``. ``is_open_elsewhere``: as for ``Comparison.find_new``. ``is_checked``:
        nothing was appended since."""
        self.comparison = comparison
        self.size = size
        self.late_updates = LateUpdates(
            comparison,
            hides_agents_replay=hides_agents_replay,
            shows_replay=shows_replay,
            has_part=has_part,
            is_open_elsewhere=is_open_elsewhere,
        )
        """What the agent sends between its answer and the next prompt."""
        self.in_turn: ReplayInTurn | None = None
        """What the agent sends in the turn after the load, if that has begun."""
        self._is_open_elsewhere = is_open_elsewhere
        self._is_checked = is_checked
        """Whether what is new was compared with what was appended since then."""
        self._checked_lines: frozenset[bytes] = frozenset()
        """The new lines that were, or are, compared with what was appended since."""
        self._recorded_elsewhere: frozenset[bytes] = frozenset()
        """The new lines in ``_checked_lines`` that were recorded since then."""

    @property
    def is_checked(self) -> bool:
        """Whether what is new was compared with all that was appended to the transcript."""
        return self._is_checked

    @property
    def new_message_ids(self) -> dict[tuple[str, bytes], str]:
        """The ids of the user's messages in the agent's replay, by ``Entry.request_key``, that the transcript
        does not note."""
        noted_ids = self.comparison.text.ids
        return {key: id for key, id in self.comparison.ids.items() if noted_ids.get(key) != id}

    def sort_late(self, line: bytes, update: object) -> list[bytes]:
        """Take an update from between the answer and the next prompt; returns the lines to send now."""
        self._is_checked = False
        return self.late_updates.add(line, update)

    def begin_turn(self, *, hides_agents_replay: bool, expects_replay: bool = False) -> None:
        """The client has prompted. ``hides_agents_replay``, ``expects_replay``: as for ``ReplayInTurn``."""
        if self.in_turn is None:
            self.in_turn = ReplayInTurn(
                self.comparison, hides_agents_replay=hides_agents_replay, expects_replay=expects_replay
            )

    def find_new(self, *, may_replay_again: bool) -> list[bytes]:
        """The lines that the transcript lacks. ``may_replay_again``: as for ``Comparison.find_new``."""
        lines = self.comparison.find_new(is_open_elsewhere=self._is_open_elsewhere, may_replay_again=may_replay_again)
        lines = drop_repetition(lines) if self.comparison.text.is_empty else lines
        return [line for line in lines if line not in self._recorded_elsewhere]

    def begin_check(self, *, may_replay_again: bool) -> list[bytes]:
        """Returns the new lines, which must be compared with what was appended to the transcript since ``size``."""
        lines = self.find_new(may_replay_again=may_replay_again)
        self._is_checked, self._checked_lines = not lines, frozenset(lines)
        return lines

    def end_check(self, appended: Comparison | None) -> None:
        """What ``begin_check`` returned was compared with what was appended; None: that could not be read."""
        self._is_checked = True
        if appended is not None and not appended.is_undecided and not appended.text.is_empty:
            self._recorded_elsewhere |= self._checked_lines.difference(*appended.split_tail())
