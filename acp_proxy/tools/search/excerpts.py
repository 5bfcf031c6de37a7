"""What an excerpt shows of a turn: the lines and sentences in which the words were found, without marks of Markdown."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from acp_proxy.tools.search.query import ASIDE_COLUMN, BEGIN, BETWEEN, END, TurnPart, join_words
from acp_proxy.views.formatting import strip_markdown

_LONGEST_EXCERPT = 240
"""Characters of an excerpt, as far as it is of several passages: three lines in a terminal."""
_LONGEST_PASSAGE = 160
_MOST_PASSAGES = 3
_LONGEST_CUT_WORD = 20
"""Characters of a word that is left out of an excerpt instead of being cut."""

_SHOWN_SEPARATOR = " · "
"""Shown between messages, or titles of tool calls."""
_ELLIPSIS = " … "
"""Shown between passages of one message that are no sentences, or do not follow each other."""

_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*(.*)")
_SINGLE_LINE = re.compile(
    r"\s*(?:\|(?P<row>.*)|#{1,6}\s+(?P<heading>.*)|(?:[-*+]\s+|>\s?)+(?P<item>.*)|(?P<number>\d+[.)]\s.*))"
)
"""A line of Markdown that does not continue the one before it."""
_FIRST_CHARACTERS = frozenset("`~|#-*+>0123456789")
"""With which such lines, and fences, begin."""
_INLINE = re.compile(r"[`*\[]|~~|(?<!\w)_")
_FOUND_TARGET = re.compile(rf"!?\[([^\[\]]+)\]\(([^()\s]*[{BEGIN}{END}][^()\s]*)\)")
"""A link or an image with a match in its target, which is no mark then."""
_RULE = re.compile(r"[\s|:=*_-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")  # Chinese and Japanese have no space there
_MARK = re.compile(f"{BEGIN}([^{END}]*){END}")


@dataclass(frozen=True, slots=True)
class _Passage:
    """Some lines or sentences with words that were found, which ``BEGIN`` and ``END`` enclose. ``message``, ``index``:
    its message in the turn, and its place in that. ``words``: what was found, each once."""

    message: int
    index: int
    text: str
    words: frozenset[str]


def make_excerpt_text(texts: Iterable[tuple[str, str]]) -> tuple[str, list[tuple[int, int]]]:
    """An excerpt of these columns of a turn, each with its name, as one line; and where its matches are."""
    columns = list(texts)
    passages = list(_find_passages(columns))
    if not passages:  # the words are not in these columns any more
        return _shorten(" ".join(columns[0][1].replace(BETWEEN, " ").split()), [], _LONGEST_PASSAGE)
    chosen = _choose_passages(passages)
    longest_passage = min(_LONGEST_PASSAGE, _LONGEST_EXCERPT // len(chosen))
    if sum(len(passage.text) for passage in chosen) <= _LONGEST_EXCERPT:
        longest_passage = _LONGEST_PASSAGE
    text, marks = "", list[tuple[int, int]]()
    previous: _Passage | None = None
    for passage in chosen:
        passage_text, passage_marks = _split_marks(passage.text, longest_passage)
        text += _choose_separator(previous, passage, text, passage_text) if previous is not None else ""
        marks += [(len(text) + begins, len(text) + ends) for begins, ends in passage_marks]
        text += passage_text
        previous = passage
    return text, marks


def _choose_separator(previous: _Passage, passage: _Passage, excerpt_text: str, passage_text: str) -> str:
    if previous.message != passage.message:
        return _SHOWN_SEPARATOR
    follows = previous.index + 1 == passage.index and excerpt_text.endswith((".", "!", "?", ":", ",", ";"))
    return " " if follows or excerpt_text.endswith("…") or passage_text.startswith("…") else _ELLIPSIS


def _choose_passages(passages: Sequence[_Passage]) -> list[_Passage]:
    """A few passages that have all words, in order: first the one with the most of them, and of several the first; and
    as many others as fit on two lines."""
    chosen, missing_words = list[_Passage](), set[str]().union(*(passage.words for passage in passages))
    while missing_words and len(chosen) < _MOST_PASSAGES:
        best = max(passages, key=lambda passage: len(passage.words & missing_words))
        chosen.append(best)
        missing_words -= best.words
    room = _LONGEST_PASSAGE - sum(len(passage.text) for passage in chosen)
    for passage in passages:
        if passage not in chosen and len(passage.text) <= room:
            chosen.append(passage)
            room -= len(passage.text)
    return sorted(chosen, key=lambda passage: (passage.message, passage.index))


def _find_passages(columns: Iterable[tuple[str, str]]) -> Iterator[_Passage]:
    """The passages with a match."""
    message_number = 0
    for column, text in columns:
        for message in text.split(BETWEEN):
            message_number += 1
            if BEGIN in message:
                for index, passage in enumerate(_divide(column, join_words(message))):
                    if BEGIN in passage:
                        yield _Passage(message_number, index, passage, frozenset(_MARK.findall(passage.casefold())))


def _divide(column: str, message: str) -> Iterator[str]:
    """The passages of a message."""
    if column in (TurnPart.TOOLS, TurnPart.OUTPUT):
        yield from filter(None, (" ".join(line.split()) for line in _keep_marks_whole(message.split("\n"))))
        return
    has_paragraphs = column != ASIDE_COLUMN  # a line of why a call failed stands for itself
    for paragraph in _keep_whole(_divide_markdown(message, has_paragraphs=has_paragraphs), ends_open=_is_incomplete):
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
        is_special = line.lstrip()[:1] in _FIRST_CHARACTERS
        fence = _FENCE.match(line) if is_special else None
        single_line = _SINGLE_LINE.match(line) if is_special and not is_code else None
        if paragraph and (fence is not None or single_line is not None or not (has_paragraphs and line.strip())):
            yield _strip_inline(" ".join(paragraph))
            paragraph = []
        if fence is not None:
            is_code = not is_code
            if BEGIN in fence[1]:
                yield fence[1]
        elif is_code:
            yield f"{line}\n"  # told from a sentence by its end: a colon there announces nothing
        elif single_line is not None and single_line["row"] is not None:
            cells = (_strip_inline(cell.strip()) for cell in single_line["row"].split("|"))
            yield ", ".join(cell for cell in cells if _RULE.fullmatch(cell) is None)
        elif single_line is not None and single_line["heading"] is not None:
            yield _strip_inline(single_line["heading"])
        elif _RULE.fullmatch(line) is None:
            paragraph.append(line if single_line is None else single_line["item"] or single_line["number"] or "")
    if paragraph:
        yield _strip_inline(" ".join(paragraph))


def _strip_inline(text: str) -> str:
    if _INLINE.search(text) is None:  # most have none, and it takes long
        return text
    return strip_markdown(_FOUND_TARGET.sub(r"\1 (\2)", text))


def _has_open_mark(text: str) -> bool:
    """Whether the last match goes on past the end of the text."""
    return text.count(BEGIN) > text.count(END)


def _is_incomplete(text: str) -> bool:
    """Whether a passage says nothing without the one that follows."""
    return _has_open_mark(text) or (BEGIN in text and text.rstrip(" \t\r").endswith(":"))


def _keep_marks_whole(passages: Iterable[str]) -> Iterator[str]:
    """The passages, joined where a phrase that was found goes on in the next one."""
    return _keep_whole(passages, ends_open=_has_open_mark)


def _keep_whole(passages: Iterable[str], *, ends_open: Callable[[str], bool]) -> Iterator[str]:
    unfinished = ""
    for passage in passages:
        unfinished = f"{unfinished} {passage}" if unfinished else passage
        if not ends_open(unfinished):
            yield unfinished
            unfinished = ""
    if unfinished:
        yield unfinished


def _join_sentences(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences that follow each other, as many together as a passage may have."""
    joined = ""
    for sentence in sentences:
        if joined and len(joined) + len(sentence) >= _LONGEST_PASSAGE:
            yield joined
            joined = ""
        joined = f"{joined} {sentence}" if joined else sentence
    yield joined


def _split_marks(text: str, longest: int) -> tuple[str, list[tuple[int, int]]]:
    """A passage without ``BEGIN`` and ``END``, and the positions of its matches."""
    pieces = re.split(f"[{BEGIN}{END}]", text)
    marks, position = [], 0
    for index, piece in enumerate(pieces):
        if index % 2:
            marks.append((position, position + len(piece)))
        position += len(piece)
    return _shorten("".join(pieces), marks, longest)


def _shorten(text: str, marks: list[tuple[int, int]], longest: int) -> tuple[str, list[tuple[int, int]]]:
    """At most so many characters, of whole words if these are not long; a third of them before the first match."""
    if len(text) <= longest:
        return text, marks
    begins, ends = marks[0] if marks else (0, 0)
    start = max(0, min(begins - longest // 3, len(text) - longest))
    end = start + longest
    if start and (space := text.find(" ", start - 1, min(start + _LONGEST_CUT_WORD, begins))) >= 0:
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", max(end - _LONGEST_CUT_WORD, ends), end + 1)) >= 0:
        end = space
    shortened = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    shift = start - bool(start)
    return shortened, [(begins - shift, min(ends, end) - shift) for begins, ends in marks if start <= begins < end]
