"""Which sessions a command is about: its options, and the one function that reads the sessions they leave."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from msgspec import Struct

from acp_proxy.cli import values
from acp_proxy.cli.next_command import repeat_options
from acp_proxy.cli.shared_options import choose_directory
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession
from acp_proxy.views.session_lines import has_words

CwdOption = Annotated[str, typer.Option("--cwd", metavar="DIR", help="Only sessions in exactly this directory.")]
HereOption = Annotated[bool, typer.Option("--here", "-H", help="Only sessions in this directory or below.")]
BranchOption = Annotated[str, typer.Option("--branch", metavar="NAME", help="Only sessions begun on this Git branch.")]
SinceOption = Annotated[
    str,
    typer.Option(
        "--since",
        "-S",
        metavar="WHEN",
        help="Only sessions active since: 7d, yesterday, 2026-11-01.",
    ),
]
UntilOption = Annotated[
    str, typer.Option("--until", "-U", metavar="WHEN", help="Only sessions last active by then, or on that day.")
]
TurnsSinceOption = Annotated[
    str,
    typer.Option("--since", "-S", metavar="WHEN", help="Only turns since: 7d, yesterday, 2026-11-01."),
]
TurnsUntilOption = Annotated[
    str, typer.Option("--until", "-U", metavar="WHEN", help="Only turns that began by then, or on that day.")
]


class SessionFilter(Struct, frozen=True):
    """The sessions of ``agent``, as the user writes it; of the directory ``cwd``, and if ``includes_below`` of those
    below it; last active from ``since`` to before ``until``, in transcript format; begun on the Git ``branch``; in
    whose row of a list ``has_words`` finds all ``words``: in the title, the directory, the agent or the marks, or as
    the beginning of the id.

    What is empty or None leaves out nothing.
    """

    agent: str = ""
    cwd: str | None = None
    includes_below: bool = False
    since: str = ""
    until: str = ""
    branch: str = ""
    words: tuple[str, ...] = ()

    @property
    def is_narrow(self) -> bool:
        """Whether it may leave out a session."""
        return self != ALL

    def list_newest(self, store: CommandStore, archived: bool | None = None) -> Iterator[ListedSession]:
        """The sessions that it leaves, newest first. Raises Unreadable, also while iterating."""
        rows = store.list_newest(
            self.agent,
            self.cwd,
            self.since,
            self.until,
            includes_below=self.includes_below,
            branch=self.branch,
            archived=archived,
        )
        return (row for row in rows if has_words(row, self.words)) if self.words else rows


ALL = SessionFilter()
FILTER_PARAMETERS = ("agent", "cwd", "here", "since", "until", "branch")
"""The parameters of a command that leave out sessions."""


def explain_no_match(context: typer.Context, command: str, parameters: Iterable[str] = FILTER_PARAMETERS) -> str:
    """What to say if nothing matches, but something would without the options of the filter that were given.

    ``command``: the command line without them. ``parameters``: those that leave out sessions.
    """
    names = [words[0] for name in parameters if (words := repeat_options(context, name))]
    pronoun = "it" if len(names) == 1 else "them"
    return f"Nothing matches with {' and '.join(names)}. Without {pronoun}, something does: {command}"


def make_filter(
    agent: str = "",
    cwd: str = "",
    here: bool = False,
    since: str = "",
    until: str = "",
    branch: str = "",
    words: tuple[str, ...] = (),
) -> SessionFilter:
    """The filter that these options mean. Raises UsageError, AcpProxyError."""
    earliest, latest = values.parse_range(since, until)
    folded = tuple(word for phrase in words for word in phrase.casefold().split())
    return SessionFilter(agent, choose_directory(cwd, here=here), here, earliest, latest, branch, folded)
