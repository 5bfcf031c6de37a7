"""Where everything lies in a store's directory. Names of agents and sessions are file names here, never ids."""

from pathlib import Path

from acp_proxy.transcripts import access
from acp_proxy.transcripts.journal import Journal

SUFFIX = ".jsonl"
_JOURNAL = "state"


class Layout:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.transcripts = root / "transcripts"
        self.unindexed = root / "unindexed"
        self.index = root / "index.sqlite3"
        self.format = root / "format"
        self._journals: dict[str, Journal] = {}

    def prepare(self) -> None:
        """Make what is missing; refuse a link out of the store, or what others can write to.

        Raises StoreRefused, OSError.
        """
        access.check_inside(self.root)
        for directory in (self.transcripts, self.unindexed):
            access.make_inner_directory(directory)
            access.check_inside(directory)
        for agent in self.agents():
            access.check_link(self.transcript(agent, _JOURNAL))

    def agents(self) -> list[str]:
        try:
            return sorted(path.name for path in self.transcripts.iterdir() if path.is_dir())
        except FileNotFoundError:  # the store was removed: nothing is kept
            return []

    def has_agent(self, agent: str) -> bool:
        return (self.transcripts / agent).is_dir()

    def names(self, agent: str) -> list[str]:
        """Every transcript of an agent, superseded ones too."""
        folder = self.transcripts / agent
        return sorted(path.stem for path in folder.glob(f"*{SUFFIX}") if path.stem != _JOURNAL)

    def transcript(self, agent: str, name: str) -> Path:
        return self.transcripts / agent / (name + SUFFIX)

    def journal(self, agent: str) -> Journal:
        return self._journals.setdefault(agent, Journal(self.transcript(agent, _JOURNAL)))

    def mark(self, agent: str, name: str) -> None:
        """The index has not seen all of this transcript: leave a mark that outlives us. Raises OSError."""
        path = self.unindexed / agent / name
        try:
            access.touch(path)
        except FileNotFoundError:
            access.make_directory(path.parent)
            access.touch(path)

    def marked(self, agent: str) -> list[str]:
        folder = self.unindexed / agent
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []

    def unmark(self, agent: str, name: str) -> None:
        (self.unindexed / agent / name).unlink(missing_ok=True)

    def discard_index(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.index.with_name(self.index.name + suffix).unlink(missing_ok=True)
