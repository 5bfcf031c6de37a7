"""The spans of the values in a JSON text: each span is its value, and replacing one changes nothing else."""

import json
from json.decoder import JSONDecoder
from typing import Any

from acp_proxy.protocol import json_splice
from fuzz.choices import Choices

_decoder = JSONDecoder(parse_int=str, parse_float=str, strict=False)


def run(data: bytes) -> None:
    """The first byte decides: the rest is a text, or chooses a value that is written as one."""
    if data[:1] < b"\x80":
        text = json_splice.decode(data[1:])
        assert json_splice.encode(text) == data[1:], "any bytes come back"
    else:
        choices = Choices(data[1:])
        value = choices.value()
        text = json.dumps(value, ensure_ascii=choices.maybe(), indent=choices.pick((None, 1)))
    try:
        start, end = json_splice.find_value(text)
    except ValueError:
        return
    value = _decoder.decode(text[start:end])
    if isinstance(value, dict):
        spans = json_splice.find_members(text, start)
        assert spans.keys() == value.keys()
        for key, span in spans.items():
            replaced(text, span, value, key)
    elif isinstance(value, list):
        elements = json_splice.find_elements(text, start)
        assert len(elements) == len(value)
        for at, span in enumerate(elements):
            replaced(text, span, value, at)
        new = json_splice.replace_spans(text, [(span, "0") for span in elements])
        assert _decoder.decode(new.removeprefix("\ufeff")) == ["0"] * len(value)


def replaced(text: str, span: json_splice.Span, value: Any, key: Any) -> None:
    assert _decoder.decode(text[span[0] : span[1]]) == value[key]
    new = json_splice.replace_spans(text, [(span, '"new"')])
    was, value[key] = value[key], "new"
    assert _decoder.decode(new.removeprefix("\ufeff")) == value
    value[key] = was
