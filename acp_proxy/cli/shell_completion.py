"""Installs the completion of the user's shell. It changes no setting of other programs.

Typer's own installation would: in zsh a style of all programs, in PowerShell the Tab key and the execution policy. It
has no titles in bash, and the first Tab in each terminal of zsh would do nothing.
"""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer._completion_shared import _get_shell_name, get_completion_script
from typer.completion import install_callback, show_callback

from acp_proxy.cli.completion import COMPLETE_VARIABLE

_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_PROGRAM = "acp-proxy"
_ZSH_LINE = "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
_REGISTER = "compdef _acp_proxy_completion acp-proxy"
_COMPLETE_OR_REGISTER = f"""if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _acp_proxy_completion "$@"
else
  {_REGISTER}
fi"""
"""zsh runs the file at the first Tab, which has to complete the word too."""
_BASH_SCRIPT = r"""_acp_proxy_completion() {
    local typed=${COMP_LINE:0:COMP_POINT} line value word widest=0 is_ambiguous=
    local -a lines
    mapfile -t lines < <(_ACP_PROXY_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \
        _TYPER_COMPLETE_ARGS=$typed acp-proxy)
    COMPREPLY=()
    word=${typed##* }
    word=${word%"${word##*[:=]}"}  # what bash keeps of the word, because it cuts words at these characters
    for line in "${lines[@]}"; do
        value=${line%%$'\t'*}
        ((${#value} > widest)) && widest=${#value}
        [[ $value == "${lines[0]%%$'\t'*}" ]] || is_ambiguous=1
    done
    # the second Tab (?) only lists: before, an id of several agents is one word, as what they share goes into the line
    [[ -n $is_ambiguous || $COMP_TYPE == 63 ]] || lines=("${lines[0]}")
    for line in "${lines[@]}"; do
        value=${line%%$'\t'*}
        [[ -n $value ]] || continue
        # only a list (?, !, @ or the second Tab) shows the titles: a single word, or a menu, goes into the line
        if ((${#lines[@]} > 1)) && [[ $line == *$'\t'* && $COMP_TYPE != 37 && $COMP_TYPE != 42 ]]; then
            printf -v line '%-*s  (%s)' "$widest" "$value" "${line#*$'\t'}"
            value=${line:0:${COLUMNS:-80}-1}
        fi
        COMPREPLY+=("${value#"$word"}")
    done
}
complete -o default -o nosort -F _acp_proxy_completion acp-proxy"""
_KEYS_OF_ALL_PROGRAMS = ("Import-Module PSReadLine", "Set-PSReadLineKeyHandler")
_PROFILE_QUERY = "[Console]::OutputEncoding = [Text.Encoding]::UTF8; $PROFILE; Get-ExecutionPolicy"
_POWERSHELL_LIMIT = 60.0


def install(context: typer.Context, parameter: Any, value: Any) -> Any:
    """The callback of ``--install-completion``. ``value``: True, or the name of a shell. Raises OSError."""
    value = _find_named_shell() or value
    shell = _find_shell(value)
    if context.resilient_parsing or shell not in ("bash", "zsh", "powershell", "pwsh"):
        return install_callback(context, parameter, value)
    if shell == "bash":
        _write_script(path := Path.home() / ".bash_completions" / f"{_PROGRAM}.sh", _make_script(shell))
        _add_to_settings(Path.home() / ".bashrc", f"source '{path}'")
    elif shell == "zsh":
        _write_script(
            Path.home() / ".zfunc" / f"_{_PROGRAM}", _make_script(shell).replace(_REGISTER, _COMPLETE_OR_REGISTER)
        )
        _add_to_settings(Path(os.environ.get("ZDOTDIR") or Path.home()) / ".zshrc", _ZSH_LINE)
    else:
        _install_powershell(shell)
    typer.echo("Completion works in new terminals.")
    raise typer.Exit


def show(context: typer.Context, parameter: Any, value: Any) -> Any:
    """The callback of ``--show-completion``."""
    value = _find_named_shell() or value
    shell = _find_shell(value)
    if context.resilient_parsing or shell is None:
        return show_callback(context, parameter, value)
    typer.echo(_make_script(shell))
    raise typer.Exit


def _find_named_shell() -> str | None:
    """The shell that the user names after the option, which is a flag for typer: it would find the one it runs in."""
    words = sys.argv[1:]
    names = [word for option, word in pairwise(words) if option in ("--install-completion", "--show-completion")]
    return names[0] if names and names[0] in _SHELLS else None


def _find_shell(value: Any) -> str | None:
    return value if isinstance(value, str) else _get_shell_name() if value else None


def _make_script(shell: str) -> str:
    if shell == "bash":
        return _BASH_SCRIPT
    script = get_completion_script(prog_name=_PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell)
    return "\n".join(line for line in script.splitlines() if not line.startswith(_KEYS_OF_ALL_PROGRAMS))


def _install_powershell(shell: str) -> None:
    words = [shell, "-NoProfile", "-NonInteractive", "-Command", _PROFILE_QUERY]
    answer = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_POWERSHELL_LIMIT)
    profile, policy = [*answer.stdout.decode().strip("\ufeff\r\n").splitlines(), "", ""][:2]
    if answer.returncode != 0 or not profile:
        typer.echo(
            f"Error: {shell} does not say where its profile is. Add this to it:\n\n{_make_script(shell)}", err=True
        )
        raise typer.Exit(1)
    Path(profile).parent.mkdir(parents=True, exist_ok=True)
    _add_to_settings(Path(profile), _make_script(shell))
    if policy in ("Restricted", "AllSigned"):
        typer.echo(
            f"PowerShell reads no profile while its execution policy is {policy}. To allow your own scripts, run: "
            "Set-ExecutionPolicy RemoteSigned -Scope CurrentUser"
        )


def _write_script(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(script + "\n", encoding="utf-8")
    typer.echo(f"Installed {path}.")


def _add_to_settings(settings: Path, text: str) -> None:
    old_text = settings.read_bytes() if settings.is_file() else b""
    if text.encode() in old_text.replace(b"\r\n", b"\n"):
        return
    with settings.open("ab") as file:
        file.write(b"\n" * (bool(old_text) and not old_text.endswith(b"\n")) + f"{text}\n".encode())
    typer.echo(f"Added to {settings}: {text}" if "\n" not in text else f"Added the completion to {settings}.")
