"""A session's modes and options: as announced, then as changed and as answered. Pure."""

from collections.abc import Mapping

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_format import Entry, NoteType


class PlayedState:
    """The modes and options of one session."""

    def __init__(self, modes: object = None, options: object = None) -> None:
        """The modes and options, in the form of answers to ``session/new``."""
        self._modes = modes if isinstance(modes, dict) else None
        self._options = options if isinstance(options, list) else None
        self._asked: dict[tuple[str, bytes], str] = {}

    def copy(self) -> "PlayedState":
        """A copy that changes separately."""
        return PlayedState(self._modes, self._options)

    @property
    def is_known(self) -> bool:
        """Whether modes or options are known."""
        return self._modes is not None or self._options is not None

    @property
    def options(self) -> list[object]:
        """The options, as the protocol has them."""
        return self._options or []

    def describe(self) -> dict[str, object]:
        """What an answer says about modes and options."""
        both = {"modes": self._modes, "configOptions": self._options}
        return {name: value for name, value in both.items() if value is not None}

    def take(self, entry: Entry) -> None:
        """Read the next entry of the transcript."""
        params = acp.member(entry.value, "params")
        if entry.note is not None:
            self._take_note(entry.note)
        elif acp.text(entry.value, "method") == acp.UPDATE:
            self._take_update(acp.member(params, "update"))
        elif entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.SET_MODE:
            self._asked[entry.request_key] = acp.text(params, "modeId") or ""
        elif entry.answered_method == acp.SET_MODE and acp.member(entry.value, "error") is None:
            self.set_mode(self._asked.pop(entry.request_key, ""))
        elif entry.answered_method == acp.SET_CONFIG_OPTION:
            self._take_options(acp.member(entry.value, "result"))

    def set_mode(self, mode: str) -> bool:
        """Set the mode. Returns False if there is no such mode."""
        available = acp.member(self._modes, "availableModes")
        if self._modes is None or not any(
            acp.text(mode_offered, "id") == mode for mode_offered in _read_list(available)
        ):
            return False
        self._modes = {**self._modes, "currentModeId": mode}
        return True

    def set_option(self, id: str, value: object) -> bool:
        """Set an option. Returns False if there is no such option, or it has no such value."""
        options = _read_list(self._options)
        chosen = next((option for option in options if acp.text(option, "id") == id), None)
        if not isinstance(chosen, dict) or not _is_valid(chosen, value):
            return False
        self._options = [{**chosen, "currentValue": value} if option is chosen else option for option in options]
        return True

    def _take_note(self, note: Mapping[str, object]) -> None:
        if note.get("type") == NoteType.OPENED:
            fresh = PlayedState(note.get("modes"), note.get("configOptions"))
            self._modes, self._options = fresh._modes or self._modes, fresh._options or self._options

    def _take_update(self, update: object) -> None:
        kind = acp.update_kind(update)
        if (
            kind == update_kinds.CURRENT_MODE
            and self._modes is not None
            and (mode := acp.text(update, "currentModeId"))
        ):
            self._modes = {**self._modes, "currentModeId": mode}
        elif kind == update_kinds.CONFIG_OPTION:
            self._take_options(update)

    def _take_options(self, value: object) -> None:
        options = acp.member(value, "configOptions")
        self._options = options if isinstance(options, list) else self._options


def _is_valid(option: Mapping[str, object], value: object) -> bool:
    """Whether an option accepts a value; unknown kinds accept any."""
    if option.get("type") == "boolean":
        return isinstance(value, bool)
    return option.get("type") != "select" or value in _list_values(option.get("options"))


def _list_values(options: object) -> list[object]:
    """The values of a selection, which may be in groups."""
    items = _read_list(options)
    inner = [value for item in items for value in _list_values(acp.member(item, "options"))]
    return [*(acp.member(item, "value") for item in items if acp.text(item, "value") is not None), *inner]


def _read_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
