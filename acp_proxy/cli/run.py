"""``acp-proxy run``: its help. The command itself is recognised before any of this is imported (``__main__``)."""

import inspect
from typing import Annotated, Any

import typer

from acp_proxy import options
from acp_proxy.cli import completing

_EXAMPLES = """Stand between an editor and an agent.

Everything passes through, the conversation is kept, and session/list, session/delete and session/load are answered
where the agent cannot.

With a terminal as its input it becomes the agent, as for a login: then nothing is recorded, which is said.

Options end at the first word that is not one; everything from there on is the agent's own command.

Example: acp-proxy run npx -y @agentclientprotocol/claude-agent-acp
"""


_METAVARS = {
    "store": "DIR",
    "agent-id": "NAME",
    "replay-tool-limit": "BYTES",
    "redact": "off|keys|FILE",
    "grace": "SECONDS",
}


def run(agent: list[str], **given: Any) -> None:
    from acp_proxy.shell.launch import launch

    words = [word for name, value in given.items() for word in _words(name, value)]
    launch([*words, "--", *agent])


def _words(name: str, value: object) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [option] if value else []
    return [option, str(value)] if value else []


def _signature() -> inspect.Signature:
    """typer reads a command's options from its signature: this one is made from the table."""
    kind = inspect.Parameter.KEYWORD_ONLY
    argument = Annotated[list[str], typer.Argument(metavar="AGENT", help="The agent's command.")]
    parameters = [inspect.Parameter("agent", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=argument)]
    for name, variable, choices, default, text in options.OPTIONS:
        flag = choices == ()
        metavar = "|".join(choices) if choices else _METAVARS.get(name)
        offered = completing.one_of(choices) if choices else None
        option = typer.Option(
            f"--{name}", envvar=variable, help=text, metavar=metavar, show_default=bool(default), autocompletion=offered
        )
        annotation = Annotated[bool if flag else str, option]  # type: ignore[valid-type]
        parameters.append(
            inspect.Parameter(name.replace("-", "_"), kind, annotation=annotation, default=False if flag else default)
        )
    return inspect.Signature(parameters)


run.__doc__ = _EXAMPLES
run.__signature__ = _signature()  # type: ignore[attr-defined]
