"""The agent's lines that a load keeps until it is decided what becomes of them."""

from typing import Generic, NamedTuple, TypeVar

from acp_proxy.comparison.comparison import SentLine
from acp_proxy.comparison.repeated_replays import OtherReplays


class HeldLine(NamedTuple):
    """A line that waits. ``update``: its update, if that must be compared before it is sent; else None."""

    line: bytes
    update: object = None


Item = TypeVar("Item", SentLine, HeldLine)


class LineBuffer(Generic[Item]):
    """Lines, and their size in bytes. False if there are none."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.size = 0
        self.was_given_up = False

    def __bool__(self) -> bool:
        return bool(self.items)

    @property
    def lines(self) -> list[bytes]:
        return [item.line for item in self.items]

    def add(self, item: Item) -> None:
        """Add a line after the others."""
        self.items.append(item)
        self.size += len(item.line)

    def take(self) -> list[Item]:
        """Return everything, and forget it."""
        items = self.items
        self.drop()
        return items

    def drop(self) -> None:
        """Forget everything."""
        self.items, self.size = [], 0

    def give_up(self) -> None:
        """Drop everything: too much came. Nobody may add to it any more."""
        self.drop()
        self.was_given_up = True

    def replace(self, items: list[Item]) -> None:
        """Have these instead."""
        self.items, self.size = items, sum(len(item.line) for item in items)


class LoadLines:
    """What a load keeps of what the agent sends about its session."""

    def __init__(self) -> None:
        self.possible_replay = LineBuffer[SentLine]()
        """Updates of the conversation that may be the agent's replay. A replay is held here until it was compared, and
        is then sent or dropped. What passed, or came late, is kept here until it is compared."""
        self.state_updates = LineBuffer[HeldLine]()
        """State updates from before the agent's answer, which are recorded if the agent agrees."""
        self.to_send_before_answer, self.to_send_after_answer = LineBuffer[HeldLine](), LineBuffer[HeldLine]()
        """Lines that wait for the answer to the client. They leave before or after that answer if the agent agrees,
        all before it if the agent refuses, all after it if the client cancels, and at once if the load begins to
        pass."""
        self.other_replays = OtherReplays()
        """What of these lines belongs to other loads of the session, as far as that is known."""

    @property
    def size(self) -> int:
        """The bytes that are kept, without ``state_updates``, which have a limit of their own."""
        return self.possible_replay.size + self.to_send_before_answer.size + self.to_send_after_answer.size
