"""Foreign text for a document, without anything that controls a terminal or reorders text.

Terminal colours are removed completely. Any other control character, and any that is invisible or changes the direction
of text, becomes U+FFFD (``_UNFIT_CHARACTERS``). Terminals, recordings and documents show the same characters.

Patterns are compiled on first use: a list of sessions needs none.
"""

import json
import re
import unicodedata

from acp_proxy.protocol import acp
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views.formatting import format_title, shorten_home

# ECMA-48: control sequences (colours, cursor), operating system commands (titles, links), and other escapes.
_SEQUENCE = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]"
_UNFIT_CHARACTERS = (
    ("control characters", "\x00-\x08\x0b-\x1f\x7f-\x9f"),
    ("line and paragraph separators", "\u2028\u2029"),
    ("marks, overrides and isolates of the direction", "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"),
    ("spaces without width, and invisible joiners and operators", "\u200b\u2060-\u2065\ufeff"),
    ("soft hyphen, Mongolian vowel separator, Hangul fillers", "\xad\u180e\u3164\uffa0"),
    ("deprecated, interlinear and reserved formatting", "\u206a-\u206f\ufff0-\ufffb"),
    ("shorthand and musical formatting", "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"),
    ("tags: a whole alphabet that nobody sees", "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"),
    ("lone surrogates", "\ud800-\udfff"),
)
"""What no output for people shows: characters that control a terminal, reorder text or are invisible, since a person
cannot judge invisible text. What joins emoji and words stays (U+200C, U+200D)."""
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""One after a character chooses its form; more than one are data that nobody sees."""
_UNFIT = f"[{''.join(characters for _, characters in _UNFIT_CHARACTERS)}]|(?<=[{_SELECTORS}])[{_SELECTORS}]"
_LONG_MARKS = "([^\\w\x00-\x7f\u2000-\u20cf\u2100-\u2bff]{31,})"
"""More combining marks in a row than the 30 that Unicode's stream-safe format allows: no language has so many. The set
also has other characters, such as emoji; the excluded blocks of punctuation and symbols, as of lines, have no marks."""


_SHORT_COMMIT = 8  # digits of a commit that people see


def replace_unfit(text: str) -> str:
    """The text with U+FFFD for each of ``_UNFIT_CHARACTERS``."""
    return re.sub(_UNFIT, "\N{REPLACEMENT CHARACTER}", text)


def clean_text(text: str) -> str:
    """Foreign text for a document: without control sequences and unfit characters."""
    return replace_unfit(strip_sequences(text.replace("\r\n", "\n")))


def strip_sequences(text: str) -> str:
    """The output of a program, without its control sequences."""
    return re.sub(_SEQUENCE, "", text) if "\x1b" in text else text


def normalize_unicode(text: str) -> str:
    """The text in the normal form NFC. Longer runs of marks than ``_LONG_MARKS`` says stay as they are, since sorting
    one takes the square of its length."""
    parts = re.split(_LONG_MARKS, text)
    parts[::2] = (unicodedata.normalize("NFC", part) for part in parts[::2])
    return "".join(parts)


def join_lines(text: str) -> str:
    """Foreign text as one line of a document, with single spaces."""
    return " ".join(clean_text(text).split())


def shorten_path(path: str, cwd: str | None) -> str:
    """A path relative to the session's directory if it is inside."""
    path = join_lines(path)
    return path.removeprefix(cwd.rstrip("/\\") + "/") if cwd else path


_BEFORE_PATH, _AFTER_DIRECTORY = r"""(?<![^\s"'`(\[{<>=,|;&@“«\x02])""", r"""(?![\s"'`)\]}<>,|;&/\\”»\x03]|$)"""
"""Around a directory with which a path begins. A directory of the same name may be in the middle of another path or
address, or be all there is: without it, a command would be another one. Search marks what it found (\\x02, \\x03)."""


def shorten_paths(text: str, cwd: str | None) -> str:
    """A line with the paths that begin with the session's directory relative to it."""
    directory = (cwd or "").rstrip("/")
    return re.sub(f"{_BEFORE_PATH}{re.escape(directory)}/{_AFTER_DIRECTORY}", "", text) if directory else text


def find_uri(block: object) -> str:
    """The name of a resource or of a link to one."""
    return acp.text(block, "uri") or acp.text(acp.member(block, "resource"), "uri") or ""


# --- Text that may be printed to a terminal.
#
# Titles and transcripts come from other people: their text cannot control the terminal.


RUNNING = "running"
"""The mark of a session whose turn is running, in every list."""


def make_printable(text: str) -> str:
    """Text without control sequences, invisible characters and direction changes; line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    return replace_unfit(text.replace("\r\n", "\n").expandtabs())


def clean_output(text: str) -> str:
    """The output of a program, without its control sequences."""
    return make_printable(strip_sequences(text))


def make_line(text: str) -> str:
    """Text that may be printed, as one line."""
    return make_printable(text).replace("\n", " ")


def format_json(value: object, indent: int | None = None) -> str:
    """JSON in printable ASCII: control characters and DEL are escapes."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def format_heading(row: ListedSession, when: str | None = None, id: str | None = None, home: str = "") -> str:
    """A session's title, and a line about it.

    ``when``, ``id``: the displayed forms; None: the time as in the transcript, and the whole id. ``home``: the
    directory shown as ``~``.
    """
    copy = [f"a copy from {name_agent(row.copy_of)}"] if row.copy_of else []
    commit = row.git.commit[:_SHORT_COMMIT]
    git = [" at ".join(filter(None, (f"branch {row.git.branch}" if row.git.branch else "", commit)))]
    details = [
        id or row.selector,
        name_agent(row.agent_folder),
        *copy,
        shorten_home(row.cwd or "", home),
        *filter(None, git),
        when if when is not None else row.updated,
    ]
    if row.is_running:
        details.append(RUNNING)
    return make_line(format_title(row.title)) + "\n" + "  ".join(make_line(detail) for detail in details)
