"""What ``run`` does while most of acp-proxy is still being imported: opens the store, and lets ``initialize`` and its
answer pass. Importing takes longer than many an agent needs to answer.

The relay, which starts afterwards, decides on both lines as on all others, but does not forward them again. Everything
else waits for it.
"""

import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from acp_proxy import __version__
from acp_proxy.config import options
from acp_proxy.errors import NO_MCP, StoreRefused, UsageError
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Request, Response
from acp_proxy.proxy import capabilities
from acp_proxy.proxy.capabilities import Modes, Settings
from acp_proxy.run.output import Output, read, stderr
from acp_proxy.store.opened import ALL, PRIVATE_UMASK, StoreBase, default_root

STDIN, STDOUT = 0, 1
_OPENING_SECONDS = 10.0
"""How long a store may take to open. Nothing passes meanwhile, but else nothing would be recorded until the next start.
"""
_MOST = 32 * 1024
"""The most bytes of a line that passes here, so that no write has to wait: an empty pipe takes them at once."""
_WARNING = 2000  # characters: a warning may quote a session's id, which may be megabytes


class Basis(Struct, frozen=True):
    """What the options and the store say. ``store``: None: nothing is recorded. ``mask``: the function that masks
    secrets in entries, or None."""

    settings: Settings
    store: StoreBase | None
    mask: Callable[[bytes], bytes] | None


class Greeting:
    """The exchange of ``initialize`` and its answer, as far as it comes.

    ``asked``, ``answered``: the lines of the client and of the agent that were forwarded, or empty. ``from_client``,
    ``from_agent``: what was read and not forwarded.
    """

    def __init__(self, settings: Settings, client_in: int, client_out: int, agent_in: int, agent_out: int) -> None:
        """``client_in`` to ``agent_out``: descriptors: where we read from the client, write to it, and so on."""
        self.asked = self.answered = self.from_client = self.from_agent = b""
        self._settings = settings
        self._client_in, self._client_out, self._agent_in, self._agent_out = client_in, client_out, agent_in, agent_out
        self._request: Request | None = None
        self._thread = threading.get_ident()
        self._is_over = sys.platform == "win32"  # pipes cannot be polled there

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """As the first of ``sys.meta_path``, this looks before each import, and finds no module.

        Only for the thread that made this: one that still opens a slow store may import, too, and two readers at once
        would wait for each other's lines.
        """
        if threading.get_ident() == self._thread:
            self.look()

    def look(self) -> None:
        """Pass what has come. Never waits, and never raises."""
        if self._is_over:
            return
        fd = self._agent_out if self.asked else self._client_in
        ready = select.poll()
        ready.register(fd, select.POLLIN)
        if ready.poll(0):
            data = read(fd, _MOST)
            try:
                self._is_over = not (self._answer(data) if self.asked else self._ask(data))
            except Exception:  # noqa: BLE001 - the relay will warn of the bug
                self._is_over = True

    def _ask(self, line: bytes) -> bool:
        """Forward ``initialize``; returns whether to go on."""
        self.from_client = line
        message = _message(line)
        if not isinstance(message, Request) or message.method != acp.INITIALIZE:
            return False
        Output(self._agent_in, lambda: None).write(line)
        self.asked, self.from_client, self._request = line, b"", message
        return True

    def _answer(self, line: bytes) -> bool:
        self.from_agent = line
        message = _message(line)
        if self._request is None or not isinstance(message, Response) or message.id != self._request.id:
            return False
        offer = capabilities.read_offer(message.result)
        amended = line if message.error is not None else capabilities.served(line, offer, self._settings)[0]
        Output(self._client_out, lambda: None).write(amended)
        self.answered, self.from_agent = line, b""
        return False


def prepare(given: dict[str, str], *, is_chained: bool = False) -> Basis:
    """Open the store, and warn if it cannot be used. ``given``: the values of the options."""
    os.umask(PRIVATE_UMASK)  # an agent that we start has started with the user's umask
    store, mask = None, None
    if not given["no-record"]:
        try:
            mask = _mask(given)
            store = _opened(given)
        except UsageError as wrong:  # the file with patterns was removed since the start
            warn(f"nothing is recorded: {wrong}")
    answerers = {name: given[name] for name in ("list", "load", "delete", "resume", "handover")}
    modes = Modes(**answerers, unstable=bool(given["unstable"]))
    id = store.id if store is not None else None
    recall = _recall(store.root) if given["recall"] and store is not None else ()
    settings = Settings(store is not None, not given["no-synthesize"], __version__, modes, id, is_chained, recall)
    return Basis(settings, store, mask)


def also(given: dict[str, str]) -> list[str]:
    """The names of the agents whose sessions are listed too."""
    return [name.strip() for name in given["also-list"].split(",") if name.strip()]


def warn(text: str) -> None:
    """Write one line to stderr, where editors keep the logs of agents."""
    stderr.write(f"acp-proxy: {jsonrpc.printable(text[:_WARNING])}\n".encode("utf-8", "replace"))


def _message(data: bytes) -> jsonrpc.Message | None:
    """The message, if this is one whole line."""
    return jsonrpc.read_message(data) if data.find(b"\n") + 1 == len(data) > 0 else None


def _opened(given: dict[str, str]) -> StoreBase | None:
    root = Path(given["store"]).expanduser() if given["store"] else default_root()
    found: list[StoreBase | StoreRefused] = []
    opening = threading.Thread(target=_open, args=(root, also(given), found), name="opening the store", daemon=True)
    opening.start()
    opening.join(_OPENING_SECONDS)
    match found:
        case [StoreBase() as store]:
            return store
        case [StoreRefused(may_pass=True) as problem]:
            warn(f"nothing is recorded until this passes: {problem}")
            return StoreBase.open_later(root, problem)
        case [StoreRefused() as problem]:
            warn(f"nothing is recorded: {problem}")
        case _:
            warn(f"nothing is recorded: {root} does not answer. Choose another place with --store.")
    return None


def _open(root: Path, also: list[str], found: "list[StoreBase | StoreRefused]") -> None:
    try:
        store = StoreBase(root)
    except StoreRefused as problem:
        found.append(problem)
        return
    found.append(store)
    with contextlib.suppress(OSError):
        for name in also:
            if name != ALL and not store.list_agents(name):
                warn(f"--also-list: no agent called {name!r} has a recorded session yet.")


def _recall(root: Path) -> tuple[str, ...]:
    """The command of the MCP server that looks up sessions in this store; empty if its package is missing.

    ``-P``: the agent may start it in a repository, from which Python must not import anything.
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        warn(NO_MCP)
        return ()
    return sys.executable, "-P", "-m", "acp_proxy", "mcp", "--store", os.path.abspath(root)


def _mask(given: dict[str, str]) -> Callable[[bytes], bytes] | None:
    """The function that masks secrets in entries, or None. Raises UsageError."""
    if (patterns := options.patterns(given["redact"])) is None:
        return None
    from acp_proxy.redaction.masking import Masking  # compiling its patterns takes a while

    return Masking(patterns).lines
