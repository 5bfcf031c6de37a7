"""A Debian beside this one, with newer editors than the system's, and the editors' plugins. Needs root.

It lies in ``ACP_EDITORS``, by default ``acp-editors`` in the user's cache: ``tree/`` is made when it is not there,
``plugins/`` is filled by the user. What runs in the tree has mounts of its own, which end with it: /host is this
system's root.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

HOME = Path(os.environ.get("ACP_EDITORS") or Path.home() / ".cache" / "acp-editors")
TREE, PLUGINS = HOME / "tree", HOME / "plugins"
TOAD = "/opt/toad/bin"  # in the tree

_RELEASE = "forky"  # has Neovim 0.12, Emacs 30 and Python 3.14
_PACKAGES = "neovim,neovim-plenary,emacs-nox,python3.14-venv,ca-certificates,curl,procps,ncurses-term"
_NEEDED = ("tmux", "mmdebstrap", "unshare")
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
    lacking = [f"{name} is not installed: apt-get install {name}" for name in _NEEDED if shutil.which(name) is None]
    return lacking if os.geteuid() == 0 else ["root is needed, for mounts and chroot", *lacking]


def lacks(*plugins: str) -> list[str]:
    """Those of an editor's plugins that are not there."""
    return [f"{PLUGINS / name} is not there: put a clone there" for name in plugins if not (PLUGINS / name).is_dir()]


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
    """Make the tree, half a gigabyte, and put Toad into it, unless they are there."""
    if not (TREE / "usr/bin/nvim").exists():
        HOME.mkdir(parents=True, exist_ok=True)
        _run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", *_LATE, _RELEASE, str(TREE)])
    if not (TREE / TOAD.removeprefix("/") / "toad").exists():
        _run(inside("python3.14", "-m", "venv", str(Path(TOAD).parent)))
        _run(inside(f"{TOAD}/pip", "install", "--quiet", "batrachian-toad"))


_LATE = ('--aptopt=Acquire::Check-Valid-Until "false"',)
"""A mirror may be some days behind."""


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, cwd="/tmp", check=True)
