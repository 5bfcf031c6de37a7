"""``run``'s first milliseconds: read the options, start the agent, and only then load the rest.

Imports next to nothing. A terminal as stdin means a login in it (the client runs our command line, with arguments
of the agent's added): then this process becomes the agent.
"""

import os
import sys

from acp_proxy import options
from acp_proxy.errors import UsageError
from acp_proxy.shell import agent_process as processes

USAGE = 2
CHECK_VALUES = "ACP_PROXY_CHECK_VALUES"
"""Set by the tests, so that a value with a missing or an unknown field is an error here too."""
LATER = ("inspect", "ipaddress", "copy")
"""What orjson's and pathlib's imports bring along, and ``run`` has no use for: a fifth of what it would load."""

_ALONE = (
    b"acp-proxy: in a terminal the agent runs by itself, and nothing is recorded. "
    b"To put acp-proxy in front of it in an editor: acp-proxy editor EDITOR AGENT\n"
)


def launch(words: list[str]) -> None:
    """``run`` with these words behind it. Never returns: exits with the agent's status, or 2 for a wrong usage."""
    try:
        given, command = options.parse(words, dict(os.environ))
    except UsageError as problem:
        os.write(2, f"acp-proxy: {problem}\n".encode())
        os._exit(USAGE)
    for standard in (0, 1, 2):  # one that is closed would be given to a pipe of ours
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if os.isatty(0):
        if os.isatty(2):  # a person is there, and may have meant to be recorded
            os.write(2, _ALONE)
        os._exit(processes.become(command))
    agent = _started(command)
    if CHECK_VALUES in os.environ:
        from acp_proxy.wire.value import check_fields

        check_fields()
    from acp_proxy.shell.later import Later

    with Later(*LATER):
        from acp_proxy.shell.proxy import serve

    # Threads may still sit in a read, or in a store that hangs: nothing of them is waited for.
    os._exit(serve(agent, command, given))


def _started(command: list[str]) -> processes.AgentProcess:
    if processes.tie(sys.platform) == processes.JOB:
        from acp_proxy.shell.windows import start_agent

        return start_agent(command)
    return processes.start(command)
