"""The first milliseconds of ``run``: read the options, start the agent, and only then import the rest.

Imports almost nothing. If stdin is a terminal, the user logs in to the agent: the client runs acp-proxy's command line
with the agent's login arguments. This process then becomes the agent, and nothing is recorded.
"""

import gc
import os
import sys

from acp_proxy.config import config_file, options
from acp_proxy.errors import REPLACED, UsageError
from acp_proxy.relay import agent_process as processes

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

USAGE_STATUS = 2
_FILES_REPLACED = 1
"""The exit status if an upgrade replaced the files during the start."""
_SIGTERM = 15  # signal itself is imported later
_NOT_RECORDED = (
    "in a terminal the agent runs by itself, and nothing is recorded. "
    "To use acp-proxy in an editor: acp-proxy editor EDITOR AGENT"
)


def launch(words: list[str], find_agent: "Callable[[list[str], str], list[str]]" = lambda command, _: command) -> None:
    """Run ``acp-proxy run`` with these arguments. Never returns: exits with the agent's status, or 2 on wrong usage.

    ``find_agent``: returns what to start for a command and the value of ``--registry``.
    """
    values, given_words, config_problems = read_options(options.RUN, words)
    command = find_agent(given_words, values["registry"])
    if is_terminal(0):
        if is_terminal(2):  # a user is there, and may expect to be recorded
            say(_NOT_RECORDED)
        if sys.platform == "win32":
            from acp_proxy.relay.windows_agent import run_in_terminal

            os._exit(run_in_terminal(command))
        os._exit(processes.replace_process(command))
    agent = _start_agent(command)
    gc.disable()  # imports leave no garbage; looking for it would take a tenth of a start
    report_config_problems(config_problems)
    try:
        from acp_proxy.relay import signals

        signals.block()
        from acp_proxy.relay.serve import serve
    except Exception:  # noqa: BLE001 - an upgrade is replacing the files, and nothing here can relay
        import contextlib

        with contextlib.suppress(OSError):
            os.kill(agent.pid, _SIGTERM)
        fail(f"{REPLACED} while it was starting. Restart the agent.", _FILES_REPLACED)

    # Does not wait for threads that still read, or hang in the store.
    os._exit(serve(agent, command, values, given_words))


def read_options(name: str, words: list[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """The options and the agent's command after ``acp-proxy NAME``, and what is wrong with variables and in the file.

    Exits with 2 on wrong usage. Afterwards, all standard streams are open.
    """
    file, config_problems = config_file.read_user_file()
    try:
        values, command = options.parse(words, os.environ, file, name, config_problems)
    except UsageError as problem:
        fail(str(problem), USAGE_STATUS)
    for fd in (0, 1, 2):  # else one of our pipes would get the number of a closed one
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    return values, command, config_problems


def is_terminal(fd: int) -> bool:
    """Whether a user may be there. On Windows, ``isatty`` says so of NUL too."""
    if sys.platform == "win32" and os.isatty(fd):
        from acp_proxy.relay.windows_agent import is_console

        return is_console(fd)
    return os.isatty(fd)


def report_config_problems(config_problems: list[str]) -> None:
    """Write what ``read_options`` found wrong to stderr. Call it before anything else is imported."""
    for text in config_problems:
        say(text)


def say(text: str) -> None:
    """Write a message to stderr; in a terminal, with lines that end between words."""
    text = f"acp-proxy: {text}"
    if is_terminal(2):  # so no editor waits, and imports may take their time
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    os.write(2, f"{text}\n".encode("utf-8", "replace"))


def fail(text: str, status: int) -> "NoReturn":
    """Exit with a message on stderr, which an editor also gets as the error of its ``initialize``."""
    try:
        say(text)
        if not is_terminal(0):
            from acp_proxy.relay.refuse_start import refuse_first_request

            refuse_first_request(text)
    finally:
        os._exit(status)


def _start_agent(command: list[str]) -> processes.AgentProcess:
    if sys.platform == "win32":
        from acp_proxy.relay.windows_agent import start_agent

        return start_agent(command)
    return processes.start_agent(command)
