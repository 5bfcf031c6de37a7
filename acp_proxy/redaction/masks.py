"""What is in place of a masked secret: the words, and as many stars as make it as long as the secret."""

import re

MASK_START = "[redacted]"
CUT_OFF = "[redacted private key]"
"""The mask of a private key without its end: the next chunk still belongs to the key."""
_STARTS = "|".join(map(re.escape, (MASK_START, CUT_OFF)))
MASK_IN_TEXT = re.compile(rf"(?:{_STARTS})\**+")
"""A mask that has words: stars alone may be Markdown's."""
MASK = re.compile(rb"(?:%s)\**+|\*++" % _STARTS.encode())
"""A mask in bytes. Of a secret that is spread over chunks, only the first part has words; a short one has none."""


def make_mask(size: int, mask_start: str) -> bytes:
    """The mask of ``size`` bytes."""
    return (mask_start.encode() if size >= len(mask_start) else b"").ljust(size, b"*")
