"""Decides whether an agent's replay of a session continues an earlier replay of it. Lines in."""

from acp_proxy.history.comparison import Comparison
from acp_proxy.history.past import Laying
from acp_proxy.wire import acp, second


def continues(old: list[bytes], new: list[bytes]) -> bool:
    """Whether the new replay has all that the old one has, and more. ``old``, ``new``: updates of the conversation."""
    return _has_more(new, old) and not _has_more(old, new)


def _has_more(told: list[bytes], than: list[bytes]) -> bool:
    """Whether the one has words, calls or other updates that the other lacks. True if that takes too long to find."""
    laying = Laying()
    for line in than:
        laying.update(second.compared(acp.update_of(line)))
    comparison = Comparison(laying.past())
    for line in told:
        comparison.add(line, second.compared(acp.update_of(line)), late=False)
    tail = any(comparison.tail_lines())
    return tail or comparison.lacks or comparison.is_odd or comparison.continues or comparison.is_undecided
