"""What the steps need of an editor. Each method returns when the screen shows its effect."""

from abc import ABC, abstractmethod
from typing import ClassVar

from scripts.editors.desk import Desk
from scripts.editors.terminal import Terminal

COMMAND = "echo proxied-$((40+2))"
"""Begins the title of the stand-in model's tool call."""


class Editor(ABC):
    """``plugins``: of `tree.PLUGINS`. ``past_call``: how it shows the tool call of a session that it loads; empty: not
    at all.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    plugins: ClassVar[tuple[str, ...]] = ()
    past_call: ClassVar[str] = COMMAND

    def __init__(self, terminal: Terminal, desk: Desk) -> None:
        self.terminal = terminal
        self.desk = desk

    @staticmethod
    @abstractmethod
    def version() -> str:
        """Of what is on this machine."""

    @abstractmethod
    def configure(self) -> None:
        """Write the editor's configuration, from the snippet that acp-proxy prints for it."""

    @abstractmethod
    def begin(self) -> None:
        """Start the editor and open a new session."""

    def say(self, text: str) -> None:
        """Type a prompt and send it."""
        self.terminal.type(text)
        self.terminal.wait_for(text)
        self.terminal.press("Enter")

    @abstractmethod
    def allow(self) -> None:
        """Allow the tool call that the agent asks for."""

    @abstractmethod
    def show_sessions(self) -> None:
        """Start the editor and open the list of sessions."""

    @abstractmethod
    def load(self) -> None:
        """Open the listed session."""

    def open(self, *words: str) -> None:
        """Start the editor's command in the project."""
        self.terminal.open(self.desk.command(*words), self.desk.project)
