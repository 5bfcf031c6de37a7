"""An agent that is stuck.

The editor ends each trial by closing its side or by SIGTERM, with an agent that reacts to that and with one that
ignores both. The grace is short; every wait here is many times longer than the end takes.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import psutil

from tests.end_to_end.proxied import CANCELLED, PROXY, Editor, Proxied, say, texts
from torture.outcome import Outcome, Scale
from torture.processes import SECONDS, end, environment, hear_signals, list_marked, runs

AT_ONCE = 4
GRACE = "0.3"
MEGABYTE = 1_000_000
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
UNREAD_SECONDS = 0.5
"""A pipe that accepts nothing for so long is full."""
MOST_UNREAD = 10 * MEGABYTE
HANG: dict[str, Any] = {"hang": True}
LONG_HALF = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"{session}","update":{'
    '"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"' + "x" * 2 * MEGABYTE
)
"""More than a pipe takes at once."""
HALF, WHOLE = '{"jsonrpc":"2.0","method":"_ha', '{"jsonrpc":"2.0","method":"_whole"}'
DEAF = ("--ignore-eof", "--ignore-sigterm")

NEVER_READS = """
import json, os, signal, sys, time
if "--ignore-sigterm" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
asked = json.loads(os.read(0, 65536))
os.write(1, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1}}).encode() + b"\\n")
while True:
    os.write(1, b'{"jsonrpc":"2.0","method":"_tick"}\\n')
    time.sleep(0.05)
"""
STRAY = """
import os, sys
for _ in range(5):
    os.write(1, b"stray " * 10_000 + b"\\n")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@dataclass
class Trial:
    """One stuck agent and its end."""

    kind: "Callable[[Trial], Editor]"
    ending: int | None
    """A signal to the proxy; None: the editor closes its side."""
    deaf: bool
    place: Proxied
    scale: Scale
    looked_at: int = 0
    left: int = 0
    took: float = 0.0
    """Seconds that the end took."""
    opened: ExitStack = field(default_factory=ExitStack)
    trouble: list[str] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)
    """Requests that are answered only when the agent ends."""

    @property
    def mark(self) -> str:
        return str(self.place.base)

    def agent(self, script: Mapping[str, Any] | None = None, *words: str) -> list[str]:
        """The scripted agent's command."""
        return self.place.bare_agent(script, [*words, *(DEAF if self.deaf else ())])

    def start(self, agent: Sequence[str], around: Sequence[str] = ()) -> Editor:
        proxy = [*PROXY, "run", "--store", str(self.place.store), "--grace", GRACE, "--"]
        editor = self.opened.enter_context(Editor([*around, *proxy, *agent], env=environment(self.mark)))
        editor.project = self.place.project
        return editor

    def see(self, what: str, well: bool) -> None:
        self.looked_at += 1
        if not well:
            self.trouble.append(what)

    def see_others_flow(self, editor: Editor) -> None:
        """Another session can be opened and have a turn."""
        session = editor.new_session()
        editor.prompt(session, "meanwhile")
        self.see("another session's turn is not told", bool(texts(editor.list_updates(session))))

    def end(self, editor: Editor) -> None:
        """Everything ends in time, every open request is answered, and no process is left."""
        if self.ending is None:
            editor.close_stdin()
        else:
            editor.signal(signal.Signals(self.ending))
        began = time.monotonic()
        for number in self.unanswered:  # read first: after a signal, nobody waits long for an editor that does not
            error = editor.wait_for_answer(number, SECONDS).get("error", {})
            self.see(f"what was open is answered {error}", error.get("code") == INTERNAL_ERROR)
        editor.wait(SECONDS)
        self.took = time.monotonic() - began
        left = [process for process in list_marked(self.mark) if runs(process)]
        self.left = len(left)
        self.trouble += [f"is left: {process}" for process in left]


def initialize(trial: Trial) -> Editor:
    editor = trial.start(trial.agent({"methods": {"initialize": {"before": [HANG]}}}))
    trial.unanswered.append(editor.start_request("initialize", {"protocolVersion": 1}))
    trial.see_others_flow(editor)
    return editor


def load(trial: Trial) -> Editor:
    earlier = trial.start(trial.agent())
    session = earlier.open()
    earlier.prompt(session, "hello")
    earlier.kill()
    end(trial.mark)
    editor = trial.start(trial.agent({"methods": {"session/resume": {"before": [HANG]}}}))
    editor.initialize()
    loading = editor.start_load(session)
    trial.see_others_flow(editor)
    trial.see("the list is not served", session in [row["sessionId"] for row in editor.sessions()])
    trial.see("a delete is not served", editor.request("session/delete", {"sessionId": "another"}) == {})
    editor.notify("$/cancel_request", {"requestId": loading})
    trial.see("a cancelled load is not ended", editor.wait_for_answer(loading)["error"]["code"] == CANCELLED)
    trial.unanswered.append(editor.start_load(session))
    return editor


def delete(trial: Trial) -> Editor:
    script = {"methods": {"session/delete": {"before": [HANG]}}}
    editor = trial.start(trial.agent(script, "--capabilities", "resume,delete"))
    session = editor.open()
    editor.prompt(session, "hello")
    trial.unanswered.append(editor.start_request("session/delete", {"sessionId": session}))
    trial.see_others_flow(editor)
    trial.see("what was not deleted is not listed", session in [row["sessionId"] for row in editor.sessions()])
    return editor


def prompt(trial: Trial) -> Editor:
    editor = trial.start(trial.agent({"turns": [[say("well")], [say("so far"), HANG]]}))
    session = editor.open()
    editor.prompt(session, "hello")
    trial.unanswered.append(editor.start_prompt(session, "and now"))
    editor.wait_for_text("so far")
    trial.see_others_flow(editor)
    editor.notify("session/cancel", {"sessionId": session})
    trial.see("the list is not served", session in [row["sessionId"] for row in editor.sessions()])
    return editor


def floods_stderr(trial: Trial) -> Editor:
    """A child writes the flood, so that the agent can still answer."""
    size = trial.scale.of(full=300, short=30) * MEGABYTE
    flood = f'yes {"x" * 1000} | head -c {size} >&2 & exec "$@"'
    editor = trial.start(["sh", "-c", flood, "sh", *trial.agent()])
    editor.initialize()
    for _ in range(trial.scale.of(full=20, short=3)):
        trial.see_others_flow(editor)
    return editor


def strays_unheard(trial: Trial) -> Editor:
    unread = trial.place.base / "unread"
    os.mkfifo(unread)
    reading = os.open(unread, os.O_RDONLY | os.O_NONBLOCK)
    trial.opened.callback(os.close, reading)
    python, *agent = trial.agent()
    around = ["sh", "-c", f"exec \"$@\" 2>'{unread}'", "sh"]
    editor = trial.start([python, "-c", STRAY, *agent], around)
    editor.initialize()
    trial.see_others_flow(editor)
    trial.see("the list is not served", len(editor.sessions()) == 1)
    return editor


def half_a_line(trial: Trial, last: str) -> Editor:
    editor = trial.start(trial.agent({"turns": [[say("well")], [say("so far"), {"raw": last}, HANG]]}))
    session = editor.open()
    editor.prompt(session, "hello")
    trial.unanswered.append(editor.start_prompt(session, "and now"))
    editor.wait_for_text("so far")
    trial.see("the list is not served", session in [row["sessionId"] for row in editor.sessions()])
    return editor


def half_a_long_message(trial: Trial) -> Editor:
    """It waits for its end. The editor's messages pass, and what we answer."""
    editor = trial.start(
        trial.agent({"turns": [[say("so far"), {"raw": LONG_HALF}, {"wait_cancel": True}, {"exit": 1}]]})
    )
    session = editor.open()
    prompt = editor.start_prompt(session, "hello")
    editor.wait_for_text("so far")
    refused = editor.start_request("session/list", {"cwd": "nowhere"})
    trial.see("a request of ours is lost", editor.wait_for_answer(refused)["error"]["code"] == INVALID_PARAMS)
    editor.notify("session/cancel", {"sessionId": session})
    trial.see("the prompt is lost", editor.wait_for_answer(prompt)["error"]["code"] == INTERNAL_ERROR)
    return editor


def half_a_message(trial: Trial) -> Editor:
    return half_a_line(trial, HALF)


def a_message_without_its_newline(trial: Trial) -> Editor:
    return half_a_line(trial, WHOLE)


def never_reads(trial: Trial) -> Editor:
    """The agent's messages still arrive; the editor writes until nothing more is taken."""
    editor = trial.start([sys.executable, "-c", NEVER_READS, *(DEAF if trial.deaf else ())])
    editor.initialize()
    assert editor.process.stdin is not None
    descriptor, written = editor.process.stdin.fileno(), 0
    while written < MOST_UNREAD and select.select([], [descriptor], [], UNREAD_SECONDS)[1]:
        written += os.write(descriptor, b"x" * (select.PIPE_BUF - 1) + b"\n")
    trial.see("what nobody reads is taken all the same", written < MOST_UNREAD)
    editor.wait_for_method("_tick", since=editor.count_lines())
    return editor


def stopped(trial: Trial) -> Editor:
    """Stopped for a while, which loses nothing; then stopped permanently."""
    editor = trial.start(trial.agent())
    session = editor.open()
    editor.prompt(session, "hello")
    [agent] = psutil.Process(editor.pid).children()
    agent.suspend()
    number = editor.start_prompt(session, "are you there?")
    trial.see("the list is not served", session in [row["sessionId"] for row in editor.sessions()])
    agent.resume()
    trial.see("what was said meanwhile is lost", editor.wait_for_result(number)["stopReason"] == "end_turn")
    agent.suspend()
    trial.unanswered.append(editor.start_prompt(session, "and now?"))
    trial.see("the list is not served", session in [row["sessionId"] for row in editor.sessions()])
    return editor


def what_was_last(trial: Trial, editor: Editor) -> None:
    """The agent's last line without a newline is in its place."""
    last = [line.raw for line in editor.lines if line.raw.strip() == WHOLE.encode()]
    if trial.kind is a_message_without_its_newline:
        trial.see("a whole message without its newline is not delivered", last == [WHOLE.encode() + b"\n"])
    elif trial.kind is half_a_message:
        editor.close()  # by then all of stderr was read
        trial.see(f"half a message is not on stderr, but {editor.read_stderr()!r}", HALF in editor.read_stderr())


KINDS: dict[str, Callable[[Trial], Editor]] = {
    "never answers initialize": initialize,
    "never answers a resume, under a load": load,
    "never answers a delete": delete,
    "never answers a prompt": prompt,
    "floods stderr": floods_stderr,
    "writes stray lines for a stderr that nobody reads": strays_unheard,
    "writes half a message and stops": half_a_message,
    "writes half of a very long message, and stops until it is cancelled": half_a_long_message,
    "writes a message without its newline and stops": a_message_without_its_newline,
    "never reads, while the editor writes": never_reads,
    "is stopped (SIGSTOP)": stopped,
}


def run(scale: Scale) -> Iterator[Outcome]:
    trials = planned(scale)
    with hear_signals(), ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(tried, trials))
    for name, kind in KINDS.items():
        mine = [trial for trial in trials if trial.kind is kind]
        trouble = tuple(text for trial in mine for text in trial.trouble)
        looked_at, left = sum(trial.looked_at for trial in mine), sum(trial.left for trial in mine)
        also = f"longest end {max(trial.took for trial in mine):.1f} s"
        yield Outcome(f"{name}", len(mine), looked_at, "answers", len(trouble), left, also, trouble)


def planned(scale: Scale) -> list[Trial]:
    ways = [(None, False)] if scale.short else list(product((None, signal.SIGTERM), (False, True))) * 3
    trials = list(product(KINDS.values(), ways))
    scale.chance("order").shuffle(trials)
    return [
        Trial(kind, ending, deaf, place_for(scale.place / str(number)), scale)
        for number, (kind, (ending, deaf)) in enumerate(trials)
    ]


def place_for(base: Path) -> Proxied:
    base.mkdir()
    return Proxied(base)


def tried(trial: Trial) -> None:
    try:
        with trial.opened:
            try:
                editor = trial.kind(trial)
                trial.end(editor)
                what_was_last(trial, editor)
            finally:
                end(trial.mark)  # survivors hold the editor's streams
    except Exception as problem:  # noqa: BLE001 - it is told, and the other trials go on
        trial.trouble.append(f"{type(problem).__name__}: {problem}")
    finally:
        how = f"{trial.kind.__name__}, {'EOF' if trial.ending is None else trial.ending}{', deaf' * trial.deaf}"
        trial.trouble = [f"{how}: {text}" for text in trial.trouble]
