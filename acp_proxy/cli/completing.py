"""What the shell offers for the word that is being typed. Never an error, whatever the store is like.

Ids and titles are somebody else's text, and zsh evaluates what it is given: only what means nothing to shells passes.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(~[0-9]+)*")
_PLAIN_FOLDER = re.compile(r"[A-Za-z0-9._:@+/-]*")
_SAID = " .,-_/+@#%=?"
_TITLE = 60


def sessions(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids, newest first, with their titles."""
    from acp_proxy.transcripts.archive import Glance  # no command needs it

    found = Glance(_root(context)).sessions(incomplete, str(context.params.get("agent") or ""))
    newest = [("last", "the newest")] if "last".startswith(incomplete) else []
    return newest + [(seen.named, _plain(seen.title)) for seen in found if _PLAIN.fullmatch(seen.named)]


def recordings(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Sessions, and files that may be transcripts."""
    return [*sessions(context, incomplete), *((path, "") for path in _files(incomplete))]


def deleted(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of what was deleted softly, the latest first, with the titles that the user gave."""
    from acp_proxy.transcripts.archive import Glance  # no command needs it

    found = Glance(_root(context)).kept()
    last = [("last", "the latest")] if "last".startswith(incomplete) else []
    return last + [
        (each.named, _plain(each.title or ""))
        for each in found
        if each.named.startswith(incomplete) and _PLAIN.fullmatch(each.named)
    ]


def one_of(words: Sequence[str]) -> Callable[[str], list[str]]:
    def offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offered


def agents(context: typer.Context, incomplete: str) -> list[str]:
    """The names of the agents of which something is kept, as --agent takes them."""
    from acp_proxy.transcripts.archive import Glance, called, readable

    found = set[str]()
    for folder in Glance(_root(context)).agents():
        ways = (called(folder), readable(folder))  # with its scope for who begins with that
        found.update(next(([name] for name in ways if name.startswith(incomplete) and _PLAIN.fullmatch(name)), []))
    return sorted(found)


class InFront(TyperCommand):
    """A command in front of an agent's: from the agent's first word on, files are offered, and no options of ours."""

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list[Any]:  # type: ignore[override]
        return [] if ctx.params.get("agent") else super().shell_complete(ctx, incomplete)


def _files(beginning: str) -> list[str]:
    from acp_proxy.transcripts.archive import PACKED_SUFFIX, SUFFIX

    folder, name = os.path.split(beginning)
    if not _PLAIN_FOLDER.fullmatch(folder):
        return []
    try:
        found = [
            each for each in os.scandir(folder or ".") if each.name.startswith(name) and _PLAIN.fullmatch(each.name)
        ]
        named = [os.path.join(folder, each.name) + ("/" if each.is_dir() else "") for each in found]
    except OSError:
        return []
    return sorted(path for path in named if path.endswith(("/", SUFFIX, PACKED_SUFFIX)))


def _root(context: typer.Context) -> Path:
    from acp_proxy.transcripts.archive import default_root

    given = context.params.get("store") or os.environ.get("ACP_PROXY_STORE")
    return Path(str(given)).expanduser() if given else default_root()


def _plain(title: str) -> str:
    kept = "".join(one if one.isalnum() or one in _SAID else " " for one in title)
    return " ".join(kept.split())[:_TITLE]
