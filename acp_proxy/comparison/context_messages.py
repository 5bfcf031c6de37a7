"""Knows the user messages that an agent adds to its replays: nobody typed them, so they are no part of what was said.

gemini has the context of a session and the outputs of its tools as user messages in its history, and replays them as
such. A message is such context if its form says so, or if the agent has put the same words where nobody can have said
them: before something that the transcript has.
"""

import re
from bisect import bisect_left

from acp_proxy.comparison.transcript_text import TranscriptText

_CONTEXT = re.compile(r"<(session_context|hook_context)>.*</\1>", re.DOTALL)
"""What gemini-cli 0.61 puts before a conversation. It does not take it for a message of the user's either."""
_FUNCTION_RESPONSES = re.compile(r"(\[FunctionResponse:[^\[\]]*\])+")
"""What gemini-cli 0.61 makes of the outputs of tools, as letters."""
_SESSION_BEGINS = ("<session_context>", "<hook_context>")
_OUTPUT_BEGINS = "[FunctionResponse:"


def has_context_form(letters: str, *, follows_call: bool) -> bool:
    """Whether a user message says by its form that it is context. ``follows_call``: a tool call came directly before.

    ``letters``: the message, without white space."""
    if _CONTEXT.fullmatch(letters):
        return True
    return follows_call and _FUNCTION_RESPONSES.fullmatch(letters) is not None


class ContextMessages:
    """The context messages of one comparison. Texts are letters, without white space."""

    def __init__(self, text: TranscriptText) -> None:
        self._text = text
        self._known_context: list[str] = []
        """What has come before something known, in the order of its letters."""
        self._suspected: list[str] = []

    def suspect(self, message: str) -> None:
        """A user message that the transcript lacks: it is context if something known follows."""
        self._suspected.append(message)

    def drop_suspected(self) -> None:
        """The agent begins its replay once more: what it has sent last may be new, and comes again."""
        self._suspected.clear()

    def confirm_suspected(self) -> None:
        """Something known follows."""
        for message in self._suspected:
            self.add(message)
        self._suspected.clear()

    def add(self, message: str) -> None:
        """The agent has sent this user message before something known."""
        if message and self._text.find_user_message(message, 0) is None:
            index = bisect_left(self._known_context, message)
            self._known_context[index:index] = [] if self._known_context[index : index + 1] == [message] else [message]

    def is_context(self, message: str, *, follows_call: bool) -> bool:
        """Whether this whole message is context. ``follows_call``: a tool call came directly before."""
        index = bisect_left(self._known_context, message)
        return self._known_context[index : index + 1] == [message] or self.looks_like_context(
            message, follows_call=follows_call
        )

    def looks_like_context(self, letters: str, *, follows_call: bool) -> bool:
        """Whether this message, or a chunk of one, says by its form that it is context. ``follows_call``: as for
        ``is_context``. A user who pastes context into a prompt has typed it."""
        return has_context_form(letters, follows_call=follows_call) and self._text.find_user_message(letters, 0) is None

    def may_begin(self, message: str, *, follows_call: bool) -> bool:
        """Whether context may begin like this. ``follows_call``: as for ``is_context``."""
        beginnings = (*_SESSION_BEGINS, _OUTPUT_BEGINS) if follows_call else _SESSION_BEGINS
        following = self._known_context[(index := bisect_left(self._known_context, message)) : index + 1]
        return message.startswith(beginnings) or any(
            beginning.startswith(message) for beginning in (*following, *beginnings)
        )
