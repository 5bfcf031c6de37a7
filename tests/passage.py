"""The real relay in this process, with a test at both of its ends.

    with Passage(store) as passage:                     # or Passage(): nothing is recorded
        passage.say(Peer.CLIENT, b'{"jsonrpc":"2.0",...}\\n')
        line = passage.hear(Peer.AGENT)                 # the next line that the agent gets
        passed = passage.end(from_client, from_agent)   # the rest, both directions at once; then everything that came

With ``packets``, the relay reads every piece of at most ``PACKET`` bytes at once, if the system has packet pipes.
"""

import json
import os
import tempfile
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from acp_proxy import __version__
from acp_proxy.decisions.capabilities import Settings
from acp_proxy.decisions.connection import Connection
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.recording.recorder import Recorder
from acp_proxy.relay.opened_transcript import ShowOptions
from acp_proxy.relay.pipes import STDERR
from acp_proxy.relay.relay import Relay
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript_replay.replayer import TOOL_LIMIT
from tests.waiting import SECONDS

PACKET = 4096
"""Bytes that a packet pipe keeps together."""
READ_SIZE = 1024 * 1024


@dataclass(frozen=True)
class Passed:
    """All output of the relay; ``kept``: the messages in the transcripts, by session."""

    to_agent: bytes
    to_client: bytes
    to_stderr: bytes
    warnings: list[str]
    kept: dict[str, list[bytes]]


class Passage:
    def __init__(self, store: Path | None = None, *, serves: bool = True, packets: bool = False) -> None:
        """``store``: where sessions are recorded. ``serves``: whether capabilities are added to the agent's."""
        self._warnings: list[str] = []
        self._recorder = (
            None if store is None else Recorder(ProxyStore(store), ["agent"], None, "turn", self._warnings.append)
        )
        from_client, client = _pipe(packets)
        from_agent, agent = _pipe(packets)
        self._read_by_relay = (from_client, from_agent)
        self._written_by = {Peer.CLIENT: client, Peer.AGENT: agent}
        self._heard_by = {peer: _Ear() for peer in Peer}
        self._relay = Relay(
            Connection(Settings(records=store is not None, serves=serves, proxy_version=__version__)),
            self._recorder,
            from_client=from_client,
            to_client=self._heard_by[Peer.CLIENT].speaking_end,
            from_agent=from_agent,
            to_agent=self._heard_by[Peer.AGENT].speaking_end,
            warn=self._warnings.append,
            show_options=ShowOptions("compact", TOOL_LIMIT),
        )
        self._ended = False
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        self._stderr = self._cleanup.enter_context(tempfile.TemporaryFile())
        usual = os.dup(STDERR)
        self._cleanup.callback(os.close, usual)
        self._cleanup.callback(os.dup2, usual, STDERR)
        os.dup2(self._stderr.fileno(), STDERR)
        self._relay.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._cleanup:
            if not self._ended:
                self.end()

    def say(self, peer: Peer, data: bytes) -> None:
        """Write as this peer, in one piece."""
        _write(self._written_by[peer], data)

    def hear(self, peer: Peer) -> bytes:
        """The next line that a peer gets."""
        return self._heard_by[peer].line()

    def end(self, from_client: Iterable[bytes] = (), from_agent: Iterable[bytes] = ()) -> Passed:
        """Write the rest in pieces, both sides at once, and close both; return everything since the beginning."""
        self._ended = True
        pieces = {Peer.CLIENT: from_client, Peer.AGENT: from_agent}
        writers = [threading.Thread(target=self._say_all, args=(peer, pieces[peer]), daemon=True) for peer in Peer]
        for writer in writers:
            writer.start()
        for pump in (self._relay.client_pump, self._relay.agent_pump):
            assert pump.ended.wait(SECONDS), "the relay has not read to the end"
        for writer in writers:
            writer.join(SECONDS)
        self._relay.finish_work(SECONDS)
        to_agent, to_client = (self._heard_by[peer].all() for peer in (Peer.AGENT, Peer.CLIENT))
        for descriptor in self._read_by_relay:
            os.close(descriptor)
        self._stderr.seek(0)
        return Passed(to_agent, to_client, self._stderr.read(), self._warnings, self._put_away())

    def _say_all(self, peer: Peer, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self.say(peer, piece)
        os.close(self._written_by[peer])

    def _put_away(self) -> dict[str, list[bytes]]:
        """Read the transcripts and delete them: a recorder keeps its files open as long as it lives."""
        if self._recorder is None:
            return {}
        kept: dict[str, list[bytes]] = {}
        for path in self._recorder.store.root.glob("transcripts/*/*.jsonl"):
            if path.name != "state.jsonl":
                reader = TranscriptReader(path)
                assert reader.header is not None
                entries = [line.entry for line in reader.read_lines()]
                reader.close()
                kept[reader.header.session_id] = [
                    entry.raw for entry in entries if entry is not None and entry.raw is not None
                ]
        for session in kept:
            self._recorder.store.delete(self._recorder.find_agent_folder(), session, soft=False)
        return kept


class _Ear:
    """The far end of one of the relay's outputs, and what has arrived there."""

    def __init__(self) -> None:
        self._end, self.speaking_end = os.pipe()
        self._heard = bytearray()
        self._taken = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def line(self) -> bytes:
        with self._changed:
            found = self._changed.wait_for(lambda: self._heard.find(b"\n", self._taken) + 1, SECONDS)
            assert found, "no line came"
            start, self._taken = self._taken, found
            return bytes(self._heard[start:found])

    def all(self) -> bytes:
        """Everything, once nothing more will be written."""
        os.close(self.speaking_end)
        self._thread.join(SECONDS)
        os.close(self._end)
        return bytes(self._heard)

    def _listen(self) -> None:
        while data := os.read(self._end, READ_SIZE):
            with self._changed:
                self._heard += data
                self._changed.notify_all()


def _pipe(packets: bool) -> tuple[int, int]:
    return os.pipe2(os.O_DIRECT) if packets and hasattr(os, "O_DIRECT") else os.pipe()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def lines(data: bytes) -> list[bytes]:
    """Each with its newline, if it has one."""
    *complete, rest = data.split(b"\n")
    return [line + b"\n" for line in complete] + ([rest] if rest else [])


def value_of(line: bytes) -> object:
    """The value of a line; None if it is not JSON. A byte order mark and invalid UTF-8 in strings are accepted."""
    try:
        return json.loads(line.decode("utf-8", "surrogateescape").removeprefix("\ufeff"), parse_int=str)
    except ValueError:
        return None
    except RecursionError:
        return []  # nested too deeply to tell: it passes


def is_for_the_client(line: bytes) -> bool:
    return isinstance(value_of(line), dict | list)
