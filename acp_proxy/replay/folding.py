"""All that a turn says of one tool call, folded into one line.

The last value of every field counts; ``content`` and ``locations`` are replaced, as any other field. A ``tool_call``
of a known id states the call anew: title, kind, status, content and locations that it leaves out are gone. Clients
disagree on its other fields (some keep the earlier value, some do not), so where it leaves one out, two lines are told.
Holds no more than about ``limit`` bytes and, until ``cut`` or the next update, one line.
What was let go is gone, also where a later update would have left room for it.
"""

from collections.abc import Mapping

from acp_proxy.replay import calls, cutting, lines
from acp_proxy.replay.calls import Call
from acp_proxy.replay.lines import Members
from acp_proxy.replay.terminals import Shown, Terminals
from acp_proxy.wire import jsonrpc

_STATED = frozenset({"title", "kind", "status", "content", "locations"})
_ANY_VALUE = ("rawOutput", "rawInput")
_BESIDE = ""  # what stood beside the update, among the names of fields
_NAMES = 1000
"""Far more fields than any agent's call has; all of them are weighed at each update."""


class Fold:
    """One call in one turn. ``is_whole``: it is told as a start, not as an update of what an earlier turn told."""

    def __init__(self, session: str, id: str, limit: int, *, is_whole: bool) -> None:
        self._session = session
        self._id = id
        self._limit = limit
        self._is_new = self._is_whole = is_whole
        self._fields: Members = {}
        self._around: Members = {}
        self._left_behind: Members = {}
        self._left_out: dict[str, int] = {}
        self._status: str | None = None
        self._run: str | None = None  # where the terminals are that the content refers to, if it does

    @property
    def shown(self) -> Shown | None:
        """The content, if it refers to terminals."""
        return (
            Shown(self._run, self._fields["content"]) if self._run is not None and "content" in self._fields else None
        )

    def add(self, call: Call) -> None:
        if call.is_start:
            self._state_anew(call.fields)
        for name in call.fields:
            self._left_out.pop(name, None)
            if name in self._fields:
                self._fields[name] = b""  # keeps its place, and is not cut for naught
        self.cut()
        self._take(call.fields)
        self._around |= call.around
        self._status = call.status if call.status is not None else self._status
        if call.sets_content:
            self._run = call.run if call.shows_terminal else None

    def cut(self) -> None:
        """Let go of what is over the limit; until then the last line is held as it came."""
        if not self._limit or self._finds_room():
            return
        self._left_behind.clear()
        cut = cutting.cut(self._fields, self._limit)
        if (beside := _size(self._around)) > self._limit - _size(self._fields) or len(self._around) > _NAMES:
            self._around.clear()
            cut[_BESIDE] = beside
        for name, size in cut.items():
            self._left_out[name] = self._left_out.get(name, 0) + size

    def _take(self, fields: Members) -> None:
        if not self._limit or len(self._fields) + len(fields) <= _NAMES:
            self._fields |= fields
            return
        for name, raw in fields.items():
            if name in self._fields or len(self._fields) < _NAMES:
                self._fields[name] = raw
            else:
                self._left_out[_BESIDE] = self._left_out.get(_BESIDE, 0) + len(raw)

    def _finds_room(self) -> bool:
        if len(self._around) > _NAMES or len(self._left_behind) > _NAMES:
            return False
        return _size(self._fields) + _size(self._around) + _size(self._left_behind) <= self._limit

    def told(self, terminals: Terminals, *, live: bool) -> list[bytes]:
        self.cut()
        fields, left_out = self._shown_fields(terminals)
        if self._is_dangling() and not live:
            fields["status"] = calls.FAILED
        if left_out:
            self._say(fields, cutting.notice(self._session, left_out))
        behind = {name: raw for name, raw in self._left_behind.items() if name not in self._fields}
        told = [self._line(behind, is_start=self._is_new)] if behind else []
        if self._is_whole or fields or self._around:
            told.append(self._line(fields, is_start=self._is_whole))
        return told

    def _line(self, fields: Members, *, is_start: bool) -> bytes:
        tell = calls.started if is_start else calls.updated
        return tell(self._session, self._id, fields, self._around)

    def _state_anew(self, fields: Mapping[str, bytes]) -> None:
        self._left_behind |= {name: raw for name, raw in self._fields.items() if name not in fields.keys() | _STATED}
        self._fields, self._left_out = {}, {}
        self._status, self._is_whole = None, True

    def _is_dangling(self) -> bool:
        return self._status in calls.UNFINISHED or (self._status is None and self._is_whole)

    def _shown_fields(self, terminals: Terminals) -> tuple[Members, int]:
        """The fields as they are told, and how many bytes are not among them."""
        fields, left_out = dict(self._fields), sum(self._left_out.values())
        if (shown := self.shown) is not None:
            fields["content"], missing = terminals.resolved(shown)
            left_out += missing
            if self._limit:
                left_out += sum(cutting.cut(fields, self._limit).values())
        return fields, left_out

    def _say(self, fields: Members, notice: str) -> None:
        """In the content; where that would replace what an earlier turn told, in place of a value that is left out."""
        if self._is_whole or "content" in fields or "content" in self._left_out:
            said = lines.items(fields.get("content", b"[]"))
            fields["content"] = lines.array([*said, lines.text_item(notice)])
            return
        for name in _ANY_VALUE:
            if name in self._left_out:
                fields[name] = jsonrpc.dump(notice)


def _size(fields: Members) -> int:
    return sum(map(len, fields.values()))
