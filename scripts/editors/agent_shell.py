"""agent-shell, in Emacs. Its list of sessions is the agent's, and comes before each shell."""

import re
from typing import ClassVar

from scripts.editors import tree
from scripts.editors.editor import Editor

_CONFIGURATION = """\
(setq native-comp-jit-compilation nil)  ; it would take the processor for minutes
(require 'agent-shell)
(setq agent-shell-google-authentication (agent-shell-google-make-authentication :none t))
(setq agent-shell-mistral-authentication (agent-shell-mistral-make-authentication :api-key "none"))
"""
_PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"


class AgentShell(Editor):
    name: ClassVar[str] = "agent-shell"
    title: ClassVar[str] = "agent-shell"
    plugins: ClassVar[tuple[str, ...]] = ("agent-shell", "acp.el", "shell-maker")
    past_call: ClassVar[str] = "Ran a command"

    @staticmethod
    def version() -> str:
        main = (tree.PLUGINS / "agent-shell" / "agent-shell.el").read_text(encoding="utf-8")
        found = re.search(r"^;; Version: (\S+)", main, re.MULTILINE)
        return found[1] if found else "?"

    def configure(self) -> None:
        path = self.desk.home / ".emacs.d" / "init.el"
        path.parent.mkdir()
        paths = "".join(f'(add-to-list \'load-path "{tree.PLUGINS / name}")\n' for name in self.plugins)
        path.write_text(paths + _CONFIGURATION + self.desk.snippet(self.name), encoding="utf-8")

    def begin(self) -> None:
        self._choose_agent()
        self.terminal.press("Enter")  # a new shell
        self._ready()

    def allow(self) -> None:
        self.terminal.wait_for("Allow", "(y)")
        self.terminal.press("y")

    def show_sessions(self) -> None:
        self._choose_agent()
        self.terminal.press("Tab")
        self.terminal.wait_for("Completions", f"{self.desk.project.name} ")

    def load(self) -> None:
        self.terminal.type(self.desk.project.name)
        self.terminal.press("Enter")
        self._ready()

    def _choose_agent(self) -> None:
        self.open("emacs", "-nw", "--no-splash")
        self.terminal.wait_for("*scratch*")
        self.terminal.press("M-x")
        self.terminal.type("agent-shell")
        self.terminal.press("Enter")
        self.terminal.wait_for("Start new agent:")
        self.terminal.type(self.desk.agent.title)
        self.terminal.press("Enter")
        self.terminal.wait_for("Start shell")

    def _ready(self) -> None:
        self.terminal.wait_until(_is_ready, "agent-shell is still starting the agent")


def _is_ready(screen: str) -> bool:
    return _PROMPT in screen and "◔ Starting agent" not in screen
