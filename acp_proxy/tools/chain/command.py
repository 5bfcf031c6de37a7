"""The help of ``acp-proxy chain``. The command itself starts before any of this is imported (see ``__main__``)."""

from typing import Any

from acp_proxy.cli import run_help as in_front_of_agent
from acp_proxy.config import options

_HELP = """Stand in a chain of proxies that a conductor runs.

The conductor starts acp-proxy, the other proxies and the agent, and passes the messages between them. acp-proxy does
the same as with acp-proxy run: it records the conversation, and answers session/list, session/delete and session/load
where the agent cannot. This speaks proxy/initialize and proxy/successor, a draft of the protocol.

Without a conductor, use acp-proxy run.

Example: acp-proxy chain --redact keys
"""


def chain(**given: Any) -> None:
    from acp_proxy.tools.chain.start import launch_chain

    launch_chain(in_front_of_agent.list_words(given))


chain.__doc__ = _HELP
chain.__signature__ = in_front_of_agent.make_signature(without=options.NOT_IN_CHAIN)  # type: ignore[attr-defined]
