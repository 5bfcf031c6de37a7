"""What an excerpt shows of a turn: the lines and sentences in which the words were found, without marks of Markdown."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from acp_proxy.tools.search.query import ASIDE, BEGIN, BETWEEN, END, TurnPart, join_words
from acp_proxy.views.formatting import strip_markdown

_LONGEST_EXCERPT = 240
"""Characters of an excerpt, as far as it is of several passages: three lines in a terminal."""
_LONGEST_PASSAGE = 160
_MOST_PASSAGES = 3
_CUT_WORD = 20
"""Characters of a word that is left out of an excerpt instead of being cut."""

_BETWEEN = " · "
"""Shown between messages, or titles of tool calls."""
_LEFT_OUT = " … "
"""Shown between passages of one message that are no sentences, or do not follow each other."""

_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*(.*)")
_ALONE = re.compile(
    r"\s*(?:\|(?P<row>.*)|#{1,6}\s+(?P<heading>.*)|(?:[-*+]\s+|>\s?)+(?P<item>.*)|(?P<number>\d+[.)]\s.*))"
)
"""A line of Markdown that does not continue the one before it."""
_SPECIAL = frozenset("`~|#-*+>0123456789")
"""What these lines, and fences, begin with."""
_INLINE = re.compile(r"[`*\[]")
_RULE = re.compile(r"[\s|:=*_-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")  # Chinese and Japanese have no space there
_MARK = re.compile(f"{BEGIN}([^{END}]*){END}")


@dataclass(frozen=True, slots=True)
class _Passage:
    """Some lines or sentences with words that were found, which ``BEGIN`` and ``END`` enclose. ``message``, ``place``:
    its message in the turn, and its place in that. ``words``: what was found, each once."""

    message: int
    place: int
    text: str
    words: frozenset[str]


def make_excerpt_text(texts: Iterable[tuple[str, str]]) -> tuple[str, list[tuple[int, int]]]:
    """An excerpt of these columns of a turn, each with its name, as one line; and where its matches are."""
    columns = list(texts)
    passages = list(_find_passages(columns))
    if not passages:  # the words are not in these columns any more
        return _shorten(" ".join(columns[0][1].replace(BETWEEN, " ").split()), [], _LONGEST_PASSAGE)
    chosen = _choose(passages)
    longest = min(_LONGEST_PASSAGE, _LONGEST_EXCERPT // len(chosen))
    if sum(len(passage.text) for passage in chosen) <= _LONGEST_EXCERPT:
        longest = _LONGEST_PASSAGE
    text, marks = "", list[tuple[int, int]]()
    before: _Passage | None = None
    for passage in chosen:
        shown, places = _split_marks(passage.text, longest)
        text += _separate(before, passage, text, shown) if before is not None else ""
        marks += [(len(text) + begins, len(text) + ends) for begins, ends in places]
        text += shown
        before = passage
    return text, marks


def _separate(before: _Passage, passage: _Passage, text: str, shown: str) -> str:
    if before.message != passage.message:
        return _BETWEEN
    goes_on = before.place + 1 == passage.place and text.endswith((".", "!", "?", ":", ",", ";"))
    return " " if goes_on or text.endswith("…") or shown.startswith("…") else _LEFT_OUT


def _choose(passages: Sequence[_Passage]) -> list[_Passage]:
    """A few that have all words, in order: first the one with the most of them, and of several the first; and as many
    others as fit on two lines."""
    chosen, left = list[_Passage](), set[str]().union(*(passage.words for passage in passages))
    while left and len(chosen) < _MOST_PASSAGES:
        best = max(passages, key=lambda passage: len(passage.words & left))
        chosen.append(best)
        left -= best.words
    room = _LONGEST_PASSAGE - sum(len(passage.text) for passage in chosen)
    for passage in passages:
        if passage not in chosen and len(passage.text) <= room:
            chosen.append(passage)
            room -= len(passage.text)
    return sorted(chosen, key=lambda passage: (passage.message, passage.place))


def _find_passages(columns: Iterable[tuple[str, str]]) -> Iterator[_Passage]:
    """The passages with a match."""
    number = 0
    for column, text in columns:
        for message in text.split(BETWEEN):
            number += 1
            if BEGIN in message:
                for place, passage in enumerate(_divide(column, join_words(message))):
                    if BEGIN in passage:
                        yield _Passage(number, place, passage, frozenset(_MARK.findall(passage.casefold())))


def _divide(column: str, message: str) -> Iterator[str]:
    """The passages of a message."""
    if column in (TurnPart.TOOLS, TurnPart.OUTPUT):
        yield from filter(None, (" ".join(line.split()) for line in _keep_marks_whole(message.split("\n"))))
        return
    has_paragraphs = column != ASIDE  # a line of why a call failed stands for itself
    for paragraph in _keep_whole(_divide_markdown(message, has_paragraphs=has_paragraphs), ends_open=_introduces):
        if BEGIN not in paragraph:
            yield ""
        elif len(text := " ".join(paragraph.split())) <= _LONGEST_PASSAGE:
            yield text
        else:
            yield from _join_sentences(_keep_marks_whole(_SENTENCE_END.split(text)))


def _divide_markdown(message: str, *, has_paragraphs: bool) -> Iterator[str]:
    """The paragraphs, items, headings and rows, and the lines of code."""
    paragraph, is_code = list[str](), False
    for line in message.split("\n"):
        is_special = line.lstrip()[:1] in _SPECIAL
        fence = _FENCE.match(line) if is_special else None
        alone = _ALONE.match(line) if is_special and not is_code else None
        if paragraph and (fence is not None or alone is not None or not (has_paragraphs and line.strip())):
            yield _strip_inline(" ".join(paragraph))
            paragraph = []
        if fence is not None:
            is_code = not is_code
            if BEGIN in fence[1]:
                yield fence[1]
        elif is_code:
            yield line
        elif alone is not None and alone["row"] is not None:
            cells = (_strip_inline(cell.strip()) for cell in alone["row"].split("|"))
            yield ", ".join(cell for cell in cells if _RULE.fullmatch(cell) is None)
        elif alone is not None and alone["heading"] is not None:
            yield _strip_inline(alone["heading"])
        elif _RULE.fullmatch(line) is None:
            paragraph.append(line if alone is None else alone["item"] or alone["number"] or "")
    if paragraph:
        yield _strip_inline(" ".join(paragraph))


def _strip_inline(text: str) -> str:
    return strip_markdown(text) if _INLINE.search(text) is not None else text  # most have none, and it takes long


def _has_open_mark(text: str) -> bool:
    return text.count(BEGIN) > text.count(END)


def _introduces(text: str) -> bool:
    """Whether it says nothing without what follows."""
    return _has_open_mark(text) or (BEGIN in text and text.rstrip().endswith(":"))


def _keep_marks_whole(passages: Iterable[str]) -> Iterator[str]:
    """The passages, joined where a phrase that was found goes on in the next one."""
    return _keep_whole(passages, ends_open=_has_open_mark)


def _keep_whole(passages: Iterable[str], *, ends_open: Callable[[str], bool]) -> Iterator[str]:
    waiting = ""
    for passage in passages:
        waiting = f"{waiting} {passage}" if waiting else passage
        if not ends_open(waiting):
            yield waiting
            waiting = ""
    if waiting:
        yield waiting


def _join_sentences(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences that follow each other, as many together as a passage may have."""
    together = ""
    for sentence in sentences:
        if together and len(together) + len(sentence) >= _LONGEST_PASSAGE:
            yield together
            together = ""
        together = f"{together} {sentence}" if together else sentence
    yield together


def _split_marks(text: str, longest: int) -> tuple[str, list[tuple[int, int]]]:
    """A passage without ``BEGIN`` and ``END``, and the positions of its matches."""
    pieces = re.split(f"[{BEGIN}{END}]", text)
    marks, at = [], 0
    for number, piece in enumerate(pieces):
        if number % 2:
            marks.append((at, at + len(piece)))
        at += len(piece)
    return _shorten("".join(pieces), marks, longest)


def _shorten(text: str, marks: list[tuple[int, int]], longest: int) -> tuple[str, list[tuple[int, int]]]:
    """At most so many characters, of whole words if these are not long; a third of them before the first match."""
    if len(text) <= longest:
        return text, marks
    begins, ends = marks[0] if marks else (0, 0)
    start = max(0, min(begins - longest // 3, len(text) - longest))
    end = start + longest
    if start and (space := text.find(" ", start - 1, min(start + _CUT_WORD, begins))) >= 0:
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", max(end - _CUT_WORD, ends), end + 1)) >= 0:
        end = space
    shown = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    shift = start - bool(start)
    return shown, [(begins - shift, min(ends, end) - shift) for begins, ends in marks if start <= begins < end]
