"""Starts ``acp-proxy chain``: reads the options, and only then imports the rest."""

import gc
import os

from acp_proxy.config import options
from acp_proxy.relay.run_command import USAGE_STATUS, is_terminal, read_options, report_config_problems, say

_NO_CONDUCTOR = (
    "chain talks to a conductor, which starts it: agent-client-protocol-conductor agent 'acp-proxy chain' AGENT. "
    "Without a conductor, use: acp-proxy run AGENT"
)


def launch_chain(words: list[str]) -> None:
    """Run ``acp-proxy chain`` with these arguments. Never returns: exits with 0, 128+n on signal n, or 2 on wrong
    usage."""
    values, _, wrong = read_options(options.CHAIN, words)
    if is_terminal(0):
        say(_NO_CONDUCTOR)
        os._exit(USAGE_STATUS)
    gc.disable()  # as in ``launch``
    report_config_problems(wrong)
    from acp_proxy.tools.chain.chain import serve_chain

    os._exit(serve_chain(values))
