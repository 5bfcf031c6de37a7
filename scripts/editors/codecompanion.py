"""CodeCompanion, in Neovim. Its list of sessions is the agent's, behind its command /resume."""

import re
from typing import ClassVar

from scripts.editors import tree
from scripts.editors.editor import Editor
from scripts.editors.terminal import NotShown

_CONFIGURATION = """\
vim.opt.rtp:append("{plugin}")
-- Debian's LuaJIT names a coroutine even outside of any, and CodeCompanion then waits in none.
local running = coroutine.running
coroutine.running = function()
  local thread, is_main = running()
  return not is_main and thread or nil
end
-- There is no parser for YAML here, which only the prompt library needs.
local notify = vim.notify
vim.notify = function(text, ...)
  if not text:find("[Prompt Library]", 1, true) then notify(text, ...) end
end
-- A login would open a browser.
vim.env.GEMINI_API_KEY = "none"
require("codecompanion.adapters.acp.gemini_cli").defaults.auth_method = "gemini-api-key"
require("codecompanion").setup({{
{snippet}}})
"""
_CHOICE = re.compile(r"^(\d+): ", re.MULTILINE)


class CodeCompanion(Editor):
    name: ClassVar[str] = "codecompanion"
    title: ClassVar[str] = "CodeCompanion"
    plugins: ClassVar[tuple[str, ...]] = ("codecompanion.nvim",)
    past_call: ClassVar[str] = ""

    @staticmethod
    def version() -> str:
        return tree.version("codecompanion.nvim")

    def configure(self) -> None:
        path = self.desk.home / ".config" / "nvim" / "init.lua"
        path.parent.mkdir(parents=True)
        text = _CONFIGURATION.format(plugin=tree.PLUGINS / "codecompanion.nvim", snippet=self.desk.snippet(self.name))
        path.write_text(text, encoding="utf-8")

    def begin(self) -> None:
        self._open_chat()

    def say(self, text: str) -> None:
        self.terminal.press("Escape", "G", "o")
        self.terminal.type(text)
        self.terminal.wait_for(text)
        self.terminal.press("C-s")

    def allow(self) -> None:
        shown = self.terminal.wait_for("Approval Required", "- Accept")
        found = re.search(r"`(\w+)` - Accept", shown)
        if found is None:
            raise NotShown("the question has no key that accepts")
        self.terminal.press("Escape", *found[1])

    def show_sessions(self) -> None:
        self._open_chat()
        self.terminal.press("G", "o")
        self.terminal.type("/res")
        self.terminal.wait_for("/res")
        self.terminal.press("C-_")
        self.terminal.wait_for("/resume")
        self.terminal.press("C-y")
        self.terminal.wait_for("Resume Session", "Type number")

    def load(self) -> None:
        """Choose the oldest: some agents also list the session that this chat began."""
        self.terminal.type(_CHOICE.findall(self.terminal.screen())[-1])
        self.terminal.press("Enter")
        self.terminal.wait_for("Resumed session")
        self.terminal.press("Enter")

    def _open_chat(self) -> None:
        """Open a chat, which begins a session."""
        before = len(self.desk.answered("session/new"))
        self.open("nvim", "-c", f"CodeCompanionChat adapter={self.desk.agent.codecompanion}")
        self.terminal.wait_until(
            lambda _: len(self.desk.answered("session/new")) > before, "CodeCompanion has no session"
        )
        self.terminal.wait_for("## Me")
