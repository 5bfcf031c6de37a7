"""The page of all exported sessions: by project and day, with a search that runs in the page itself.

It works from a file. Its policy allows one script and two styles, by their hashes, and nothing else; all text of
sessions is escaped. Without scripts, it is a list of links.

The search finds words in titles, directories, names of agents, and in what ``acp-proxy search`` searches: what the user
and the agents said, thoughts, plans, titles of tool calls and why one failed. For that the page has each word once,
with the numbers of the sessions that contain it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from itertools import chain, groupby
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from acp_proxy import __version__
from acp_proxy.protocol import acp
from acp_proxy.tools.export import html
from acp_proxy.tools.export.html import make_policy, render_beginning, render_facts
from acp_proxy.views.conversation import ConversationTurn, Item, Plan, SpokenMessage, ToolCall, read_words
from acp_proxy.views.document import Choices, select_turns
from acp_proxy.views.formatting import format_clock_time, format_count, format_day, strip_markdown
from acp_proxy.views.passages import find_shown_reason
from acp_proxy.views.sanitize import clean_text, join_lines, normalize_unicode

_MOST_WORDS = 8 * 1024 * 1024
"""Characters of words in a page: a browser opens that from a disk in a moment. A session in which 20 kB were said adds
1.6 kB, so these are some 5,000. Older sessions are then found by their titles alone, and the page says so."""
_LONGEST_WORD = 40
"""Characters of a word. What is longer is data: base64, or a line of punctuation."""
_WORD = re.compile(rf"(?<!\w)\w{{2,{_LONGEST_WORD}}}(?!\w)")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_UNSAFE = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"}
"""What JSON in a page must not contain: it could end the element."""


class IndexEntry(Struct, frozen=True):
    """A session on the page. ``file``: the name of its page. ``updated``: in the form of transcripts."""

    file: str
    title: str
    agent: str
    cwd: str
    updated: str
    turns: int
    is_copy: bool = False


class WordIndex:
    """The words of sessions, each with the sessions that contain it. ``count``: the sessions that were added."""

    def __init__(self, most_characters: int = _MOST_WORDS) -> None:
        """``most_characters``: of words in the page; no session is added beyond that."""
        self.count = 0
        self._most_characters = most_characters
        self._size = 0
        self._sessions: dict[str, list[int]] = {}

    @property
    def has_room(self) -> bool:
        return self._size < self._most_characters

    def add(self, words: Iterable[str]) -> None:
        """Add the words of the next session."""
        for word in words:
            self._size += 2  # in frequent words, a distance is one digit and a comma
            if word not in self._sessions:
                self._sessions[word] = []
                self._size += len(word)
            self._sessions[word].append(self.count)
        self.count += 1

    def encode(self) -> str:
        """JSON for the page: the words, and for each the distances between its sessions' numbers, in base 36."""
        words = sorted(self._sessions)
        lists = (",".join(map(_encode_number, _list_gaps(self._sessions[word]))) for word in words)
        return _encode_json({"words": " ".join(words), "sessions": " ".join(lists), "count": self.count})


def collect_words(turns: Iterable[ConversationTurn], choices: Choices) -> set[str]:
    """The words that ``acp-proxy search`` searches without options, in lower case, as far as they are exported."""
    words: set[str] = set()
    for turn in select_turns(turns, choices):
        for text in (turn.error or "", *chain.from_iterable(_list_texts(item, choices) for item in turn.items)):
            words.update(_WORD.findall(normalize_unicode(clean_text(text)).lower()))
    return words


def _list_texts(item: Item, choices: Choices) -> Iterator[str]:
    match item:
        case SpokenMessage():
            yield "".join(map(read_words, item.blocks))  # parts of a message may split a word, so they are joined
        case ToolCall():
            yield acp.text(item.fields, "title") or ""
            if choices.tools == "full":
                yield find_shown_reason(item) or ""
        case Plan():
            yield from (acp.text(entry, "content") or "" for entry in item.entries)


def render_index(entries: Sequence[IndexEntry], words: WordIndex) -> Iterator[str]:
    """The page, piece by piece. ``entries``: newest first. ``words``: the words of the first of them, in this order."""
    numbers = {entry.file: number for number, entry in enumerate(entries)}
    projects: dict[str, list[IndexEntry]] = {}
    for entry in entries:
        projects.setdefault(entry.cwd, []).append(entry)
    policy = make_policy(styles=(html.read_style(), read_style()), scripts=(_read("index.js"),))
    style = f"<style>{read_style()}</style>\n"
    yield render_beginning("Conversations", policy, has_contents=len(projects) > 1, extra_head=style)
    yield _render_head(entries, projects, words)
    if len(projects) > 1:
        yield '<nav class="contents" aria-label="Projects">\n<details open><summary>Projects</summary>\n<ol>\n'
        for number, (cwd, group) in enumerate(projects.items(), 1):
            yield f'<li><a href="#project-{number}"><span>{len(group)}</span><bdi>{_name_project(cwd)}</bdi></a></li>\n'
        yield "</ol>\n</details>\n</nav>\n"
    yield "<main>\n"
    for number, (cwd, group) in enumerate(projects.items(), 1):
        id = f"project-{number}"
        yield f'<section class="project" id="{id}" aria-labelledby="{id}-head">\n'
        yield f'<h2 id="{id}-head"><bdi>{_name_project(cwd)}</bdi></h2>\n'
        for date, entries_of_day in groupby(group, lambda entry: format_day(entry.updated)):
            yield f'<div class="day"><h3>{date or "At an unknown time"}</h3>\n<ul class="sessions">\n'
            yield from (_render_entry(entry, numbers[entry.file]) for entry in entries_of_day)
            yield "</ul></div>\n"
        yield "</section>\n"
    footer = f"Exported by acp-proxy {__version__}. Times are those of the machine that exported this."
    yield f'</main>\n<footer class="foot">{footer}</footer>\n</div>\n'
    yield f'<script type="application/json" id="words">{words.encode()}</script>\n'
    yield f"<script>{_read('index.js')}</script>\n</body>\n</html>\n"


def _render_head(entries: Sequence[IndexEntry], projects: dict[str, list[IndexEntry]], words: WordIndex) -> str:
    facts = {
        "Sessions": len(entries),
        "Projects": len(projects),
        "Agents": len({entry.agent for entry in entries}),
    }
    rows = "".join(f"<div><dt>{name}</dt><dd>{count:,}</dd></div>" for name, count in facts.items())
    older = "" if words.count == len(entries) else f" Of all but the newest {words.count:,}, it finds only the titles."
    return (
        f'<header class="head">\n<h1>Conversations</h1>\n<dl>{rows}</dl>\n'
        '<div class="search" id="search" role="search" hidden>\n<label class="hidden" for="asked">Search</label>\n'
        '<input id="asked" type="search" placeholder="Search  ( / )" aria-describedby="how" autocomplete="off"'
        ' autocapitalize="none" spellcheck="false">\n'
        f'<p id="how">Finds words in conversations, titles, directories and agents.{older}</p>\n'
        '<p id="found" role="status"></p>\n</div>\n</header>\n'
    )


def _render_entry(entry: IndexEntry, number: int) -> str:
    title = strip_markdown(join_lines(entry.title)) or "(no title)"
    facts = [
        f'<time datetime="{escape(entry.updated)}">{format_clock_time(entry.updated)}</time>'
        if format_day(entry.updated)
        else "",
        f"<bdi>{escape(join_lines(entry.agent))}</bdi>",
        format_count(entry.turns, "turn"),
        "copy" if entry.is_copy else "",
    ]
    return (
        f'<li data-number="{number}"><a href="{quote(entry.file)}" dir="auto">{escape(title)}</a>'
        f"{render_facts(facts)}</li>\n"
    )


def _name_project(cwd: str) -> str:
    return escape(join_lines(cwd)) or "No directory"


def _encode_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda match: _UNSAFE[match[0]], text)


def _list_gaps(numbers: Sequence[int]) -> Iterator[int]:
    return (number - previous for previous, number in zip((0, *numbers), numbers, strict=False))


def _encode_number(number: int) -> str:
    digits = ""
    while number >= len(_DIGITS):
        number, remainder = divmod(number, len(_DIGITS))
        digits = _DIGITS[remainder] + digits
    return _DIGITS[number] + digits


def read_style() -> str:
    """What the page needs beyond the style of a conversation."""
    return _read("index.css")


@cache
def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
