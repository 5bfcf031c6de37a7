"""Finds the user messages that an agent replays among those of the transcript.

Agents add context to them, split one, or send several with nothing between them. So a message is found by its letters
where the replay has come to, or as the one with which the agent begins its replay once more.
"""

from itertools import accumulate

from acp_proxy.comparison.letter_search import SHORT
from acp_proxy.comparison.sent_messages import SentMessage
from acp_proxy.comparison.transcript_text import TranscriptText

_HALF_SHORT = SHORT // 2
"""A user message counts as the start of a longer one only if it has at least this many letters."""


class ReplayedUsers:
    """The user messages of one agent's replay. ``Comparison`` says where the replay has come to."""

    def __init__(self, text: TranscriptText) -> None:
        self._text = text
        self.next = 0
        """The index of the next user message, in ``text.users``."""
        self.known: set[int] = set()
        """The indexes of those that were sent."""
        self.has_begun = False
        """Something known has come, a user message or anything else: the first message begins another replay now."""
        self.has_restarted = False
        """The agent began its replay once more: what it sends now, the client may have seen."""
        self.first: int | None = None
        """The index of the user message with which the replay began, if the agent lacks those before it."""
        self.first_letters = ""
        """The letters of that message as the agent sent it, with context that it adds."""

    def find(self, message: SentMessage) -> int | None:
        """The index of a message that is complete, which may have context before it, or more messages behind it."""
        letters, users = message.text, self._text.users
        found = self.find_whole(letters)
        if found is not None:
            return found
        # With context that the agent added, or with the next message behind it. Only the next two: the further
        # on, the likelier it is that the words are there by chance.
        for number in range(self.next, min(self.next + 2, len(users))):
            for form in users[number].forms:
                if len(form) >= SHORT and form in letters:
                    return number
                rest = letters.removeprefix(form)
                if rest != letters and (len(form) >= _HALF_SHORT or self._follow_at_once(number, rest)):
                    return number
        # Several messages with nothing between them, each in its own chunk.
        chunks = (self.find_whole(each) for each in message.chunks)
        return next((found for found in chunks if found is not None), None)

    def find_whole(self, letters: str) -> int | None:
        """The index of the next user message that has these letters. One that the replay has passed may come next if it
        waited for the end of the turn, and others went into that."""
        passed = self._text.find_overtaken(letters, self.next)
        passed = [number for number in passed if self.has_restarted or number not in self.known]
        return passed[0] if passed else self._text.find_user(letters, self.next)

    def find_restart(self, letters: str, *, whole: bool = True) -> int | None:
        """The index of the message that begins another replay: the first one of the transcript, or the first one that
        the agent sent. ``whole``: the message is complete."""
        for number in (0, self.first) if self._text.users and self.has_begun else ():
            forms = self._text.users[number].forms if number is not None else ()
            if number is not None and number == self.first:
                forms = (*forms, self.first_letters)
            if any(form == letters if whole else form.startswith(letters) for form in forms):
                return number
        return None

    def is_whole(self, letters: str, following: str) -> bool:
        """Whether these are the letters of a user message from the next one on, or of one that begins another replay,
        and those that follow begin another message. A short one further on may be there by chance.

        What follows the last message of a turn that was cut may be context that the agent added to it.
        """
        users = self._text.users
        number = self.find_whole(letters)
        number = self.find_restart(letters) if number is None else number
        if number is None or (self._text.is_unfinished and number + 1 == len(users)):
            return False
        if any(form.startswith(letters + following) for user in users for form in user.forms):
            return False
        return (
            number == self.next
            or len(letters) >= _HALF_SHORT
            or any(form.startswith(following) for user in users[number:] for form in user.forms)
            or bool(self._text.find_overtaken(following, number + 1))
        )

    def find_end(self, message: SentMessage, number: int) -> int:
        """Where the user message with this index ends in one that begins with it, or has it as a chunk behind context;
        else the end of that."""
        forms = self._text.users[number].forms
        if begun := next((form for form in forms if message.text.startswith(form)), ""):
            return len(begun)
        ends = zip(message.chunks, accumulate(map(len, message.chunks)), strict=True)
        return next((end for letters, end in ends if letters in forms), len(message.text))

    def measure_next(self, message: SentMessage, at: int) -> int:
        """How many letters the transcript's next user message has, if it follows there at once, in chunks of its own
        or with all that follow it at once; else 0. Short messages count here: the transcript has nothing between the
        two, either."""
        if not self.next < len(self._text.users) or self._text.has_answer(self.next):
            return 0
        ends = {*accumulate(map(len, message.chunks))}
        forms = self._text.users[self.next].forms
        for form in filter(lambda form: message.text.startswith(form, at), forms):
            end = at + len(form)
            if end in ends or self._follow_at_once(self.next, message.text[end:]):
                return len(form)
        return 0

    def _follow_at_once(self, number: int, letters: str) -> bool:
        """Whether these are the letters of the user messages behind the one with this index, with nothing between."""
        users, ends = self._text.users, {0}
        while ends and number + 1 < len(users) and not self._text.has_answer(number + 1):
            number += 1
            forms = users[number].forms
            ends = {end + len(form) for end in ends for form in forms if letters.startswith(form, end)}
            if len(letters) in ends:
                return True
        return False
