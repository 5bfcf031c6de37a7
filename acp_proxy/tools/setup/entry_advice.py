"""What setup says about the entry of the agent that the user names: the variables that it lacks or gets, where an
editor finds its program, and the extension that reads it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.tools.editors.agent_names import find_built_in
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.program_places import find_odd_place
from acp_proxy.tools.registry.agents import Registry
from acp_proxy.tools.setup.missing_extension import explain_missing_extension
from acp_proxy.tools.setup.setup import FileChange, FoundEntry, WantedAgent


def explain_missing_variables(agent: WantedAgent, entries: Sequence[FoundEntry], titles: Mapping[Path, str]) -> None:
    """Say which of the agent's variables its ``entries`` do not have: setup changes nothing there but the command.
    ``titles``: the editors', by file."""
    for path, entry in entries:
        for variable, value in agent.variables.items():
            if entry.environment.get(variable) != value:
                print_on_stderr(
                    f'{variable} is not written: {titles[path]} has "{entry.name}" already. '
                    f'Add it to its "env" in {path}.'
                )


def explain_new_entry(
    agent: WantedAgent,
    entries: Sequence[FoundEntry],
    chosen: Sequence[FoundEntry],
    added_plans: Sequence[FileChange],
    registry: Registry,
    machine: Machine,
) -> None:
    """Say what the new entry of an agent gets and lacks. ``entries``: those of all agents, as they are. ``chosen``:
    those of this agent. ``added_plans``: the changes that add the new one."""
    _explain_copied_variables(agent, entries, [plan.path for plan in added_plans])
    _explain_variables_elsewhere(agent, chosen)
    _explain_place_of_program(agent, registry)
    explain_missing_extension(added_plans, machine)


def _explain_copied_variables(agent: WantedAgent, entries: Sequence[FoundEntry], paths: Sequence[Path]) -> None:
    """Say which variables the new entry of an agent gets in these files from one that has no command."""
    for path in paths:
        built_in = find_built_in([entry for entry_path, entry in entries if entry_path == path], agent.agent)
        if built_in is not None and (copied := [name for name in built_in.environment if name not in agent.variables]):
            print_on_stderr(f'The new entry has the variables of "{built_in.name}" in {path}: {", ".join(copied)}.')


def _explain_variables_elsewhere(agent: WantedAgent, chosen: Sequence[FoundEntry]) -> None:
    """Say which variables the entries of the agent in other settings have, which its new entry does not get."""
    for path, entry in chosen:
        if missing := [name for name in entry.environment if name not in agent.variables]:
            print_on_stderr(f'Copy the variables of "{entry.name}" in {path}, too: {", ".join(missing)}.')


def _explain_place_of_program(agent: WantedAgent, registry: Registry) -> None:
    """Say how an editor finds the program of an agent that is only in the PATH of this terminal."""
    if (place := find_odd_place(agent.agent.command, agent.variables, registry)) is not None:
        value = json.dumps(place.path_value)
        print_on_stderr(f'Note: {place.describe()} put this into the "env" of the new entry: "PATH": {value}')
