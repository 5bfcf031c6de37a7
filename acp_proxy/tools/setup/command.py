"""``acp-proxy setup``: write acp-proxy into the editors' settings, or take it out again."""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy import own_command, shell_quote
from acp_proxy.cli.common import INTERRUPTED, RegistryOption, ask_to_confirm, report_errors, report_wrong_usage
from acp_proxy.cli.completion import make_word_completion
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.errors import UsageError
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.agent_names import (
    advise_adapter,
    find_beginning,
    find_name,
    make_registry_option,
    name_agent,
    open_registry,
)
from acp_proxy.tools.editors.command import read_agent, read_name
from acp_proxy.tools.editors.config_dirs import Machine, find_machine
from acp_proxy.tools.editors.configured import find_configurations, read_agents
from acp_proxy.tools.editors.known_editors import (
    EDITORS,
    NEOVIM_PLUGINS,
    Name,
    SettingsFiles,
    Sources,
    find_editors,
    find_near_editors,
)
from acp_proxy.tools.editors.launch_commands import StartedAgent, find_started
from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.registry.agents import NotAsked, Registry, RegistryError
from acp_proxy.tools.setup import setup as steps
from acp_proxy.tools.setup.setup import AgentEntry, FileChange, NotOurs, WantedAgent
from acp_proxy.views import sanitize

_ANSWER_SECONDS = 60.0
"""For each answer of an agent: a first start may download it."""

NEXT = {
    Name.ZED: "In Zed: open the agent panel and begin a new thread with the agent.",
    Name.JETBRAINS: "In your JetBrains IDE: open AI Chat and choose the agent. If it runs already, restart the IDE.",
    Name.VSCODE: 'In VS Code: run the command "Developer: Reload Window", then choose the agent in "ACP Client".',
    Name.PASEO: "In Paseo: restart its daemon (paseo daemon restart), and choose the agent.",
}
"""What the user does next, by editor."""


def _read_editor(word: str) -> Name:
    if find_editors(word) == list(NEOVIM_PLUGINS):
        raise typer.BadParameter(
            "Neovim's configuration is a program, which setup leaves to you. To print what to put there: "
            f"acp-proxy editor PLUGIN AGENT, with your plugin: {', '.join(NEOVIM_PLUGINS)}."
        )
    if not find_editors(word):
        names = [str(name) for name, editor in EDITORS.items() if isinstance(editor.configured, SettingsFiles)]
        near = [name for name in find_near_editors(word) if name in names]
        advice = f" Did you mean {' or '.join(near)}?" if near else ""
        raise typer.BadParameter(
            f"{word!r} is not one of {', '.join(map(repr, names))}.{advice} "
            "For other editors: acp-proxy editor EDITOR AGENT, which prints what to put there."
        )
    return read_name(word)


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
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="NAME|COMMAND|ID",
            help="Put acp-proxy in front of this agent alone, by its name in the settings, or add it.",
            show_default=False,
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Write an agent though its program is not here, or does not answer.")
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
    it. An agent that does not answer stays as it is, unless none goes through acp-proxy yet and none answers.

    Example: acp-proxy setup --agent "npx -y @agentclientprotocol/claude-agent-acp"
    """
    with report_wrong_usage(), report_errors():
        if undo and agent:
            raise UsageError("--undo takes back what setup did, whatever the agent. Leave --agent out.")
        record, machine = steps.open_record(os.environ), find_machine()
        again = _write_command(editor or [], agent, registry, undo=undo)
        if undo:
            plans = [steps.plan_undo(Path(path), known) for path, known in record.files.items()]
            plans = [plan for plan in plans if not editor or plan.editor in editor]
            if not plans:
                _say("Nothing left to undo: no settings here have anything of setup.")
            for plan in plans:
                if not plan.entries and plan.problem is None:
                    _say(f"{plan.path} has nothing of setup any more.")
                    if not dry_run:
                        steps.forget_file(plan.path, record)
            asked = "Take this back?", again
            _, is_whole = _carry_out(
                plans, lambda plan: steps.write_undo(plan, record), asked, dry_run=dry_run, yes=yes
            )
            if not is_whole:
                raise typer.Exit(1)
            return
        known = open_registry(registry, [], _say)
        settings = steps.find_settings(machine, editor or [])
        entries, chosen, wanted = list[AgentEntry](), list[AgentEntry](), None
        if agent:
            entries = [entry for place in settings for entry in steps.find_entries(*place)]
            chosen, wanted = _choose(agent, entries, registry, known)
        added = wanted if not chosen else None
        if added is not None and settings and not force:
            _check_program(added, [entry.name for entry in entries], known)
        own_words = _own_words()
        tried, has_id = TriedAgents(), cache(partial(_has, known))
        is_any_proxied = any(entry.is_proxied for place in settings for entry in steps.find_entries(*place))

        def plan_files(left_out: Collection[tuple[Path, str]] = ()) -> list[FileChange]:
            return [
                steps.plan_file(
                    editor_found,
                    path,
                    own_words,
                    {entry.name for entry in chosen if entry.path == path} if agent else None,
                    wanted.options if wanted is not None else [],
                    has_id,
                    registry,
                    added,
                    {name for place, name in left_out if place == path},
                )
                for editor_found, path in settings
            ]

        def choose(changes: Sequence[FileChange]) -> tuple[Sequence[FileChange], bool]:
            if try_agents(changes, tried) or force:
                return changes, True
            left = [change for change in plan_files(tried.silent) if change.entries and change.problem is None]
            if not left and not is_any_proxied:
                return changes, False
            mended = {(change.path, entry.name) for change in left for entry in change.entries}
            gone = dict.fromkeys(f'"{name}"' for path, name in tried.silent if (path, name) not in mended)
            if not gone:
                return changes, True
            _say(f"Without acp-proxy, until it answers: {', '.join(gone)}. To write it all the same: {again} --force")
            return left, True

        plans = plan_files()
        for text in advise_adapter(added.agent.command) if added is not None else []:
            _say(text)
        _say_about_programs(machine, editor or [])
        is_idle = not any(plan.entries or plan.problem for plan in plans)
        if is_idle and not _advise(plans, editor or [], chosen, agent):
            raise typer.Exit(1)
        asked = "Write this?", again
        done, is_whole = _carry_out(
            plans, lambda change: steps.write_file(change, record), asked, dry_run=dry_run, yes=yes, choose=choose
        )
        is_well = report_written(machine, done, tried) if done else True
        if dry_run and not force:
            _say_what_starts(plans)
        written = {(change.path, entry.name) for change in done for entry in change.entries}
        is_left = bool(agent and tried.silent and not done)  # what the user named
        if is_left or not (is_whole and is_well and (force or written.isdisjoint(tried.silent))):
            raise typer.Exit(1)


def _write_command(editors: Sequence[Name], agent: str, registry: str, *, undo: bool) -> str:
    """The command line that begins this anew."""
    option_values = [*(("--editor", str(name)) for name in editors), ("--agent", agent), ("--registry", registry)]
    words = [word for option, value in option_values if value for word in (option, value)]
    return _write_typed("setup", *(["--undo"] if undo else []), *words)


def _write_typed(*words: str) -> str:
    """A command line with which a user starts this acp-proxy, which may not be installed (``uvx acp-proxy``)."""
    return shell_quote.join([*own_command.make_typed_command(), *words])


def _choose(
    agent: str, entries: Sequence[AgentEntry], registry: str, known: Registry
) -> tuple[list[AgentEntry], WantedAgent | None]:
    """The entries of the agent that the user names, and the agent, if it is not named as an entry is. Without entries,
    the agent is to be added. ``registry``: the value of ``--registry``. ``known``: the registry that it names.

    An entry that starts the agent comes before one whose name only begins with the word: it may be another agent.
    Raises UsageError, RegistryError.
    """
    names = [entry.name for entry in entries]
    if called := find_name(names, agent):
        return [entry for entry in entries if entry.name in called], None
    run_options, variables, command = read_agent(["acp-proxy", "setup", "--agent"], command_line.split_line([agent]))
    named = name_agent(command, open_registry(registry, run_options, _say) if run_options else known)
    wanted = WantedAgent(named, [*make_registry_option(registry, named.command), *run_options], variables)
    if started := [entry for entry in entries if wanted.agent.is_started_by(entry.words)]:
        return started, wanted
    begun = find_beginning(names, agent)
    if len(begun) > 1:
        raise UsageError(f"several agents begin with {agent!r}: {', '.join(begun)}. Give one of these, or a command.")
    if begun:
        _say(f'Note: {agent} is taken as "{begun[0]}" in your settings. For another agent, give its whole command.')
        return [entry for entry in entries if entry.name == begun[0]], None
    return [], wanted


def _check_program(added: WantedAgent, names: Sequence[str], registry: Registry) -> None:
    """Refuse an agent whose program is not here, which is more often a wrong word than a program that comes later.

    ``names``: of the agents in the settings. Raises UsageError.
    """
    program = added.agent.command[0]
    if command_line.may_exist(program, added.variables.get("PATH")):
        return
    force = "To write it all the same, for a program that you install later: --force"
    if os.path.dirname(program):
        raise UsageError(f"{program} does not exist. Correct the path.", force)
    if len(added.agent.command) > 1:
        raise UsageError(f"{program} is not in PATH. Install it, or give its absolute path.", force)
    is_none = f"{program} is not in PATH, and no agent in your editors' settings"
    try:
        ids = registry.list_ids()
    except RegistryError as problem:
        why = problem.short_reason if isinstance(problem, NotAsked) else str(problem)
        raise UsageError(f"{is_none}. {why[:1].upper()}{why[1:]}", force) from problem
    near = _find_near(program, [*names, *ids])
    raise UsageError(
        f"{is_none}, and no id in the registry of agents.",
        f"Did you mean: {', '.join(near)}?" if near else f"Give its command, or one of the ids: {', '.join(ids)}",
        force,
    )


def _find_near(word: str, names: Sequence[str]) -> list[str]:
    """The names that a word may mean, whatever its case, the nearest first."""
    known = {name.casefold(): name for name in names}
    return [known[match] for match in get_close_matches(word.casefold(), known)]


def _has(registry: Registry, id: str) -> bool:
    """Whether the registry has an agent; if it cannot be read, the user learns why an entry stays as it is."""
    try:
        return id in registry.list_ids()
    except RegistryError as problem:
        by_command = _write_typed("setup", "--agent", "COMMAND")
        _say(f'The entry "{id}" stays as it is: {problem} To add it by its command: {by_command}')
        return False


def _own_words() -> list[str]:
    words, advice = own_command.make_settings_command()
    if advice is not None:
        _say(f"Note: {' '.join(words)}: {advice}")
    return [*words, "run"]


def _carry_out(
    changes: Sequence[FileChange],
    write: Callable[[FileChange], None],
    asked: tuple[str, str],
    *,
    dry_run: bool,
    yes: bool,
    choose: Callable[[Sequence[FileChange]], tuple[Sequence[FileChange], bool]] = lambda changes: (changes, True),
) -> tuple[list[FileChange], bool]:
    """Show the changes, ask, and make them. Returns those that were made, and whether no file had to stay as it is.

    ``asked``: the question, and the command that shows and asks once more. ``choose``: called before the question, for
    those of the changes to make, and whether Enter means yes.
    """
    question, again = asked
    wanted = [change for change in changes if change.entries and change.problem is None]
    failed = [f"{change.path} stays as it is: {change.problem}." for change in changes if change.problem is not None]
    done: list[FileChange] = []
    for text in failed:
        _say(text)
    if dry_run:
        _show(wanted)
    if wanted and dry_run:
        _say("Nothing was written. To be asked: leave out --dry-run")
    if wanted and not dry_run:
        try:
            chosen, is_well = choose(wanted)
        except KeyboardInterrupt:  # an agent may be silent for a minute
            _say("Nothing was changed.")
            raise typer.Exit(INTERRUPTED) from None
        wanted = list(chosen)
        _show(wanted)
        if not wanted:
            _say("Nothing was written.")
        elif not yes:
            declined = f"Nothing was changed. To see it again: {again}"
            ask_to_confirm(
                question if is_well else f"{question[:-1]} all the same?", enter_means_yes=is_well, declined=declined
            )
        for change in wanted:
            try:
                write(change)
            except NotOurs as problem:
                failed.append(f"{change.path} stays as it is: {problem}.")
                _say(failed[-1])
            except OSError as problem:
                failed.append(f"{change.path} stays as it is: {problem.strerror}. Check its permissions and the disk.")
                _say(failed[-1])
            else:
                is_removed = change.before is not None and change.after is None
                _say(f"{change.path} is {'removed' if is_removed else 'written'}.")
                done.append(change)
    return done, not failed


def _say_what_starts(changes: Sequence[FileChange]) -> None:
    """Say what a dry run leaves open: whether the agents answer. A program that is missing it sees without a start."""
    from acp_proxy.tools.doctor.agent_report import explain_missing_program

    changes = [change for change in changes if change.entries and change.problem is None]
    if changes:
        _say("No agent was started. Without --dry-run, each is started once; one that does not answer is left out.")
    for change in changes:
        kind, names = EDITORS[change.editor].configured, {entry.name for entry in change.entries}
        assert isinstance(kind, SettingsFiles)
        for agent in read_agents(kind, (change.after or b"").decode()):
            if agent.name in names and agent.missing_program is not None:
                _say(f'"{agent.name}": {explain_missing_program(agent.missing_program)[0]}.')


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


def try_agents(changes: Sequence[FileChange], tried: TriedAgents) -> bool:
    """Start each agent once, as its editor will after these changes, and say what is wrong.

    Returns False if one does not answer. ``tried``: gets the results.
    """
    from acp_proxy.cli.common import find_root
    from acp_proxy.store.command_store import find_default_root
    from acp_proxy.tools.doctor.report import diagnose_agent

    os.umask(own := os.umask(0))
    root = find_root(str(find_default_root()))
    for path, agent in ((change.path, agent) for change in changes for agent in _find_changed(change)):
        if agent.words is None:
            continue
        download = ", which may download it first" if _may_download(agent.words) else ""
        _say(f'Starting "{agent.name}" once, as {agent.editor} will{download} …')
        with _environment(dict(agent.environment)):
            report, todo = diagnose_agent(root, list(agent.words), _ANSWER_SECONDS, own, lambda _: None)
        if report.problem is None:
            tried.some_answer = True
            _say(f'"{agent.name}" answers.')
        else:
            tried.problems.append(report.problem)
            tried.silent.append((path, agent.name))
            for line in report.stderr:
                _say(f"  {sanitize.make_line(line)}")
            _say(f'"{agent.name}" does not answer: {report.problem}.')
        for advice in (piece for piece in todo if piece.is_wrong):
            _say(f"  {_leave_out(report.problem, advice.text)}", hanging=2)
    return not tried.problems


def _find_changed(change: FileChange) -> list[StartedAgent]:
    """The agents whose entries change, as they will be."""
    editor = EDITORS[change.editor]
    assert isinstance(editor.configured, SettingsFiles)
    names = {entry.name for entry in change.entries}
    started = find_started(editor.title, editor.configured, (change.after or b"").decode())
    return [agent for agent in started if agent.name in names]


def _may_download(words: Sequence[str]) -> bool:
    return any(word.startswith(PREFIX) or word in ("npx", "uvx") for word in words)


def _leave_out(problem: str | None, text: str) -> str:
    """The text without the problem at its beginning, which the user has just read."""
    if problem is not None and text.casefold().startswith(problem.casefold()):
        return text[len(problem) :].lstrip(". ") or text
    return text


def report_written(machine: Machine, done: Sequence[FileChange], tried: TriedAgents) -> bool:
    """Check what was written, as ``doctor`` does, and say what the user does next. Returns whether nothing of what was
    written is wrong, apart from the agents, of which the user has read."""
    from acp_proxy.cli.common import find_root
    from acp_proxy.store.command_store import find_default_root
    from acp_proxy.tools.doctor.report import diagnose

    todo = [
        f"{change.path} was written again, and not by setup. Close its editor, then run acp-proxy setup again."
        for change in done
        if not steps.is_as_written(change)
    ]
    os.umask(own := os.umask(0))
    diagnosis = diagnose(find_root(str(find_default_root())), machine, [], _ANSWER_SECONDS, own, lambda _: None)
    wrong = [
        advice
        for advice in diagnosis.advice
        if advice.is_wrong and not any(text in advice.text for text in tried.problems)
    ]
    written_places = {
        f'"{entry.name}" in {EDITORS[change.editor].title}' for change in done for entry in change.entries
    }
    todo += [advice.text for advice in wrong if any(where in advice.found_in for where in written_places)]
    is_well = not todo
    todo += [
        advice.text for advice in wrong if not advice.found_in
    ]  # of the store, or of acp-proxy's own configuration
    for text in (advice.text for advice in wrong if advice.text not in todo):
        _say(f"Note: {text}")
    if todo:
        _say("What to do:")
        for number, text in enumerate(dict.fromkeys(todo), 1):
            _say(f"  {number}. {text}", hanging=len(f"  {number}. "))
    if tried.some_answer:
        for change in done:
            _say(NEXT[change.editor])
    _say(f"To take this back: {_write_typed('setup', '--undo')}")
    return is_well


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _say_about_programs(machine: Machine, wanted: Sequence[Name]) -> None:
    """Name the configurations that are programs and do not mention acp-proxy."""
    for configuration in find_configurations(machine):
        name = configuration.editor.name
        if configuration.mentions_proxy is False and (not wanted or name in wanted):
            _say(
                f"{configuration.editor.title} is configured by a program, {configuration.path}, which stays as it is. "
                f"To print what to put there: {_write_typed('editor', str(name), 'AGENT')}"
            )


def _advise(changes: Sequence[FileChange], wanted: Sequence[Name], chosen: Sequence[AgentEntry], agent: str) -> bool:
    """Say why nothing changes. Returns whether what the user wants is there. ``chosen``: the entries of the agent that
    the user has named. ``agent``: the name."""
    for name in dict.fromkeys(entry.name for entry in chosen if entry.is_proxied):
        _say(f'Nothing to change: "{name}" already goes through acp-proxy.')
    if chosen:
        return True
    programs = [EDITORS[name] for name in wanted if not isinstance(EDITORS[name].configured, SettingsFiles)]
    for program in programs:
        why = ", which is a program" if isinstance(program.configured, Sources) else ""
        _say(
            f"setup does not write the configuration of {program.title}{why}. "
            f"To print what to put there: {_write_typed('editor', str(program.name), agent or 'AGENT')}"
        )
    if programs and not changes:
        return False
    if not changes:
        known = {
            str(name): known_editor.title
            for name, known_editor in EDITORS.items()
            if isinstance(known_editor.configured, SettingsFiles)
        }
        titles, others = ", ".join(known.values()), ", ".join(list(known)[1:])
        which = [word for name in wanted or list(known)[:1] for word in ("--editor", str(name))]
        make = _write_typed("setup", *which, "--agent", agent or "COMMAND")
        or_another = "" if wanted else f" (or {others})"
        _say(f"None of {titles} has settings on this machine. To write them: {make}{or_another}")
        _say(f"For Neovim, Emacs and others: {_write_typed('editor', 'EDITOR', agent or 'COMMAND')}")
        return not wanted
    add = _write_typed("setup", "--agent", agent or "COMMAND")
    _say(f"Nothing to change: no settings here start an agent without acp-proxy. To add an agent: {add}")
    return not programs


def _say(text: str, hanging: int = 0) -> None:
    typer.echo(fit_to_stream(text, sys.stderr, hanging), err=True)
