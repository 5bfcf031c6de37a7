"""``acp-proxy setup``: write acp-proxy into the editors' settings, or take it out again."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy import own_command, shell_quote
from acp_proxy.cli.completion import make_word_completion
from acp_proxy.cli.confirm import INTERRUPTED, ask, ask_to_confirm, discard_typed_input, is_unanswered
from acp_proxy.cli.report_errors import report_errors, report_wrong_usage
from acp_proxy.cli.shared_options import RegistryOption
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.errors import UsageError
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.agent_names import (
    find_beginning,
    find_built_in,
    find_name,
    identify_agent,
    make_registry_option,
    make_typed_line,
    open_registry,
    refuse_without_adapter,
)
from acp_proxy.tools.editors.command import read_agent, read_name
from acp_proxy.tools.editors.config_dirs import Machine, find_machine
from acp_proxy.tools.editors.configured import find_configurations
from acp_proxy.tools.editors.known_editors import (
    EDITORS,
    EXTENSION,
    EXTENSION_TITLE,
    NEOVIM_PLUGINS,
    VSCODE_BUILDS,
    Editor,
    Name,
    SettingsFiles,
    Sources,
    find_editors,
    find_near_editors,
)
from acp_proxy.tools.editors.launch_commands import StartedAgent, find_started
from acp_proxy.tools.editors.own_files import NotOurs, explain_no_write, find_temporary, make_removal
from acp_proxy.tools.editors.program_places import find_odd_place
from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.registry.agents import NotAsked, Registry, RegistryError, find_similar
from acp_proxy.tools.setup import overview
from acp_proxy.tools.setup import setup as steps
from acp_proxy.tools.setup.record import (
    COPY_SUFFIX,
    REPLACED,
    Record,
    RecordStays,
    explain_copy,
    list_copies,
    open_record,
)
from acp_proxy.tools.setup.setup import FileChange, FoundEntry, WantedAgent, Wish
from acp_proxy.tools.setup.undo import plan_undo, write_undo
from acp_proxy.views import sanitize

_ANSWER_SECONDS = 60.0
"""How long each answer of an agent may take: a first start may download it."""

_RUNNERS = ("uvx", "pipx")
"""Programs that start acp-proxy without an installation, from the package index unless they are told otherwise."""

_END_SECONDS = 2.0
"""How soon after a Ctrl-C, which skips an agent, another one ends setup."""

_SLOW_ADVICE = "If it is only slow, write it all the same: --force"

NEXT_STEP = {
    Name.ZED: "In Zed: open the agent panel and begin a new thread with the agent.",
    Name.JETBRAINS: "In your JetBrains IDE: open AI Chat and choose the agent. If it runs already, restart the IDE.",
    **{
        name: f'In {title}: run the command "Developer: Reload Window", then choose the agent in "{EXTENSION_TITLE}".'
        for name, (title, _, _) in VSCODE_BUILDS.items()
    },
    Name.PASEO: "In Paseo: restart its daemon (paseo daemon restart), and choose the agent.",
}
"""What the user does next, by editor."""


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
    agent = next(iter(agents or []), "")
    with report_wrong_usage(), report_errors():
        record, machine = open_record(os.environ), find_machine()
        command_line_again = _make_command_line(editor or [], agent, registry, undo=undo)
        if undo:
            is_undone = _undo(
                machine,
                record,
                editor or [],
                agent,
                registry,
                command_line_again,
                force=force,
                dry_run=dry_run,
                yes=yes,
            )
            if not is_undone:
                raise typer.Exit(1)
            return
        registry_read = open_registry(registry, [], _print_on_stderr)
        settings = steps.find_settings(machine, editor or [])
        entries, chosen, named_agent = list[FoundEntry](), list[FoundEntry](), None
        if agent:
            entries = [entry for settings_path in settings for entry in steps.find_entries(*settings_path)]
            chosen, named_agent = _choose(agent, entries, registry, registry_read)
        agent_to_add, settings_to_add = (named_agent, settings) if not chosen else (None, [])
        if chosen and editor:
            agent_to_add, settings_to_add = _find_lacking(
                settings, entries, chosen, named_agent, registry, registry_read
            )
        left_out_settings = list[tuple[Editor, Path]]()
        if agent_to_add is not None and not editor:
            left_out_settings = _find_unread(settings, machine)
            settings = [each for each in settings if each not in left_out_settings]
        if agent_to_add is not None and not chosen and not force:
            _refuse_name_of_other_editor(agent, agent_to_add, editor or [], machine)
            refuse_without_adapter(
                agent_to_add.agent.command,
                lambda adapter: ["setup", "--agent", adapter],
                "To write it all the same, such as a script of yours that does: --force",
                registry_read,
            )
            plans_without_change = [
                steps.plan_file(*settings_path, Wish(own_words=[], only_names=[])) for settings_path in settings
            ]
            unread_settings = [plan for plan in plans_without_change if plan.problem is not None]
            if len(unread_settings) < len(settings):  # else there is nothing to write, and the plans say why
                _check_program(agent_to_add, [entry.name for _, entry in entries], unread_settings, registry_read)
        own_words = _make_own_words()
        registry_problems: dict[str, RegistryError] = {}
        wish = Wish(
            own_words,
            options_of_run=named_agent.options if named_agent is not None else [],
            has_id=cache(partial(_has_id, registry_read, registry_problems)),
            registry=registry,
            agent_to_add=agent_to_add,
        )
        paths_to_add = [path for _, path in settings_to_add]
        plan_files = partial(_plan_files, settings, wish, chosen if agent else None, paths_to_add, record)
        tried_agents = TriedAgents()
        choose = partial(
            _choose_answering, plan_files, tried_agents, force=force, yes=yes, command_line_again=command_line_again
        )
        plans = plan_files()
        shown_plans = [plan for plan in plans if not chosen or not _lacks_named_agent(plan, chosen, machine)]
        _show_overview(
            [
                *overview.describe_files(shown_plans, chosen if agent else None, agent, registry_problems, machine),
                *overview.describe_left_out(left_out_settings),
                *(overview.describe_programs(machine) if not editor else []),
            ]
        )
        for text in dict.fromkeys(map(str, registry_problems.values())):
            advice = f"To add an agent by its command: {make_typed_line('setup', '--agent', 'COMMAND')}"
            _print_on_stderr(f"{text[:1].upper()}{text[1:]} {advice}")
        if named_agent is not None:
            _explain_variables(named_agent, chosen, {path: editor_found.title for editor_found, path in settings})
        if agent_to_add is not None:
            added_paths = [plan.path for plan in plans if plan.entries and plan.path in paths_to_add]
            _explain_copied_variables(agent_to_add, entries, added_paths)
            _explain_variables_elsewhere(agent_to_add, chosen if added_paths else [])
            if added_paths:
                _explain_place_of_program(agent_to_add, registry_read)
            _explain_extensions([plan for plan in plans if plan.path in added_paths], machine)
        is_idle = not any(plan.entries or plan.problem or plan.kept for plan in plans)
        is_done_before = not agent and any(  # by an earlier setup, which left out the same agents
            entry.is_proxied for settings_path in settings for _, entry in steps.find_entries(*settings_path)
        )
        if is_idle and registry_problems:
            raise typer.Exit(0 if is_done_before else 1)
        if is_idle and not _explain_no_change(plans, editor or [], chosen, agent):
            raise typer.Exit(1)
        question = "Write this?", command_line_again
        written_changes, is_every_file_right = _carry_out(
            plans, lambda change: steps.write_file(change, record), question, dry_run=dry_run, yes=yes, choose=choose
        )
        is_well = report_written(machine, written_changes, tried_agents) if written_changes else True
        if dry_run and not force and any(plan.entries and plan.problem is None for plan in plans):
            _print_on_stderr("Then each agent is started once, and one that does not answer is left out.")
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


def _plan_files(
    settings: Sequence[tuple[Editor, Path]],
    wish: Wish,
    chosen: Sequence[FoundEntry] | None,
    paths_to_add: Collection[Path],
    record: Record,
    left_out_entries: Collection[tuple[Path, str]] = (),
) -> list[FileChange]:
    """What would change in each file. ``wish``: what is the same for all files. ``chosen``: the only entries that may
    change; None: all. ``paths_to_add``: the files that get the agent that is to be added. ``left_out_entries``: those
    that stay without acp-proxy, by file and name."""
    plans = [
        steps.plan_file(
            editor,
            path,
            replace(
                wish,
                only_names={entry.name for entry_path, entry in chosen if entry_path == path}
                if chosen is not None
                else None,
                agent_to_add=wish.agent_to_add if path in paths_to_add else None,
                left_out_names={name for entry_path, name in left_out_entries if entry_path == path},
            ),
        )
        for editor, path in settings
    ]
    return [steps.refuse_lost(plan, record) for plan in plans]


def _choose_answering(
    plan_files: Callable[[Collection[tuple[Path, str]]], Sequence[FileChange]],
    tried_agents: "TriedAgents",
    changes: Sequence[FileChange],
    *,
    force: bool,
    yes: bool,
    command_line_again: str,
) -> tuple[Sequence[FileChange], bool]:
    """Start the agents of these changes, and leave out those that do not answer, unless none does. Returns the changes
    to make, and whether Enter means yes. ``plan_files``: plans anew without these entries. ``tried_agents``: gets the
    results."""
    if try_agents(changes, tried_agents) or force:
        return changes, True
    remaining_changes = [
        change for change in plan_files(tried_agents.silent) if change.entries and change.problem is None
    ]
    if not remaining_changes and not yes:
        return changes, False
    changed_entries = {(change.path, entry.name) for change in remaining_changes for entry in change.entries}
    silent_names = dict.fromkeys(
        f'"{name}"' for path, name in tried_agents.silent if (path, name) not in changed_entries
    )
    if not silent_names:
        return changes, True
    _print_on_stderr(
        f"Left out, until it answers: {', '.join(silent_names)}. To write it all the same: {command_line_again} --force"
    )
    return remaining_changes, True


def _undo(
    machine: Machine,
    record: Record,
    editors: Sequence[Name],
    agent: str,
    registry: str,
    command_line_again: str,
    *,
    force: bool,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Take back what setup did, in the settings of ``editors``; of all, if there are none. ``agent``: to this agent
    alone; empty: to all. ``registry``: the value of ``--registry``. Returns whether nothing of setup had to stay.
    Raises UsageError."""
    plans = [plan_undo(Path(path), file_record) for path, file_record in record.files.items()]
    plans = [plan for plan in plans if not editors or plan.editor in editors]
    names_by_path = _find_changed_names(agent, plans, record, registry) if agent else None
    edited_names = {plan.path: list[str]() for plan in plans}

    def plan_again(path: Path) -> FileChange:
        only_names = names_by_path[path] if names_by_path is not None else None
        return plan_undo(path, record.files[str(path)], only_names, edited_names[path])

    if names_by_path is not None:
        plans = [plan_again(plan.path) for plan in plans if names_by_path[plan.path]]
    for plan in plans:
        edited_names[plan.path] = _choose_edited(plan, force=force, asks=not yes and not dry_run)
    plans = [plan_again(plan.path) if edited_names[plan.path] else plan for plan in plans]
    has_plans, failures = bool(plans), list[str]()
    for plan in plans:
        if plan.is_copy_changed:
            _print_on_stderr(
                f"The copy of {plan.path} has changed since setup made it, so it is not given back, and stays."
            )
        for name, reason in plan.kept:
            advice = "To take acp-proxy out: write the agent's own command there, or delete the entry."
            if name in dict(plan.edited):
                advice = f"To remove it all the same: {command_line_again} --force"
            _print_on_stderr(f'"{name}" in {plan.path} stays as it is: {reason}. {advice}')
        if plan.problem is not None:
            _print_on_stderr(_make_problem_text(plan))
        elif not plan.entries and not plan.kept:
            _print_on_stderr(_explain_nothing_left(plan, record))
            if plan.is_settled and not dry_run:
                _settle(plan, record, failures)
    question = "Take this back?", command_line_again
    undone, is_every_file_right = _carry_out(
        plans, lambda plan: write_undo(plan, record), question, dry_run=dry_run, yes=yes
    )
    if undone:
        _print_on_stderr("An agent that runs keeps acp-proxy in front of it until its editor starts it again.")
    if agent:
        return is_every_file_right and not any(plan.kept for plan in plans)
    is_all_found, is_any_named = _explain_remaining(machine, editors, plans, record)
    if not has_plans and not is_any_named:
        texts = [f"{EDITORS[name].title} has nothing of setup." for name in dict.fromkeys(editors)]
        for text in texts or ["Nothing left to undo: no settings here have anything of setup."]:
            _print_on_stderr(text)
    for plan in plans:
        copy_path = record.find_copy(plan.path) if plan.entries or plan.kept else None
        if copy_path is None or plan.is_settled or plan.is_copy_changed:
            continue
        _print_on_stderr(f"The copy from before setup stays, too: {copy_path}")
        if plan.gone:
            names = ", ".join(f'"{name}"' for name in plan.gone)
            removal = make_removal(copy_path)
            _print_on_stderr(f"Not in {plan.path} any more: {names}. If you do not need the copy: {removal}")
    return not failures and is_every_file_right and is_all_found and not any(plan.kept for plan in plans)


def _choose_edited(plan: FileChange, *, force: bool, asks: bool) -> list[str]:
    """Which of the entries go that setup added and the user has edited since. ``asks``: the user says it of each."""
    names = list[str]()
    for name, text in plan.edited:
        if not force and asks:
            _print_on_stderr(f"setup added this to {plan.path}, and it may have been edited since:")
            for line in text.splitlines():
                typer.echo(sanitize.make_line(line))
        if force or (asks and ask("Remove it?", declined="Nothing was changed.", options_to_skip="--yes --force")):
            names.append(name)
    return names


def _find_changed_names(
    agent: str, plans: Sequence[FileChange], record: Record, registry: str
) -> Mapping[Path, Collection[str]]:
    """The entries of one agent that setup has changed, by file, for the words that ``_choose`` takes. ``plans``: what
    undo would do in these files. ``registry``: the value of ``--registry``. Raises UsageError if there are none."""
    names_by_path = {
        plan.path: list(
            dict.fromkeys(
                [
                    *(entry.name for entry in record.files[str(plan.path)].entries),
                    *(entry.name for entry in plan.entries),  # also under new names
                    *(name for name, _ in plan.kept),
                ]
            )
        )
        for plan in plans
    }
    names = list(dict.fromkeys(name for path_names in names_by_path.values() for name in path_names))
    if exact_names := find_name(names, agent):
        return {path: [name for name in exact_names if name in found] for path, found in names_by_path.items()}
    started = _find_started(agent, plans, registry)
    started_by_path = {
        path: [name for name in found if (path, name) in started] for path, found in names_by_path.items()
    }
    if any(started_by_path.values()):
        return started_by_path
    agent_names = find_beginning(names, agent)
    if len(agent_names) != 1:
        reason = f"several agents begin with {agent!r}" if agent_names else f"setup has changed no agent {agent!r}"
        known_names = ", ".join(agent_names or names) or "none"
        raise UsageError(f"{reason}. Those that it has changed: {known_names}.")
    return {path: [name for name in agent_names if name in found] for path, found in names_by_path.items()}


def _find_started(agent: str, plans: Sequence[FileChange], registry: str) -> set[tuple[Path, str]]:
    """The entries in these files that start the agent of a command or an id, by file and name. Nothing is downloaded:
    an id is known by itself, too."""
    try:
        run_options, _, command = read_agent(["acp-proxy", "setup", "--agent"], command_line.split_line([agent]))
        registry_read = open_registry(registry, run_options, _print_on_stderr)
    except UsageError:
        return set()  # it may be the beginning of a name
    try:
        named_agent = identify_agent(command, registry_read, downloads=False)
    except RegistryError:
        without_prefix = [command[0].removeprefix(PREFIX), *command[1:]]
        named_agent = identify_agent(without_prefix, registry_read, downloads=False)
    return {
        (plan.path, entry.name)
        for plan in plans
        for _, entry in steps.find_entries(EDITORS[plan.editor], plan.path)
        if named_agent.is_started_by(entry.words)
    }


def _settle(plan: FileChange, record: Record, failures: list[str]) -> None:
    """Remove the copy and the record of a file in which nothing of setup is. ``failures``: gets what cannot be done."""
    copy_path = record.find_copy(plan.path)
    with _report_failure(plan.path, failures):
        try:
            write_undo(plan, record)
        except RecordStays as problem:
            copy_text = f" and its copy, {copy_path}, stay" if copy_path is not None else " stays"
            failures.append(f"The record{copy_text}, because {problem}.")
            _print_on_stderr(failures[-1])


def _explain_nothing_left(plan: FileChange, record: Record) -> str:
    """What to say of a file in which nothing of setup is: where its copy is, which stays until it is of no use."""
    copy_path = record.find_copy(plan.path)
    if plan.old_content is None:
        if copy_path is not None:
            removal = make_removal(copy_path)
            return f"{plan.path} is missing. {explain_copy(plan.path, copy_path)}. If you do not need it: {removal}"
        if plan.is_settled:
            return f"{plan.path} is missing, and setup has no copy of it, so nothing is left to undo there."
        command = make_typed_line("setup", "--undo")
        return f"{plan.path} is missing, and setup has no copy of it. If it comes back: {command}"
    text = f"{plan.path} has nothing of setup any more."
    if plan.is_settled or copy_path is None:
        return text
    removal = make_removal(copy_path)
    return f"{text} {explain_copy(plan.path, copy_path)}. If you do not need it: {removal}"


def _make_command_line(editors: Sequence[Name], agent: str, registry: str, *, undo: bool) -> str:
    """The command line that begins this anew."""
    option_values = [*(("--editor", str(name)) for name in editors), ("--agent", agent), ("--registry", registry)]
    words = [word for option, value in option_values if value for word in (option, value)]
    return make_typed_line("setup", *(["--undo"] if undo else []), *words)


def _choose(
    agent: str, entries: Sequence[FoundEntry], registry: str, registry_read: Registry
) -> tuple[list[FoundEntry], WantedAgent | None]:
    """The entries of the agent that the user names, and the agent, if it is not named as an entry is. Without entries,
    the agent is to be added. ``registry``: the value of ``--registry``. ``registry_read``: the registry that it names.

    An entry that starts the agent comes before one whose name only begins with the word: it may be another agent.
    Raises UsageError, RegistryError.
    """
    names = [entry.name for _, entry in entries if entry.words]  # an agent that is built into the editor has none
    if exact_names := find_name(names, agent):
        return [found for found in entries if found[1].name in exact_names], None
    wanted_agent = _read_wanted(command_line.split_line([agent]), registry, registry_read)
    if started_entries := [found for found in entries if wanted_agent.agent.is_started_by(found[1].words)]:
        return started_entries, wanted_agent
    longer_names = find_beginning(names, agent)
    if len(longer_names) > 1:
        raise UsageError(
            f"several agents begin with {agent!r}: {', '.join(longer_names)}. Give one of these, or a command."
        )
    if longer_names:
        _print_on_stderr(
            f'Note: {agent} is taken as "{longer_names[0]}" in your settings. '
            "For another agent, give its whole command."
        )
        return [found for found in entries if found[1].name == longer_names[0]], None
    return [], wanted_agent


def _read_wanted(words: list[str], registry: str, registry_read: Registry) -> WantedAgent:
    """The agent of a command, with options of ``run`` and variables. The other arguments are those of ``_choose``.
    Raises UsageError, RegistryError."""
    run_options, variables, command = read_agent(["acp-proxy", "setup", "--agent"], words)
    named_agent = identify_agent(
        command, open_registry(registry, run_options, _print_on_stderr) if run_options else registry_read
    )
    options_of_run = [*make_registry_option(registry, named_agent.command), *run_options]
    return WantedAgent(named_agent, options_of_run, variables)


def _find_lacking(
    settings: Sequence[tuple[Editor, Path]],
    entries: Sequence[FoundEntry],
    chosen: Sequence[FoundEntry],
    named_agent: WantedAgent | None,
    registry: str,
    registry_read: Registry,
) -> tuple[WantedAgent | None, list[tuple[Editor, Path]]]:
    """The agent of the ``chosen`` entries, and the settings of the editors that have none for it, so that it is added
    there. ``named_agent``: None: only the entries say what it is. The other arguments are those of ``_choose``."""
    wanted_agent = named_agent
    if wanted_agent is None and not chosen[0][1].runs_elsewhere:
        with suppress(UsageError, RegistryError):
            wanted_agent = _read_wanted([*overview.find_command(chosen[0][1])], registry, registry_read)
    if wanted_agent is None:
        return None, []
    paths = {path for path, entry in entries if wanted_agent.agent.is_started_by(entry.words)}
    paths |= {path for path, _ in chosen}
    titles = {editor.title for editor, path in settings if path in paths}
    return wanted_agent, [(editor, path) for editor, path in settings if editor.title not in titles]


def _explain_variables(agent: WantedAgent, entries: Sequence[FoundEntry], titles: Mapping[Path, str]) -> None:
    """Say which of the agent's variables its ``entries`` do not have: setup changes nothing there but the command.
    ``titles``: the editors', by file."""
    for path, entry in entries:
        for variable, value in agent.variables.items():
            if entry.environment.get(variable) != value:
                _print_on_stderr(
                    f'{variable} is not written: {titles[path]} has "{entry.name}" already. '
                    f'Add it to its "env" in {path}.'
                )


def _explain_copied_variables(agent: WantedAgent, entries: Sequence[FoundEntry], paths: Sequence[Path]) -> None:
    """Say which variables the new entry of an agent gets in these files from one that has no command."""
    for path in paths:
        built_in = find_built_in([entry for entry_path, entry in entries if entry_path == path], agent.agent)
        if built_in is not None and (copied := [name for name in built_in.environment if name not in agent.variables]):
            _print_on_stderr(f'The new entry has the variables of "{built_in.name}" in {path}: {", ".join(copied)}.')


def _explain_variables_elsewhere(agent: WantedAgent, chosen: Sequence[FoundEntry]) -> None:
    """Say which variables the entries of the agent in other settings have, which its new entry does not get."""
    for path, entry in chosen:
        if missing := [name for name in entry.environment if name not in agent.variables]:
            _print_on_stderr(f'Copy the variables of "{entry.name}" in {path}, too: {", ".join(missing)}.')


def _explain_place_of_program(agent: WantedAgent, registry: Registry) -> None:
    """Say how an editor finds the program of an agent that is only in the PATH of this terminal."""
    if (place := find_odd_place(agent.agent.command, agent.variables, registry)) is not None:
        value = json.dumps(place.path_value)
        _print_on_stderr(f'Note: {place.describe()} put this into the "env" of the new entry: "PATH": {value}')


def _explain_extensions(plans: Sequence[FileChange], machine: Machine) -> None:
    """Say which editors lack the extension that reads the new entry."""
    for plan in plans:
        if _find_kind(plan.editor).lacks_extension(machine):
            _print_on_stderr(
                f'{EDITORS[plan.editor].title} has no extension "{EXTENSION_TITLE}", which starts the agent. '
                f"Install it there: {EXTENSION}"
            )


def _find_unread(settings: Sequence[tuple[Editor, Path]], machine: Machine) -> list[tuple[Editor, Path]]:
    """The settings that have no agents, and that nothing would read for lack of an extension."""
    used_paths = {found.path for found in find_configurations(machine) if found.agents or found.problem is not None}
    return [
        (editor, path)
        for editor, path in settings
        if path not in used_paths and _find_kind(editor.name).lacks_extension(machine)
    ]


def _find_kind(editor: Name) -> SettingsFiles:
    kind = EDITORS[editor].configured
    assert isinstance(kind, SettingsFiles)
    return kind


def _lacks_named_agent(plan: FileChange, chosen: Sequence[FoundEntry], machine: Machine) -> bool:
    """Whether settings do not have the agent, do not get it, and most likely do not need it: they lack an extension, or
    are not there."""
    if plan.entries or plan.problem is not None or any(path == plan.path for path, _ in chosen):
        return False
    return plan.old_content is None or _find_kind(plan.editor).lacks_extension(machine)


def _show_overview(files: Sequence[overview.FoundFile]) -> None:
    """Print what was found, by editor."""
    for file in files:
        _print_on_stderr(f"{file.title}  {file.path}")
        for text in file.texts:
            _print_on_stderr(f"  {text}", indent_columns=4)
    if files:
        _print_on_stderr("")


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
        line = _make_command_line(editors, shell_quote.join(overview.find_command(entries[found_name])), "", undo=False)
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
        _print_on_stderr(_make_problem_text(plan))
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


def _has_id(registry: Registry, problems: dict[str, RegistryError], id: str) -> bool | None:
    """Whether the registry has an agent; None if it cannot be read: ``problems`` gets why, by the id."""
    try:
        return id in registry.list_ids()
    except RegistryError as problem:
        problems[id] = problem
        return None


def _make_own_words() -> list[str]:
    """The words that start acp-proxy in the settings. Raises UsageError if a runner cannot start it by these."""
    words, advice = own_command.make_settings_command()
    if len(words) > 1 and Path(words[0]).stem in _RUNNERS:
        with suppress(OSError, subprocess.TimeoutExpired):
            tried = subprocess.run([*words, "--version"], capture_output=True, timeout=_ANSWER_SECONDS, check=False)
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
        _print_on_stderr(f"Note: {' '.join(words)}: {advice}")
    return [*words, "run"]


def _carry_out(
    changes: Sequence[FileChange],
    write: Callable[[FileChange], None],
    question_and_command: tuple[str, str],
    *,
    dry_run: bool,
    yes: bool,
    choose: Callable[[Sequence[FileChange]], tuple[Sequence[FileChange], bool]] = lambda changes: (changes, True),
) -> tuple[list[FileChange], bool]:
    """Show the changes, ask, and make them. Returns those that were made, and whether no file had to stay as it is.

    ``question_and_command``: the question, and the command that shows and asks once more. ``choose``: called before the
    question, for those of the changes to make, and whether Enter means yes.
    """
    question, command_line_again = question_and_command
    right_changes = [change for change in changes if change.entries and change.problem is None]
    failures = [_make_problem_text(change) for change in changes if change.problem is not None]  # the user knows them
    written = list[FileChange]()
    if dry_run:
        _show(right_changes)
    if right_changes and dry_run:
        _print_on_stderr("Nothing was written. To be asked: leave out --dry-run")
    if right_changes and not dry_run:
        try:
            chosen_changes, is_well = choose(right_changes) if yes or not is_unanswered() else (right_changes, True)
        except KeyboardInterrupt:
            _print_on_stderr("Nothing was changed.")
            raise typer.Exit(INTERRUPTED) from None
        right_changes = list(chosen_changes)
        _show(right_changes)
        if not right_changes:
            _print_on_stderr("Nothing was written.")
        elif not yes:
            declined = f"Nothing was changed. To see it again: {command_line_again}"
            discard_typed_input()  # Enter, while an agent started, is no answer to what nobody had seen
            ask_to_confirm(
                question if is_well else f"{question[:-1]} all the same?",
                enter_means_yes=is_well,
                declined=declined,
                options_to_skip="--yes" if is_well else "--yes --force",
            )
        for change in right_changes:
            with _report_failure(change.path, failures):
                is_removed = change.old_content is not None and change.new_content is None
                result = f"{change.path} is {'removed' if is_removed else 'written'}"
                try:
                    write(change)
                except RecordStays as problem:
                    failures.append(f"{result}; the record and the copy stay, because {problem}.")
                    _print_on_stderr(failures[-1])
                else:
                    _print_on_stderr(f"{result}.")
                written.append(change)
    return written, not failures


@contextmanager
def _report_failure(path: Path, failures: list[str]) -> Iterator[None]:
    """Say why a file stays as it is, and go on. ``failures``: gets the text."""
    try:
        yield
    except (NotOurs, OSError) as problem:
        reason = str(problem)
        if isinstance(problem, OSError):
            reason = explain_no_write(problem, path)
        failures.append(f"{path} stays as it is: {reason}.")
        _print_on_stderr(failures[-1])


def _make_problem_text(change: FileChange) -> str:
    return f"{change.path} stays as it is: {change.problem}."


def _show(changes: Sequence[FileChange]) -> None:
    for change in changes:
        for line in change.diff:
            typer.echo(sanitize.make_line(line))
        typer.echo("")


@dataclass(slots=True)
class TriedAgents:
    """The agents that were started once. ``some_answer``: at least one of them. ``problems``: those of the others.
    ``silent``: the others, each with its file."""

    some_answer: bool = False
    problems: list[str] = field(default_factory=list)
    silent: list[tuple[Path, str]] = field(default_factory=list)


def try_agents(changes: Sequence[FileChange], tried_agents: TriedAgents) -> bool:
    """Start each agent once, as its editor will after these changes, and say what is wrong. One with the same command
    and variables in several entries is started for all of them.

    Returns False if one does not answer. ``tried_agents``: gets the results.
    """
    from acp_proxy.cli.open_store import find_root, make_new_files_private, read_umask
    from acp_proxy.store.store_base import find_default_root
    from acp_proxy.tools.doctor.report import diagnose_agent

    _print_on_stderr(
        "Now each agent is started once, as its editor does it. A first start may download it: up to "
        f"{_ANSWER_SECONDS:.0f} s for an answer. Ctrl-C skips an agent."
    )
    umask = read_umask()
    make_new_files_private()
    root = find_root(str(find_default_root()))
    same_agents: dict[object, list[tuple[Path, StartedAgent]]] = {}
    for path, agent in ((change.path, agent) for change in changes for agent in _find_changed(change)):
        same_agents.setdefault((agent.words, agent.environment), []).append((path, agent))
    interrupted_at = -math.inf
    for same in same_agents.values():
        agent, entries = same[0][1], [(path, agent.name) for path, agent in same]
        if agent.words is None:
            continue
        quoted_name, *other_names = dict.fromkeys(f'"{name}"' for _, name in entries)
        name = f"{quoted_name} (also {', '.join(other_names)})" if other_names else quoted_name
        if agent.fault is not None:
            tried_agents.problems.append(agent.fault)
            tried_agents.silent += entries
            _print_on_stderr(sanitize.make_line(f"{name} does not answer: {agent.fault}. Correct its entry."))
            continue
        _print_on_stderr(f"Starting {name} …")
        try:
            with _use_environment(dict(agent.environment)):
                report, advice_list = diagnose_agent(
                    root, list(agent.words), _ANSWER_SECONDS, umask, lambda _: None, _SLOW_ADVICE
                )
        except KeyboardInterrupt as interrupt:
            is_second = time.monotonic() - interrupted_at < _END_SECONDS
            if is_second or isinstance(interrupt.__context__, KeyboardInterrupt):
                raise
            interrupted_at = time.monotonic()
            tried_agents.silent += entries
            _print_on_stderr(f"{name} is skipped. Ctrl-C again at once ends setup, which then writes nothing.")
            continue
        if report.problem is None:
            tried_agents.some_answer = True
            _print_on_stderr(f"{name} answers.")
        else:
            tried_agents.problems.append(report.problem)
            tried_agents.silent += entries
            _print_on_stderr(f"{name} does not answer: {report.problem}.")
        for advice in (piece for piece in advice_list if piece.is_wrong):
            _print_on_stderr(f"  {_remove_problem(report.problem, advice.text)}", indent_columns=2)
        for line in report.stderr if report.problem is not None else ():
            _print_on_stderr(f"  on stderr: {sanitize.make_line(line)}")
    return not tried_agents.silent


def _find_changed(change: FileChange) -> list[StartedAgent]:
    """The agents whose entries change, as they will be."""
    editor = EDITORS[change.editor]
    assert isinstance(editor.configured, SettingsFiles)
    names = {entry.name for entry in change.entries}
    started = find_started(editor.title, editor.configured, (change.new_content or b"").decode())
    return [agent for agent in started if agent.name in names]


def _remove_problem(problem: str | None, text: str) -> str:
    """The text without the problem at its beginning, which the user has just read."""
    if problem is not None and text.casefold().startswith(problem.casefold()):
        return text[len(problem) :].lstrip(". ") or text
    return text


def report_written(machine: Machine, written: Sequence[FileChange], tried_agents: TriedAgents) -> bool:
    """Check what was written, as ``doctor`` does, and say what the user does next. Returns whether nothing of what was
    written is wrong, apart from the agents, of which the user has read."""
    from acp_proxy.cli.open_store import find_root, make_new_files_private, read_umask
    from acp_proxy.store.store_base import find_default_root
    from acp_proxy.tools.doctor.report import diagnose

    texts_to_do = [
        f"{change.path} was written again, and not by setup. Close its editor, then run acp-proxy setup again."
        for change in written
        if not steps.is_as_written(change)
    ]
    umask = read_umask()
    make_new_files_private()
    diagnosis = diagnose(find_root(str(find_default_root())), machine, [], _ANSWER_SECONDS, umask, lambda _: None)
    faults = [
        advice
        for advice in diagnosis.advice
        if advice.is_wrong and not any(text in advice.text for text in tried_agents.problems)
    ]
    written_places = {
        f'"{entry.name}" in {EDITORS[change.editor].title}' for change in written for entry in change.entries
    }
    texts_to_do += [advice.text for advice in faults if any(place in advice.found_in for place in written_places)]
    is_well = not texts_to_do
    texts_to_do += [
        advice.text for advice in faults if not advice.found_in
    ]  # of the store, or of acp-proxy's own configuration
    titles = {EDITORS[change.editor].title for change in written}
    notes = [advice.text for advice in faults if any(f'" in {title}' in advice.found_in for title in titles)]
    for text in (text for text in notes if text not in texts_to_do):
        _print_on_stderr(f"Note: {text}")
    if texts_to_do:
        _print_on_stderr("What to do:")
        for number, text in enumerate(dict.fromkeys(texts_to_do), 1):
            _print_on_stderr(f"  {number}. {text}", indent_columns=len(f"  {number}. "))
    if tried_agents.some_answer:
        for change in written:
            _print_on_stderr(NEXT_STEP[change.editor])
    _print_on_stderr(f"To take this back: {make_typed_line('setup', '--undo')}")
    return is_well


@contextmanager
def _use_environment(variables: dict[str, str]) -> Iterator[None]:
    environment_before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment_before)


def _explain_no_change(
    changes: Sequence[FileChange],
    editors: Sequence[Name],
    chosen: Sequence[FoundEntry],
    agent: str,
) -> bool:
    """Say that nothing changes. Returns whether what the user wants is there. ``chosen``: the entries of the agent that
    the user has named. ``agent``: the name."""
    chosen_names = {entry.name for _, entry in chosen}
    is_any_broken = any(overview.has_broken(plan, chosen_names or None) for plan in changes)
    if chosen:
        _print_on_stderr("Nothing to change.")
        return not is_any_broken
    if not changes:
        titles_by_name = {
            str(name): known_editor.title
            for name, known_editor in EDITORS.items()
            if isinstance(known_editor.configured, SettingsFiles)
        }
        titles, other_names = ", ".join(titles_by_name.values()), ", ".join(list(titles_by_name)[1:])
        editor_options = [word for name in editors or list(titles_by_name)[:1] for word in ("--editor", str(name))]
        command_to_make = make_typed_line("setup", *editor_options, "--agent", agent or "COMMAND")
        or_other_names = "" if editors else f" (or {other_names})"
        _print_on_stderr(
            f"None of {titles} has settings of agents on this machine. To write them: {command_to_make}{or_other_names}"
        )
        _print_on_stderr(f"For Neovim, Emacs and others: {make_typed_line('editor', 'EDITOR', agent or 'COMMAND')}")
        return not (editors or agent)
    editor_options = [word for name in editors for word in ("--editor", str(name))]
    command_to_add = make_typed_line("setup", *editor_options, "--agent", agent or "COMMAND")
    example = "" if agent else f". For example: {make_typed_line('setup', *editor_options, '--agent', 'claude-acp')}"
    _print_on_stderr(f"Nothing to change. To add an agent: {command_to_add}{example}")
    return not is_any_broken


def _explain_remaining(
    machine: Machine, editors: Sequence[Name], undone: Sequence[FileChange], record: Record
) -> tuple[bool, bool]:
    """Name what still starts acp-proxy, though not by the setup in this record, and the copies that this does not know:
    undo leaves them to the user. Returns whether no other setup can have done it, and whether anything was named."""
    plans = {plan.path: plan for plan in undone}
    entries = [
        found
        for editor, path in steps.find_settings(machine, editors)
        if (plan := plans.get(path)) is None or plan.problem is None  # what stays with a problem is named already
        for found in steps.find_entries(editor, path, plan)
    ]
    kept_entries = {(plan.path, name) for plan in undone for name, _ in plan.kept}
    repaired_entries = {
        (plan.path, change.name) for plan in undone for change in plan.entries if change.how == REPLACED
    }
    remaining = [
        (path, entry) for path, entry in entries if entry.mentions_proxy and (path, entry.name) not in kept_entries
    ]
    for path, entry in remaining:
        reason = "goes through acp-proxy, but setup did not write it there, so it stays"
        if (path, entry.name) in repaired_entries:
            reason = "names acp-proxy again as it did before setup, which had repaired it"
        _print_on_stderr(
            f'"{entry.name}" in {path} {reason}. To take acp-proxy out: write the agent\'s own command there.'
        )
    is_all_found, is_any_named = True, bool(remaining)
    variable = {"win32": "APPDATA", "darwin": "HOME"}.get(machine.platform, "XDG_CONFIG_HOME")
    remaining_paths = {path for path, _ in remaining}
    for _, path in steps.find_settings(machine, editors):
        if path in plans:
            continue
        for copy_path in list_copies(path):
            is_all_found, is_any_named = is_all_found and path not in remaining_paths, True
            removal = make_removal(copy_path)
            _print_on_stderr(
                f"{copy_path} is the copy of another setup, which {record.path} does not know. Its record may be where "
                f"{variable} was then. {explain_copy(path, copy_path)}. If you do not need it: {removal}"
            )
        for leftover in (find_temporary(each) for each in (path, path.with_name(path.name + COPY_SUFFIX))):
            if os.path.lexists(leftover):
                is_any_named = True
                removal = make_removal(leftover)
                _print_on_stderr(f"A setup that was killed has left {leftover}. To remove it: {removal}")
    for configuration in find_configurations(machine):
        if configuration.mentions_proxy and not editors:
            _print_on_stderr(f"{configuration.path} mentions acp-proxy. It is a program, which stays as it is.")
    return is_all_found, is_any_named


def _print_on_stderr(text: str, indent_columns: int = 0) -> None:
    """Print a message, in which there may be words of the settings."""
    typer.echo(fit_to_stream(sanitize.make_printable(text), sys.stderr, indent_columns), err=True)
