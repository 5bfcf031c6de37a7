"""The words that start acp-proxy in the settings, tried once where a runner would start it from the package index."""

import subprocess
from contextlib import suppress
from pathlib import Path

from acp_proxy import invocation, shell_quote
from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.errors import UsageError
from acp_proxy.tools.setup.try_agents import ANSWER_SECONDS

_RUNNERS = ("uvx", "pipx")
"""Programs that start acp-proxy without an installation, from the package index unless they are told otherwise."""


def make_own_words() -> list[str]:
    """The words that start acp-proxy in the settings. Raises UsageError if a runner cannot start it by these."""
    words, advice = invocation.make_settings_command()
    if len(words) > 1 and Path(words[0]).stem in _RUNNERS:
        with suppress(OSError, subprocess.TimeoutExpired):
            tried = subprocess.run([*words, "--version"], capture_output=True, timeout=ANSWER_SECONDS, check=False)
            if tried.returncode:
                reason = (tried.stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"])[
                    -1
                ].strip()
                raise UsageError(
                    f"{shell_quote.join(words)} does not start acp-proxy here, so no editor could: {reason}",
                    "If this acp-proxy is from another source (--from), install it from there, and run setup again: "
                    "uv tool install SOURCE, or: pipx install SOURCE",
                )
    if advice is not None:
        print_on_stderr(f"Note: {' '.join(words)}: {advice}")
    return [*words, "run"]
