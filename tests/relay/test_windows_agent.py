"""The start on Windows: its decisions and its system calls. These tests run on every platform."""

import ctypes
from typing import Any

import pytest

from acp_proxy.relay import windows_agent


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION, as in the documentation of Windows."""

    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_uint64),
        ("MaximumWorkingSetSize", ctypes.c_uint64),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_uint64),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION on a 64-bit system."""

    _fields_ = (
        ("BasicLimitInformation", BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_uint64),
        ("JobMemoryLimit", ctypes.c_uint64),
        ("PeakProcessMemoryUsed", ctypes.c_uint64),
        ("PeakJobMemoryUsed", ctypes.c_uint64),
    )


KILL_ON_JOB_CLOSE, BREAKAWAY_OK = 0x2000, 0x800


def test_the_job_ends_all_its_processes_except_those_that_ask_to_leave() -> None:
    limits = ExtendedLimits.from_buffer_copy(windows_agent.encode_limits())
    assert len(windows_agent.encode_limits()) == ctypes.sizeof(ExtendedLimits)
    assert limits.BasicLimitInformation.LimitFlags == KILL_ON_JOB_CLOSE | BREAKAWAY_OK
    limits.BasicLimitInformation.LimitFlags = 0
    assert bytes(limits) == bytes(len(windows_agent.encode_limits()))


class Kernel:
    """The system calls that we use."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def CreateJobObjectW(self, security: None, name: None) -> int:
        return 71

    def SetInformationJobObject(self, *given: Any) -> int:
        self.asked.append(given)
        return 1

    def AssignProcessToJobObject(self, *given: Any) -> int:
        self.asked.append(given)
        return 1


def test_the_job_gets_its_limits_before_the_agent() -> None:
    kernel = Kernel()
    windows_agent.end_with_us(17, kernel)
    assert kernel.asked == [(71, 9, windows_agent.encode_limits(), 144), (71, 17)]


def test_a_command_is_started_by_its_full_path() -> None:
    there = {"npx": r"C:\Program Files\nodejs\npx.CMD"}
    assert windows_agent.resolve_command(["npx", "-y", "agent"], there.get) == [there["npx"], "-y", "agent"]
    assert windows_agent.resolve_command(["uvx", "agent"], there.get) is None


NODE = r"C:\Program Files\nodejs\npx.CMD"
QUOTED = "a b", "", "x&y", "a^b", "(c)", "a|b>c<d", "!PATH!", "a=b", "a,b;c", "'q'", "~*?$#", "ü 漢"


def test_a_program_gets_its_arguments_from_windows_itself() -> None:
    command = [r"C:\agent.exe", 'say "100%"', "a&b"]
    assert windows_agent.make_popen_arguments(command, r"C:\Windows") == (None, command)


def test_a_batch_file_is_run_by_the_systems_cmd_without_the_users_settings() -> None:
    program, line = windows_agent.make_popen_arguments([NODE, "-y", "@scope/agent@1.2.3"], r"C:\Windows")
    assert program == r"C:\Windows\System32\cmd.exe"
    assert line == rf'cmd.exe /d /e:on /v:off /s /c ""{NODE}" -y @scope/agent@1.2.3"'


@pytest.mark.parametrize("argument", QUOTED)
def test_what_cmd_interprets_is_passed_to_a_batch_file_in_quotes(argument: str) -> None:
    assert (
        windows_agent.make_popen_arguments([NODE, argument], r"C:\Windows")[1]
        == rf'cmd.exe /d /e:on /v:off /s /c ""{NODE}" "{argument}""'
    )


def test_a_backslash_before_a_closing_quote_is_doubled() -> None:
    _, line = windows_agent.make_popen_arguments([NODE, "C:\\my files\\", "C:\\files\\"], r"C:\Windows")
    assert str(line).endswith('"C:\\my files\\\\" C:\\files\\"')


@pytest.mark.parametrize("argument", ["100%", "%PATH%", 'say "hi"', "two\nlines", "\r", "\0"])
@pytest.mark.parametrize("program", ["agent.cmd", "AGENT.BAT", "agent.cmd. ", "agent.bat."])
def test_an_argument_that_cmd_would_change_is_refused(program: str, argument: str) -> None:
    with pytest.raises(OSError):
        windows_agent.make_popen_arguments([rf"C:\{program}", "-y", argument], r"C:\Windows")


def test_a_batch_file_in_a_directory_that_cmd_would_change_is_refused() -> None:
    with pytest.raises(OSError):
        windows_agent.make_popen_arguments([r"C:\%TEMP%\agent.cmd"], r"C:\Windows")
