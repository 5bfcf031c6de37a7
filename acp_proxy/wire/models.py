"""The model that a session uses, read from its options. Accepts any value, and never raises."""

from collections.abc import Iterator

from acp_proxy.wire import acp, record
from acp_proxy.wire.record import Entry

_MODEL = "model"
"""The category of the option that chooses the model. Agents without categories give the option this id."""


def chosen(entry: Entry) -> str | None:
    """The name of the model, if this entry of a transcript says which one is chosen."""
    if entry.note is not None:
        return _named(entry.note) if entry.note.get("type") == record.OPENED else None
    if entry.of == acp.SET_CONFIG_OPTION:
        return _named(acp.member(entry.value, "result"))
    update = acp.member(acp.member(entry.value, "params"), "update")
    return _named(update) if acp.update_kind(update) == acp.CONFIG_OPTION else None


def _named(said: object) -> str | None:
    """The name of the chosen model in an object with ``configOptions``; else its id."""
    for option in _items(said, "configOptions"):
        if (acp.text(option, "category") or acp.text(option, "id")) == _MODEL:
            value = acp.text(option, "currentValue")
            return next((name for id, name in _choices(option) if id == value and name), value)
    return None


def _choices(option: object) -> Iterator[tuple[str | None, str | None]]:
    """The ids and names of an option's values, which may be in groups."""
    for item in _items(option, "options"):
        yield acp.text(item, "value"), acp.text(item, "name")
        for inner in _items(item, "options"):
            yield acp.text(inner, "value"), acp.text(inner, "name")


def _items(value: object, key: str) -> list[object]:
    found = acp.member(value, key)
    return found if isinstance(found, list) else []
