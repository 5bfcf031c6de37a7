"""Decides which of the agents in the editors' settings to ask for their sessions, and how to start them."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.errors import UsageError
from acp_proxy.tools.doctor.report import split_run_command
from acp_proxy.tools.editors.launch_commands import StartedAgent
from acp_proxy.tools.registry.agents import RegistryError, is_id
from acp_proxy.tools.registry.resolve import ResolvedAgent

_ADVICE = "To adopt its sessions, give its command: acp-proxy adopt -- AGENT"


@dataclass(frozen=True, slots=True)
class AskedAgent:
    """An agent to ask. ``given_words``: how a user names it to a command. ``environment``: None: this process's.
    ``redact``: the value of ``--redact`` of ``run``."""

    name: str
    given_words: tuple[str, ...]
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] | None
    agent_id: str | None
    redact: str


def choose_agents(
    agents: Sequence[StartedAgent],
    own_environment: Mapping[str, str],
    root: Path,
    find_program: Callable[[list[str], str], ResolvedAgent],
) -> tuple[list[AskedAgent], list[str]]:
    """The agents to ask, each once, and a text for each one that is not asked. Raises RegistryError.

    ``own_environment``: that of this process. ``root``: the store. ``find_program``: what to start for a command and
    the value of ``--registry``.
    """
    asked: dict[tuple[object, ...], AskedAgent] = {}
    texts: list[str] = []
    for agent in agents:
        name = f"{agent.name} ({agent.editor})"
        if agent.words is None:
            reason = "the file is not valid JSON" if agent.is_damaged else "only the editor knows how to start it"
            is_known = agent.registered is not None and is_id(agent.registered)
            advice = f"To adopt its sessions: acp-proxy adopt {agent.registered}" if is_known else _ADVICE
            texts.append(f"{name}: {reason}. {advice}")
            continue
        if agent.fault is not None:
            texts.append(f"{name}: it cannot be started: {agent.fault}.")
            continue
        environment = dict(agent.environment)
        try:
            values, command = split_run_command(list(agent.words), {**own_environment, **environment})
            resolved = find_program(command, values["registry"])
        except (UsageError, RegistryError) as problem:
            texts.append(f"{name}: it cannot be started: {problem}")
            continue
        if resolved.problem is not None:
            texts.append(f"{name}: {resolved.problem}")
            continue
        command = [os.path.expanduser(resolved.words[0]), *resolved.words[1:]]
        environment = resolved.variables | environment
        if values["no-record"]:
            texts.append(f"{name}: not asked, because its sessions are not to be recorded (no-record).")
        elif values["store"] and os.path.abspath(os.path.expanduser(values["store"])) != os.path.abspath(root):
            texts.append(f"{name}: its sessions are in another store. Add: --store {values['store']}")
        else:
            whole_environment = tuple({**own_environment, **environment}.items()) if environment else None
            candidate = AskedAgent(
                name, (agent.name,), tuple(command), whole_environment, values["agent-id"] or None, values["redact"]
            )
            asked.setdefault((candidate.command, agent.environment, candidate.agent_id), candidate)
    return list(asked.values()), texts
