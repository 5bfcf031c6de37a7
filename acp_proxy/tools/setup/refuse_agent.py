"""Refuses to add an agent that could not start, which is more often a wrong word than a program that comes later."""

import os
from collections.abc import Sequence
from pathlib import Path

from acp_proxy import shell_quote
from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.errors import UsageError
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.agent_names import find_name, make_typed_line, refuse_without_adapter
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.known_editors import EDITORS, Editor, Name
from acp_proxy.tools.registry.agents import NotAsked, Registry, RegistryError, find_similar
from acp_proxy.tools.setup import overview
from acp_proxy.tools.setup import setup as steps
from acp_proxy.tools.setup.setup import FileChange, FoundEntry, WantedAgent, Wish, explain_problem


def refuse_agent(
    name: str,
    agent: WantedAgent,
    entries: Sequence[FoundEntry],
    settings: Sequence[tuple[Editor, Path]],
    editors: Sequence[Name],
    machine: Machine,
    registry: Registry,
) -> None:
    """Refuse an agent that is to be added to ``settings``. ``name``: what the user gave for it. ``entries``: those in
    the settings. ``editors``: those that the user has named. Raises UsageError."""
    _refuse_name_of_other_editor(name, agent, editors, machine)
    refuse_without_adapter(
        agent.agent.command,
        lambda adapter: ["setup", "--agent", adapter],
        "To write it all the same, such as a script of yours that does: --force",
        registry,
    )
    plans_without_change = [
        steps.plan_file(*settings_path, Wish(own_words=[], only_names=[])) for settings_path in settings
    ]
    unread_settings = [plan for plan in plans_without_change if plan.problem is not None]
    if len(unread_settings) < len(settings):  # else there is nothing to write, and the plans say why
        _check_program(agent, [entry.name for _, entry in entries], unread_settings, registry)


def _refuse_name_of_other_editor(name: str, agent: WantedAgent, editors: Sequence[Name], machine: Machine) -> None:
    """Refuse a word that is no program, but the name of an agent in another editor's settings: the line that adds that
    one has its command. Raises UsageError."""
    if command_line.may_exist(agent.agent.command[0], agent.variables.get("PATH")):
        return
    entries = {
        entry.name: entry
        for settings_path in steps.find_settings(machine, [])
        for _, entry in steps.find_entries(*settings_path)
        if entry.words
    }
    for found_name in find_name(entries, name):
        titles = ", ".join(EDITORS[editor].title for editor in editors)
        editor_options = [word for editor in editors for word in ("--editor", str(editor))]
        command = shell_quote.join(overview.find_command(entries[found_name]))
        line = make_typed_line("setup", *editor_options, "--agent", command)
        raise UsageError(f'{titles} has no "{found_name}", but another editor has. To add it there: {line}')


def _check_program(
    agent: WantedAgent, names: Sequence[str], unread_settings: Sequence[FileChange], registry: Registry
) -> None:
    """Refuse an agent whose program is not here, which is more often a wrong word than a program that comes later.

    ``names``: of the agents in the settings. ``unread_settings``: those that may have the agent, but cannot be read.
    Raises UsageError.
    """
    from acp_proxy.tools.doctor.agent_report import describe_missing_program  # loads much

    program = agent.agent.command[0]
    if command_line.may_exist(program, agent.variables.get("PATH")):
        return
    for plan in unread_settings:
        print_on_stderr(explain_problem(plan))
    force_advice = "To write it all the same, for a program that you install later: --force"
    if os.path.dirname(program):
        raise UsageError(". ".join(describe_missing_program(program)), force_advice)
    if len(agent.agent.command) > 1:
        raise UsageError(f"{program} is not in PATH. Install it, or give its absolute path.", force_advice)
    beginning = f"{program} is not in PATH"
    if not unread_settings:
        beginning += ", and no agent in your editors' settings"
    try:
        ids = registry.list_ids()
    except RegistryError as problem:
        reason = problem.short_reason if isinstance(problem, NotAsked) else str(problem)
        raise UsageError(f"{beginning}. {reason[:1].upper()}{reason[1:]}", force_advice) from problem
    similar = find_similar(program, [*names, *ids])
    raise UsageError(
        f"{beginning}, and no id in the registry of agents.",
        f"Did you mean: {', '.join(similar)}?" if similar else f"Give its command, or one of the ids: {', '.join(ids)}",
        force_advice,
    )
