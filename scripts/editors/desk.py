"""The place of one editor and one agent: a home, a project, a store, and the commands that the editor starts."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Any

from acp_proxy import open_store
from acp_proxy.api import Session
from scripts.editors import tree
from scripts.real_agents import AGENTS

ROOT = Path(__file__).parents[2]
_BED = Path(os.environ.get("ACP_AGENTS_HOME") or Path.home() / ".cache" / "acp-agents")
"""Where the agents are installed; their own default depends on HOME."""


@dataclass(frozen=True)
class Agent:
    """``name``: in ``shared/agents``. ``command``: as a user starts it. The others are its names in the snippets."""

    name: str
    command: tuple[str, ...]
    title: str
    codecompanion: str


OFFLINE_AGENTS = {
    agent.name: agent
    for agent in (
        Agent("opencode", ("opencode", "acp"), "OpenCode", "opencode"),
        Agent("gemini", ("gemini", "--acp"), "Gemini", "gemini_cli"),
        Agent("vibe", ("vibe-acp",), "Mistral Vibe", "mistral_vibe"),
    )
}


class Desk:
    """``proxy``: a command in the tree that becomes this checkout's acp-proxy, outside of it.

    ``tape``: every line between it and the editor.
    """

    def __init__(self, base: Path, agent: Agent, port: int) -> None:
        self.agent = agent
        self.home, self.project, self.store = (base / name for name in ("home", "project", "store"))
        self.tape = base / "tape.jsonl"
        self._bin = base / "bin"
        for directory in (self.home, self.project, self._bin):
            directory.mkdir(parents=True)
        self.proxy = self._bin / "acp-proxy"
        state = [f"ACP_AGENTS_HOME={_BED}", f"FAKE_LLM_PORT={port}", f"ACP_AGENT_STATE={base / 'state'}"]
        launched = ["env", *state, sys.executable, str(AGENTS / "launch"), agent.name]
        self._script(agent.command[0], f"exec {join(launched)}")
        settings = [f"{name}={value}" for name, value in self._environment().items()]
        tap = [sys.executable, str(AGENTS / "drivers" / "tap.py"), str(self.tape)]
        proxy = [*settings, *tap, sys.executable, "-m", "acp_proxy"]
        self._script("acp-proxy", f'exec chroot /host env -C "$PWD" {join(proxy)} "$@"')

    def command(self, *words: str) -> list[str]:
        """The command that becomes this one in the tree, with an editor's environment."""
        path = f"{self._bin}:{tree.TOAD}:/usr/sbin:/usr/bin:/bin"
        settings = [f"HOME={self.home}", f"PATH={path}", "LANG=C.UTF-8", "TERM=tmux-256color"]
        return tree.inside("env", "-i", *settings, *words)

    def _environment(self) -> dict[str, str]:
        """The proxy's, on this system."""
        path = f"{self._bin}:{os.environ['PATH']}"
        ours = {"PYTHONPATH": str(ROOT), "ACP_PROXY_STORE": str(self.store)}
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **ours}

    def _script(self, name: str, text: str) -> None:
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def snippet(self, editor: str) -> str:
        """What `acp-proxy editor` prints for this agent, as for a new configuration."""
        words = [editor, "--whole", *self.agent.command]
        start = "import sys; from acp_proxy.__main__ import main; sys.argv = sys.argv[1:]; sys.exit(main())"
        return subprocess.run(
            [sys.executable, "-c", start, str(self.proxy), "editor", *words],
            env=self._environment(),
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ).stdout

    def sessions(self) -> list[Session]:
        return open_store(self.store).sessions()

    def answered(self, method: str) -> list[dict[str, Any]]:
        """The results of the editor's requests with this method, from the tape."""
        asked, results = set(), []
        noted = self.tape.read_text(encoding="utf-8").splitlines() if self.tape.exists() else []
        for line in map(json.loads, noted):
            message = json.loads(line.get("line") or "{}")
            key = line["start"], message.get("id")
            if line.get("from") == "client" and message.get("method") == method:
                asked.add(key)
            elif line.get("from") == "agent" and key in asked and "result" in message:
                asked.remove(key)
                results.append(message["result"])
        return results
