"""The agent's process: starts it first of all, and ends it reliably.

Starting imports almost nothing. The agent inherits stderr, environment, directory and process group, and ends with this
process as far as the platform allows: on Linux the kernel kills it with the thread that forked it, so the main thread
forks; on Windows a job ends it (``windows_agent``); elsewhere, the end of its input is all that it notices.

Ending is bounded: end of input, ``grace``, SIGTERM to what is left of its process tree, ``TERM_SECONDS``, SIGKILL. The
tree is determined once, when the end begins; processes that have left it by then are not ended.
"""

import errno
import os
import sys

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from typing import NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
TERM_SECONDS = 2.0

_SHELL = "/bin/sh"
_SCRIPT_BEGINNING = 256
"""Bytes of a file in which a script has no NUL."""
_SIGKILL = 9
_FIRST_CRASH_STATUS = 2**31
"""The first status of a crash on Windows, such as 0xC0000005."""
_PR_SET_PDEATHSIG = 1
_SIGNALS_TO_RESET = (13, 25)
"""SIGPIPE and SIGXFSZ: Python ignores them, and exec keeps that."""


class AgentProcess:
    """A started agent: its process id, and our ends of its stdin and stdout (file descriptors)."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.status: int | None = None
        """The exit status once it has ended; negative for a signal, as in subprocess."""

    def poll(self) -> bool:
        """Whether it has ended; sets ``status``."""
        if self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.status = 0
                return True
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None


def exit_code(status: int) -> int:
    """The exit code for a process that ends as another did with this status: the same, or 128+n for signal n.

    Windows' codes for crashes are beyond what ``os._exit`` takes, except as negative numbers.
    """
    if status >= _FIRST_CRASH_STATUS:
        return status - 2 * _FIRST_CRASH_STATUS
    return 128 - status if status < 0 else status


def describe_end(status: int) -> str:
    """A description of an exit status as in subprocess, such as "exited with status 1"."""
    if status >= _FIRST_CRASH_STATUS:
        return f"exited with status 0x{status:08X}"
    if status >= 0:
        return f"exited with status {status}"
    import signal

    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"


def start_agent(command: list[str]) -> AgentProcess:
    """Fork the agent. If its command cannot run, the child says so on stderr and exits with 127 or 126 like a shell."""
    parent = os.getpid()
    agent_in, stdin = os.pipe()
    stdout, agent_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _prepare_child(parent)
            os.dup2(agent_in, 0)
            os.dup2(agent_out, 1)
            _execute(command)
        except OSError as problem:
            exists = not isinstance(problem, FileNotFoundError)
            reason = "cannot be executed" if exists else "not found"
            os.write(2, f"acp-proxy: {command[0]}: {reason}. Check the agent's command in your editor.\n".encode())
            os._exit(NOT_EXECUTABLE if exists else NOT_FOUND)
        finally:
            os._exit(NOT_EXECUTABLE)
    os.close(agent_in)
    os.close(agent_out)
    return AgentProcess(pid, stdin, stdout)


def replace_process(command: list[str]) -> int:
    """Replace this process with the agent. Returns an exit code only if that fails. Not for Windows."""
    try:
        _execute(command)
    except FileNotFoundError:
        os.write(2, f"acp-proxy: {command[0]}: not found\n".encode())
        return NOT_FOUND
    except OSError:
        os.write(2, f"acp-proxy: {command[0]}: cannot be executed\n".encode())
        return NOT_EXECUTABLE


def _execute(command: list[str]) -> "NoReturn":
    """Replace this process with a command. Raises OSError."""
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        if problem.errno != errno.ENOEXEC:
            raise
        # A script without ``#!``: the C library's execvp, with which many editors start agents, gives it to the shell.
        import shutil

        path = shutil.which(command[0]) or command[0]
        with open(path, "rb") as file:
            beginning = file.read(_SCRIPT_BEGINNING)
        if not beginning or b"\0" in beginning:  # empty, or a program of another architecture
            raise
        os.execv(_SHELL, [_SHELL, path, *command[1:]])


def _prepare_child(parent: int) -> None:
    """In the child: reset what Python changed, and end when the parent ends."""
    if sys.platform == "linux":
        for number in _SIGNALS_TO_RESET:
            _call_c_library("signal", number, 0)
        # The signal comes when the *thread* that forked ends, not the process. So the main thread forks: it lives until
        # os._exit. From any other thread the agent would be killed in the midst of a conversation.
        _call_c_library("prctl", _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the line above, so no signal will come
            os._exit(128 + _SIGKILL)
    else:
        import signal

        for number in _SIGNALS_TO_RESET:
            signal.signal(number, signal.SIG_DFL)


def _call_c_library(function: str, *arguments: int) -> None:
    """Call a function of the C library through ctypes' C module; importing ctypes takes longer than the fork."""
    import _ctypes

    try:
        library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
        _ctypes.call_function(_ctypes.dlsym(library, function), arguments)
    except AttributeError:  # a private API, which may change
        import ctypes

        getattr(ctypes.CDLL(None), function)(*arguments)


def find_end_steps(platform: str, grace: float) -> tuple[tuple[int | None, float], ...]:
    """The steps of an end: the signal for what is left of the tree (None: end of input), and seconds to wait."""
    import signal

    if platform == "win32":  # every signal ends a process at once on Windows
        return (None, grace), (signal.SIGTERM, TERM_SECONDS)
    return (None, grace), (signal.SIGTERM, TERM_SECONDS), (_SIGKILL, TERM_SECONDS)
