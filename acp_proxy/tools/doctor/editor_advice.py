"""What to do about the editors' entries."""

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from acp_proxy import installation, shell_quote
from acp_proxy.tools.doctor import agent_report
from acp_proxy.tools.doctor.advice import Advice
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.agent_names import identify_agent
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import Configuration, ConfiguredAgent, Way
from acp_proxy.tools.editors.known_editors import Name
from acp_proxy.tools.editors.launch_commands import find_started_agents
from acp_proxy.tools.editors.own_files import NotOurs
from acp_proxy.tools.registry.agents import Registry, RegistryError


def advise_on_editors(configurations: Sequence[Configuration], root: Path, *, explains_no_record: bool) -> list[Advice]:
    """On all entries."""
    unrecorded = _find_unrecorded(configurations) if _are_some_proxied(configurations) else []
    return [
        *_advise_on_faults(configurations, root, explains_no_record=explains_no_record),
        *_advise_on_unrecorded(unrecorded),
        *_advise_without_proxy(configurations),
    ]


def advise_on_agent(
    configurations: Sequence[Configuration],
    own_entries: Collection[tuple[str, str]],
    root: Path,
    *,
    explains_no_record: bool,
) -> list[Advice]:
    """On the entries of one agent, with a line on all others. ``own_entries``: as ``find_entries`` returns them."""
    own, others = list[Configuration](), list[Configuration]()
    for configuration in configurations:
        by_owner: dict[bool, list[ConfiguredAgent]] = {True: [], False: []}
        for agent in configuration.agents:
            by_owner[(configuration.editor.title, agent.name) in own_entries].append(agent)
        own.append(replace(configuration, agents=tuple(by_owner[True]), problem=None))
        others.append(replace(configuration, agents=tuple(by_owner[False])))
    some_are_proxied = _are_some_proxied(configurations)
    return [
        *_advise_on_faults(own, root, explains_no_record=explains_no_record),
        *_advise_on_unrecorded(_find_unrecorded(own) if some_are_proxied else []),
        *_advise_without_proxy(configurations),
        *_fold(others, root, len(_find_unrecorded(others)) if some_are_proxied else 0),
    ]


def find_entries(command: Sequence[str], registry: Registry, machine: Machine) -> set[tuple[str, str]]:
    """The entries that start an agent: the editor's title, and the name there. Nothing is downloaded."""
    try:
        agent = identify_agent([*command], registry, downloads=False)
    except RegistryError:
        return set()
    return {
        (started.editor, started.name)
        for started in find_started_agents(machine)
        if started.words and agent.is_started_by(started.words)
    }


def advise_on_recall(beginning: str = "", found_in: str = "") -> list[Advice]:
    """What to do for ``--recall``, if its package is missing. ``beginning``: which entry has it, in words."""
    if find_spec("mcp") is not None:
        return []
    reason = installation.explain_no_mcp()
    text = f"{beginning} with --recall, but {reason}" if beginning else f"{reason[:1].upper()}{reason[1:]}"
    return [Advice(text, cause=f"{reason[:1].upper()}{reason[1:]}.", found_in=found_in)]


def _fold(configurations: Sequence[Configuration], root: Path, unrecorded: int) -> Iterator[Advice]:
    """A line on what the user did not ask about. ``unrecorded``: how many agents are not recorded."""
    faults = [advice for advice in _advise_on_faults(configurations, root, explains_no_record=False) if advice.is_wrong]
    broken = len({advice.found_in for advice in faults if advice.found_in})
    unreadable = sum(configuration.problem is not None for configuration in configurations)
    texts = [
        f"{count} {one if count == 1 else several}"
        for count, one, several in (
            (unrecorded, "agent is not recorded", "agents are not recorded"),
            (broken, "agent does not work", "agents do not work"),
            (unreadable, "file cannot be read", "files cannot be read"),
        )
        if count
    ]
    if texts:
        yield Advice(f"Elsewhere: {', '.join(texts)}. To see them: acp-proxy doctor", is_wrong=False)


def _are_some_proxied(configurations: Sequence[Configuration]) -> bool:
    return any(configuration.is_proxied for configuration in configurations)


def _find_unrecorded(configurations: Sequence[Configuration]) -> list[tuple[Configuration, ConfiguredAgent]]:
    """The agents that the editors start directly, and that ``setup`` would not refuse."""
    return [
        (configuration, agent)
        for configuration in configurations
        for agent in configuration.agents
        if agent.way is Way.DIRECT and agent.fault is None and agent.missing_program is None
    ]


def _advise_on_unrecorded(unrecorded: Sequence[tuple[Configuration, ConfiguredAgent]]) -> Iterator[Advice]:
    """One for all that ``setup`` would write, and one for each file that it leaves."""
    by_hindrance: dict[str, list[tuple[Configuration, ConfiguredAgent]]] = {}
    for configuration, agent in unrecorded:
        hindrance = configuration.find_hindrance()
        how = _explain_hindrance(configuration, hindrance) if hindrance is not None else ""
        by_hindrance.setdefault(how, []).append((configuration, agent))
    for how, ((configuration, agent), *others) in by_hindrance.items():
        if others:
            text = f"{1 + len(others)} agents are started directly, so they are not recorded."
            yield Advice(f"{text} {how or 'To put acp-proxy in front of them: acp-proxy setup'}", is_wrong=False)
            continue
        editor = configuration.editor
        line = shell_quote.join(["acp-proxy", "setup", "--editor", str(editor.name), "--agent", agent.name])
        text = f'{editor.title} starts "{agent.name}" directly, so it is not recorded.'
        yield Advice(f"{text} {how or f'To put acp-proxy in front of it: {line}'}", is_wrong=False)


def _advise_without_proxy(configurations: Sequence[Configuration]) -> Iterator[Advice]:
    """What to do if no editor starts acp-proxy."""
    if any(configuration.is_proxied or configuration.problem is not None for configuration in configurations):
        return
    texts = ["No editor on this machine starts an agent through acp-proxy."]
    left = [
        (configuration, hindrance)
        for configuration in configurations
        if (hindrance := configuration.find_hindrance()) is not None
    ]
    if {agent.way for configuration in configurations for agent in configuration.agents} == {Way.NOT}:
        texts.append("To add an agent that is recorded: acp-proxy setup --agent AGENT")  # it would change none of these
    elif not left or len(left) < len(configurations):
        texts.append("To set them up: acp-proxy setup")
    yield Advice(" ".join(texts), is_wrong=False)
    yield from (Advice(_explain_hindrance(*each), is_wrong=False) for each in left)


def _explain_hindrance(configuration: Configuration, hindrance: NotOurs) -> str:
    command = f"acp-proxy editor {configuration.editor.name} AGENT"
    return f"Setup leaves {configuration.path} to you: {hindrance}. To print what to put there: {command}"


def _advise_on_faults(
    configurations: Sequence[Configuration], root: Path, *, explains_no_record: bool
) -> Iterator[Advice]:
    for configuration in configurations:
        if configuration.problem is not None:
            yield Advice(f"{configuration.path} cannot be read: {configuration.problem}. Correct the file.")
        for agent in configuration.agents:
            title, name = configuration.editor.title, configuration.editor.name
            yield from _advise_on_entry(title, agent, name, root, explains_no_record=explains_no_record)


def _advise_on_entry(
    title: str, agent: ConfiguredAgent, editor: Name, root: Path, *, explains_no_record: bool
) -> Iterator[Advice]:
    beginning, found_in = f'{title} starts "{agent.name}"', f'"{agent.name}" in {title}'
    if agent.program is not None and not _is_there(agent.program):
        text = f"{beginning} with {agent.program}, which does not exist."
        mend, cause = "Correct the entry.", f"{agent.program} does not exist. Correct the entries."
        if agent.is_mended_by_setup:
            mend = f"To write the present path there: acp-proxy setup --editor {editor}"
            cause = f"{agent.program} does not exist: acp-proxy setup writes the present path."
        yield Advice(f"{text} {mend}", cause=cause, found_in=found_in)
        if agent.problem is not None:  # what is gone refuses nothing
            return
    if agent.fault is not None:
        yield Advice(f"The entry {found_in} is wrong: {agent.fault}. Correct it.", found_in=found_in)
    if agent.missing_program is not None:
        cause = ". ".join(agent_report.explain_missing_program(agent.missing_program))
        yield Advice(f"{beginning} {agent.way.value}, but {cause}", cause=cause, found_in=found_in)
    if (option := agent.option_after_agent) is not None:
        text = f"{beginning} with {option} after the agent, which gets it."
        yield Advice(f"{text} If it is for acp-proxy, write it before the agent.", is_wrong=False)
    if agent.looks_up_sessions:
        yield from advise_on_recall(beginning, found_in)
    if agent.problem is not None:
        is_mended = agent.is_mended_by_setup and agent.problem == command_line.MISSING_RUN
        mend = f". To write it there: acp-proxy setup --editor {editor}" if is_mended else ""
        yield Advice(
            f"{beginning} through acp-proxy, which exits immediately with status 2: {agent.problem}{mend}",
            found_in=found_in,
        )
    elif agent.way is Way.PROXIED and not agent.is_recorded:
        reason = "because of --no-record, ACP_PROXY_NO_RECORD or the configuration file"
        if explains_no_record:
            yield Advice(f"{beginning} through acp-proxy, which records nothing, {reason}.", is_wrong=False)
    elif agent.store is not None and agent.is_kept_elsewhere(root):
        command = f"acp-proxy doctor --store {shell_quote.quote(agent.store)}"
        yield Advice(f"{beginning} with another store, which was not checked. To check it: {command}", is_wrong=False)


def _is_there(program: str) -> bool:
    return shutil.which(os.path.expanduser(program)) is not None
