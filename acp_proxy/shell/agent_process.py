"""The agent's process: started before anything else, ended for certain.

The start imports next to nothing. The agent inherits stderr, environment, directory and process group, and is tied to
our life as well as the platform can (``tie``). On Linux the kernel ties it to the thread that forked, so it is the main
thread that forks.

The end is bounded: end of file, then ``grace``, SIGTERM to what is left of its process tree, ``TERM_SECONDS``,
SIGKILL. The tree is looked at once, when the end begins; what has left it by then is not ours to end.
"""

import os
import sys

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    import psutil

NOT_FOUND, NOT_EXECUTABLE = 127, 126
TERM_SECONDS = 2.0

DEATH_SIGNAL, JOB, END_OF_FILE = "death signal", "job", "end of file"
"""What an agent hears of our death, when we cannot tell it ourselves. The last is all that is left to macOS."""

_SIGKILL = 9
_PR_SET_PDEATHSIG = 1
_RESET_SIGNALS = (13, 25)  # SIGPIPE and SIGXFSZ: Python ignores them, and what is ignored stays so through exec


class AgentProcess:
    """A started agent: ``pid``, and our ends of its stdin and stdout."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.status: int | None = None
        """The wait status once it has ended: negative for a signal, as in subprocess."""

    def poll(self) -> bool:
        """Whether it has ended; then ``status`` is set."""
        if self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.status = 0
                return True
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    @property
    def exit_code(self) -> int:
        """What we exit with: its own status, 128+n for a signal."""
        status = self.status or 0
        return 128 - status if status < 0 else status

    @property
    def how_it_ended(self) -> str:
        return how_it_ended(self.status or 0)


def how_it_ended(status: int) -> str:
    """In words, of a wait status as subprocess has it."""
    if status >= 0:
        return f"exited with status {status}"
    import signal

    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"


def tie(platform: str) -> str:
    """What ends the agent with us there, also when we are killed."""
    return {"linux": DEATH_SIGNAL, "win32": JOB}.get(platform, END_OF_FILE)


def start(command: list[str]) -> AgentProcess:
    """Fork it. A command that cannot be started says so on stderr and ends with 127 or 126, as a shell does."""
    parent = os.getpid()
    agent_in, stdin = os.pipe()
    stdout, agent_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _die_with(parent)
            os.dup2(agent_in, 0)
            os.dup2(agent_out, 1)
            os.execvp(command[0], command)
        except OSError as problem:
            found = not isinstance(problem, FileNotFoundError)
            reason = "cannot be executed" if found else "not found"
            os.write(2, f"acp-proxy: {command[0]}: {reason}. Check the agent's command in your editor.\n".encode())
            os._exit(NOT_EXECUTABLE if found else NOT_FOUND)
        finally:
            os._exit(NOT_EXECUTABLE)
    os.close(agent_in)
    os.close(agent_out)
    return AgentProcess(pid, stdin, stdout)


def become(command: list[str]) -> int:
    """Replace this process with the agent. Returns only the exit code of a failure."""
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        os.write(2, f"acp-proxy: {command[0]}: not found\n".encode())
        return NOT_FOUND
    except OSError:
        os.write(2, f"acp-proxy: {command[0]}: cannot be executed\n".encode())
        return NOT_EXECUTABLE


def _die_with(parent: int) -> None:
    """In the child: reset what Python changed, and end when the parent does."""
    if tie(sys.platform) == DEATH_SIGNAL:
        for number in _RESET_SIGNALS:
            _call("signal", number, 0)
        _call("prctl", _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + _SIGKILL)
    else:
        import signal

        for number in _RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)


def _call(function: str, *words: int) -> None:
    """One of the C library, by what ``ctypes`` itself calls: that takes longer to import than we to fork."""
    import _ctypes

    try:
        itself = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
        _ctypes.call_function(_ctypes.dlsym(itself, function), words)
    except AttributeError:  # nothing promises that they stay
        import ctypes

        getattr(ctypes.CDLL(None), function)(*words)


def tree(pid: int) -> "list[psutil.Process]":
    """The agent's process and its descendants, as they are now; known by more than their number."""
    import psutil

    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def steps(platform: str, grace: float) -> tuple[tuple[int | None, float], ...]:
    """The end: the signal to what is left of the tree, and how long it then has. The first is the end of its input."""
    import signal

    if platform == "win32":  # where every signal ends a process at once
        return (None, grace), (signal.SIGTERM, TERM_SECONDS)
    return (None, grace), (signal.SIGTERM, TERM_SECONDS), (_SIGKILL, TERM_SECONDS)


def send(processes: "list[psutil.Process]", number: int) -> None:
    """A signal to each that is still there."""
    import psutil

    for process in processes:
        try:
            process.send_signal(number)
        except (psutil.Error, OSError):
            continue


def alive(processes: "list[psutil.Process]") -> "list[psutil.Process]":
    """Those that still run."""
    import psutil

    def runs(process: "psutil.Process") -> bool:
        try:
            return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    return [process for process in processes if runs(process)]
