"""What the agent has sent for a load, compared with the transcript; ``Load.compared_replay`` has it."""

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.late_updates import LateUpdates
from acp_proxy.comparison.repeated_replays import drop_repetition
from acp_proxy.comparison.updates_in_turn import UpdatesInTurn


class ComparedReplay:
    """What the agent has sent for a load, once it is compared with the transcript: its replay, and what comes after
    that.

    The transcript may grow after the comparison, since another window may have loaded the session too. So what is new
    is compared once more with what was appended, before it is recorded (``begin_recheck``).
    """

    def __init__(
        self,
        comparison: Comparison,
        size: int,
        late_updates: LateUpdates,
        *,
        turn_may_run_elsewhere: bool | None,
        needs_recheck: bool,
    ) -> None:
        """``size``: that of the transcript when it was compared. ``turn_may_run_elsewhere``: as for
        ``Comparison.find_unrecorded``."""
        self.comparison = comparison
        self.transcript_size = size
        self.late_updates = late_updates
        """What the agent sends between its answer and the next prompt."""
        self.updates_in_turn: UpdatesInTurn | None = None
        """What the agent sends in a turn after the load, or during it, if one has begun."""
        self.needs_recheck = needs_recheck
        """Whether what is new must be compared with what was appended since ``transcript_size`` before it is recorded.
        ``LoadMachine`` sets it too, if time passes before that."""
        self._turn_may_run_elsewhere = turn_may_run_elsewhere
        self._rechecked_lines: frozenset[bytes] = frozenset()
        """The new lines that were, or are, compared with what was appended."""
        self._recorded_elsewhere: frozenset[bytes] = frozenset()
        """Those of them that were appended."""

    @property
    def new_message_ids(self) -> dict[tuple[str, bytes], str]:
        """The ids of the user's messages in the agent's replay, by ``Entry.request_key``, that the transcript
        does not note."""
        noted_ids = self.comparison.text.message_ids
        return {key: id for key, id in self.comparison.message_ids.items() if noted_ids.get(key) != id}

    def add_late_update(self, line: bytes, update: object) -> list[bytes]:
        """Take an update from between the answer and the next prompt; returns the lines to send now."""
        self.needs_recheck = True
        return self.late_updates.add(line, update)

    def begin_updates_in_turn(self, *, hides_replay: bool, replay_may_come: bool = False) -> None:
        """The client has prompted. ``hides_replay``, ``replay_may_come``: of the load."""
        if self.updates_in_turn is None:
            self.updates_in_turn = UpdatesInTurn(
                self.comparison, hides_replay=hides_replay, replay_may_come=replay_may_come
            )

    def find_unrecorded(self) -> list[bytes]:
        """The lines that the transcript lacks, without a message that is still coming."""
        lines = self.comparison.find_unrecorded(turn_may_run_elsewhere=self._turn_may_run_elsewhere)
        lines = drop_repetition(lines) if self.comparison.text.is_empty else lines
        return [line for line in lines if line not in self._recorded_elsewhere]

    def begin_recheck(self) -> list[bytes]:
        """End the message that is coming. Returns the new lines, which must be compared with what was appended."""
        self.comparison.end_message()
        lines = self.find_unrecorded()
        self.needs_recheck, self._rechecked_lines = bool(lines), frozenset(lines)
        return lines

    def end_recheck(self, appended: Comparison | None) -> None:
        """What ``begin_recheck`` returned was compared with what was appended; None: that could not be read."""
        self.needs_recheck = False
        if appended is not None and not appended.is_too_costly and not appended.text.is_empty:
            appended.end_message()
            self._recorded_elsewhere |= self._rechecked_lines.difference(*appended.split_tail())
