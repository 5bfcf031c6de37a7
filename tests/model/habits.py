"""Habits of agents: what they offer, remember, echo and refuse, and when they replay the past.

Each was seen in an agent that people use. The defaults are those of an agent that does everything right.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

REFUSALS: dict[str, tuple[int, str]] = {
    "not found": (-32002, "Resource not found"),
    "invalid": (-32602, "No previous sessions found for this project"),
    "internal": (-32603, "no rollout found for this thread"),
    "no directory": (-32600, "No sessions directory found"),
    "service failure": (-32603, "service failure"),
    "login": (-32000, "Authentication required"),
}
UNKNOWING = ("not found", "invalid", "internal", "no directory")
"""Refusals that say that the agent does not know the session."""


@dataclass(frozen=True, repr=False)
class Habits:
    offers: frozenset[str] = frozenset({"load"})
    """Of: load, resume, fork, list, close."""
    tells: str = "before"
    """When a load is replayed: before its answer, after, split (the first message before), or never."""
    times: int = 1
    """How often a load is replayed."""
    tells_resumed: str = "never"
    tells_forked: str = "never"
    forgets: frozenset[str] = frozenset()
    """What does not survive the process, of: calls, users, thoughts, turns (all but the last), all."""
    rewords: bool = False
    """What survives is replayed in other words, except for the last answer."""
    pieces: str = "said"
    """How words are replayed: as they were said, joined, or split."""
    injects: bool = False
    """A replay begins with a user message that nobody typed."""
    version: str = "1"
    """Of: 1, 2, both (every other process). See ``in_version_2``."""
    echoes: str = "never"
    """Of: never, plain, expanded, chunks, id."""
    refuses: str = ""
    """How a session of an earlier process is refused; empty: it is not."""
    refuses_prompt: bool = False
    """The first prompt to a session of an earlier process is refused instead, and the session is lost."""
    stumbles: bool = False
    """The first prompt to each session fails in each process."""
    renames: bool = False
    """A resumed session continues under another id."""
    warns: str = "never"
    """A warning in every process. Of: never, first (before the past), last (after the past), after (the answer)."""
    greets: bool = False
    """A greeting after the answer to new, load and resume, each time in other words."""
    commands: bool = False
    """It understands /undo, /clear and /compact."""
    forgets_commands: bool = False
    """The turn of such a command is not remembered."""
    never_answers: frozenset[str] = frozenset()
    """Of: prompts, loads. Cancelled ones get no answer."""
    answers_cancelled: bool = False
    """A cancelled load is still replayed and answered."""
    overtakes: bool = False
    """A load that comes while another is open is answered first."""
    finishes: bool = False
    """What is left of a turn when its process ends is remembered as if it had been said."""
    equal: bool = False
    """It always says the same."""
    remembers_remarks: bool = False

    @property
    def is_late(self) -> bool:
        return {self.tells, self.tells_resumed} & {"after", "split"} != set()

    def in_version_2(self, version: str = "2") -> "Habits":
        """The same agent in version 2, which requires some habits. There, ``second`` repeats the prompts."""
        return replace(
            self,
            version=version,
            offers=self.offers | {"load", "resume", "list", "close"},
            tells_resumed="never",
            echoes="never",
            renames=False,
            never_answers=self.never_answers - {"prompts"},
        )

    def __repr__(self) -> str:
        """The habits that are not the defaults, so that a failure shows what matters."""
        odd = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}
        return f"Habits({', '.join(f'{name}={_plain(value)}' for name, value in odd.items())})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def _plain(value: object) -> str:
    return f"frozenset({sorted(value)})" if isinstance(value, frozenset) else repr(value)
