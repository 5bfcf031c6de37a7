"""Real processes: the proxy between a client and the scripted agent, with one store, one memory and one project.

    with proxied.editor("conversation") as editor:      # a script of fixtures/agents/, or one written in place
        session = editor.open()
        editor.prompt(session, "mend it")

`Proxied` is the fixture `proxied`; what it starts ends with the test.
"""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.protocol import update_kinds
from acp_proxy.tools.demo.display import ShownItem, keep_last_plan, list_items
from tests import forked
from tests.client import TIMEOUT, Client, ReceivedLine, first_option, prompt_params

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "agents"
PROXY = (sys.executable, "-m", "acp_proxy")
AGENT = (sys.executable, "-S", "-m", "tests.scripted.agent")  # -S: a third faster; it needs no other package

# Root ignores the modes of files; without these capabilities it does not.
_WITHOUT_PRIVILEGE = """
import ctypes, os, sys
PR_CAPBSET_DROP, DAC_OVERRIDE, DAC_READ_SEARCH = 24, 1, 2
for capability in (DAC_OVERRIDE, DAC_READ_SEARCH):
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
UNPRIVILEGED = (sys.executable, "-c", _WITHOUT_PRIVILEGE)
"""Words before a command, so that it must obey file modes even if the tests run as root."""

_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def without_writing(place: Path) -> tuple[str, ...]:
    """Words before a command, so that this directory is a read-only file system; skips the test if it cannot be."""
    words = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _READ_ONLY, str(place))
    if shutil.which(words[0]) is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("needs a system on which everybody may mount, for oneself")
    return words


AUTHENTICATION_REQUIRED = -32000
NOT_FOUND = -32002
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
CANCELLED = -32800

Updates = list[dict[str, Any]]


@dataclass(frozen=True)
class Loaded:
    """The lines that a load brought before its answer, and the answer."""

    told: list[ReceivedLine]
    answer: dict[str, Any]

    @property
    def updates(self) -> Updates:
        return [line.message["params"]["update"] for line in self.told]


class Editor(Client):
    """A client whose sessions are opened in the project's directory."""

    project: Path

    def initialize(self, **params: Any) -> Any:
        about = {"name": "editor", "version": "1.0.0"}
        return self.request(
            "initialize", {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": about} | params
        )

    def open(self, **params: Any) -> str:
        """Initialize, open a session, and return its id."""
        self.initialize()
        return self.new_session(**params)

    def new_session(self, **params: Any) -> str:
        opened = self.request("session/new", {"cwd": str(self.project), "mcpServers": []} | params)
        assert isinstance(opened["sessionId"], str)
        return opened["sessionId"]

    def start_prompt(self, session: str, text: str) -> int:
        return self.start_request("session/prompt", prompt_params(session, text))

    def prompt(self, session: str, text: str) -> Updates:
        """The session's updates between the prompt and its answer, which must be `end_turn`."""
        since, number = self.count_lines(), self.start_prompt(session, text)
        assert self.wait_for_result(number)["stopReason"] == "end_turn"
        return self.list_updates(session, since, self.find_answer(number))

    def start_load(self, session: str, **params: Any) -> int:
        return self.start_request("session/load", self.place(session) | params)

    def load(self, session: str, **params: Any) -> Loaded:
        """Load a session, and wait for the answer, a result or an error."""
        since = self.count_lines()
        return self.loaded(session, self.start_load(session, **params), since)

    def loaded(self, session: str, number: int, since: int, timeout: float = TIMEOUT) -> Loaded:
        """The outcome of a load that was started."""
        answer = self.wait_for_answer(number, timeout)
        return Loaded(self.update_lines(session, since, self.find_answer(number)), answer)

    def sessions(self, **params: Any) -> list[dict[str, Any]]:
        listed = self.request("session/list", params)["sessions"]
        assert isinstance(listed, list)
        return listed

    def list_ids(self, **params: Any) -> list[str]:
        return [session["sessionId"] for session in self.sessions(**params)]

    def answers_to(self, request_id: Any) -> list[dict[str, Any]]:
        """Every answer to a request; there should be one."""
        return [message for message in self.messages() if message.get("id") == request_id and "method" not in message]

    def place(self, session: str) -> dict[str, Any]:
        """The params of a load or resume."""
        return {"sessionId": session, "cwd": str(self.project), "mcpServers": []}

    def update_lines(self, session: str, since: int = 0, until: int | None = None) -> list[ReceivedLine]:
        """The lines with updates of a session, from `since` up to `until`."""
        return [line for line in self.lines[since:until] if is_update_of(line.message, session)]

    def end(self) -> int:
        """Close the proxy's input like an editor that ends, and wait for the exit status."""
        self.close_stdin()
        return self.wait()


class Permission:
    """Answers the agent's requests once they are granted; until then the turn stays open."""

    def __init__(self) -> None:
        self._granted = threading.Event()

    def grant(self) -> None:
        self._granted.set()

    def __call__(self, request: dict[str, Any]) -> Any:
        if not self._granted.wait(TIMEOUT):
            raise TimeoutError("the permission was never granted")
        return first_option(request)


class Proxied:
    """The processes and directories of one test; several editors may be open at once."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.store = base / "store"
        self.memory = base / "memory"
        self.project = base / "project"
        self.project.mkdir()
        self._scripts = 0
        self._editors: list[Editor] = []

    def editor(
        self,
        script: str | Mapping[str, Any] | None = None,
        *,
        options: Sequence[str] = (),
        agent: Sequence[str] = (),
        **client: Any,
    ) -> Editor:
        """Start the proxy and the agent. `options` go to the proxy, `agent` to the agent, `client` to the client."""
        editor = Editor(self.command(script, options=options, agent=agent), **client)
        editor.project = self.project
        self._editors.append(editor)
        return editor

    def start(self, script: str | Mapping[str, Any] | None = None, **options: Any) -> Editor:
        """An editor after `initialize`."""
        editor = self.editor(script, **options)
        editor.initialize()
        return editor

    def recorded(self, *prompts: str, script: str | Mapping[str, Any] = "conversation") -> str:
        """Record a session with a proxy that then ends. The session's id."""
        with self.editor(script) as editor:
            session = editor.open()
            for text in prompts:
                editor.prompt(session, text)
            assert editor.end() == 0
        return session

    def command(
        self,
        script: str | Mapping[str, Any] | None = None,
        *,
        options: Sequence[str] = (),
        agent: Sequence[str] = (),
    ) -> list[str]:
        """The command in an editor's settings."""
        return [*PROXY, "run", "--store", str(self.store), *options, "--", *self.bare_agent(script, agent)]

    def run(self, *words: str) -> str:
        """What a command of ours on sessions prints about the store, while editors may be open."""
        command = [*PROXY, *words, "--store", str(self.store)]
        return str(forked.run(command, text=True, check=True).stdout)

    def bare_agent(self, script: str | Mapping[str, Any] | None = None, agent: Sequence[str] = ()) -> list[str]:
        """The agent's command without the proxy."""
        words = [*AGENT, "--memory", str(self.memory)]
        if script is not None:
            words += ["--script", str(self.script(script))]
        return [*words, *agent]

    def close(self) -> None:
        for editor in self._editors:
            editor.close()

    def transcript(self, session: str) -> Path:
        """The only transcript of a session."""
        [found] = [path for path in self.transcripts() if entries(path)[0].get("sessionId") == session]
        return found

    def transcripts(self) -> list[Path]:
        return sorted(path for path in self.store.glob("transcripts/*/*.jsonl") if path.name != "state.jsonl")

    def script(self, script: str | Mapping[str, Any]) -> Path:
        """The file of a script."""
        if isinstance(script, str):
            return SCRIPTS / f"{script}.json"
        self._scripts += 1
        path = self.base / f"script-{self._scripts}.json"
        path.write_text(json.dumps(script))
        return path


def say(text: str, id: str | None = None) -> dict[str, Any]:
    """A step of a script: the agent sends this text. ``id``: of the message that it belongs to."""
    of_message = {"messageId": id} if id is not None else {}
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **of_message}}


ASK: dict[str, Any] = {
    "request": "session/request_permission",
    "params": {
        "toolCall": {"toolCallId": "asked"},
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
    },
}
"""A step of a script: the agent requests a permission, and waits."""


def entries(path: Path) -> list[dict[str, Any]]:
    """The lines of a transcript, beginning with the header. Each must be intact."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data[:-1].split(b"\n")]


def list_rules(proxied: Proxied, session: str) -> list[int]:
    """The rules by which the loads of a session were decided, as its transcript notes them."""
    notes = [entry["note"] for entry in entries(proxied.transcript(session)) if "note" in entry]
    return [note["rule"] for note in notes if note["type"] == "replay"]


def load_anew(
    proxied: Proxied, session: str, script: str | Mapping[str, Any], *, mode: str, agent: Sequence[str]
) -> list[tuple[str, str]]:
    """Load a session with a new proxy and a new agent. What the editor shows: of what kind, and the text."""
    with proxied.start(script, agent=agent, options=("--replay", mode)) as editor:
        items = list_items(conversation(editor.load(session).updates))
        assert editor.end() == 0
    return [(item.kind, item.text) for item in items]


def is_update_of(message: Any, session: str) -> bool:
    """Whether a message is an update of this session."""
    match message:
        case {"method": "session/update", "params": {"sessionId": found}}:
            return bool(found == session)
    return False


def kinds(updates: Updates) -> list[str]:
    """The kinds of updates, in order."""
    return [update["sessionUpdate"] for update in updates]


def conversation(updates: Updates) -> Updates:
    """The updates without those that only report the state."""
    return [update for update in updates if update_kinds.is_conversation(update["sessionUpdate"])]


def texts(updates: Updates, kind: str = "agent_message_chunk") -> list[str]:
    """The texts of the chunks of one kind."""
    of_kind = (update["content"] for update in updates if update["sessionUpdate"] == kind)
    return [content["text"] for content in of_kind if content["type"] == "text"]


def list_said(updates: Updates) -> list[tuple[str, str]]:
    """Who said what, as a user sees it."""
    return [(item.kind, item.text) for item in list_items(updates)]


def list_replayed(turn: Updates) -> list[ShownItem]:
    """What a replay has of a turn: everything shown live, but only the last plan."""
    return keep_last_plan(list_items(turn))
