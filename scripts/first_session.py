"""Time and keystrokes from nothing to the first kept session: python -m scripts.first_session WHEEL [FILE…]

In an empty home, with Zed's settings and an agent in them (the demo's), it types what the README says: for uvx and
pipx, and for each FILE that ``make release`` made, acp-proxy as a zipapp or an executable. Then it starts what stands
in the settings, as Zed does, and holds one turn. uvx and pipx find acp-proxy beside WHEEL, as if it were on the index,
and its dependencies on the index, with empty caches; a download of FILE is not measured. Needs uv and pipx; Linux.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.invocation import make_child_command
from acp_proxy.tools.demo.client import Client
from acp_proxy.tools.editors import jsonc


@dataclass(frozen=True)
class Way:
    """``typed``: the lines that a user types."""

    name: str
    typed: list[str]


def ways(files: list[Path]) -> list[Way]:
    found = [
        Way("uvx", ["uvx acp-proxy setup"]),
        Way("pipx", ["pipx install acp-proxy", "acp-proxy setup"]),
    ]
    for file in files:
        if file.suffix == ".pyz":
            found.append(Way("zipapp", [f"python3 {file.name} setup"]))
        else:
            found.append(Way("executable", [f"chmod +x {file.name}", f"./{file.name} setup"]))
    return found


def measure(way: Way, wheel: Path, files: list[Path], home: Path) -> tuple[float, float]:
    """The seconds until the editor can start the agent, and from there until the first turn is recorded."""
    path = os.pathsep.join([str(home / ".local" / "bin"), os.environ["PATH"]])
    places = {"HOME": str(home), "PATH": path, "UV_FIND_LINKS": str(wheel.parent), "PIP_FIND_LINKS": str(wheel.parent)}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | places
    for file in files:
        shutil.copy(file, home)
    settings = home / ".config/zed/settings.json"
    settings.parent.mkdir(parents=True)
    memory = home / "memory"
    memory.mkdir()
    agent = make_child_command("acp_proxy.tools.demo.agent", "--memory", str(memory))
    entry = {"type": "custom", "command": agent[0], "args": agent[1:], "env": {}}
    settings.write_text(json.dumps({"agent_servers": {"Demo": entry}}, indent=2))
    begin = time.monotonic()
    for line in way.typed:
        words = shlex.split(line)
        done = subprocess.run(words, cwd=home, env=environment, input="\n", capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{line}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    ready = time.monotonic()
    written = jsonc.decode(settings.read_text())["agent_servers"]["Demo"]  # type: ignore[index]
    with Client([written["command"], *written["args"]], env=environment) as editor:
        editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = editor.request("session/new", {"cwd": str(home), "mcpServers": []})["sessionId"]
        editor.request("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]})
        kept = time.monotonic()
        [found] = editor.request("session/list", {})["sessions"]
        assert found["sessionId"] == session
    return ready - begin, kept - ready


def main() -> None:
    wheel, *files = (Path(word).resolve() for word in sys.argv[1:])
    print(f"{'way':<12}{'keys':>6}{'setup, s':>10}{'first turn, s':>15}  typed (and Enter once more, to agree)")
    for way in ways(files):
        with tempfile.TemporaryDirectory() as home:
            setup, turn = measure(way, wheel, files, Path(home))
        keys = sum(len(line) + 1 for line in way.typed) + 1
        print(f"{way.name:<12}{keys:>6}{setup:>10.1f}{turn:>15.1f}  {'; '.join(way.typed)}", flush=True)


if __name__ == "__main__":
    main()
