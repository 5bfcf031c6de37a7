"""A conversation through the proxy with a tape on each side of the agent, so that everything can be verified.

One request at a time, so the order is definite. ``compare_wire`` compares what the editor sent and received with the
tapes. ``compare_transcripts`` compares a transcript with them: its messages are unchanged, in order and not repeated; a
note of a gap is exactly where something is missing.
"""

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp_proxy.errors import AcpProxyError
from acp_proxy.transcript.file_format import RECORDED, NoteType
from acp_proxy.transcript.summary import Summary
from tests.client import TIMEOUT, RequestFailed, prompt_params
from tests.end_to_end.proxied import PROXY, Editor, Proxied, is_update_of
from tests.stored import WholeStore

_TAPE = 'to="$1" from="$2"; shift 2; tee "$to" | "$@" | tee "$from"'
_OPENED = b"opened"  # stands for the note of a session's opening
_FIRST_UPDATE = "available_commands_update"  # sent by itself after the answer to session/new
_PAUSE_SECONDS = 0.2  # a store in trouble is tried again after a second


@dataclass
class Kept:
    """What became of the messages of one session. ``gaps``: places in its transcript where something is missing."""

    said: int = 0
    missing: int = 0
    gaps: int = 0
    trouble: list[str] = field(default_factory=list)


class TapedConversation:
    """An editor, the proxy, and a taped agent."""

    def __init__(
        self,
        proxied: Proxied,
        *,
        env: Mapping[str, str] | None = None,
        before: tuple[str, ...] = (),
        name: str = "tape",
    ) -> None:
        self._to, self._from = proxied.base / f"{name}-to-agent", proxied.base / f"{name}-from-agent"
        agent = ["sh", "-c", _TAPE, "sh", str(self._to), str(self._from), *proxied.bare_agent("echo")]
        self.store = proxied.store
        self.editor = Editor([*before, *PROXY, "run", "--store", str(proxied.store), "--", *agent], env=env)
        self.editor.project = proxied.project
        self.sessions: list[str] = []
        self.waits: list[float] = []
        """Seconds of each exchange."""
        self.trouble: list[str] = []
        self.must_warn = True
        self._sent: list[tuple[int, bytes]] = []
        self._deleted: list[tuple[int, str]] = []
        self._params = {"cwd": str(proxied.project), "mcpServers": []}

    def initialize(self) -> None:
        self._ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self.waits.clear()  # two programs start meanwhile

    def open(self) -> str:
        since = self.editor.count_lines()
        session = str(self._ask("session/new", self._params)["sessionId"])
        self.editor.wait_for_update(_FIRST_UPDATE, since=since)
        self.sessions.append(session)
        return session

    def prompt(self, session: str, text: str) -> None:
        self._ask("session/prompt", prompt_params(session, text))

    def list_sessions(self) -> None:
        """List after everything that the proxy has postponed; it may fail while the store cannot be read."""
        with contextlib.suppress(RequestFailed):
            self.editor.request("session/list", {})

    def delete(self, session: str) -> None:
        """Delete by the proxy; earlier messages of the session are no longer expected."""
        self.editor.request("session/delete", {"sessionId": session})
        self._deleted.append((len(self._sent), session))

    def forget_all(self) -> None:
        """The store was removed: earlier messages are no longer expected, and a warning may report it."""
        self.must_warn = False
        self._deleted += [(len(self._sent), session) for session in self.sessions]

    def _ask(self, method: str, params: Any) -> Any:
        number = len(self._sent) + 1_000_000  # without the editor's own
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        self._sent.append((number, line))
        began = time.monotonic()
        self.editor.send_line(line)
        result = self.editor.wait_for_result(number)
        self.waits.append(time.monotonic() - began)
        return result

    def prompt_until_recorded(self, *sessions: str) -> list[str]:
        """Prompt until each session is recorded again. Those that are not in time."""
        deadline = time.monotonic() + TIMEOUT
        left = list(sessions)
        while left and time.monotonic() < deadline:
            for number, session in enumerate(left):
                self.prompt(session, f"and now? {len(self._sent)} {number}")
            left = [session for session in left if not self._is_recorded(session, self._find_last_line(session))]
            if left:
                time.sleep(_PAUSE_SECONDS)
        return left

    def _find_last_line(self, session: str) -> bytes:
        return next(line for _, line in reversed(self._sent) if session.encode() in line).rstrip(b"\n")

    def _is_recorded(self, session: str, line: bytes) -> bool:
        return any(line in path.read_bytes() for path in self.list_transcripts(session))

    def list_transcripts(self, session: str) -> list[Path]:
        return [
            path
            for path in self.store.glob("transcripts/*/*.jsonl")
            if path.name != "state.jsonl" and f'"sessionId":"{session}"'.encode() in path.read_bytes().split(b"\n")[0]
        ]

    # --- afterwards

    def end(self) -> int:
        status = self.editor.end()
        self.editor.close()
        return status

    def warnings(self) -> list[str]:
        return [line for line in self.editor.read_stderr().splitlines() if line.startswith("acp-proxy:")]

    def compare_wire(self) -> list[str]:
        """What did not arrive unchanged, in either direction."""
        trouble = []
        if self._to.read_bytes() != b"".join(line for _, line in self._sent):
            trouble.append("what the editor sent is not what the agent got")
        got = iter([line.raw for line in self.editor.lines[1:]])  # the first is the amended answer to initialize
        for line in self._from.read_bytes().splitlines(keepends=True)[1:]:
            if not any(line == one for one in got):
                trouble.append(f"not with the editor, or not in its place: {line[:200]!r}")
                break
        return trouble

    def list_expected(self) -> dict[str, list[bytes]]:
        """The messages to record of each session, in order."""
        said: dict[str, list[bytes]] = {session: [] for session in self.sessions}
        told = iter(self._from.read_bytes().splitlines())
        for at, (number, line) in enumerate(self._sent):
            for when, session in self._deleted:
                if when == at:
                    said[session].clear()
            params = json.loads(line)["params"]
            if "prompt" in params:
                said[params["sessionId"]].append(line.rstrip(b"\n"))
            for one in told:
                message = json.loads(one)
                for session in said:
                    if is_update_of(message, session):
                        said[session].append(one)
                if message.get("id") == number:
                    if "prompt" in params:
                        said[params["sessionId"]].append(one)
                    elif "cwd" in params:
                        said[message["result"]["sessionId"]] += [_OPENED, next(told)]
                    break
        return said

    def compare_transcripts(self) -> Kept:
        """Compare every transcript with the tapes, and the index with the transcripts."""
        total, rows = Kept(), {}
        store = WholeStore(self.store)
        with contextlib.suppress(AcpProxyError):
            rows = {row.session_id: row.prompt_count for row in store.list_all()}
        for session, said in self.list_expected().items():
            kept, turns = self._compare_transcript(store, session, said)
            if turns != rows.get(session, 0):
                kept.trouble.append(f"{session}: {turns} turns are kept, and the list says {rows.get(session, 0)}")
            total.said += kept.said
            total.missing += kept.missing
            total.gaps += kept.gaps
            total.trouble += kept.trouble
        return total

    def _compare_transcript(self, store: WholeStore, session: str, said: list[bytes]) -> tuple[Kept, int]:
        result, turns, at, gap = Kept(len(said)), Summary(), 0, False
        try:
            [path] = self.list_transcripts(session)
            reader = store.open_reader(path.parent.name, session)
        except (OSError, ValueError, AcpProxyError) as problem:
            result.trouble.append(f"{session}: no transcript: {problem}")
            return result, 0
        try:
            if (header := reader.header or reader.rebuild_header()) is not None:
                turns = Summary.begin(header)
            begun_late = reader.header is not None and reader.header.origin != RECORDED
            result.gaps += begun_late
            complete = reader.is_complete
            for line in reader.read_lines():
                entry = line.entry
                if entry is None:  # torn by the fault; its message counts as missing
                    continue
                turns.add(entry)  # if the first prompt is lost, its echo counts as one
                if entry.note is not None and entry.note.get("type") == NoteType.GAP:
                    gap, result.gaps = True, result.gaps + 1
                    continue
                words = entry.raw.strip() if entry.raw is not None else _OPENED
                if words not in said[at:]:
                    result.trouble.append(f"{session}: kept twice, out of order or never said: {words[:200]!r}")
                    continue
                skipped = said.index(words, at) - at
                if skipped and not gap and not (begun_late and at == 0):
                    result.trouble.append(
                        f"{session}: {skipped} are missing before {words[:200]!r}, and no note says so"
                    )
                if gap and not skipped:
                    result.trouble.append(
                        f"{session}: a note of a gap where nothing is missing, before {words[:200]!r}"
                    )
                result.missing += skipped
                at, gap = at + skipped + 1, False
            if at < len(said):
                result.trouble.append(f"{session}: {len(said) - at} are missing at the end, where recording went on")
            if complete != (result.missing == 0 and not begun_late):
                result.trouble.append(f"{session}: complete is {complete}, and {result.missing} are missing")
        finally:
            reader.close()
        return result, turns.prompts
