"""``acp-proxy sync init`` and ``join``: make this store part of a history."""

import os
import secrets
import socket
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli.progress import advancing
from acp_proxy.cli.storing import StoreOption, YesOption, agreed, explained, store_of
from acp_proxy.cli.sync_moving import last_round, moved
from acp_proxy.cli.sync_now import counted, synchronized
from acp_proxy.errors import AcpProxyError, NewerFormat, UsageError
from acp_proxy.redaction.masking import Masking
from acp_proxy.sync.joined import JoinedStore, Membership
from acp_proxy.sync.parties import Unavailable
from acp_proxy.sync.reaching import logs_of, need
from acp_proxy.transcripts.archive import Archive, Listed, called
from acp_proxy.views import figures, terminal

if TYPE_CHECKING:  # needs a package that only sync needs
    from acp_proxy.sync.sealing import HistoryKey

_IS_JOINED = "this store is synchronized already. To stop that: acp-proxy sync leave"
_SHOWN = 20
"""Agents and directories whose sessions are counted one by one."""
UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIRECTORY.",
        show_default=False,
    ),
]
KeyFileOption = Annotated[
    str, typer.Option("--key-file", metavar="FILE", help="The key. Default: sync.key in your configuration directory.")
]
NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="What other machines call this one. Default: its host name.")
]
OnlyAgentOption = Annotated[
    str, typer.Option("--agent", metavar="NAME", help="Share only sessions of agents whose name has this word.")
]
OnlyCwdOption = Annotated[
    str, typer.Option("--cwd", metavar="DIR", help="Share only sessions of this directory, or of one below it.")
]
ManualOption = Annotated[bool, typer.Option("--manual", help="Exchange sessions only with sync now.")]
RedactOption = Annotated[bool, typer.Option("--redact", help="First mask the secrets in these sessions, permanently.")]


def init(
    url: UrlArgument,
    key_file: KeyFileOption = "",
    name: NameOption = "",
    agent: OnlyAgentOption = "",
    cwd: OnlyCwdOption = "",
    redact: RedactOption = False,
    manual: ManualOption = False,
    yes: YesOption = False,
    store: StoreOption = "",
) -> None:
    """Begin a history that several machines share.

    The command makes a key, shows which sessions would leave this machine and which secrets are in them, and asks. All
    that it writes to URL is encrypted with the key. Credentials for URL come from the environment, such as
    AWS_ACCESS_KEY_ID. On every other machine, copy the key file there, and run sync join.

    Example: acp-proxy sync init file:///mnt/nas/acp-proxy
    """
    with explained():
        opened = store_of(store, make=True, change=True)
        joined = JoinedStore(opened.root)
        if joined.is_joined:
            raise UsageError(_IS_JOINED)
        need()
        from acp_proxy.sync.sealing import HistoryKey

        path, key = _key_place(key_file, opened), HistoryKey.new()
        if path.exists():
            raise UsageError(
                f"{path} exists: it is the key of a history. To take part in that: acp-proxy sync join {url}. "
                "For a new history, name another file with --key-file"
            )
        logs_of(url, key).check(secrets.token_hex(8))
        settings = replace(_settings(opened, url, path, agent, cwd), manual=manual)
        _show(opened, joined, settings, redact=redact, yes=yes)
        key.write(path)
        _joined(opened, joined, settings, key, name)
    typer.echo(terminal.line(f"The key is in {path}. Without it, what is at {url} cannot be read: keep a copy."))
    typer.echo(terminal.line(f"On another machine, put that file into the same place, then: acp-proxy sync join {url}"))


def join(
    url: UrlArgument,
    key_file: KeyFileOption = "",
    name: NameOption = "",
    agent: OnlyAgentOption = "",
    cwd: OnlyCwdOption = "",
    redact: RedactOption = False,
    manual: ManualOption = False,
    yes: YesOption = False,
    store: StoreOption = "",
) -> None:
    """Take part in a history that another machine began.

    Copy the key file from that machine first. The command shows which sessions would leave this machine and which
    secrets are in them, and asks. Then it brings the sessions of the other machines here.

    After sync rekey on one machine, this brings the others to the new place, with their options as they are.

    Example: acp-proxy sync join file:///mnt/nas/acp-proxy
    """
    with explained():
        opened = store_of(store, make=True, change=True)
        joined = JoinedStore(opened.root)
        need()
        from acp_proxy.sync.sealing import HistoryKey

        path = _key_place(key_file, opened)
        key = HistoryKey.read(path)
        if not logs_of(url, key).machines():
            raise UsageError(
                f"there is no history with this key at {url}. Check the URL, that {path} is its key, and that the "
                "first machine has shared a session"
            )
        if joined.is_joined:
            _move(joined, url, path, key, yes=yes)
            return
        settings = replace(_settings(opened, url, path, agent, cwd), manual=manual)
        _show(opened, joined, settings, redact=redact, yes=yes)
        _joined(opened, joined, settings, key, name)


def _move(joined: JoinedStore, url: str, path: Path, key: "HistoryKey", *, yes: bool) -> None:
    old = joined.settings()
    if old.history == key.history:
        raise UsageError(_IS_JOINED)
    if not yes:
        agreed(f"Leave {old.url}, and share all sessions at {url}?")
    last_round(joined, old)
    moved(joined, replace(old, url=url, key_file=str(path)), key)


def _key_place(given: str, opened: Archive) -> Path:
    """Raises UsageError."""
    import platformdirs

    usual = Path(platformdirs.user_config_dir("acp-proxy", appauthor=False)) / "sync.key"
    path = Path(given).expanduser().absolute() if given else usual
    if path.resolve().is_relative_to(opened.root.resolve()):
        raise UsageError(f"{path} is in the store. The key must be elsewhere: name another file with --key-file")
    return path


def _settings(opened: Archive, url: str, path: Path, agent: str, cwd: str) -> Membership:
    agents = tuple(opened.agents(agent)) if agent else ()
    if agent and not agents:
        raise UsageError(f"no agent has the name {agent!r}. To see all agents: acp-proxy sessions list")
    return Membership(url, str(path), agents, (os.path.abspath(cwd),) if cwd else ())


def _show(opened: Archive, joined: JoinedStore, settings: Membership, *, redact: bool, yes: bool) -> None:
    """Show what would leave this machine, and ask. Raises OSError."""
    leaving = joined.leaving(settings)
    rows = [row for row in opened.newest() if (row.agent, row.name) in leaving]
    masking = Masking()
    found = _secrets(opened, rows, masking, dry=True)
    size = figures.size(sum(row.size for row in rows))
    typer.echo(f"{counted(len(rows), 'session')} ({size}) would leave this machine, encrypted.", err=True)
    where = Counter(f"{called(row.agent)}{f' in {row.cwd}' if row.cwd else ''}" for row in rows).most_common()
    for place, count in where[:_SHOWN]:
        typer.echo(terminal.line(f"  {count} of {place}"), err=True)
    if rest := sum(count for _, count in where[_SHOWN:]):
        typer.echo(f"  {rest} of other agents or directories", err=True)
    if found:
        kinds = ", ".join(f"{count} x {rule}" for rule, count in sorted(found.items()))
        what = "They are masked first" if redact else "--redact masks them first"
        typer.echo(f"Secrets in them: {kinds}. {what}.", err=True)
    if not yes:
        agreed("Share them?")
    if redact and found:
        _secrets(opened, rows, masking, dry=False)
        opened.renew(rows)


def _secrets(opened: Archive, rows: list[Listed], masking: Masking, *, dry: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in advancing(opened.redactable(rows) if rows else [], "Searching" if dry else "Masking"):
        try:
            found += opened.redact(path, masking, dry=dry)
        except (FileNotFoundError, NewerFormat):
            continue
    return found


def _joined(opened: Archive, joined: JoinedStore, settings: Membership, key: "HistoryKey", name: str) -> None:
    joined.join(replace(settings, history=key.history), name or socket.gethostname().partition(".")[0] or "machine")
    try:
        synchronized(joined, logs_of(settings.url, key))
    except Unavailable as problem:
        raise AcpProxyError(f"{problem}. This machine has joined all the same. Later: acp-proxy sync now") from problem
