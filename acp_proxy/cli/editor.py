"""``acp-proxy editor``: what belongs into an editor's configuration."""

import os
import re
import shutil
import sys
from typing import Annotated

import typer

from acp_proxy import options
from acp_proxy.cli.storing import wrong_usage
from acp_proxy.editors.table import Name
from acp_proxy.errors import UsageError

_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)


def editor(
    name: Annotated[Name, typer.Argument(metavar="EDITOR", help="Which editor.", show_default=False)],
    agent: Annotated[
        list[str],
        typer.Argument(metavar="AGENT", help="The agent's command, as for run; NAME=VALUE in front: its variables."),
    ],
) -> None:
    """Print what belongs into an editor's configuration.

    With it, the editor starts the agent through acp-proxy. The snippet alone is on stdout; which file it belongs in,
    and what to do then, is said on stderr. Nothing is edited.

    Example: acp-proxy editor zed npx -y @agentclientprotocol/claude-agent-acp
    """
    from acp_proxy.editors.configured import file_for  # no other command needs these
    from acp_proxy.editors.machine import this_machine
    from acp_proxy.editors.ourselves import ourselves
    from acp_proxy.editors.snippets import Wanted, snippet
    from acp_proxy.editors.table import EDITORS
    from acp_proxy.transcripts.names import command_name

    with wrong_usage():
        given, variables, command = _read(agent)
    we = ourselves(sys.argv[0], sys.executable)
    made = snippet(name, Wanted([*we.words, "run", *given, *command], variables, command_name(command)))
    path, is_there = file_for(EDITORS[name], this_machine())
    if is_there:
        _say(f"Put this into {path} (found), into {made.into}, beside what is there:\n")
    elif made.whole:
        _say(f"Put this into {path} (not there yet; this is all of it):\n")
    else:
        _say(f"Put this into {path} (not there yet), into {made.into}:\n")
    typer.echo(made.text)
    _say(f"\nThen: {made.then}\nTo see whether all is well: acp-proxy doctor")
    if we.note is not None:
        _say(f"Note: {' '.join(we.words)}: {we.note}")
    if shutil.which(command[0]) is None:
        _say(f"Note: {command[0]} is not found on this machine. Check the agent's command.")


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _read(words: list[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Options of ``run``, the agent's variables, its command. Raises UsageError."""
    if any(not word.isprintable() for word in words):
        raise UsageError("what an editor is to start is printable text")
    _, command = options.parse(words, {})
    given = words[: len(words) - len(command)]
    variables = {}
    while command and (found := _VARIABLE.fullmatch(command[0])):
        variables[found[1]] = found[2]
        command = command[1:]
    if not command:
        raise UsageError("behind the variables comes the agent's command: acp-proxy editor zed NAME=VALUE AGENT")
    if os.path.dirname(command[0]):
        command = [os.path.abspath(command[0]), *command[1:]]  # an editor starts it from another directory
    return given, variables, command
