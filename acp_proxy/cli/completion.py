"""Completion of the word that the user is typing. It never raises an error, whatever the state of the store.

Ids and titles come from other people, and zsh evaluates the text it gets: only characters without a meaning in shells
pass.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer._completion_shared import _get_shell_name, get_completion_script
from typer.completion import install_callback, show_callback

from acp_proxy.config import config_file

# --- Sessions


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(~[0-9]+)*")
_SAID = " .,-_/+@#%=?"
_SAID_ELSEWHERE = ":()"
"""Other characters of titles, where the shell only shows them: zsh evaluates a list of words in parentheses."""
_TITLE_CHARACTERS = 60


def _list_newest(beginning: str, root: Path, agent: str = "") -> list[tuple[str, str]]:
    """Ids, newest first, with their titles."""
    from acp_proxy.store.sessions import CompletionQuery  # imported late: slow, and often typer answers

    found = CompletionQuery(root).find_sessions(beginning, agent)
    newest = [("last", "the newest")] if "last".startswith(beginning) else []
    return newest + [(seen.selector, clean_title(seen.title)) for seen in found if is_plain(seen.selector)]


def _store_root(path: str) -> Path:
    """The store's directory: ``path``, else that of the configuration file, else the default."""
    from acp_proxy.store.sessions import find_default_root

    path = path or config_file.read_own()[0].get("store", "")
    return Path(path).expanduser() if path else find_default_root()


def _is_for_zsh() -> bool:
    return not os.environ.get(_VARIABLE, "").endswith("_fish")  # which our script for bash asks for, too


def is_plain(id: str) -> bool:
    """Whether no character of it has a meaning in a shell."""
    return _PLAIN.fullmatch(id) is not None


def clean_title(title: str) -> str:
    """The part of a title that has no meaning in a shell."""
    allowed = _SAID if _is_for_zsh() else _SAID + _SAID_ELSEWHERE
    kept = "".join(one if one.isalnum() or one in allowed else " " for one in title)
    return " ".join(kept.split())[:_TITLE_CHARACTERS]


_PLAIN_FOLDER = re.compile(r"[A-Za-z0-9._:@+/-]*")


def complete_session(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids, newest first, with their titles."""
    return _list_newest(incomplete, _find_root(context), str(context.params.get("agent") or ""))


def complete_recording(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Sessions, and files that may be transcripts."""
    return [*complete_session(context, incomplete), *((path, "") for path in _complete_file(incomplete))]


def complete_deleted(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of soft-deleted sessions, the latest first, with the titles that the user gave them."""
    from acp_proxy.store.sessions import CompletionQuery  # imported late: no command needs it

    found = CompletionQuery(_find_root(context)).list_deleted()
    last = [("last", "the latest")] if "last".startswith(incomplete) else []
    return last + [
        (each.selector, clean_title(each.title or ""))
        for each in found
        if each.selector.startswith(incomplete) and is_plain(each.selector)
    ]


def complete_from(words: Sequence[str]) -> Callable[[str], list[str]]:
    def list_offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return list_offered


def complete_agent(context: typer.Context, incomplete: str) -> list[str]:
    """The names of recorded agents, in the form that --agent takes."""
    from acp_proxy.store.sessions import CompletionQuery, name_agent, strip_hash

    found = set[str]()
    for folder in CompletionQuery(_find_root(context)).list_agents():
        ways = (name_agent(folder), strip_hash(folder))  # with the scope, if the user typed its beginning
        found.update(next(([name] for name in ways if name.startswith(incomplete) and is_plain(name)), []))
    return sorted(found)


def _complete_file(beginning: str) -> list[str]:
    from acp_proxy.store.sessions import COMPRESSED_SUFFIX, SUFFIX

    folder, name = os.path.split(beginning)
    if not _PLAIN_FOLDER.fullmatch(folder):
        return []
    try:
        found = [each for each in os.scandir(folder or ".") if each.name.startswith(name) and is_plain(each.name)]
        typed = beginning.removesuffix(name)  # with the separators of the user
        named = [typed + each.name + ("/" if each.is_dir() else "") for each in found]
    except OSError:
        return []
    return sorted(path for path in named if path.endswith(("/", SUFFIX, COMPRESSED_SUFFIX)))


def _find_root(context: typer.Context) -> Path:
    return _store_root(str(context.params.get("store") or os.environ.get("ACP_PROXY_STORE", "")))


# --- Installs the completion of the user's shell. It changes no setting of other programs.
#
# Typer's own installation would: in zsh a style of all programs, in PowerShell the Tab key and the execution policy.
# It has no titles in bash, and the first Tab in each terminal of zsh would do nothing.


_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_PROGRAM = "acp-proxy"
_VARIABLE = "_ACP_PROXY_COMPLETE"
_ZSH_LINE = "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
_REGISTER = "compdef _acp_proxy_completion acp-proxy"
_COMPLETE_OR_REGISTER = f"""if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _acp_proxy_completion "$@"
else
  {_REGISTER}
fi"""
"""zsh runs the file at the first Tab, which has to complete the word too."""
_BASH = r"""_acp_proxy_completion() {
    local typed=${COMP_LINE:0:COMP_POINT} line value word widest=0
    local -a lines
    mapfile -t lines < <(_ACP_PROXY_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \
        _TYPER_COMPLETE_ARGS=$typed acp-proxy)
    COMPREPLY=()
    word=${typed##* }
    word=${word%"${word##*[:=]}"}  # what bash keeps of the word, because it cuts words at these characters
    for line in "${lines[@]}"; do
        value=${line%%$'\t'*}
        ((${#value} > widest)) && widest=${#value}
    done
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
_PROFILE = "[Console]::OutputEncoding = [Text.Encoding]::UTF8; $PROFILE; Get-ExecutionPolicy"
_POWERSHELL_LIMIT = 60.0


def install(context: typer.Context, parameter: Any, value: Any) -> Any:
    """The callback of ``--install-completion``. ``value``: True, or the name of a shell. Raises OSError."""
    value = _find_named_shell() or value
    shell = _find_shell(value)
    if context.resilient_parsing or shell not in ("bash", "zsh", "powershell", "pwsh"):
        return install_callback(context, parameter, value)
    if shell == "bash":
        _write(path := Path.home() / ".bash_completions" / f"{_PROGRAM}.sh", _make_script(shell))
        _add(Path.home() / ".bashrc", f"source '{path}'")
    elif shell == "zsh":
        _write(Path.home() / ".zfunc" / f"_{_PROGRAM}", _make_script(shell).replace(_REGISTER, _COMPLETE_OR_REGISTER))
        _add(Path(os.environ.get("ZDOTDIR") or Path.home()) / ".zshrc", _ZSH_LINE)
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
    """The shell that the user names behind the option, which is a flag for typer: it would find the one it runs in."""
    words = sys.argv[1:]
    named = [word for before, word in pairwise(words) if before in ("--install-completion", "--show-completion")]
    return named[0] if named and named[0] in _SHELLS else None


def _find_shell(value: Any) -> str | None:
    return value if isinstance(value, str) else _get_shell_name() if value else None


def _make_script(shell: str) -> str:
    if shell == "bash":
        return _BASH
    script = get_completion_script(prog_name=_PROGRAM, complete_var=_VARIABLE, shell=shell)
    return "\n".join(line for line in script.splitlines() if not line.startswith(_KEYS_OF_ALL_PROGRAMS))


def _install_powershell(shell: str) -> None:
    words = [shell, "-NoProfile", "-NonInteractive", "-Command", _PROFILE]
    asked = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_POWERSHELL_LIMIT)
    profile, policy = [*asked.stdout.decode().strip("\ufeff\r\n").splitlines(), "", ""][:2]
    if asked.returncode != 0 or not profile:
        typer.echo(
            f"Error: {shell} does not say where its profile is. Add this to it:\n\n{_make_script(shell)}", err=True
        )
        raise typer.Exit(1)
    Path(profile).parent.mkdir(parents=True, exist_ok=True)
    _add(Path(profile), _make_script(shell))
    if policy in ("Restricted", "AllSigned"):
        typer.echo(
            f"PowerShell reads no profile while its execution policy is {policy}. To allow your own scripts, run: "
            "Set-ExecutionPolicy RemoteSigned -Scope CurrentUser"
        )


def _write(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(script + "\n", encoding="utf-8")
    typer.echo(f"Installed {path}.")


def _add(settings: Path, text: str) -> None:
    known = settings.read_bytes() if settings.is_file() else b""
    if text.encode() in known.replace(b"\r\n", b"\n"):
        return
    with settings.open("ab") as file:
        file.write(b"\n" * (bool(known) and not known.endswith(b"\n")) + f"{text}\n".encode())
    typer.echo(f"Added to {settings}: {text}" if "\n" not in text else f"Added the completion to {settings}.")
