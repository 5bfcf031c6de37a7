"""``acp-proxy continue``: continue a session with another agent."""

import os
from typing import Annotated

import typer

from acp_proxy.cli import completion
from acp_proxy.cli.choose_session import choose_session
from acp_proxy.cli.next_command import format_command, repeat_store_option
from acp_proxy.cli.open_store import open_store, read_umask
from acp_proxy.cli.pager import find_screen
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.shared_options import AgentOption, RegistryOption, SessionArgument, StoreOption
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.file_names import file_name, make_copy_id, name_agent
from acp_proxy.views import formatting, sanitize, session_lines

_FIRST_ANSWER_SECONDS = 60.0
"""For the agent's first answer. A first start through ``npx`` may download the agent."""


def continue_session(
    context: typer.Context,
    session: SessionArgument,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- AGENT", help="Instead of --with: the other agent's command."),
    ] = None,
    other_name: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="NAME",
            help="The other agent: a name as --agent takes it, or its name in an editor's settings or the registry.",
            autocompletion=completion.complete_agent,
        ),
    ] = "",
    store: StoreOption = "",
    agent: AgentOption = "",
    registry: RegistryOption = "",
) -> None:
    """Continue a session with another agent.

    The other agent gets a copy of the session. Its next list shows the copy. When you open it, you see the whole
    conversation, and the agent gets a record of it with your next prompt. The first agent's session does not change.
    An agent that has no recorded session yet is started once, for its name. If it has a copy in which nothing was said
    yet, that one is named; no second one is made.

    Example: acp-proxy continue last --with opencode
    """
    umask = read_umask()
    with report_errors():
        opened_store = open_store(store, for_writing=True)
        if bool(other_name) == bool(command):
            usage = "continue takes either --with NAME or -- AGENT [ARGS…]."
            if command:
                options = [*repeat_store_option(context, store), *(["--agent", agent] if agent else [])]
                agent_words = [*([other_name] if command[0] != other_name else []), *command]
                line = format_command("continue", [session], *options, "--", *agent_words)
                raise UsageError(f"{usage} Write: {line}")
            raise UsageError(f"{usage} {_list_agents(opened_store)}")
        row = choose_session(opened_store, session, agent)
        if command:
            try:
                folder, agent_info = _ask_agent(opened_store, command, umask, registry)
            except AcpProxyError as problem:
                if len(command) > 1 or not command[0].strip() or not opened_store.list_agents(command[0]):
                    raise
                options = ["--with", command[0], *repeat_store_option(context, store)]
                line = format_command("continue", [session], *options, *(["--agent", agent] if agent else []))
                raise AcpProxyError(
                    *problem.args, f"To continue with the agent of that name that has sessions here: {line}"
                ) from problem
        else:
            folder, agent_info = _find_agent(opened_store, other_name, row.agent_folder, umask, registry)
        name = name_agent(folder)
        if folder == row.agent_folder:
            raise AcpProxyError(f"the session is one of {name} already. Open it in your editor.")
        if row.cwd is None:
            raise AcpProxyError("the session's directory is not known, so no editor could open a copy of it.")
        earlier = [copy for copy in opened_store.find_copies_of(row, folder) if not copy.is_archived]
        unused = next((copy for copy in earlier if _is_as_copied(copy, row)), None)
        id = unused.session_id if unused is not None else opened_store.copy_for_agent(row, folder, agent_info)
    displayed_id = (make_copy_id(folder, file_name(id), id) if find_screen().is_terminal else None) or id  # as by list
    typer.echo(sanitize.make_line(displayed_id))
    if unused is not None:
        print_on_stderr(f"{sanitize.make_line(name)} has this copy already, and nothing was said since: it is enough.")
    elif earlier:
        other_copy = sanitize.make_line(earlier[0].selector)
        print_on_stderr(
            f"This is a new copy. {sanitize.make_line(name)} has an earlier one, {other_copy}, but something was said"
            f" since, there or in the original. If you want that one, delete this: acp-proxy delete {displayed_id}"
        )
    directory = formatting.shorten_home(row.cwd, os.path.expanduser("~"))
    print_on_stderr(
        sanitize.make_line(f"To continue, open it in {directory}, from the list of {name}'s sessions in your editor.")
    )


def _is_as_copied(copy: ListedSession, original: ListedSession) -> bool:
    """Whether nothing was said since the copy was made, in either."""
    return (copy.updated, copy.prompt_count) == (original.updated, original.prompt_count) and not original.is_running


def _find_agent(
    store: CommandStore, other_name: str, own_folder: str, umask: int, registry: str
) -> tuple[str, dict[str, object]]:
    """The folder, name and version of the agent that the user means. Raises AcpProxyError."""
    from acp_proxy.tools.editors.agent_names import identify_agent
    from acp_proxy.tools.editors.launch_commands import find_in_settings
    from acp_proxy.tools.registry.agents import Registry

    folders = store.list_agents(other_name)
    if len(folders) > 1 and own_folder in folders:
        folders.remove(own_folder)
    if len(folders) > 1:
        names = ", ".join(sorted(session_lines.make_distinct_names(folders).values()))
        raise UsageError(f"--with {other_name!r} matches several agents: {names}. Give one of these.")
    if folders:
        return folders[0], {"name": None, "version": None}
    if (agent := find_in_settings(other_name)) is not None:
        os.environ.update(agent.environment)
        return _ask_agent(store, agent.words, umask, registry)
    try:
        command = identify_agent([other_name], Registry(registry), downloads=False).command  # with its arguments
        return _ask_agent(store, command, umask, registry)
    except AcpProxyError as problem:
        raise AcpProxyError(
            f"no agent called {other_name!r} is known here: none with a session, none in an editor's settings.",
            f"Nor as a command: {problem}",
            _list_agents(store),
        ) from problem


def _list_agents(store: CommandStore) -> str:
    """Which other agents a user can mean."""
    names = ", ".join(sorted(session_lines.make_distinct_names(store.list_agents()).values()))
    known_agents_text = f"Agents with sessions here: {names}." if names else "No agent has a recorded session yet."
    return f"{known_agents_text} For another: acp-proxy continue SESSION -- AGENT [ARGS…]"


def _ask_agent(store: CommandStore, command: list[str], umask: int, registry: str) -> tuple[str, dict[str, object]]:
    """The folder, name and version of the agent with this command. Raises AcpProxyError."""
    from acp_proxy.tools.doctor.ask_name import ask_folder
    from acp_proxy.tools.doctor.report import split_run_command
    from acp_proxy.tools.registry.agents import Registry
    from acp_proxy.tools.registry.resolve import resolve

    values, words = split_run_command(command, dict(os.environ))
    agent = resolve(
        words, Registry(registry or values["registry"], print_line=print_on_stderr), print_on_stderr, may_wait=True
    )
    return ask_folder(store, agent, values["agent-id"] or None, _FIRST_ANSWER_SECONDS, umask)
