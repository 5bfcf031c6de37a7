"""Terminals that tool calls refer to: they exist no longer, so what they had written is told in their place.

A terminal that the client made is noted in the transcript, and is known by the run that it was in: clients count from
the beginning in each. Its output is noted when its turn ends, seldom later; a call that was told without it is told
again then. What is carried from one turn to the next is bounded; beyond that there is the placeholder.
One that is not noted, of a call that keeps its output itself, is the agent's own: the client has the output from there,
so what refers to it stays.
"""

from collections.abc import Iterable, Mapping

from acp_proxy.replay import cutting, update_lines
from acp_proxy.replay.newest import Newest
from acp_proxy.wire import acp, jsonrpc
from acp_proxy.wire.value import Value

CARRIED = 1024 * 1024
"""Bytes of outputs, and of contents that wait for one, that are kept from one turn to the next."""
PLACEHOLDER = "[the output of this terminal was not recorded]"

_NO_LONGER_AWAITED = 1000  # terminals that are remembered though no call waits for them any more
_FENCE = "```"
_AROUND = 512  # room for what is said beside an output, so that how it ended is not what is cut
_Id = tuple[str, str]  # run, terminal


class TerminalContent(Value):
    """A content that refers to terminals, and the run in which they were."""

    run: str
    content: bytes


class _Noted(Value):
    text: str
    left_out: int


class ReplayedTerminals:
    def __init__(self, limit: int) -> None:
        """``limit``: bytes of one output that are kept at most; 0 for all."""
        self._limit = limit
        self._noted: Newest[_Id, _Noted] = Newest(CARRIED)
        self._waiting: Newest[str, TerminalContent] = Newest(CARRIED)
        self._awaited: dict[_Id, dict[str, None]] = {}
        """The calls that wait for an output, or did."""

    def note(self, run: str, note: Mapping[str, object]) -> dict[str, TerminalContent]:
        """What was recorded of one. Returns the calls that were told without it, with their contents."""
        id = acp.text(note, "terminalId")
        if id is None:
            return {}
        told = _told(note, self._limit)
        self._noted.put((run, id), told, len(told.text))
        calls = ((call, self._waiting.get(call)) for call in self._awaited.get((run, id), ()))
        return {call: shown for call, shown in calls if shown is not None and _refers(shown, run, id)}

    def resolved(self, shown: TerminalContent, *, own: bool = False) -> tuple[bytes, int]:
        """The content with outputs in place of terminals, and how many bytes of them are not there.

        ``own``: its call keeps the output of terminals itself.
        """
        told, left_out = [], 0
        for raw in update_lines.items(shown.content):
            item = update_lines.value(raw)
            id = shown.run, acp.text(item, "terminalId") or ""
            if acp.text(item, "type") == "terminal" and not (own and id not in self._noted):
                noted = self._noted.get(id) or _Noted(PLACEHOLDER, 0)
                raw, left_out = update_lines.text_item(noted.text), left_out + noted.left_out
            told.append(raw)
        return update_lines.array(told), left_out

    def in_line(self, line: bytes, run: str, *, own: bool) -> bytes:
        """An update's line with outputs in place of terminals; every other byte stays."""
        raw = line.removesuffix(b"\n")
        try:
            content = update_lines.content_of(raw)
            told = self.resolved(TerminalContent(run, content), own=own)[0]
            return update_lines.with_content(raw, told) + b"\n" if told != content else line
        except (ValueError, KeyError):
            return line

    def changed(self, call: str) -> None:
        """Its content is no longer what was told."""
        self._waiting.pop(call)

    def end_of_turn(self, told: Mapping[str, TerminalContent]) -> None:
        """``told``: the contents, by call, that refer to terminals. Remember which still lack an output."""
        waiting = [(call, shown) for call, shown in told.items() if self._lacks(shown)]
        for call, shown in waiting:
            self._waiting.put(call, shown, len(shown.content))
        self._await(waiting)
        self._waiting.trim()
        if len(self._awaited) > 2 * len(self._waiting) + _NO_LONGER_AWAITED:
            self._awaited.clear()
            self._await(self._waiting.items())
        self._noted.trim()

    def _await(self, waiting: Iterable[tuple[str, TerminalContent]]) -> None:
        for call, shown in waiting:
            for id in _shown_in(shown):
                self._awaited.setdefault((shown.run, id), {})[call] = None

    def _lacks(self, shown: TerminalContent) -> bool:
        return any((shown.run, id) not in self._noted for id in _shown_in(shown))


def _shown_in(shown: TerminalContent) -> set[str]:
    """The terminals that a content refers to."""
    values = [update_lines.value(raw) for raw in update_lines.items(shown.content)]
    ids = [acp.text(value, "terminalId") for value in values if acp.text(value, "type") == "terminal"]
    return {id for id in ids if id is not None}


def _refers(shown: TerminalContent, run: str, id: str) -> bool:
    """What a call shows may have changed since it was awaited."""
    return shown.run == run and id in _shown_in(shown)


def _told(note: Mapping[str, object], limit: int) -> _Noted:
    """The output, fenced so that editors show it as it was, and how the command ended."""
    output, ending = acp.text(note, "output"), _ending(note.get("exitStatus"))
    if output is None:
        return _Noted("\n".join(filter(None, (PLACEHOLDER, ending))), 0)
    kept = cutting.shortened(output, max(limit - _AROUND, 0)) if limit else output
    left_out = len(jsonrpc.dump(output)) - len(jsonrpc.dump(kept)) if len(kept) < len(output) else 0
    fence = _FENCE
    while fence in kept:
        fence += "`"
    cut = "[the terminal kept only the end of its output]" if note.get("truncated") is True else None
    body = "\n".join((fence, kept.removesuffix("\n"), fence))
    return _Noted("\n".join(filter(None, (cut, body, ending))), left_out)


def _ending(status: object) -> str | None:
    code, signal = acp.member(status, "exitCode"), acp.text(status, "signal")
    if isinstance(code, int) and not isinstance(code, bool):
        return f"[exited with code {code}]"
    return f"[ended by {signal}]" if signal is not None else None
