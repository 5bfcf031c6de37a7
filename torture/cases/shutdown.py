"""Real launchers, ended in every way.

An agent that ends with its input gets an endless grace. A deaf one, which ignores the end of its input and SIGTERM,
gets a short one. A detached process must stay alive; then the case ends it.
"""

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.client import Client, OutputEnded
from torture.launchers import Launcher, plain, surroundings, through_npx, through_uvx
from torture.outcome import Outcome, Scale
from torture.processes import SECONDS, are_gone, end, environment, hear_signals, is_gone, list_marked, runs

AT_ONCE = 6
"""Simultaneous trials: they mostly wait."""
ENDLESS_GRACE, SHORT_GRACE = "600", "0.3"
STATUS = 17
EXITS = {"methods": {"_exit": {"before": [{"exit": STATUS}]}}}

EDITOR = """
import subprocess, sys
proxy = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
proxy.stdin.write(sys.stdin.buffer.readline())
proxy.stdin.flush()
proxy.stdout.readline()
print(proxy.pid, flush=True)
sys.stdin.read()
"""
"""An editor that can be killed: it sends one line to its proxy, and prints the proxy's pid when that is answered."""


@dataclass(frozen=True, slots=True)
class Ending:
    name: str
    number: int | None = None
    """The signal to the proxy."""


EOF, EDITOR_KILLED, AGENT_EXITS = Ending("EOF"), Ending("the editor SIGKILLed"), Ending("the agent exits")
PROXY_KILLED = Ending("the proxy SIGKILLed", signal.SIGKILL)
SIGNALS = [Ending(number.name, number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
ENDINGS = [EOF, *SIGNALS, EDITOR_KILLED, PROXY_KILLED, AGENT_EXITS]

SHORT = [
    ("npx", SIGNALS[0]),
    ("uvx", EDITOR_KILLED),
    ("no launcher, a deaf agent", PROXY_KILLED),
    ("a shell that waits, a deaf agent", EOF),
    ("a wrapper that forks and exits", EOF),
    ("an agent whose dev server detached itself", SIGNALS[2]),
    ("a shell that waits, a deaf agent", PROXY_KILLED),
]
"""The most significant ones."""


@dataclass
class Trial:
    """One launcher, ended in one way, and the result."""

    launcher: Launcher
    ending: Ending
    home: Path
    looked_at: int = 0
    left: int = 0
    lives_on: bool = False
    trouble: list[str] = field(default_factory=list)

    @property
    def is_beyond_us(self) -> bool:
        """Whether nobody is left who could end a deaf agent."""
        has_death_signal = sys.platform == "linux" and not self.launcher.words
        return self.launcher.deaf and (self.launcher.forks or (self.ending == PROXY_KILLED and not has_death_signal))


def run(scale: Scale) -> Iterator[Outcome]:
    (scale.place / "script.json").write_text(json.dumps(EXITS))
    with hear_signals(), ThreadPoolExecutor(AT_ONCE) as pool:
        npx, uvx = pool.map(lambda prepare: prepare(scale.place), (through_npx, through_uvx))
        launchers = [*plain(), *npx, *uvx]
        trials = planned(launchers, scale)
        list(pool.map(tried, trials))
    missing = {"npx", "uvx"} - {launcher.name for launcher in launchers}
    for launcher in launchers:
        if mine := [trial for trial in trials if trial.launcher == launcher and not trial.is_beyond_us]:
            yield outcome(launcher.name, mine)
    yield beyond_us([trial for trial in trials if trial.is_beyond_us], missing)


def planned(launchers: Sequence[Launcher], scale: Scale) -> list[Trial]:
    pairs = [(launcher, ending) for launcher in launchers for ending in ENDINGS]
    # A wrapper that is gone ends the proxy in any case.
    pairs = [(launcher, ending) for launcher, ending in pairs if not (launcher.forks and ending == AGENT_EXITS)]
    if scale.short:
        pairs = [(launcher, ending) for launcher, ending in pairs if (launcher.name, ending) in SHORT]
    pairs *= scale.of(full=3, short=1)
    scale.chance("order").shuffle(pairs)
    return [Trial(launcher, ending, scale.place / str(number)) for number, (launcher, ending) in enumerate(pairs)]


def outcome(name: str, trials: list[Trial]) -> Outcome:
    left_out = [ending.name for ending in ENDINGS if not any(trial.ending == ending for trial in trials)]
    trouble = [text for trial in trials for text in trial.trouble]
    looked_at, left = sum(trial.looked_at for trial in trials), sum(trial.left for trial in trials)
    also = f"not: {', '.join(left_out)}" if left_out else ""
    return Outcome(name, len(trials), looked_at, "processes", len(trouble), left, also, tuple(trouble))


def beyond_us(trials: list[Trial], missing: set[str]) -> Outcome:
    """The outcome: the agent stays alive, and the case ends it."""
    living = sum(trial.lives_on for trial in trials)
    trouble = [text for trial in trials for text in trial.trouble]
    also = f"{living} lived on"
    also += "".join(f"; {name} is not installed, so not tried" for name in sorted(missing))
    name = "beyond acp-proxy: a deaf agent without its launcher"
    return Outcome(name, len(trials), len(trials), "agents", len(trouble), 0, also, tuple(trouble))


def tried(trial: Trial) -> None:
    trial.home.mkdir()
    mark = str(trial.home)
    try:
        attempt(trial, mark)
    except Exception as problem:  # noqa: BLE001 - it is told, and the other trials go on
        trial.trouble.append(f"{type(problem).__name__}: {problem}")
    finally:
        trial.trouble = [f"{trial.launcher.name}, {trial.ending.name}: {text}" for text in trial.trouble]


def attempt(trial: Trial, mark: str) -> None:
    pidfile = trial.home / "detached.pid"
    variables = environment(mark, DETACHED=str(pidfile), **surroundings(trial.home.parent))
    killed = trial.ending == EDITOR_KILLED
    before = [sys.executable, "-S", "-E", "-c", EDITOR] if killed else []
    with contextlib.ExitStack() as opened:
        editor = opened.enter_context(Client([*before, *command(trial)], env=variables, cwd=trial.home))
        opened.callback(lambda: end(mark))  # first: survivors hold the editor's streams
        proxy = psutil.Process(begun(editor, trial))
        detached = [psutil.Process(int(pidfile.read_text()))] if trial.launcher.detaches else []
        ours = [psutil.Process(editor.pid), proxy, *detached]
        tree = [process for process in list_marked(mark) if process not in ours]
        bring_about(trial.ending, editor)
        status = None if killed else editor.wait(SECONDS)
        if not is_gone(proxy):
            trial.trouble.append("the proxy does not end")
        look_at(trial, tree, mark, detached)
    if status is not None and status not in statuses(trial.launcher, trial.ending):
        trial.trouble.append(f"the proxy's status is {status}")


def command(trial: Trial) -> list[str]:
    agent = [sys.executable, "-m", "tests.scripted.agent", "--script", str(trial.home.parent / "script.json")]
    agent += ["--ignore-eof", "--ignore-sigterm"] if trial.launcher.deaf else []
    grace = SHORT_GRACE if trial.launcher.deaf else ENDLESS_GRACE
    proxy = [sys.executable, "-m", "acp_proxy", "run", "--store", str(trial.home / "store"), "--grace", grace]
    return [*proxy, "--", *trial.launcher.words, *agent]


def begun(editor: Client, trial: Trial) -> int:
    """Wait until the agent has answered, or its wrapper has ended the proxy. The proxy's pid."""
    hello = {"protocolVersion": 1, "clientCapabilities": {}}
    if trial.ending == EDITOR_KILLED:
        editor.start_request("initialize", hello)
        number = editor.wait_for(lambda message: isinstance(message, int), SECONDS).message
        return int(number)
    with contextlib.suppress(OutputEnded) if trial.launcher.forks else contextlib.nullcontext():
        editor.request("initialize", hello, SECONDS)
    return editor.pid


def bring_about(ending: Ending, editor: Client) -> None:
    if ending == AGENT_EXITS:
        editor.start_request("_exit")
    elif ending == EDITOR_KILLED:
        editor.kill()
    elif ending == EOF:
        editor.close_stdin()
    else:
        assert ending.number is not None
        editor.signal(signal.Signals(ending.number))


def look_at(trial: Trial, tree: list[psutil.Process], mark: str, detached: list[psutil.Process]) -> None:
    """The proxy has ended: only the detached process still runs."""
    trial.looked_at = len(tree) + len(detached)
    there = [process for process in list_marked(mark) if process not in detached]
    if trial.is_beyond_us:
        trial.lives_on = any(runs(process) for process in there)
        return
    if trial.launcher.forks or trial.ending == PROXY_KILLED:
        are_gone(there)  # they hear of it, and nobody waits for them
    left = [process for process in there if runs(process)]
    trial.left = len(left)
    trial.trouble += [f"is left: {process}" for process in left]
    trial.trouble += [f"was ended, though it had left the tree: {process}" for process in detached if not runs(process)]


def statuses(launcher: Launcher, ending: Ending) -> set[int]:
    """The allowed exit statuses of the proxy: that of the agent's command, or 128+n for a signal."""
    term, kill = 128 + signal.SIGTERM, 128 + signal.SIGKILL
    if ending == PROXY_KILLED:
        return {-signal.SIGKILL}
    if launcher.forks:
        return {0}
    if ending == AGENT_EXITS:
        return {STATUS}
    if ending.number is None:
        return {0} if not launcher.deaf else {term} if launcher.words else {kill}
    passed_on = 128 + ending.number
    if not launcher.deaf:
        return {0, passed_on}  # whichever comes first
    return {passed_on, term, kill} if launcher.words else {kill} if ending.number == signal.SIGTERM else {passed_on}
