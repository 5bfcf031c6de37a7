"""What there is to do about something that was found."""

from acp_proxy.wire.value import Value


class Todo(Value):
    """``is_wrong`` False: nothing is broken, and it would be better for it."""

    text: str
    is_wrong: bool = True
