"""Folds everything that a turn says about a tool call into one line.

The last value of every field counts, also of ``content`` and ``locations``. A second ``tool_call`` with the same id
restarts the call: title, kind, status, content and locations that it leaves out are cleared. Clients disagree on its
other fields (some keep the earlier value, some do not), so if it leaves one out, the result is two lines.

A fold holds about ``limit`` bytes and, until ``cut`` or the next update, one more line. What was cut stays cut, even if
a later update would have made room for it.

If the call's terminal is the agent's own, the output is in the ``_meta`` of its updates, so they are kept one by one,
up to the limit.
"""

from collections.abc import Mapping

from acp_proxy.protocol import jsonrpc
from acp_proxy.replay import tool_calls, truncate, update_lines
from acp_proxy.replay.terminal_output import ReplayedTerminals, TerminalContent
from acp_proxy.replay.tool_calls import ReplayedCall
from acp_proxy.replay.update_lines import Members

_STATED = frozenset({"title", "kind", "status", "content", "locations"})
_ANY_VALUE = ("rawOutput", "rawInput")
_BESIDE = ""  # stands for the members beside the update, among the names of fields
_NAMES = 1000
"""The most fields of a call, far more than any agent sends. All of them are measured at each update."""


class FoldedCall:
    """One tool call in one turn."""

    def __init__(self, session_id: str, id: str, limit: int, *, is_whole: bool, is_own: bool = False) -> None:
        """``limit``: the most bytes of the call; 0 for no limit. ``is_whole``: write a ``tool_call``, not an update of
        what an earlier turn sent. ``is_own``: terminals without a note are the agent's own."""
        self._session_id = session_id
        self.id = id
        self._limit = limit
        self._is_new = self._is_whole = is_whole
        self._fields: Members = {}
        self._around: Members = {}
        self._left_behind: Members = {}
        self._left_out: dict[str, int] = {}
        self._is_own = is_own
        self._is_empty = True
        self._behind: _OneByOne | None = None
        self._run: str | None = None  # the run of the terminals that the content refers to

    @property
    def shown(self) -> TerminalContent | None:
        """The content, if it refers to terminals of the client."""
        return self._shown if not self._is_own else None

    @property
    def _shown(self) -> TerminalContent | None:
        if self._run is None or "content" not in self._fields:
            return None
        return TerminalContent(self._run, self._fields["content"])

    def take(self, call: ReplayedCall, *, one_by_one: bool) -> None:
        """Add a statement about the call. ``one_by_one``: from here on, keep statements apart."""
        # Output in ``_meta`` is added to what came before, so folding, where the last value counts, loses the rest.
        if one_by_one and self._behind is None:
            self._is_own = True
            self._behind = _OneByOne(self._session_id, self.id, self._limit, is_new=self._is_new and self._is_empty)
        if self._behind is not None:
            self._behind.add(call)
        else:
            self.add(call)

    def add(self, call: ReplayedCall) -> None:
        """Fold a statement about the call into what is known."""
        self._is_empty = False
        if call.is_start:
            # The schema says only that a ``tool_call`` begins a call, not what a second one with its id does. Every
            # client takes the fields of ``_STATED`` from it alone. So none of the first one's may be left in the fold.
            self._begin_again(call.fields)
        for name in call.fields:
            self._left_out.pop(name, None)
            if name in self._fields:
                self._fields[name] = b""  # keeps the field's place; the old value need not be cut
        self.cut()
        self._take(call.fields)
        self._around |= call.around
        if call.sets_content:
            self._run = call.run if call.shows_terminal else None

    def cut(self) -> None:
        """Cut the fields to the limit. Until this is called, the last line is held uncut."""
        if not self._limit or self._has_room():
            return
        self._left_behind.clear()
        cut = truncate.cut(self._fields, self._limit)
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

    def _has_room(self) -> bool:
        if len(self._around) > _NAMES or len(self._left_behind) > _NAMES:
            return False
        return _size(self._fields) + _size(self._around) + _size(self._left_behind) <= self._limit

    def encode(self, terminals: ReplayedTerminals, *, failed: bool) -> list[bytes]:
        """The call's lines. ``failed``: it was never finished, so its status is ``failed``."""
        if self._behind is None:
            return self._encode_folded(terminals, failed=failed)
        before = self._encode_folded(terminals, failed=False) if not self._is_empty else []
        return before + self._behind.encode(terminals, failed=failed)

    def _encode_folded(self, terminals: ReplayedTerminals, *, failed: bool) -> list[bytes]:
        self.cut()
        fields, left_out = self._choose_fields(terminals)
        if failed:
            fields["status"] = tool_calls.FAILED
        if left_out:
            self._add_notice(fields, truncate.make_notice(self._session_id, left_out))
        behind = {name: raw for name, raw in self._left_behind.items() if name not in self._fields}
        ready = [self._encode_line(behind, is_start=self._is_new)] if behind else []
        if self._is_whole or fields or self._around:
            ready.append(self._encode_line(fields, is_start=self._is_whole))
        return ready

    def _encode_line(self, fields: Members, *, is_start: bool) -> bytes:
        encode = tool_calls.encode_start if is_start else tool_calls.encode_update
        return encode(self._session_id, self.id, fields, self._around)

    def _begin_again(self, fields: Mapping[str, bytes]) -> None:
        # Some clients keep a call's other fields, some clear them. A line of its own, before the restart, leaves each
        # client in the state that it would have live.
        self._left_behind |= {name: raw for name, raw in self._fields.items() if name not in fields.keys() | _STATED}
        self._fields, self._left_out, self._is_whole = {}, {}, True

    def _choose_fields(self, terminals: ReplayedTerminals) -> tuple[Members, int]:
        """The fields to send, and how many bytes are left out of them."""
        fields, left_out = dict(self._fields), sum(self._left_out.values())
        if (shown := self._shown) is not None:
            fields["content"], missing = terminals.resolve(shown, own=self._is_own)
            left_out += missing
            if self._limit:
                left_out += sum(truncate.cut(fields, self._limit).values())
        return fields, left_out

    def _add_notice(self, fields: Members, notice: str) -> None:
        """Add the notice to the content; or, if that would replace what an earlier turn sent, put it in place of a
        value that was left out."""
        if self._is_whole or "content" in fields or "content" in self._left_out:
            items = update_lines.split_array(fields.get("content", b"[]"))
            fields["content"] = update_lines.join_array([*items, update_lines.encode_text_item(notice)])
            return
        for name in _ANY_VALUE:
            if name in self._left_out:
                fields[name] = jsonrpc.dump(notice)


class _OneByOne:
    """A call's updates, unfolded. What goes beyond the limit is folded and cut, and a notice says how much is lost."""

    def __init__(self, session_id: str, id: str, limit: int, *, is_new: bool) -> None:
        """``is_new``: the first update begins the call."""
        self._session_id = session_id
        self._id = id
        self._limit = limit
        self._is_new = is_new
        self._kept: list[ReplayedCall] = []
        self._size = 0
        self._rest: FoldedCall | None = None
        self._beyond = 0
        self._content = TerminalContent("", b"[]")

    def add(self, call: ReplayedCall) -> None:
        size = call.size if call.line is None else len(call.line)
        self._size += size
        if call.sets_content:
            self._content = TerminalContent(call.run, call.fields.get("content", b"[]"))
        if not self._limit or self._size <= self._limit:
            self._kept.append(call)
            return
        if self._rest is None:
            is_whole = self._is_new and not self._kept
            self._rest = FoldedCall(self._session_id, self._id, self._limit, is_whole=is_whole, is_own=True)
        self._beyond += size
        self._rest.add(call)

    def encode(self, terminals: ReplayedTerminals, *, failed: bool) -> list[bytes]:
        ready, is_new = [], self._is_new
        for call in self._kept:
            line = tool_calls.encode_call(self._session_id, call, is_start=call.is_start or is_new)
            is_new = False
            if line is not None:
                ready.append(terminals.fill_line(line, call.run, own=True) if call.shows_terminal else line)
        if self._rest is not None:
            ready += self._encode_beyond(self._rest.encode(terminals, failed=False), terminals)
        return (
            [*ready, tool_calls.encode_update(self._session_id, self._id, {"status": tool_calls.FAILED}, {})]
            if failed
            else ready
        )

    def _encode_beyond(self, rest: list[bytes], terminals: ReplayedTerminals) -> list[bytes]:
        content, _ = terminals.resolve(self._content, own=True)
        notice = truncate.make_notice(self._session_id, max(self._beyond - sum(map(len, rest)), 0))
        items = update_lines.join_array(
            [*truncate.shorten_array(content, self._limit), update_lines.encode_text_item(notice)]
        )
        return [*rest, tool_calls.encode_update(self._session_id, self._id, {"content": items}, {})]


def _size(fields: Members) -> int:
    return sum(map(len, fields.values()))
