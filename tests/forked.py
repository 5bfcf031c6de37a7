"""Starts ``acp-proxy`` without its imports, which take most of a short process's time.

A process that has imported everything waits for each worker of the tests (multiprocessing's fork server) and forks:
a process of its own for each start, with its streams, variables and directory. Tests of the start itself, and those
that give Python other settings, start Python: all do if the variable FRESH_PROCESSES is set.
"""

import io
import locale
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from types import ModuleType
from typing import Any

PROXY = (sys.executable, "-m", "acp_proxy")
PRELOADED = (
    "acp_proxy.relay.serve",
    "acp_proxy.relay.load_performer",
    "acp_proxy.relay.load_thread",
    "acp_proxy.relay.idle_work",
    "acp_proxy.relay.start_sync_round",
    "acp_proxy.cli.app",
    "acp_proxy.tools.browse.command",
    "rich.table",
    "tests.forked",
)
_FRESH = ("FRESH_PROCESSES", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
_POSSIBLE = sys.platform == "linux" and not any(map(os.environ.get, _FRESH))
is_on = False
"""Set by tests/conftest.py: what measures and tries agents with the tests' client starts Python."""
_KNOWN = frozenset({"bufsize", "cwd", "env", "start_new_session", "stderr", "stdin", "stdout", "text"})
_OF_PYTHON = ("PYTHON", "LC_", "LANG")
"""How the names of variables begin that Python reads when it starts."""
_LOCK = threading.Lock()


def _settings(variables: Mapping[str, str]) -> dict[str, str]:
    """What Python reads when it starts. UTF-8 is what it uses here anyway."""
    found = {name: value for name, value in variables.items() if name.startswith(_OF_PYTHON)}
    if found.get("LC_ALL") == "C.UTF-8" and locale.getencoding().lower() == "utf-8":
        del found["LC_ALL"]
    return found


_SETTINGS = _settings(os.environ)


def start(command: Sequence[str | os.PathLike[str]], **options: Any) -> "subprocess.Popen[Any]":
    """A started command; ``options``: of ``Popen``."""
    same = _settings(options.get("env") or os.environ) == _SETTINGS
    if is_on and _POSSIBLE and same and tuple(command[: len(PROXY)]) == PROXY and options.keys() <= _KNOWN:
        return _Forked(command, **options)
    return subprocess.Popen(command, **options)


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    given: str | bytes | None = None,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> "subprocess.CompletedProcess[Any]":
    """A command that has ended, with what it said. ``given``: what it reads."""
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(command, **pipes | options) as process:
        try:
            said = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    ended = subprocess.CompletedProcess(process.args, process.returncode, *said)
    if check:
        ended.check_returncode()
    return ended


class _Forked(subprocess.Popen[Any]):
    """The parts of ``Popen`` that start a process and wait for its end."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
        **options: Any,
    ) -> None:
        self._words = [os.fspath(word) for word in command[len(PROXY) :]]
        self._variables = dict(os.environ if env is None else env)
        self._place = os.fspath(cwd or os.getcwd())
        self._leads = start_new_session
        super().__init__(command, **options)

    def _execute_child(self, *given: Any) -> None:
        read, _, _, write, _, errors = ends = given[10:16]  # -1: as in this process
        streams = [_End(number if end == -1 else end) for number, end in enumerate((read, write, errors))]
        with _LOCK:
            mask = os.umask(0o022)
            os.umask(mask)
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(list(PRELOADED))
            self._process = context.Process(
                target=_become,
                args=(self._words, self._variables, self._place, mask, self._leads, streams),
                daemon=True,
            )
            ours, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
            try:
                self._process.start()  # would import our main module too, which may be pytest
            finally:
                sys.modules["__main__"] = ours
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined] # ours are open now

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        if self.returncode is None:
            self._ended(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None and not self._ended(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _ended(self, timeout: float | None) -> bool:
        if not connection.wait([self._process.sentinel], timeout):
            return False
        with _LOCK:
            if self.returncode is None:
                self.returncode = self._process.exitcode
        return True


class _End:
    """A file descriptor on its way to the new process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getstate__(self) -> Any:
        from multiprocessing.reduction import DupFd  # Windows has none

        return DupFd(self.number)

    def __setstate__(self, sent: Any) -> None:
        self.number = sent.detach()


def _become(
    words: list[str], variables: dict[str, str], place: str, mask: int, leads: bool, streams: list[_End]
) -> None:
    if leads:
        os.setsid()
    for number, end in enumerate(streams):
        os.dup2(end.number, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    os.umask(mask)
    os.chdir(place)
    sys.stdin, sys.stdout, sys.stderr = (_opened(number, old) for number, old in enumerate(_STANDARD))
    import acp_proxy.__main__ as program

    sys.argv = [program.__file__, *words]
    try:
        program.main()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


_STANDARD = (sys.stdin, sys.stdout, sys.stderr)


def _opened(number: int, like: Any) -> io.TextIOWrapper:
    """A standard stream, as Python opens it when it starts."""
    mode = "wb" if number else "rb"
    lines = number == 2 or os.isatty(number)
    return io.TextIOWrapper(
        open(number, mode, closefd=False), encoding=like.encoding, errors=like.errors, line_buffering=lines
    )
