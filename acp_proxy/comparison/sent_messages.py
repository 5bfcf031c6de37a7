"""The pieces of what an agent sends: updates, and the messages that adjacent chunks make."""

from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.comparison.letter_search import Span
from acp_proxy.protocol import acp, update_kinds, v2_updates
from acp_proxy.protocol.update_kinds import Role

_IDS = frozenset({"messageId", "toolCallId"})


class SentUpdate(Struct):
    """An update that the agent sent.

    ``line``: as it is recorded, and shown after the transcript: with the call id that the transcript has, and only the
    part of a thought that it lacks. ``original_line``: as the agent sent it, for a client that sees the agent's replay.
    ``is_after_an_answer``: it came after that. ``is_in_transcript``: the transcript has it, though not after the
    last known message. ``is_new_without_reply``: it is new if nothing known follows, even if the agent does not answer
    it: a user message, or the first thought of a turn without an answer. ``ends_call``: it ends a call that the
    transcript left unfinished in a turn that is over. ``tail_number``: the number of the tail to which it was added; 0
    for none.
    """

    line: bytes
    kind: str
    is_after_an_answer: bool
    original_line: bytes = b""
    is_in_transcript: bool = False
    is_new_without_reply: bool = False
    ends_call: bool = False
    tail_number: int = 0

    @property
    def role(self) -> Role:
        """What it is about."""
        return update_kinds.find(self.kind).role


class SentMessage:
    """Adjacent chunks of one message. ``chunks``: the letters of each. ``size``: how many letters in all."""

    def __init__(self, kind: str, message_id: str | None, *, follows_call: bool = False) -> None:
        """``message_id``: the ``messageId``, if there is one. ``follows_call``: a tool call came directly before."""
        self.kind = kind
        self.role = update_kinds.find(kind).role
        """Who speaks: the user or the agent, or the agent to itself."""
        self.message_id = message_id
        self.follows_call = follows_call
        self.chunks: list[str] = []
        self.size = 0
        self.updates: list[SentUpdate] = []
        self._joined: str | None = None
        self.span: Span | None = None
        """The place of all its letters in the transcript, if they have been looked for and found."""
        self.is_new = False
        """It is an agent message that was found to be new before it was complete."""
        self.searched_chunk_count = 0
        """How many of its first chunks are no user message of the transcript. It is looked for with each chunk that
        comes, but each chunk once."""
        self.is_known_without_reply = False
        """The transcript has it, and no words of the agent need to follow: it is a thought, or a user message with none
        after it in its turn."""
        self.is_repeated = False
        """It is a user message that the agent has sent before."""
        self.is_context = False
        """It is a user message that nobody typed."""

    @property
    def letters(self) -> str:
        """The letters of all chunks."""
        if self._joined is None or len(self._joined) != self.size:
            self._joined = "".join(self.chunks)
        return self._joined

    def find_updates_after(self, size: int) -> list[SentUpdate]:
        """The chunks that begin after the first ``size`` letters."""
        starts = accumulate((len(letters) for letters in self.chunks), initial=0)
        return [update for update, start in zip(self.updates, starts, strict=False) if start >= size]

    def find_chunk_at(self, position: int) -> str:
        """The letters of the chunk that begins after the first ``position`` letters; empty if none does."""
        starts = accumulate((len(letters) for letters in self.chunks), initial=0)
        return next((letters for letters, start in zip(self.chunks, starts, strict=False) if start == position), "")

    def without_first_letters(self, size: int) -> list[SentUpdate] | None:
        """The chunks after the first ``size`` letters; the chunk that has the last of these, without them.

        None if that chunk cannot be divided: it is no chunk of text, or its letters were masked in the transcript.
        """
        updates: list[SentUpdate] = []
        for update, letters in zip(self.updates, self.chunks, strict=True):
            if 0 < size < len(letters):
                text = acp.text(acp.member(acp.read_update(update.line), "content"), "text") or ""
                if acp.update_kind(acp.read_update(update.line)) != self.kind or acp.fold_letters(text) != letters:
                    return None
                try:
                    updates.append(
                        replace(update, line=acp.with_chunk_text(update.line, without_first_letters(text, size)))
                    )
                except (ValueError, KeyError):  # the line says something twice
                    return None
            elif size <= 0:
                updates.append(update)
            size -= len(letters)
        return updates

    def drop_first(self, count: int) -> "SentMessage":
        """The chunks after the first ``count``, as a message of their own."""
        message = SentMessage(self.kind, self.message_id)
        message.chunks, message.updates = self.chunks[count:], self.updates[count:]
        message.size = sum(map(len, message.chunks))
        return message


def without_first_letters(text: str, size: int) -> str:
    """The text after its first ``size`` letters, as ``acp.fold_letters`` counts them."""
    units = acp.divide_pairs(text)
    for position, unit in enumerate(units):
        if not size:
            rest = units[position:]
            return rest.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        size -= not unit.isspace()
    return ""


def read_update_as_v1(line: bytes) -> object:
    """The update of a line, in the form of version 1."""
    return v2_updates.normalize_to_v1(acp.read_update(line))


def read_without_ids(line: bytes) -> dict[str, object]:
    """What an update says, whatever its ids are: some agents give others in each replay."""
    update = read_update_as_v1(line)
    return {key: update[key] for key in update if key not in _IDS} if isinstance(update, dict) else {}
