"""The terminals that an agent runs itself and shows in the ``_meta`` of a tool call's updates.

Source: Zed's extension of version 1, which codex-acp, claude-agent-acp and pi use: ``terminal_info``,
``terminal_output``, ``terminal_exit``; and ``terminal_output_delta``, of the first two. Pure. Accepts any values.
"""

from collections.abc import Mapping

from acp_proxy.protocol import acp

_PREFIX = "terminal_"
"""How the names of these members begin."""
_OUTPUT, _DELTA, _EXIT = "terminal_output", "terminal_output_delta", "terminal_exit"


def are_shown(client_capabilities: object) -> bool:
    """Whether a client with the ``clientCapabilities`` of ``initialize`` shows these terminals."""
    meta = acp.member(client_capabilities, "_meta")
    return any(acp.member(meta, name) is True for name in (_OUTPUT, _DELTA))


def has_any(meta: object) -> bool:
    """Whether the ``_meta`` of an update says anything of a terminal."""
    return isinstance(meta, Mapping) and any(name.startswith(_PREFIX) for name in meta)


def remove_all(meta: Mapping[str, object]) -> dict[str, object]:
    """The ``_meta`` without what it says of terminals."""
    return {name: value for name, value in meta.items() if not name.startswith(_PREFIX)}


def find_ids(meta: object) -> list[str]:
    """The ids of the terminals of which a ``_meta`` has output or the end."""
    ids = (acp.text(acp.member(meta, name), "terminal_id") for name in (_OUTPUT, _DELTA, _EXIT))
    return list(dict.fromkeys(id for id in ids if id is not None))


class AgentTerminal:
    """One terminal, as far as the ``_meta`` of updates about it were added."""

    def __init__(self, limit: int = 0) -> None:
        """``limit``: more characters of its output are not kept than twice this, only the end; 0: all are."""
        self._limit = limit
        self._pieces: list[str] = []
        self.size = 0
        """The characters of ``output``."""
        self.is_cut = False
        """Whether the beginning of its output was not kept."""
        self._has_delta = False
        self.exit_status: Mapping[str, object] | None = None
        """How it ended, as the protocol has it for the client's terminals; None: not yet."""

    @property
    def output(self) -> str:
        """What it has printed."""
        return "".join(self._pieces)

    def add(self, meta: object, id: str | None = None) -> None:
        """Add the ``_meta`` of the next update. ``id``: only what is of this terminal; None: everything."""
        own_meta = {
            name: value
            for name in (_OUTPUT, _DELTA, _EXIT)
            if (value := acp.member(meta, name)) is not None and id in (None, acp.text(value, "terminal_id"))
        }
        if (text := acp.text(own_meta.get(_OUTPUT), "data")) is not None:
            # Agents that send ``_DELTA`` send this in place of all that came before; others send only this.
            if self._has_delta:
                self._pieces.clear()
                self.size, self.is_cut = 0, False
            self._add_output(text)
        if (text := acp.text(own_meta.get(_DELTA), "data")) is not None:
            self._has_delta = True
            self._add_output(text)
        if isinstance(end := own_meta.get(_EXIT), Mapping):
            self.exit_status = {"exitCode": end.get("exit_code"), "signal": end.get("signal")}

    @property
    def has_ended(self) -> bool:
        """Whether it has exited: more output is of another one with its id."""
        return self.exit_status is not None

    def _add_output(self, text: str) -> None:
        self._pieces.append(text)
        self.size += len(text)
        if self._limit and self.size > 2 * self._limit:
            self._pieces = [self.output[-self._limit :]]
            self.size, self.is_cut = self._limit, True
