"""Asks an agent for its own name, which chooses the folder of its sessions."""

import os

from acp_proxy import shell_quote
from acp_proxy.decisions.capabilities import read_offer
from acp_proxy.errors import AcpProxyError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.command_names import may_run_others, name_command
from acp_proxy.tools.doctor.probe import NoAnswer, Probe
from acp_proxy.tools.registry.resolve import ResolvedAgent


def ask_folder(
    store: CommandStore, agent: ResolvedAgent, agent_id: str | None, seconds: float, umask: int = -1
) -> tuple[str, dict[str, object]]:
    """Start an agent once. Returns the folder of its sessions, and the name and version that it reports.

    ``agent_id``: the user's own name for it. ``umask``: the user's own. Raises AcpProxyError.
    """
    command = agent.words
    advice = f"To look into it: {shell_quote.join(['acp-proxy', 'doctor', *command])}"
    try:
        with Probe(command, umask, {**agent.variables, **os.environ}) as probe:
            answer = probe.initialize("acp-proxy", seconds)
    except OSError as problem:
        if agent.problem is not None:
            raise AcpProxyError(agent.problem) from problem
        raise AcpProxyError(f"{command[0]} cannot be started: {problem.strerror}. {advice}") from problem
    except NoAnswer as problem:
        raise AcpProxyError(f"at initialize, the agent {problem}. {advice}") from problem
    offer = read_offer(answer.result)
    if answer.error is not None or offer.dialect is None:
        problem_text = (
            "answers initialize with an error" if answer.error is not None else "does not speak version 1 or 2 of ACP"
        )
        raise AcpProxyError(f"the agent {problem_text}, so it cannot continue a session. {advice}")
    name, may_be_others = name_command(command), may_run_others(command)
    folder = store.choose_agent(agent_id, offer.name, name, may_run_others=may_be_others)
    return folder, {"name": offer.name, "version": offer.agent_version}
