"""Starts the agent on Windows: finds ``npx.cmd`` for ``npx``, opens no window, and ties the agent's processes to ours.

The agent is put into a job object before it runs. The job ends everything the agent started when we end, except what
was started with CREATE_BREAKAWAY_FROM_JOB.

Windows runs a batch file with cmd.exe, which interprets its arguments again. An argument that would reach the batch
file changed is refused. Follows the documentation of CreateProcess, cmd.exe and job objects; used on Windows only.
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import Any

from acp_proxy.relay.agent_process import NOT_EXECUTABLE, NOT_FOUND, AgentProcess, exit_code

_KILL_ON_JOB_CLOSE, _BREAKAWAY_OK = 0x2000, 0x0800
_EXTENDED_LIMIT_INFORMATION = 9
_LIMIT_FLAGS_OFFSET = 16
_INFORMATION_SIZE = 144
"""The bytes of JOBOBJECT_EXTENDED_LIMIT_INFORMATION, 64 bit."""
_CREATE_SUSPENDED = 0x4
_PLAIN_ARGUMENT = re.compile(r"[A-Za-z0-9_@:./\\+-]+")
"""Arguments that cmd.exe leaves alone even without quotes."""
_CHANGED_BY_CMD = re.compile(r'["%\x00-\x1f\x7f]')
"""What cmd.exe interprets even inside quotes."""


class WindowsAgent(AgentProcess):
    """A started agent on Windows."""

    def __init__(self, process: "subprocess.Popen[bytes]", stdin: int, stdout: int) -> None:
        super().__init__(process.pid, stdin, stdout)
        self._process = process

    def poll(self) -> bool:
        self.status = self._process.poll()
        return self.status is not None


def start_agent(command: list[str]) -> AgentProcess:
    """Start the agent. If its command cannot run, this process says so on stderr and exits with 127 or 126."""
    agent_in, stdin = os.pipe()
    stdout, agent_out = os.pipe()
    flags: int = getattr(subprocess, "CREATE_NO_WINDOW", 0) | _CREATE_SUSPENDED
    try:
        program, arguments = find_program(command)
        process = subprocess.Popen(arguments, executable=program, stdin=agent_in, stdout=agent_out, creationflags=flags)
    except OSError as problem:
        from acp_proxy.relay.refuse_start import refuse_first_request

        status = _report_failed_start(command, problem)
        refuse_first_request(_describe_failed_start(command, problem))
        os._exit(status)
    os.close(agent_in)  # else the agent would not see the end of its input, nor we the end of its output
    os.close(agent_out)
    handle = int(process._handle)  # type: ignore[attr-defined,unused-ignore]
    dlls: Any = ctypes.windll  # type: ignore[attr-defined,unused-ignore]
    end_with_us(handle, dlls.kernel32)
    dlls.ntdll.NtResumeProcess(handle)
    return WindowsAgent(process, stdin, stdout)


def run_in_terminal(command: list[str]) -> int:
    """Run the agent in this terminal and return its exit code: on Windows, no process can replace itself."""
    try:
        program, arguments = find_program(command)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the agent too
        return exit_code(subprocess.call(arguments, executable=program))
    except OSError as problem:
        return _report_failed_start(command, problem)


def is_console(fd: int) -> bool:
    """Whether this is a console, and not another device such as NUL."""
    import msvcrt  # only Windows has it

    handle = msvcrt.get_osfhandle(fd)  # type: ignore[attr-defined,unused-ignore]
    dlls: Any = ctypes.windll  # type: ignore[attr-defined,unused-ignore]
    return bool(dlls.kernel32.GetConsoleMode(ctypes.c_void_p(handle), ctypes.byref(ctypes.c_uint32())))


def _report_failed_start(command: list[str], problem: OSError) -> int:
    with contextlib.suppress(OSError):
        os.write(2, f"acp-proxy: {_describe_failed_start(command, problem)}\n".encode())
    return NOT_FOUND if isinstance(problem, FileNotFoundError) else NOT_EXECUTABLE


def _describe_failed_start(command: list[str], problem: OSError) -> str:
    return f"{command[0]}: {problem.strerror}. Check the agent's command in your editor."


def find_program(command: list[str]) -> tuple[str | None, str | list[str]]:
    """The program to start and its arguments, as ``subprocess.Popen`` wants them.

    Raises OSError if there is no such program, or if it cannot be given these arguments.
    """
    program = resolve_command(command, shutil.which)
    if program is None:
        if os.path.dirname(command[0]) and os.path.exists(command[0]):
            raise OSError(errno.ENOEXEC, "not a program: its name must end in .exe, .cmd or another ending in PATHEXT")
        raise FileNotFoundError(errno.ENOENT, "not found")
    return make_popen_arguments(program, os.environ.get("SYSTEMROOT", r"C:\Windows"))


def resolve_command(command: list[str], which: Callable[[str], str | None]) -> list[str] | None:
    """The command with its program's full path, extension included; None if there is no such program."""
    program = which(command[0])
    return None if program is None else [program, *command[1:]]


def make_popen_arguments(command: list[str], windows: str) -> tuple[str | None, str | list[str]]:
    """As ``find_program``, for a command that begins with a full path; cmd.exe runs a batch file.

    ``windows``: the system's directory. Raises OSError for an argument that cmd.exe would change.
    """
    if not is_batch(command[0]):
        return None, command
    for word in command:
        if _CHANGED_BY_CMD.search(word):
            reason = (
                f"its argument {word!r} would change on the way, because this is a batch file and cmd.exe interprets "
                'quotes ("), % and control characters. Start the program behind it instead, such as node with the path '
                "of the agent's script"
            )
            raise OSError(errno.EINVAL, reason)
    line = " ".join([f'"{command[0]}"', *map(_quote, command[1:])])
    # No AutoRun commands (/d), no delayed expansion of "!" (/v:off); /s takes away the outer quotes only.
    return rf"{windows}\System32\cmd.exe", f'cmd.exe /d /e:on /v:off /s /c "{line}"'


def is_batch(program: str) -> bool:
    """Whether Windows runs this file with cmd.exe. It ignores dots and spaces at the end of a name."""
    return program.rstrip(". ").lower().endswith((".bat", ".cmd"))


def _quote(argument: str) -> str:
    if _PLAIN_ARGUMENT.fullmatch(argument):
        return argument
    ending = len(argument) - len(argument.rstrip("\\"))  # doubled, else the last one would escape the quote
    return '"' + argument + "\\" * ending + '"'


def end_with_us(process: int, kernel: Any) -> None:
    """Put the agent into a job that closes with our handle; the system closes that when we end."""
    job = kernel.CreateJobObjectW(None, None)
    kernel.SetInformationJobObject(job, _EXTENDED_LIMIT_INFORMATION, encode_limits(), _INFORMATION_SIZE)
    kernel.AssignProcessToJobObject(job, process)


def encode_limits() -> bytes:
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION: closing the job ends its processes; some may be started outside it."""
    information = bytearray(_INFORMATION_SIZE)
    flags = _KILL_ON_JOB_CLOSE | _BREAKAWAY_OK
    information[_LIMIT_FLAGS_OFFSET : _LIMIT_FLAGS_OFFSET + 4] = flags.to_bytes(4, "little")
    return bytes(information)
