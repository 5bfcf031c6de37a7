"""A replay of a session that nobody has: what begins its transcript."""

from acp_proxy.history.comparison import Comparison
from acp_proxy.history.past import Laying, block_letters
from acp_proxy.wire import acp

_FIRST = 16
"""Lines among which an agent's first message of the user's is."""


def told_once(lines: list[bytes]) -> list[bytes]:
    """What an agent told of a session that nobody has, and perhaps told again: the rest is compared with its beginning,
    up to where it tells its first message of the user's once more."""
    if not any(acp.USER_CHUNK.encode() in line and lines.count(line) > 1 for line in lines[:_FIRST]):
        return lines
    users = [said if (said := _user_letters(line)) else None for line in lines]
    first = next(filter(None, users), None)
    again = users.index(first, users.index(first) + 1) if users.count(first) > 1 and first is not None else len(lines)
    if again == len(lines):
        return lines
    laying = Laying()
    for line in lines[:again]:
        laying.update(acp.update_of(line))
    comparison = Comparison(laying.past())
    for line in lines[again:]:
        comparison.add(line, acp.update_of(line), late=False)
    return [*lines[:again], *comparison.new()]


def told_last(lines: list[tuple[bytes, bool]]) -> list[tuple[bytes, bool]]:
    """Of replays one behind the other, the last: from where the first message of the user's is told once more."""
    users = [_user_letters(line) for line, _ in lines]
    first = next(filter(None, users), None)
    return lines[len(users) - 1 - users[::-1].index(first) :] if first is not None else lines


def _user_letters(line: bytes) -> str:
    update = acp.update_of(line)
    return block_letters(acp.member(update, "content")) if acp.update_kind(update) == acp.USER_CHUNK else ""
