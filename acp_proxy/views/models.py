"""The model that a session uses, by its options or by the agent's answers. Accepts any value, and never raises."""

from collections.abc import Iterator, Mapping

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.transcript.usage import read_number, read_quota

_MODEL = "model"
"""The category of the option that chooses the model. Agents without categories give the option this id."""


def find_chosen_model(entry: Entry) -> str | None:
    """The name of the model, if this entry of a transcript says which one is chosen."""
    if entry.note is not None:
        return _find_name(entry.note) if entry.note.get("type") == NoteType.OPENED else None
    if entry.answered_method == acp.SET_CONFIG_OPTION:
        return _find_name(acp.member(entry.value, "result"))
    update = acp.member(acp.member(entry.value, "params"), "update")
    return _find_name(update) if acp.update_kind(update) == update_kinds.CONFIG_OPTION else None


def _find_name(value_with_options: object) -> str | None:
    """The name of the chosen model in an object with ``configOptions``; else its id."""
    for option in acp.items(value_with_options, "configOptions"):
        if (acp.text(option, "category") or acp.text(option, "id")) == _MODEL:
            value = acp.text(option, "currentValue")
            return next((name for id, name in _read_choices(option) if id == value and name), value)
    return None


def _read_choices(option: object) -> Iterator[tuple[str | None, str | None]]:
    """The ids and names of an option's values, which may be in groups."""
    for item in acp.items(option, "options"):
        yield acp.text(item, "value"), acp.text(item, "name")
        for inner in acp.items(item, "options"):
            yield acp.text(inner, "value"), acp.text(inner, "name")


def find_used_model(result: object) -> str:
    """The model that the agent says it has used in a turn; of several, the one with the most tokens. Empty: none."""
    tokens: dict[str, float] = {}
    for model_use in acp.items(read_quota(result), "model_usage"):
        if name := acp.text(model_use, "model"):
            counts = acp.member(model_use, "token_count")
            names = counts if isinstance(counts, Mapping) else ()
            tokens[name] = sum(read_number(counts, count_name) or 0 for count_name in names)
    return max(tokens, key=lambda name: tokens[name], default="")
