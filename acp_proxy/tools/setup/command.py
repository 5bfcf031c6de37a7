"""``acp-proxy setup``: write acp-proxy into the editors' settings, or take it out again."""

import os
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy.cli.completion import make_word_completion
from acp_proxy.cli.report_errors import print_on_stderr, report_errors, report_wrong_usage
from acp_proxy.cli.shared_options import RegistryOption
from acp_proxy.tools.doctor.store_variable import explain_store_variable
from acp_proxy.tools.editors.agent_names import make_typed_line, open_registry
from acp_proxy.tools.editors.command import read_name
from acp_proxy.tools.editors.config_dirs import find_machine
from acp_proxy.tools.editors.known_editors import (
    EDITORS,
    NEOVIM_PLUGINS,
    Editor,
    Name,
    SettingsFiles,
    Sources,
    find_editors,
    find_near_editors,
)
from acp_proxy.tools.registry.agents import Registry, RegistryError
from acp_proxy.tools.setup import overview
from acp_proxy.tools.setup import setup as steps
from acp_proxy.tools.setup.agent_option import find_agent, find_agent_to_add
from acp_proxy.tools.setup.entry_advice import explain_missing_variables, explain_new_entry
from acp_proxy.tools.setup.explain_no_change import explain_no_change
from acp_proxy.tools.setup.missing_extension import find_unread_settings
from acp_proxy.tools.setup.own_words import make_own_words
from acp_proxy.tools.setup.record import open_record
from acp_proxy.tools.setup.refuse_agent import refuse_agent
from acp_proxy.tools.setup.report_written import report_written
from acp_proxy.tools.setup.setup import Wish
from acp_proxy.tools.setup.try_agents import TriedAgents, choose_answering
from acp_proxy.tools.setup.undo_command import undo_setup
from acp_proxy.tools.setup.write_changes import write_changes


def _read_editor(word: str) -> Name:
    if find_editors(word) == list(NEOVIM_PLUGINS):
        raise typer.BadParameter(
            "Neovim's configuration is a program, which setup leaves to you. To print what to put there: "
            f"acp-proxy editor PLUGIN AGENT, with your plugin: {', '.join(NEOVIM_PLUGINS)}."
        )
    editors = [EDITORS[name] for name in find_editors(word)]
    if len(editors) == 1 and not isinstance(editors[0].configured, SettingsFiles):
        reason = ", which is a program" if isinstance(editors[0].configured, Sources) else ""
        raise typer.BadParameter(
            f"setup does not write the configuration of {editors[0].title}{reason}. "
            f"To print what to put there: {make_typed_line('editor', str(editors[0].name), 'AGENT')}"
        )
    if not editors:
        names = [str(name) for name, editor in EDITORS.items() if isinstance(editor.configured, SettingsFiles)]
        near_names = [name for name in find_near_editors(word) if name in names]
        advice = f" Did you mean {' or '.join(near_names)}?" if near_names else ""
        raise typer.BadParameter(
            f"{word!r} is not one of {', '.join(map(repr, names))}.{advice} "
            "For other editors: acp-proxy editor EDITOR AGENT, which prints what to put there."
        )
    return read_name(word)


def _check_agents(values: list[str] | None) -> list[str]:
    """Refuse an empty agent, such as a script's variable that is not set: all agents are another wish."""
    if any(not value.strip() for value in values or []):
        raise typer.BadParameter("it is empty. Give a name, a command or an id; for all agents, leave --agent out.")
    if len(values or []) > 1:
        raise typer.BadParameter("it takes one agent. For more, run setup once for each, or leave it out for all.")
    return values or []


def setup(
    editor: Annotated[
        list[Name] | None,
        typer.Option(
            "--editor",
            metavar="EDITOR",
            help="Only this editor. Repeat for more.",
            show_default=False,
            parser=_read_editor,
            autocompletion=make_word_completion(
                [name for name, editor in EDITORS.items() if isinstance(editor.configured, SettingsFiles)]
            ),
        ),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="NAME|COMMAND|ID",
            help="Put acp-proxy in front of this agent alone, by its name in the settings, or add it. With --undo: "
            "take it out of this one alone.",
            show_default=False,
            callback=_check_agents,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Write an agent though its program is not here, or does not answer. With --undo: remove what setup "
            "added though you have edited it since.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back what setup did.")] = False,
    registry: RegistryOption = "",
) -> None:
    """Set up the editors on this machine.

    It finds the settings of Zed, JetBrains, VS Code and Paseo, starts each agent once to see that it answers, shows
    what would change, asks, and puts acp-proxy in front of each agent there. Nothing else in the settings changes, and
    a copy of each file is kept beside it. Configurations that are programs (Neovim, Emacs) stay yours: acp-proxy editor
    prints what to paste. An entry that starts an acp-proxy that is gone gets the present one, and one without run gets
    it. An agent that does not answer is left out; if none answers, setup asks whether to write it all the same.

    Example: acp-proxy setup --agent "npx -y @agentclientprotocol/claude-agent-acp"
    """
    agent, editors = next(iter(agents or []), ""), editor or []
    with report_wrong_usage(), report_errors():
        record, machine = open_record(os.environ), find_machine()
        command_line_again = _make_command_line(editors, agent, registry, undo=undo)
        if undo:
            is_undone = undo_setup(
                machine, record, editors, agent, registry, command_line_again, force=force, dry_run=dry_run, yes=yes
            )
            if not is_undone:
                raise typer.Exit(1)
            return
        registry_read = open_registry(registry, [], print_on_stderr)
        settings = steps.find_settings(machine, editors)
        entries = [entry for settings_path in settings for entry in steps.find_entries(*settings_path)]
        chosen, named_agent = find_agent(agent, entries, registry, registry_read) if agent else ([], None)
        agent_to_add, settings_to_add = find_agent_to_add(
            settings, entries, chosen, named_agent, editors, registry, registry_read
        )
        left_out_settings = list[tuple[Editor, Path]]()
        if agent_to_add is not None and not editors:
            left_out_settings = find_unread_settings(settings, machine)
            settings = [each for each in settings if each not in left_out_settings]
        if agent_to_add is not None and not chosen and not force:
            refuse_agent(agent, agent_to_add, entries, settings, editors, machine, registry_read)
        registry_problems: dict[str, RegistryError] = {}
        wish = Wish(
            make_own_words(),
            options_of_run=named_agent.options if named_agent is not None else [],
            has_id=cache(partial(_has_id, registry_read, registry_problems)),
            registry=registry,
            agent_to_add=agent_to_add,
        )
        paths_to_add = [path for _, path in settings_to_add]
        plan_files = partial(steps.plan_files, settings, wish, chosen if agent else None, paths_to_add, record)
        plans = plan_files()
        _show_overview(
            [
                *overview.describe_files(plans, chosen if agent else None, agent, registry_problems, machine),
                *overview.describe_left_out(left_out_settings),
                *(overview.describe_programs(machine) if not editors else []),
            ],
            registry_problems.values(),
        )
        if (text_of_variable := explain_store_variable(machine.environment)) is not None:
            print_on_stderr(f"Note: {text_of_variable}")
        if named_agent is not None:
            explain_missing_variables(named_agent, chosen, {path: editor.title for editor, path in settings})
        added_plans = [plan for plan in plans if plan.entries and plan.path in paths_to_add]
        if agent_to_add is not None and added_plans:
            explain_new_entry(agent_to_add, entries, chosen, added_plans, registry_read, machine)
        is_idle = not any(plan.entries or plan.problem or plan.kept for plan in plans)
        # by an earlier setup, which left out the same agents
        is_done_before = not agent and any(entry.is_proxied for _, entry in entries)
        if is_idle and registry_problems:
            raise typer.Exit(0 if is_done_before else 1)
        if is_idle and not explain_no_change(plans, editors, chosen, agent):
            raise typer.Exit(1)
        tried_agents = TriedAgents()
        choose = partial(
            choose_answering, plan_files, tried_agents, force=force, yes=yes, command_line_again=command_line_again
        )
        question = "Write this?", command_line_again
        written_changes, is_every_file_right = write_changes(
            plans, lambda change: steps.write_file(change, record), question, dry_run=dry_run, yes=yes, choose=choose
        )
        is_well = report_written(machine, written_changes, tried_agents) if written_changes else True
        if dry_run and not force and any(plan.entries and plan.problem is None for plan in plans):
            print_on_stderr("Then each agent is started once, and one that does not answer is left out.")
        written_entries = {(change.path, entry.name) for change in written_changes for entry in change.entries}
        is_all_left_out = bool(tried_agents.silent and not written_changes)
        if (is_all_left_out and not is_done_before) or not (
            # who has read which agent does not answer, and says yes, has decided it, as with --force
            is_every_file_right
            and is_well
            and not any(plan.kept for plan in plans)
            and (force or not yes or written_entries.isdisjoint(tried_agents.silent))
        ):
            raise typer.Exit(1)


def _make_command_line(editors: Sequence[Name], agent: str, registry: str, *, undo: bool) -> str:
    """The command line that begins this anew."""
    option_values = [*(("--editor", str(name)) for name in editors), ("--agent", agent), ("--registry", registry)]
    words = [word for option, value in option_values if value for word in (option, value)]
    return make_typed_line("setup", *(["--undo"] if undo else []), *words)


def _has_id(registry: Registry, problems: dict[str, RegistryError], id: str) -> bool | None:
    """Whether the registry has an agent; None if it cannot be read: ``problems`` gets why, by the id."""
    try:
        return id in registry.list_ids()
    except RegistryError as problem:
        problems[id] = problem
        return None


def _show_overview(files: Sequence[overview.FoundFile], registry_problems: Iterable[RegistryError]) -> None:
    """Print what was found, by editor, and why the registry of agents cannot be read."""
    for file in files:
        print_on_stderr(f"{file.title}  {file.path}")
        for text in file.texts:
            print_on_stderr(f"  {text}", indent_columns=4)
    if files:
        print_on_stderr("")
    for text in dict.fromkeys(map(str, registry_problems)):
        advice = f"To add an agent by its command: {make_typed_line('setup', '--agent', 'COMMAND')}"
        print_on_stderr(f"{text[:1].upper()}{text[1:]} {advice}")
