"""The decisions about an agent's start and end, for every platform."""

import os
import signal

import pytest

from acp_proxy.relay import agent_process


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_an_agent_is_ended_by_end_of_file_then_sigterm_then_sigkill(platform: str) -> None:
    assert agent_process.find_end_steps(platform, 0.5) == ((None, 0.5), (signal.SIGTERM, 2.0), (9, 2.0))


def test_on_windows_an_agent_is_ended_by_end_of_file_and_then_termination() -> None:
    assert agent_process.find_end_steps("win32", 5.0) == ((None, 5.0), (signal.SIGTERM, 2.0))


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (0, 0, "exited with status 0"),
        (17, 17, "exited with status 17"),
        (-9, 137, "ended by SIGKILL"),
        (-15, 143, "ended by SIGTERM"),
        (-63, 191, "ended by signal 63"),
        (0xC0000005, 0xC0000005 - 2**32, "exited with status 0xC0000005"),  # a crash on Windows
    ],
)
def test_our_exit_code_is_the_agents_or_128_plus_a_signals_number(status: int, code: int, told: str) -> None:
    assert (agent_process.exit_code(status), agent_process.describe_end(status)) == (code, told)


@pytest.mark.parametrize("there", [True, False])
def test_the_c_library_can_be_called_even_if_pythons_internal_names_have_changed(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import _ctypes

    if not there:
        monkeypatch.delattr(_ctypes, "call_function")
    before = os.umask(0o022)
    try:
        agent_process._call_c_library("umask", 0o077)
        assert os.umask(before) == 0o077
    finally:
        os.umask(before)
