"""The demonstration of acp-proxy with the bundled agent. Each step is checked.

An editor talks to an agent that can only resume. The editor is killed; a new process lists the conversation, loads,
continues and deletes it. Everything happens in a temporary directory.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acp_proxy.invocation import make_child_command
from acp_proxy.tools.demo import sample
from acp_proxy.tools.demo.client import Client, OutputEnded, RequestFailed
from acp_proxy.tools.demo.display import ShownItem, keep_last_plan, list_items
from acp_proxy.views import formatting

PROMPTS = (sample.WHY, sample.MEND)
LAST_PROMPT = sample.REMEMBER
SHOWN_TEXT_LENGTH = 90
_LABEL_WIDTH = len("  agent: ")
SERVED = ("list", "load", "delete")

PrintLine = Callable[[str], None]
Command = Callable[[Path, Path], list[str]]


class WalkFailed(Exception):
    """A step failed; the text says which one."""


def make_command(store: Path, memory: Path, name: str = sample.NAME) -> list[str]:
    """The command that an editor would start: acp-proxy in front of the agent."""
    agent = make_child_command("acp_proxy.tools.demo.agent", "--memory", str(memory), "--name", name, "--edit")
    return make_child_command("acp_proxy", "run", "--store", str(store), "--", *agent)


def keep_sessions(base: Path) -> Path:
    """The sample's conversations, with their projects below ``base``. Returns the store. Raises WalkFailed."""
    base = base.resolve()
    store = base / "store"
    for name in sample.FILES:
        make_project(base / name, sample.FILES[name])
    for name, agent, prompts in sample.CONVERSATIONS:
        with _report_failure():
            Walker(lambda text: None, make_command(store, base / "memory", agent), str(base / name)).keep(prompts)
    return store


def make_project(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())


def walk(print_line: PrintLine, command: Command = make_command) -> None:
    with tempfile.TemporaryDirectory(prefix="acp-proxy-demo-", ignore_cleanup_errors=True) as directory:
        base = Path(directory).resolve()
        store, memory, project = base / "store", base / "memory", base / "project"
        make_project(project, sample.FILES["shop"])
        walker = Walker(print_line, command(store, memory), str(project))
        with _report_failure():
            walker.walk()


@contextmanager
def _report_failure() -> Iterator[None]:
    try:
        yield
    except (TimeoutError, OutputEnded, OSError) as problem:
        raise WalkFailed(str(problem)) from problem
    except RequestFailed as problem:
        raise WalkFailed(f"a request failed: {problem}") from problem


class Walker:
    def __init__(self, print_line: PrintLine, command: list[str], project: str) -> None:
        self._print = print_line
        self._command = command
        self._project = project
        self._session_id = ""
        self._live: list[ShownItem] = []

    def walk(self) -> None:
        self._print("An editor starts the demo agent behind acp-proxy. The agent itself can only resume a session.")
        with Client(self._command) as editor:
            self._have_conversation(editor)
            self._print("The editor crashes (SIGKILL), and acp-proxy with it.")
            editor.kill()
        self._print("")
        with Client(self._command) as editor:
            self._check_offer(editor)
            self._check_list(editor)
            self._check_replay(editor)
            self._continue(editor)
            self._delete(editor)
            self._close(editor)

    def keep(self, prompts: Sequence[str]) -> None:
        """A conversation that stays."""
        with Client(self._command) as editor:
            self._begin(editor)
            for text in prompts:
                self._prompt(editor, text)
            self._close(editor)

    def _have_conversation(self, editor: Client) -> None:
        self._begin(editor)
        for text in PROMPTS:
            self._print(f"  you: {text}")
            self._live += [ShownItem("user", text), *self._prompt(editor, text)]

    def _check_offer(self, editor: Client) -> None:
        capabilities = self._initialize(editor)["agentCapabilities"]
        sessions = capabilities.get("sessionCapabilities", {})
        offered = {name for name in ("list", "delete", "resume") if sessions.get(name) is not None}
        if capabilities.get("loadSession") is True:
            offered.add("load")
        check(offered.issuperset(SERVED), f"initialize offers only {', '.join(sorted(offered)) or 'nothing'}")
        self._print(f"The editor starts again. acp-proxy adds {', '.join(SERVED[:-1])} and {SERVED[-1]}.")

    def _check_list(self, editor: Client) -> None:
        sessions = editor.request("session/list", {"cwd": self._project})["sessions"]
        check([session["sessionId"] for session in sessions] == [self._session_id], f"session/list returned {sessions}")
        entry = sessions[0]
        check(entry.get("cwd") == self._project, f"the session is listed in {entry.get('cwd')}")
        check(entry.get("title") == PROMPTS[0], f"the session is listed as {entry.get('title')!r}")
        check(bool(entry.get("updatedAt")), "the session is listed without a time")
        updated = formatting.format_local_time(entry["updatedAt"])[: -len(":00")]
        self._print(f'Its list of sessions: "{entry["title"]}", {updated}')

    def _check_replay(self, editor: Client) -> None:
        since = editor.count_lines()
        params = {"sessionId": self._session_id, "cwd": self._project, "mcpServers": []}
        request_id = editor.start_request("session/load", params)
        editor.wait_for_result(request_id)
        replayed = list_items(editor.list_updates(self._session_id, since, editor.find_answer(request_id)))
        self._print("It opens the old session:")
        for item in select_messages(replayed):
            self._print(f"  {item.kind + ':':<{_LABEL_WIDTH - 2}}{shorten(item.text)}")
        check(bool(replayed), "session/load replayed nothing")
        for number, (live_item, replayed_item) in enumerate(zip(self._live, replayed, strict=False), 1):
            check(live_item == replayed_item, f"item {number} was {live_item} and is now {replayed_item}")
        check(len(self._live) == len(replayed), f"{len(self._live)} items were live, {len(replayed)} came back")
        calls = sum(item.kind == "tool call" for item in replayed)
        self._print(f"All {len(replayed)} items, with {calls} tool calls, are as they were, in the same order.")

    def _continue(self, editor: Client) -> None:
        self._print(f"  you: {LAST_PROMPT}")
        answer = "".join(item.text for item in self._prompt(editor, LAST_PROMPT) if item.kind == "agent")
        check(PROMPTS[0] in answer, f"the agent does not remember; it says: {answer}")
        self._print(f"  agent: {shorten(answer.splitlines()[-1])}")

    def _delete(self, editor: Client) -> None:
        editor.request("session/delete", {"sessionId": self._session_id})
        remaining = editor.request("session/list", {})["sessions"]
        check(remaining == [], f"after session/delete the list still contains {remaining}")
        self._print("It deletes the session: the list is empty.")

    def _begin(self, editor: Client) -> None:
        self._initialize(editor)
        self._session_id = editor.request("session/new", {"cwd": self._project, "mcpServers": []})["sessionId"]

    def _close(self, editor: Client) -> None:
        editor.close_stdin()
        check(editor.wait() == 0, f"acp-proxy ended with status {editor.wait()} when the editor closed")

    def _initialize(self, editor: Client) -> Any:
        client_info = {"name": "acp-proxy-demo", "version": "1.0.0"}
        return editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": client_info})

    def _prompt(self, editor: Client, text: str) -> list[ShownItem]:
        since = editor.count_lines()
        params = {"sessionId": self._session_id, "prompt": [{"type": "text", "text": text}]}
        request_id = editor.start_request("session/prompt", params)
        reason = editor.wait_for_result(request_id)["stopReason"]
        check(reason == "end_turn", f"the turn ended with {reason}")
        return keep_last_plan(list_items(editor.list_updates(self._session_id, since, editor.find_answer(request_id))))


def select_messages(items: Sequence[ShownItem]) -> list[ShownItem]:
    """The user's messages, and the agent's last one before the next of them: enough to recognise a conversation."""
    spoken = [item for item in items if item.kind in ("user", "agent")]
    return [
        item
        for item, following in zip(spoken, [*spoken[1:], None], strict=True)
        if item.kind == "user" or following is None or following.kind == "user"
    ]


def check(condition: bool, failure: str) -> None:
    if not condition:
        raise WalkFailed(failure)


def shorten(text: str) -> str:
    """A text as one line that fits the terminal: wrapped, it would break after its own ellipsis."""
    line, room = (
        " ".join(text.split()),
        max(min(SHOWN_TEXT_LENGTH, shutil.get_terminal_size().columns - _LABEL_WIDTH), 1),
    )
    return line if len(line) <= room else line[: room - 1] + "…"
