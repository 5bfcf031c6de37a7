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
from acp_proxy.transcript_replay import raw_members, tool_calls, truncate
from acp_proxy.transcript_replay.raw_members import Members
from acp_proxy.transcript_replay.terminal_output import ContentWithTerminals, ReplayedTerminals
from acp_proxy.transcript_replay.tool_calls import CallStatement

_CLEARED_BY_START = frozenset({"title", "kind", "status", "content", "locations"})
_ANY_VALUE_FIELDS = ("rawOutput", "rawInput")
_OTHER_PARAMS = ""
"""Stands for the members beside the update, among the names of fields."""
_FIELD_LIMIT = 1000
"""The most fields of a call, far more than any agent sends. All of them are measured at each update."""


class FoldedCall:
    """One tool call in one turn."""

    def __init__(
        self, session_id: str, id: str, limit: int, *, is_whole: bool, has_agent_terminals: bool = False
    ) -> None:
        """``limit``: the most bytes of the call; 0 for no limit. ``is_whole``: write a ``tool_call``, not an update of
        what an earlier turn sent. ``has_agent_terminals``: terminals without a note are the agent's own."""
        self._session_id = session_id
        self.id = id
        self._limit = limit
        self._is_new = self._is_whole = is_whole
        self._fields: Members = {}
        self._params_members: Members = {}
        self._fields_before_restart: Members = {}
        self._left_out_sizes: dict[str, int] = {}
        self._has_agent_terminals = has_agent_terminals
        self._is_empty = True
        self._unfolded: _UnfoldedUpdates | None = None
        self._terminal_run: str | None = None
        """The run of the terminals that the content refers to."""

    @property
    def client_terminal_content(self) -> ContentWithTerminals | None:
        """The content, if it refers to terminals of the client."""
        return self._terminal_content if not self._has_agent_terminals else None

    @property
    def _terminal_content(self) -> ContentWithTerminals | None:
        if self._terminal_run is None or "content" not in self._fields:
            return None
        return ContentWithTerminals(self._terminal_run, self._fields["content"])

    def add(self, call: CallStatement, *, one_by_one: bool) -> None:
        """Add a statement about the call. ``one_by_one``: from here on, keep statements apart."""
        # Output in ``_meta`` is added to what came before, so folding, where the last value counts, loses the rest.
        if one_by_one and self._unfolded is None:
            self._has_agent_terminals = True
            self._unfolded = _UnfoldedUpdates(
                self._session_id, self.id, self._limit, is_new=self._is_new and self._is_empty
            )
        if self._unfolded is not None:
            self._unfolded.add(call)
        else:
            self.fold(call)

    def fold(self, call: CallStatement) -> None:
        """Fold a statement about the call into what is known."""
        self._is_empty = False
        if call.is_start:
            # The schema says only that a ``tool_call`` begins a call, not what a second one with its id does. Every
            # client takes the fields of ``_CLEARED_BY_START`` from it alone. So none of the first one's may be left in
            # the fold.
            self._restart(call.fields)
        for name in call.fields:
            self._left_out_sizes.pop(name, None)
            if name in self._fields:
                self._fields[name] = b""  # keeps the field's place; the old value need not be cut
        self.cut()
        self._set_fields(call.fields)
        self._params_members |= call.params_members
        if call.sets_content:
            self._terminal_run = call.run if call.shows_terminal else None

    def cut(self) -> None:
        """Cut the fields to the limit. Until this is called, the last line is held uncut."""
        if not self._limit or self._has_room():
            return
        self._fields_before_restart.clear()
        left_out_sizes = truncate.cut_fields(self._fields, self._limit)
        if (beside_size := _measure(self._params_members)) > self._limit - _measure(self._fields) or len(
            self._params_members
        ) > _FIELD_LIMIT:
            self._params_members.clear()
            left_out_sizes[_OTHER_PARAMS] = beside_size
        for name, size in left_out_sizes.items():
            self._left_out_sizes[name] = self._left_out_sizes.get(name, 0) + size

    def _set_fields(self, fields: Members) -> None:
        if not self._limit or len(self._fields) + len(fields) <= _FIELD_LIMIT:
            self._fields |= fields
            return
        for name, raw in fields.items():
            if name in self._fields or len(self._fields) < _FIELD_LIMIT:
                self._fields[name] = raw
            else:
                self._left_out_sizes[_OTHER_PARAMS] = self._left_out_sizes.get(_OTHER_PARAMS, 0) + len(raw)

    def _has_room(self) -> bool:
        if len(self._params_members) > _FIELD_LIMIT or len(self._fields_before_restart) > _FIELD_LIMIT:
            return False
        return (
            _measure(self._fields) + _measure(self._params_members) + _measure(self._fields_before_restart)
            <= self._limit
        )

    def encode(self, terminals: ReplayedTerminals, *, failed: bool) -> list[bytes]:
        """The call's lines. ``failed``: it was never finished, so its status is ``failed``."""
        if self._unfolded is None:
            return self._encode_folded(terminals, failed=failed)
        folded_lines = self._encode_folded(terminals, failed=False) if not self._is_empty else []
        return folded_lines + self._unfolded.encode(terminals, failed=failed)

    def _encode_folded(self, terminals: ReplayedTerminals, *, failed: bool) -> list[bytes]:
        self.cut()
        fields, left_out = self._choose_fields(terminals)
        if failed:
            fields["status"] = tool_calls.FAILED
        if left_out:
            self._add_notice(fields, truncate.make_notice(self._session_id, left_out))
        earlier_fields = {name: raw for name, raw in self._fields_before_restart.items() if name not in self._fields}
        lines = [self._encode_line(earlier_fields, is_start=self._is_new)] if earlier_fields else []
        if self._is_whole or fields or self._params_members:
            lines.append(self._encode_line(fields, is_start=self._is_whole))
        return lines

    def _encode_line(self, fields: Members, *, is_start: bool) -> bytes:
        encode = tool_calls.encode_start if is_start else tool_calls.encode_update
        return encode(self._session_id, self.id, fields, self._params_members)

    def _restart(self, fields: Mapping[str, bytes]) -> None:
        # Some clients keep a call's other fields, some clear them. A line of its own, before the restart, leaves each
        # client in the state that it would have live.
        self._fields_before_restart |= {
            name: raw for name, raw in self._fields.items() if name not in fields.keys() | _CLEARED_BY_START
        }
        self._fields, self._left_out_sizes, self._is_whole = {}, {}, True

    def _choose_fields(self, terminals: ReplayedTerminals) -> tuple[Members, int]:
        """The fields to send, and how many bytes are left out of them."""
        fields, left_out = dict(self._fields), sum(self._left_out_sizes.values())
        if (content := self._terminal_content) is not None:
            fields["content"], missing = terminals.resolve(content, keeps_agent_terminals=self._has_agent_terminals)
            left_out += missing
            if self._limit:
                left_out += sum(truncate.cut_fields(fields, self._limit).values())
        return fields, left_out

    def _add_notice(self, fields: Members, notice: str) -> None:
        """Add the notice to the content; or, if that would replace what an earlier turn sent, put it in place of a
        value that was left out."""
        if self._is_whole or "content" in fields or "content" in self._left_out_sizes:
            items = raw_members.split_array(fields.get("content", b"[]"))
            fields["content"] = raw_members.join_array([*items, raw_members.encode_text_item(notice)])
            return
        for name in _ANY_VALUE_FIELDS:
            if name in self._left_out_sizes:
                fields[name] = jsonrpc.dump(notice)


class _UnfoldedUpdates:
    """A call's updates, unfolded. What goes beyond the limit is folded and cut, and a notice says how much is lost."""

    def __init__(self, session_id: str, id: str, limit: int, *, is_new: bool) -> None:
        """``is_new``: the first update begins the call."""
        self._session_id = session_id
        self._id = id
        self._limit = limit
        self._is_new = is_new
        self._calls: list[CallStatement] = []
        self._size = 0
        self._folded_rest: FoldedCall | None = None
        self._folded_size = 0
        self._content = ContentWithTerminals("", b"[]")

    def add(self, call: CallStatement) -> None:
        size = call.size if call.line is None else len(call.line)
        self._size += size
        if call.sets_content:
            self._content = ContentWithTerminals(call.run, call.fields.get("content", b"[]"))
        if not self._limit or self._size <= self._limit:
            self._calls.append(call)
            return
        if self._folded_rest is None:
            is_whole = self._is_new and not self._calls
            self._folded_rest = FoldedCall(
                self._session_id, self._id, self._limit, is_whole=is_whole, has_agent_terminals=True
            )
        self._folded_size += size
        self._folded_rest.fold(call)

    def encode(self, terminals: ReplayedTerminals, *, failed: bool) -> list[bytes]:
        lines, is_new = [], self._is_new
        for call in self._calls:
            line = tool_calls.encode_statement(self._session_id, call, is_start=call.is_start or is_new)
            is_new = False
            if line is not None:
                lines.append(
                    terminals.fill_line(line, call.run, keeps_agent_terminals=True) if call.shows_terminal else line
                )
        if self._folded_rest is not None:
            lines += self._encode_with_notice(self._folded_rest.encode(terminals, failed=False), terminals)
        return (
            [*lines, tool_calls.encode_update(self._session_id, self._id, {"status": tool_calls.FAILED}, {})]
            if failed
            else lines
        )

    def _encode_with_notice(self, folded_lines: list[bytes], terminals: ReplayedTerminals) -> list[bytes]:
        content, _ = terminals.resolve(self._content, keeps_agent_terminals=True)
        notice = truncate.make_notice(self._session_id, max(self._folded_size - sum(map(len, folded_lines)), 0))
        items = raw_members.join_array(
            [*truncate.shorten_array(content, self._limit), raw_members.encode_text_item(notice)]
        )
        return [*folded_lines, tool_calls.encode_update(self._session_id, self._id, {"content": items}, {})]


def _measure(fields: Members) -> int:
    return sum(map(len, fields.values()))
