"""A Debian beside this one, with newer editors than the system's, and the editors' plugins. Needs root.

It lies in ``ACP_EDITORS``, by default ``acp-editors`` in the user's cache: ``tree/`` and ``plugins/`` are filled when
something is not there. What runs in the tree has mounts of its own, which end with it: /host is this system's root.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

HOME = Path(os.environ.get("ACP_EDITORS") or Path.home() / ".cache" / "acp-editors")
TREE, PLUGINS = HOME / "tree", HOME / "plugins"
TOAD = "/opt/toad/bin"  # in the tree

_RELEASE = "forky"  # has Neovim 0.12, Emacs 30 and Python 3.14
_PACKAGES = "neovim,neovim-plenary,emacs-nox,python3.14-venv,ca-certificates,curl,procps,ncurses-term"
_NEEDED = {"tmux": "tmux", "mmdebstrap": "mmdebstrap", "unshare": "util-linux", "git": "git"}
"""The programs, and the packages that have them."""
_SOURCES = {
    "codecompanion.nvim": "https://github.com/olimorris/codecompanion.nvim",
    "agent-shell": "https://github.com/xenodium/agent-shell",
    "acp.el": "https://github.com/xenodium/acp.el",
    "shell-maker": "https://github.com/xenodium/shell-maker",
}
_CLONE_SECONDS = 600.0
_INSIDE = """
tree=$1 home=$2; shift 2
mkdir -p "$tree/host" "$tree$home"
mount --rbind / "$tree/host"
mount --bind /etc/ssl "$tree/etc/ssl"
mount --bind "$home" "$tree$home"
for directory in /proc /sys /dev /tmp; do mount --rbind $directory "$tree$directory"; done
exec chroot "$tree" env -C "$PWD" "$@"
"""


def missing() -> list[str]:
    """What has to be there before a tree can be made or entered."""
    needed = [(name, package) for name, package in _NEEDED.items() if shutil.which(name) is None]
    lacking = [f"{name} is not installed: apt-get install {package}" for name, package in needed]
    return lacking if os.geteuid() == 0 else ["root is needed, for mounts and chroot", *lacking]


def clone(plugins: Iterable[str]) -> list[str]:
    """Clone those of an editor's plugins that are not there. What could not be cloned, and what to do."""
    problems = (_cloned(name) for name in plugins if not (PLUGINS / name).is_dir())
    return [problem for problem in problems if problem is not None]


def _cloned(name: str) -> str | None:
    words = ["git", "clone", "--quiet", _SOURCES[name], str(PLUGINS / name)]
    never_ask = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, env=never_ask, timeout=_CLONE_SECONDS)
    except subprocess.CalledProcessError as failed:
        why = failed.stderr.strip()
    except subprocess.TimeoutExpired:
        why = f"no answer in {_CLONE_SECONDS:.0f} seconds"
    else:
        return None
    shutil.rmtree(PLUGINS / name, ignore_errors=True)
    return f"{name} could not be cloned from {_SOURCES[name]}: put a clone into {PLUGINS / name} ({why})"


def version(plugin: str) -> str:
    """Of a plugin that is a clone."""
    words = ["git", "-C", str(PLUGINS / plugin), "describe", "--tags", "--always"]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip().removeprefix("v")


def inside(*words: str) -> list[str]:
    """The command that becomes this one in the tree, in the same directory."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _INSIDE, "sh", str(TREE), str(HOME), *words]


def output(*words: str) -> str:
    """What a command prints in the tree."""
    return subprocess.run(inside(*words), cwd="/tmp", check=True, stdout=subprocess.PIPE, text=True).stdout


def make() -> None:
    """Make the tree, half a gigabyte, and put Toad into it, unless they are there. Raises CalledProcessError."""
    if not (TREE / "usr/bin/nvim").exists():
        unfinished = HOME / "tree.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        HOME.mkdir(parents=True, exist_ok=True)
        _run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", *_LATE, _RELEASE, str(unfinished)]
        )
        unfinished.rename(TREE)
    if not (TREE / TOAD.removeprefix("/") / "toad").exists():
        _run(inside("python3.14", "-m", "venv", str(Path(TOAD).parent)))
        _run(inside(f"{TOAD}/pip", "install", "--quiet", "batrachian-toad"))


_LATE = ('--aptopt=Acquire::Check-Valid-Until "false"',)
"""A mirror may be some days behind."""


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, cwd="/tmp", check=True)
