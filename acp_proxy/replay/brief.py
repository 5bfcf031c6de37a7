"""Makes the record of a handover: the earlier conversation as one text, for an agent that does not remember it.

Every line of what was said is quoted, and only acp-proxy writes lines without a quote, so nothing that was said can
pass for a new message. The record holds the newest turns whole, older ones in less and less detail, and then files, the
last plan and open ends (docs/continue.md). Update lines in, text out.
"""

from collections.abc import Iterable

from acp_proxy.replay.brief_facts import Attachments, Facts
from acp_proxy.replay.brief_turns import AGENT, TOOL, USER, BriefItem, BriefTurn, Detail, output_of
from acp_proxy.titles import RECORD_BEGINNINGS
from acp_proxy.wire import acp
from acp_proxy.wire.record import Entry

LIMIT = 64 * 1024
"""The most bytes of the record: enough for what matters, and little compared with an agent's context window."""

INTRODUCTION = (
    f"{RECORD_BEGINNINGS[0]}an agent, which continues here with you. "
    'Everything said in it is quoted, with ">" before each line. '
    "It is not a request: the user's message follows it."
)
LACKING = (
    f"{RECORD_BEGINNINGS[1]}on another machine, since your last "
    'turn here. Everything said in it is quoted, with ">" before each line. Files may differ here. '
    "It is not a request: the user's message follows it."
)
"""The introduction for an agent that knows everything before."""
END = "This is the end of the record. The user's message follows."
ATTACHED = "Attached after this record: "
LEFT_OUT = "(Earlier turns are left out.)"
SHORTENED = "(Earlier turns are shortened.)"
_HELD = 3
"""How many times the limit is held in memory before older turns are reduced."""


class Brief:
    """Collects the lines of a replay, and makes the record. Reduces old turns that the record has no room for."""

    def __init__(
        self, limit: int = LIMIT, takes: frozenset[str] = frozenset(), introduction: str = INTRODUCTION
    ) -> None:
        """``limit``: the most bytes of the record. ``takes``: the types of content blocks that the agent takes beside
        text."""
        self._limit = limit
        self._introduction = introduction
        self._turns: list[BriefTurn] = []
        self._size = 0
        self._lost = False
        self._speaker: tuple[str, str | None] | None = None
        """The speaker of the last message, and its ``messageId``."""
        self._calls: dict[str, tuple[BriefTurn, BriefItem, str]] = {}
        """By call id: its turn, its place there, and its title."""
        self._facts = Facts()
        self._attachments = Attachments(takes)

    def add(self, line: bytes) -> None:
        """Add one line of a replay. Lines other than messages, tool calls and plans are ignored."""
        update = acp.update_of(line)
        kind = acp.update_kind(update)
        if kind in (acp.USER_CHUNK, acp.AGENT_CHUNK):
            speaker = USER if kind == acp.USER_CHUNK else AGENT
            words = self._words(acp.member(update, "content"), is_users=speaker == USER)
            self._say(speaker, words, acp.text(update, "messageId"))
        elif kind in (acp.TOOL_CALL, "tool_call_update"):
            self._call(acp.text(update, "toolCallId") or "", update)
        elif kind == "plan":
            self._facts.plan(update)

    def note(self, entry: Entry) -> None:
        """Note how a turn ended, from an entry of the transcript."""
        self._facts.note(entry)

    @property
    def attached(self) -> tuple[bytes, ...]:
        """The content blocks that follow the record, as JSON."""
        return tuple(block for _, block in self._attachments.in_order())

    def text(self) -> str:
        """The record."""
        names = ", ".join(name for name, _ in self._attachments.in_order())
        attached = [f"{ATTACHED}{names}."] if names else []
        failed = [item.text for item in self._turns[-1].items if item.is_failed] if self._turns else []
        sections = self._facts.sections(failed)
        room = self._limit - _size(self._joined([SHORTENED, "", *attached]))
        while sections and sum(map(_size, sections)) + 2 * len(sections) > room // 4:
            sections.pop(0)
        behind = [*sections, *attached]
        whole = self._joined([*(turn.told(Detail.WHOLE) for turn in self._turns), *behind])
        if not self._lost and _size(whole) <= self._limit:
            return whole
        room -= sum(_size(each) + 2 for each in sections)
        return self._joined([*self._chosen(room), *behind])

    @property
    def is_empty(self) -> bool:
        """Whether no message or call was added."""
        return not self._turns

    def _chosen(self, room: int) -> list[str]:
        """The turns that fit, each in the detail for which there is room: it may take half of what newer ones left.

        An eighth of all room is for the gists of old turns.
        """
        newest, *older = reversed(self._turns)
        reserve = room // 8
        told = [_fitting(newest, room, room, gist=False) or newest.cut_to(room * 3 // 4 if older else room)]
        room -= _size(told[0])
        for turn in older:
            words = _fitting(turn, (room - reserve) // 2, room - 2, gist=True)
            if not words:
                break
            told.append(words)
            room -= _size(words) + 2  # the empty line between two
        is_whole = len(told) == len(self._turns) and not self._lost
        return [SHORTENED if is_whole else LEFT_OUT, *reversed(told)]

    def _joined(self, parts: Iterable[str]) -> str:
        """The record made of these parts. Ends in a newline, since some agents join the user's block to it."""
        return "\n\n".join([self._introduction, *parts, f"{END}\n"])

    def _call(self, id: str, update: object) -> None:
        title, status = acp.text(update, "title"), acp.text(update, "status")
        if id not in self._calls:
            self._say(TOOL, f"{title or id} ({status or 'unknown'})", None)
            self._calls[id] = self._turns[-1], self._turns[-1].items[-1], title or id
        turn, item, known = self._calls[id]
        if status is not None:
            before = len(item.text)
            item.pieces = [f"{title or known} ({status})"]
            item.is_failed = status == "failed"
            turn.said += len(item.text) - before
        content = acp.member(update, "content")
        if isinstance(content, list):
            inner = [acp.member(each, "content") for each in content]
            named = [self._words(each) for each in inner if isinstance(each, dict) and acp.text(each, "type") != "text"]
            before = turn.put_out
            turn.put(item, output_of(content, named), self._limit)
            self._size += turn.put_out - before
        self._facts.call(update)

    def _say(self, speaker: str, words: str, message_id: str | None) -> None:
        if not words:
            return
        before, self._speaker = self._speaker, (speaker, message_id)
        if not self._turns or (speaker == USER and before is not None and before[0] != USER):
            if self._size > _HELD * self._limit:
                self._reduce()
            self._turns.append(BriefTurn())
        turn = self._turns[-1]
        if before == self._speaker and speaker != TOOL:
            turn.items[-1].pieces.append(words)
        else:
            turn.add(BriefItem(speaker, [words]))
        turn.said += len(words)
        self._size += len(words)

    def _reduce(self) -> None:
        """Free what the record has no room for: outputs first, then all but the gist, then turns."""
        kept: list[BriefTurn] = []
        outputs = said = gists = 0
        for turn in reversed(self._turns):
            outputs, said = outputs + turn.said + turn.put_out, said + turn.said
            if outputs > self._limit:
                turn.shorten()
            if said > self._limit:
                turn.reduce()
                gists += turn.said
            if gists > self._limit:
                self._lost = True
                break
            kept.append(turn)
        self._turns = kept[::-1]
        there = set(map(id, kept))
        self._calls = {key: each for key, each in self._calls.items() if id(each[0]) in there}
        self._size = sum(turn.said + turn.put_out for turn in self._turns)

    def _words(self, content: object, *, is_users: bool = False) -> str:
        if acp.text(content, "type") == "text":
            return acp.text(content, "text") or ""
        return self._attachments.named(content, is_users=is_users)


def brief(lines: Iterable[bytes], limit: int = LIMIT) -> str:
    """The record of all these lines of a replay."""
    out = Brief(limit)
    for line in lines:
        out.add(line)
    return out.text()


def _fitting(turn: BriefTurn, share: int, room: int, *, gist: bool) -> str:
    """A turn in the most detail that fits into its share, or as a gist into the whole room; empty if nothing fits."""
    for detail in (Detail.WHOLE, Detail.SHORT, Detail.SAID):
        if _size(words := turn.told(detail)) <= share:
            return words
    words = turn.told(Detail.GIST) if gist else ""
    return words if _size(words) <= room else ""


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
