"""``acp-proxy doctor``: check the setup."""

import os
import shutil
import sys
from typing import Annotated

import typer

from acp_proxy.cli.open_store import find_root, make_new_files_private, read_umask
from acp_proxy.cli.report_errors import report_wrong_usage
from acp_proxy.cli.shared_options import RegistryOption, StoreOption
from acp_proxy.cli.wrapping import fit_to_stream

_DAY = 24 * 60 * 60.0
_SECONDS = 30.0
"""For each answer of an agent. A first start through ``npx`` may download the agent."""


def doctor(
    agent: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="AGENT",
            help="The agent's command, as for run, or its name in an editor's settings. NAME=VALUE may precede it.",
        ),
    ] = None,
    store: StoreOption = "",
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Maximum time for each answer of the agent."),
    ] = _SECONDS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    registry: RegistryOption = "",
    with_versions: Annotated[
        bool, typer.Option("--versions", help="Also print the versions of acp-proxy, Python and the libraries.")
    ] = False,
) -> None:
    """Check the setup, and say how to fix what is wrong.

    It checks the store, the installed versions, and the editors on this machine. If you give an agent, it starts the
    agent and asks what it offers. If the agent can load sessions, it asks for a recorded one, and compares the agent's
    replay with the transcript. It creates no session, sends no prompt, and changes nothing. The exit status is 1 if
    something is wrong: with an agent, only what concerns it counts, and the editors' other agents get one line.

    Example: acp-proxy doctor npx -y @agentclientprotocol/claude-agent-acp
    """
    from acp_proxy.store.store_root import resolve_root
    from acp_proxy.tools.doctor import formatting
    from acp_proxy.tools.doctor.report import diagnose, split_run_command  # imported late: no other command needs these
    from acp_proxy.tools.editors.config_dirs import find_machine
    from acp_proxy.views import sanitize

    if agent and agent[0] == "run":  # copied from an editor's arguments
        agent = ["acp-proxy", *agent]
    umask = read_umask()
    with report_wrong_usage():
        agent, environment = _find_command_by_name(agent or [])
        os.environ.update(environment)
        store_given = split_run_command(agent or ["agent"], {})[0]["store"]
        make_new_files_private()
        # A fault in the configuration file stops no check.
        root = find_root(store or store_given or str(resolve_root("")))
        diagnosis = diagnose(root, find_machine(), agent or [], min(timeout, _DAY), umask, _print_progress, registry)
    if as_json:
        typer.echo(sanitize.format_json(formatting.encode_json(diagnosis), indent=2))
    else:
        for text in formatting.format_lines(diagnosis, with_versions=with_versions):
            typer.echo(fit_to_stream(text, sys.stdout, formatting.find_indent(text)))
    if not diagnosis.is_well:
        raise typer.Exit(1)


def _find_command_by_name(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of an agent that an editor's settings name so; else the words as they are. The
    variables before them are added to the environment.

    Raises UsageError if several names begin so.
    """
    from acp_proxy.tools.editors.command import VARIABLE
    from acp_proxy.tools.editors.launch_commands import find_in_settings

    variables: dict[str, str] = {}
    while words and (match := VARIABLE.fullmatch(words[0])):
        variables[match[1]], words = match[2], words[1:]
    if not words or shutil.which(words[0]) is not None:
        return words, variables
    agent = find_in_settings(" ".join(words))
    return (agent.words, agent.environment | variables) if agent is not None else (words, variables)


def _print_progress(text: str) -> None:
    """Say on a terminal what the command is waiting for."""
    if sys.stderr.isatty():
        typer.echo(f"{text} …", err=True)
