"""What the user should do about a finding."""

from acp_proxy.wire.value import Value


class Todo(Value):
    """``is_wrong`` False: nothing is broken; this is only advice."""

    text: str
    is_wrong: bool = True
