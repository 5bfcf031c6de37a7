"""Toad. It has no configuration for other agents: their command is an argument. Its list of sessions is its own."""

from typing import ClassVar

from scripts.editors import tree
from scripts.editors.editor import Editor


class Toad(Editor):
    name: ClassVar[str] = "toad"
    title: ClassVar[str] = "Toad"

    @staticmethod
    def version() -> str:
        return tree.output(f"{tree.TOAD}/toad", "--version").strip()

    def configure(self) -> None:
        pass

    def begin(self) -> None:
        command = " ".join([str(self.desk.proxy), "run", *self.desk.agent.command])
        self.open("toad", "acp", command, str(self.desk.project))
        self._ready()

    def allow(self) -> None:
        self.terminal.wait_for("Allow once")
        self.terminal.press("a")

    def show_sessions(self) -> None:
        self.open("toad")
        self.terminal.wait_for("Choose your fighter")
        self.terminal.press("C-r")
        self.terminal.wait_for("Pick a session to resume", str(self.desk.project))

    def load(self) -> None:
        self.terminal.press("Enter")
        self._ready()

    def _ready(self) -> None:
        self.terminal.wait_for("How can I help you today?")
        self.terminal.wait_until(lambda screen: "Initializing" not in screen, "Toad is still initializing")
