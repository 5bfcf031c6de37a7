"""Installs the completion of the user's shell.

Typer does this for all shells but zsh: there it would also set a style for all programs, and the first Tab in each
terminal would do nothing.
"""

import os
from pathlib import Path
from typing import Any

import typer
from typer._completion_shared import _get_shell_name, get_completion_script
from typer.completion import install_callback

_PROGRAM = "acp-proxy"
_VARIABLE = "_ACP_PROXY_COMPLETE"
_LINE = "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
_REGISTER = "compdef _acp_proxy_completion acp-proxy"
_COMPLETE_OR_REGISTER = f"""if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _acp_proxy_completion "$@"
else
  {_REGISTER}
fi"""
"""zsh runs the file at the first Tab, which has to complete the word too."""


def install(context: typer.Context, parameter: Any, value: Any) -> Any:
    """The callback of ``--install-completion``. ``value``: True, or the name of a shell. Raises OSError."""
    shell = value if isinstance(value, str) else _get_shell_name() if value else None
    if shell != "zsh" or context.resilient_parsing:
        return install_callback(context, parameter, value)
    script = get_completion_script(prog_name=_PROGRAM, complete_var=_VARIABLE, shell=shell)
    path = Path.home() / ".zfunc" / f"_{_PROGRAM}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(script.replace(_REGISTER, _COMPLETE_OR_REGISTER) + "\n")
    typer.echo(f"Installed {path}.")
    _add_line(Path(os.environ.get("ZDOTDIR") or Path.home()) / ".zshrc")
    typer.echo("Completion works in new terminals.")
    raise typer.Exit


def _add_line(settings: Path) -> None:
    known = settings.read_bytes() if settings.is_file() else b""
    if _LINE.encode() in known:
        return
    with settings.open("ab") as file:
        file.write(b"\n" * (bool(known) and not known.endswith(b"\n")) + f"{_LINE}\n".encode())
    typer.echo(f"Added to {settings}: {_LINE}")
