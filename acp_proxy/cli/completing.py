"""Completion of the word that the user is typing. It never raises an error, whatever the state of the store.

Ids and titles come from other people, and zsh evaluates the text it gets: only characters without a meaning in shells
pass.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from acp_proxy.cli import completing_start
from acp_proxy.cli.completing_start import is_plain, plain

_PLAIN_FOLDER = re.compile(r"[A-Za-z0-9._:@+/-]*")


def sessions(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids, newest first, with their titles."""
    return completing_start.sessions(incomplete, _root(context), str(context.params.get("agent") or ""))


def recordings(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Sessions, and files that may be transcripts."""
    return [*sessions(context, incomplete), *((path, "") for path in _files(incomplete))]


def deleted(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of soft-deleted sessions, the latest first, with the titles that the user gave them."""
    from acp_proxy.transcripts.archive import Glance  # imported late: no command needs it

    found = Glance(_root(context)).kept()
    last = [("last", "the latest")] if "last".startswith(incomplete) else []
    return last + [
        (each.named, plain(each.title or ""))
        for each in found
        if each.named.startswith(incomplete) and is_plain(each.named)
    ]


def one_of(words: Sequence[str]) -> Callable[[str], list[str]]:
    def offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offered


def agents(context: typer.Context, incomplete: str) -> list[str]:
    """The names of recorded agents, in the form that --agent takes."""
    from acp_proxy.transcripts.archive import Glance, called, readable

    found = set[str]()
    for folder in Glance(_root(context)).agents():
        ways = (called(folder), readable(folder))  # with the scope, if the user typed its beginning
        found.update(next(([name] for name in ways if name.startswith(incomplete) and is_plain(name)), []))
    return sorted(found)


def _files(beginning: str) -> list[str]:
    from acp_proxy.transcripts.archive import COMPRESSED_SUFFIX, SUFFIX

    folder, name = os.path.split(beginning)
    if not _PLAIN_FOLDER.fullmatch(folder):
        return []
    try:
        found = [each for each in os.scandir(folder or ".") if each.name.startswith(name) and is_plain(each.name)]
        typed = beginning.removesuffix(name)  # with the separators of the user
        named = [typed + each.name + ("/" if each.is_dir() else "") for each in found]
    except OSError:
        return []
    return sorted(path for path in named if path.endswith(("/", SUFFIX, COMPRESSED_SUFFIX)))


def _root(context: typer.Context) -> Path:
    return completing_start.root_of(str(context.params.get("store") or os.environ.get("ACP_PROXY_STORE", "")))
