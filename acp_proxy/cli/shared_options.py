"""Options and arguments that several commands have."""

import os
from typing import Annotated

import typer

from acp_proxy.cli import completion
from acp_proxy.cli.open_store import STORE_VARIABLE
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.store.same_directory import is_windows_path

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar=STORE_VARIABLE,
        help="The store's directory (or set ACP_PROXY_STORE).",
        show_envvar=False,
    ),
]
AgentOption = Annotated[
    str,
    typer.Option(
        "--agent",
        "-a",
        metavar="NAME",
        help="Only agents whose name has a word that begins so.",
        autocompletion=completion.complete_agent,
    ),
]
SessionsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SESSION...",
        help="Ids, beginnings of ids, titles, or: last. Default: all.",
        autocompletion=completion.complete_session,
    ),
]
NamedSessionsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SESSION...",
        help="Ids, beginnings of ids, titles, or: last.",
        show_default=False,
        autocompletion=completion.complete_session,
    ),
]
SomeSessionsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SESSION...",
        help="Ids, beginnings of ids, titles, or: last. Default: list them.",
        show_default=False,
        autocompletion=completion.complete_session,
    ),
]
SessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="An id, the beginning of an id, a title or a part of it, or: last.",
        autocompletion=completion.complete_session,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
RegistryOption = Annotated[
    str, typer.Option("--registry", metavar="URL|FILE", help="Another registry of agents.", show_default=False)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def choose_directory(cwd: str, *, here: bool) -> str | None:
    """The absolute directory of --cwd or --here. Raises AcpProxyError."""
    if cwd and here:
        raise UsageError("--here and --cwd exclude each other. Give one of them.")
    if not cwd and not here:
        return None
    try:
        return cwd if os.path.isabs(cwd) or is_windows_path(cwd) else os.path.join(os.getcwd(), cwd or ".")
    except FileNotFoundError as problem:
        raise AcpProxyError("the current directory no longer exists. Give an absolute path: --cwd DIR") from problem
