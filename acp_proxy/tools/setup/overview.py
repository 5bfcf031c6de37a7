"""What setup has found: each editor with its settings file, and of each agent there, what setup does with it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from acp_proxy import shell_quote
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.agent_names import explain_built_in, make_typed_line
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import ConfiguredAgent, Way, find_configurations, read_agents
from acp_proxy.tools.editors.entries import Entry, Kind
from acp_proxy.tools.editors.known_editors import EDITORS, EXTENSION_TITLE, Editor, Name, SettingsFiles
from acp_proxy.tools.editors.own_files import follow_link, format_link
from acp_proxy.tools.setup.missing_extension import lacks_extension
from acp_proxy.tools.setup.record import ADDED, NAMED, PUT_IN_FRONT, REPLACED
from acp_proxy.tools.setup.setup import FileChange, FoundEntry, find_sharers, read_entries

_CHANGES = {
    PUT_IN_FRONT: "will be recorded",
    NAMED: "will be recorded",
    ADDED: "will be added, and recorded",
    REPLACED: "will start the present acp-proxy",
}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of an editor, and what to say of it."""

    title: str
    path: str
    texts: Sequence[str]


def describe_files(
    plans: Sequence[FileChange],
    chosen: Sequence[FoundEntry] | None,
    agent: str,
    unread_ids: Collection[str],
    machine: Machine,
) -> list[FoundFile]:
    """The settings files. ``chosen``: the entries of the only agent that may change, ``agent``; None: all may.
    ``unread_ids``: the entries of the editor's registry of which nobody can say whether acp-proxy can start them."""
    found = list[FoundFile]()
    for plan in plans:
        if chosen and _does_without_agent(plan, chosen, machine):
            continue
        texts = [f"stays as it is: {plan.problem}."]
        if plan.problem is None:
            only_names = {entry.name for path, entry in chosen if path == plan.path} if chosen is not None else None
            texts = _describe_agents(plan, only_names, unread_ids)
        if not texts and chosen:
            command = find_command(chosen[0][1])
            line = make_typed_line("setup", "--editor", str(plan.editor), "--agent", shell_quote.join(command))
            texts = [f'has no "{agent}". To add it there: {line}']
        elif not texts:
            texts = ["no settings yet" if plan.old_content is None else "no agents"]
        titles = ", ".join(editor.title for editor in find_sharers(plan, machine))
        found.append(FoundFile(titles, _format_path(plan.editor, plan.path, machine), texts))
    return found


def _does_without_agent(plan: FileChange, chosen: Sequence[FoundEntry], machine: Machine) -> bool:
    """Whether settings do not have the agent, do not get it, and most likely do not need it: they lack an extension, or
    are not there."""
    if plan.entries or plan.problem is not None or any(path == plan.path for path, _ in chosen):
        return False
    return plan.old_content is None or lacks_extension(plan.editor, machine)


def _format_path(editor: Name, path: Path, machine: Machine) -> str:
    """A settings file as its user knows it: by the link that leads to it, if there is one."""
    kind = EDITORS[editor].configured
    links = (
        [link for link in kind.find_files(machine) if follow_link(link) == path]
        if isinstance(kind, SettingsFiles)
        else []
    )
    return format_link(links[0]) if links else str(path)


def find_command(entry: Entry) -> Sequence[str]:
    """An agent's command without acp-proxy: its name may mean nothing in another editor."""
    words_after_run = entry.words_after_run or ()
    return words_after_run if words_after_run and not words_after_run[0].startswith("-") else entry.words


def _describe_agents(plan: FileChange, only_names: Collection[str] | None, unread_ids: Collection[str]) -> list[str]:
    changes, kept = _describe_changes(plan), dict(plan.kept)
    agents = {agent.name: agent for agent in _read_agents_before(plan)}
    entries = read_entries(_find_kind(plan), plan.new_content)
    proxied_names = [entry.name for entry in entries if entry.is_proxied]
    texts = list[str]()
    for entry in entries:
        name = entry.name
        if only_names is not None and name not in {*only_names, *changes}:
            continue
        if name in changes:
            text = changes[name]
        elif name in kept:
            text = f"stays as it is: {kept[name]}."
        elif entry.kind is Kind.NO_COMMAND:
            text = explain_built_in(name, proxied_names)
        elif entry.kind is Kind.REGISTERED and name in unread_ids:
            text = "cannot be recorded while the registry of agents cannot be read"
        else:
            text = _describe_unchanged(agents[name])
        texts.append(f'"{name}" {text}')
    return texts


def _describe_changes(plan: FileChange) -> dict[str, str]:
    """What changes, by the entries' names, and the programs that are not here: their agents may not start."""
    from acp_proxy.tools.doctor.agent_report import describe_missing_program  # loads much

    texts = {change.name: _CHANGES[change.how] for change in plan.entries}
    for agent in read_agents(_find_kind(plan), (plan.new_content or b"").decode()):
        if agent.name in texts and agent.missing_program is not None:
            texts[agent.name] += f", but {describe_missing_program(agent.missing_program)[0]}"
    return texts


def _describe_unchanged(agent: ConfiguredAgent) -> str:
    if _is_broken(agent):
        line = make_typed_line("doctor")
        return f"does not start through acp-proxy, and setup cannot repair it. To see why: {line}"
    if agent.way is Way.ELSEWHERE:
        return f"is started {agent.way.value}"
    if agent.way is Way.PROXIED:
        return "is recorded already" if agent.is_recorded else "goes through acp-proxy already, but is not recorded"
    return "stays as it is"


def _is_broken(agent: ConfiguredAgent) -> bool:
    is_gone = agent.program is not None and not command_line.may_exist(agent.program, None)
    return agent.problem is not None or is_gone


def has_broken(plan: FileChange, only_names: Collection[str] | None) -> bool:
    """Whether an entry does not start acp-proxy as it is, and setup leaves it."""
    changed_names = {change.name for change in plan.entries}
    return any(
        _is_broken(agent)
        for agent in _read_agents_before(plan)
        if agent.name not in changed_names and (only_names is None or agent.name in only_names)
    )


def _find_kind(plan: FileChange) -> SettingsFiles:
    kind = EDITORS[plan.editor].configured
    assert isinstance(kind, SettingsFiles)
    return kind


def _read_agents_before(plan: FileChange) -> Sequence[ConfiguredAgent]:
    return read_agents(_find_kind(plan), (plan.old_content or b"").decode()) if plan.problem is None else ()


def describe_left_out(settings: Sequence[tuple[Editor, Path]]) -> list[FoundFile]:
    """The settings that get no agent, since nothing would read it there for lack of an extension."""
    return [
        FoundFile(
            editor.title,
            str(path),
            [f"left out: no extension {EXTENSION_TITLE}. To write it all the same: --editor {editor.name}"],
        )
        for editor, path in settings
    ]


def describe_programs(machine: Machine) -> list[FoundFile]:
    """The configurations that are programs."""
    return [
        FoundFile(
            configuration.editor.title,
            str(configuration.path),
            [
                "a program, which mentions acp-proxy already"
                if configuration.mentions_proxy
                else "a program, which stays as it is. To print what to put there: "
                + make_typed_line("editor", str(configuration.editor.name), "AGENT")
            ],
        )
        for configuration in find_configurations(machine)
        if configuration.mentions_proxy is not None
    ]
