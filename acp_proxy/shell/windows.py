"""The start on Windows: ``npx`` is ``npx.cmd``, there is no window, and a job object ends the tree when we end.

Written after the documentation of CreateProcess and of job objects; run on Windows only.
"""

import ctypes
import os
import shutil
import subprocess

from acp_proxy.shell.agent import NOT_FOUND, Agent

_KILL_ON_JOB_CLOSE = 0x2000
_EXTENDED_LIMIT_INFORMATION = 9
_LIMIT_FLAGS_OFFSET = 16
_INFORMATION_SIZE = 144  # JOBOBJECT_EXTENDED_LIMIT_INFORMATION, 64 bit


class WindowsAgent(Agent):
    def __init__(self, process: "subprocess.Popen[bytes]", stdin: int, stdout: int) -> None:
        super().__init__(process.pid, stdin, stdout)
        self._process = process

    def poll(self) -> bool:
        self.status = self._process.poll()
        return self.status is not None


def start_agent(command: list[str]) -> Agent:
    """As ``agent.start``. A command that is not there ends us with 127."""
    program = shutil.which(command[0])
    if program is None:
        os.write(2, f"acp-proxy: {command[0]}: not found. Check the agent's command in your editor.\n".encode())
        os._exit(NOT_FOUND)
    process = subprocess.Popen(
        [program, *command[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    _end_with_us(process)
    assert process.stdin is not None
    assert process.stdout is not None
    return WindowsAgent(process, os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno()))


def _end_with_us(process: "subprocess.Popen[bytes]") -> None:
    """Put the agent into a job that closes with our handle, which the system closes when we die."""
    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    job = kernel.CreateJobObjectW(None, None)
    information = bytearray(_INFORMATION_SIZE)
    information[_LIMIT_FLAGS_OFFSET : _LIMIT_FLAGS_OFFSET + 4] = _KILL_ON_JOB_CLOSE.to_bytes(4, "little")
    buffer = (ctypes.c_char * _INFORMATION_SIZE).from_buffer(information)
    kernel.SetInformationJobObject(job, _EXTENDED_LIMIT_INFORMATION, buffer, _INFORMATION_SIZE)
    kernel.AssignProcessToJobObject(job, int(process._handle))  # type: ignore[attr-defined,unused-ignore]
