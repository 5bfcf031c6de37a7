"""Foreign text for a document, without anything that controls a terminal or reorders text.

Terminal colours are removed completely. Any other control character, and any that changes the direction of text,
becomes U+FFFD. Characters that join emoji and words stay.

Patterns are compiled on first use: a list of sessions needs none.
"""

import re

from acp_proxy.wire import acp

# ECMA-48: control sequences (colours, cursor), operating system commands (titles, links), and other escapes.
_SEQUENCE = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]"
UNFIT = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
"""The characters, as a set of a regular expression."""
_UNFIT = f"[{UNFIT}]"


def plain(text: str) -> str:
    return re.sub(_UNFIT, "\N{REPLACEMENT CHARACTER}", without_sequences(text.replace("\r\n", "\n")))


def without_sequences(text: str) -> str:
    """The output of a program, without its control sequences."""
    return re.sub(_SEQUENCE, "", text) if "\x1b" in text else text


def one_line(text: str) -> str:
    return " ".join(plain(text).split())


def shortened(path: str, cwd: str | None) -> str:
    """A path relative to the session's directory if it is inside."""
    path = one_line(path)
    return path.removeprefix(cwd.rstrip("/\\") + "/") if cwd else path


def clock_time(stamp: str) -> str:
    """A transcript's time, to the minute."""
    return stamp[11:16] if re.match(_STAMP, stamp) else ""


def day(stamp: str) -> str:
    return stamp[:10] if re.match(_STAMP, stamp) else ""


_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"


def uri_of(block: object) -> str:
    """The name of a resource or of a link to one."""
    return acp.text(block, "uri") or acp.text(acp.member(block, "resource"), "uri") or ""
