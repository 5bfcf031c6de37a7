"""What texts and updates are compared by: letters and digests.

In this package, *letters* are all characters but white space, digits and signs too, so that it does not matter how
texts were cut into chunks. Nothing here raises on foreign input.
"""

from collections.abc import Mapping

import orjson

from acp_proxy.protocol import acp, jsonrpc

SHORT_TEXT_LIMIT = 16
"""A text with fewer letters may be found anywhere by chance, so it counts only at the beginning of a message."""
DIGEST_MARK = "\0"
"""Stands around the digest that is taken for the letters of a block without text."""
_SIXTEEN_DIGITS = 0xFFFF_FFFF_FFFF_FFFF


def read_block_letters(block: object) -> str:
    """The letters of a text block, or a string made of the digest of any other block."""
    text = acp.text(block, "text") if acp.text(block, "type") in ("text", None) else None
    if text is not None:
        return acp.fold_letters(text)
    return f"{DIGEST_MARK}{digest(block).decode(errors='replace')}{DIGEST_MARK}" if isinstance(block, dict) else ""


def make_substitute_call(update: object) -> Mapping[str, object] | None:
    """The fields of a completed tool call that stands for an agent chunk without text, such as an image; else None."""
    content = acp.member(update, "content")
    if not isinstance(content, dict) or acp.text(content, "type") in ("text", None):
        return None
    return {"toolCallId": read_block_letters(content), "status": "completed"}


def digest(value: object) -> bytes:
    """A digest of a JSON value: equal values have equal digests within this process, whatever their key order."""
    try:
        dumped = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        dumped = jsonrpc.dump(value)
    return b"%x" % (hash(dumped) & _SIXTEEN_DIGITS)
