"""Starts the agent on Windows: finds ``npx.cmd`` for ``npx``, opens no window, and ties the agent's processes to ours.

A job object ends them when we end. A process can leave the job only if it was started with CREATE_BREAKAWAY_FROM_JOB.
What the agent starts in its first moments, before it is in the job, is not in the job either. Follows the documentation
of CreateProcess and job objects; used on Windows only.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from acp_proxy.shell.agent_process import NOT_FOUND, AgentProcess

_KILL_ON_JOB_CLOSE, _BREAKAWAY_OK = 0x2000, 0x0800
_EXTENDED_LIMIT_INFORMATION = 9
_LIMIT_FLAGS_OFFSET = 16
_INFORMATION_SIZE = 144  # JOBOBJECT_EXTENDED_LIMIT_INFORMATION, 64 bit


class WindowsAgent(AgentProcess):
    """A started agent on Windows."""

    def __init__(self, process: "subprocess.Popen[bytes]", stdin: int, stdout: int) -> None:
        super().__init__(process.pid, stdin, stdout)
        self._process = process

    def poll(self) -> bool:
        self.status = self._process.poll()
        return self.status is not None


def start_agent(command: list[str]) -> AgentProcess:
    """Start the agent. If its command is not found, this process exits with 127."""
    found = resolved(command, shutil.which)
    if found is None:
        os.write(2, f"acp-proxy: {command[0]}: not found. Check the agent's command in your editor.\n".encode())
        os._exit(NOT_FOUND)
    process = subprocess.Popen(
        found,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    end_with_us(int(process._handle), ctypes.windll.kernel32)  # type: ignore[attr-defined,unused-ignore]
    assert process.stdin is not None
    assert process.stdout is not None
    return WindowsAgent(process, os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno()))


def resolved(command: list[str], which: Callable[[str], str | None]) -> list[str] | None:
    """The command with its program's full path, extension included; None if there is no such program."""
    program = which(command[0])
    return None if program is None else [program, *command[1:]]


def end_with_us(process: int, kernel: Any) -> None:
    """Put the agent into a job that closes with our handle; the system closes that when we end."""
    job = kernel.CreateJobObjectW(None, None)
    kernel.SetInformationJobObject(job, _EXTENDED_LIMIT_INFORMATION, limits(), _INFORMATION_SIZE)
    kernel.AssignProcessToJobObject(job, process)


def limits() -> bytes:
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION: closing the job ends its processes; some may be started outside it."""
    information = bytearray(_INFORMATION_SIZE)
    flags = _KILL_ON_JOB_CLOSE | _BREAKAWAY_OK
    information[_LIMIT_FLAGS_OFFSET : _LIMIT_FLAGS_OFFSET + 4] = flags.to_bytes(4, "little")
    return bytes(information)
