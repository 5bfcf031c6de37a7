"""``acp-proxy sync now``, ``status``, ``map`` and ``leave``."""

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli.storing import JsonOption, StoreOption, YesOption, agreed, explained, store_of
from acp_proxy.errors import UsageError
from acp_proxy.sync.joined import JoinedStore, SyncStatus
from acp_proxy.sync.reaching import key_in, logs_of
from acp_proxy.transcripts.archive import is_windows
from acp_proxy.views import terminal

if TYPE_CHECKING:  # needs packages that only sync needs
    from acp_proxy.sync.buckets import SealedLogs

_TROUBLES = {
    "changed": "its file was changed in another way than by redaction. To share it again: acp-proxy sessions export, "
    "delete and import it",
    "damaged": "its file is damaged. Run: acp-proxy sessions repair",
    "too large": "a part of it is larger than 256 MiB",
}
DeletesOption = Annotated[bool, typer.Option("--deletes", help="Delete on all machines, even more than 100 sessions.")]


def now(deletes: DeletesOption = False, store: StoreOption = "") -> None:
    """Exchange sessions with the other machines.

    A session that is open here gets its turns when it is closed or loaded.

    Example: acp-proxy sync now
    """
    with explained():
        joined = JoinedStore(store_of(store, change=True).root)
        settings = joined.settings()
        synchronized(joined, logs_of(settings.url, key_in(settings.key_file)), deletes=deletes)


def status(as_json: JsonOption = False, store: StoreOption = "") -> None:
    """Show what waits, which machines there are, and what went wrong.

    Example: acp-proxy sync status
    """
    with explained():
        joined = JoinedStore(store_of(store).root)
        settings = joined.settings()
        standing = joined.standing()
    if as_json:
        machines = [
            {"name": name, "records": read, "trouble": trouble or None} for name, read, trouble in standing.machines
        ]
        troubled = [{"agent": agent, "transcript": name, "reason": why} for agent, name, why in standing.troubled]
        value = {
            "url": settings.url,
            "keyFile": settings.key_file,
            "manual": settings.manual,
            "machine": standing.machine,
            "last": standing.last or None,
            "sent": standing.sent,
            "received": standing.received,
            "waiting": standing.waiting,
            "deletesToConfirm": standing.deletes,
            "machines": machines,
            "sessionsLeftAlone": troubled,
            "trouble": standing.trouble or None,
        }
        typer.echo(terminal.json_text(value, indent=2))
        return
    lines = [f"place     {settings.url}", f"key       {settings.key_file}", f"machine   {standing.machine}"]
    often = "only with: acp-proxy sync now" if settings.manual else "by itself, at most once a minute"
    lines.append(f'when      {often} (to change that: "manual" in {joined.settings_file})')
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(standing.last)) if standing.last else "never"
    lines += [f"last      {when}", f"records   {standing.sent} sent, {standing.received} received"]
    lines += [
        f"other     {name}: {counted(read, 'record')}{_after(trouble)}" for name, read, trouble in standing.machines
    ]
    lines += _advice(standing)
    for line in lines:
        typer.echo(terminal.line(line))


def map_directory(
    theirs: Annotated[
        str, typer.Argument(metavar="THEIRS", help="A directory of another machine.", show_default=False)
    ],
    ours: Annotated[str, typer.Argument(metavar="OURS", help="The same project's directory here.", show_default=False)],
    store: StoreOption = "",
) -> None:
    """Show a directory of another machine as one here.

    Directories below the other user's home need no command: they are shown below yours. A new mapping counts for
    sessions that come later.

    Example: acp-proxy sync map /srv/project /home/me/project
    """
    with explained():
        if not (theirs.startswith("/") or is_windows(theirs)):
            raise UsageError(f"{theirs} is not an absolute path. Write it as the other machine shows it")
        joined = JoinedStore(store_of(store, change=True).root)
        place = os.path.abspath(os.path.expanduser(ours))
        joined.place(theirs, place)
    typer.echo("From now on, sessions of that directory are shown in this one.")
    if not os.path.isdir(place):
        typer.echo(terminal.line(f"Note: there is no directory {place} on this machine yet."), err=True)


def leave(yes: YesOption = False, store: StoreOption = "") -> None:
    """Stop sharing. Sessions here, on other machines and in the shared place stay as they are.

    Example: acp-proxy sync leave
    """
    with explained():
        joined = JoinedStore(store_of(store, change=True).root)
        settings = joined.settings()
        if not yes:
            agreed(f"Stop sharing with {settings.url}?")
        joined.leave()
    typer.echo(terminal.line(f"Stopped. The key is still in {settings.key_file}."))


def synchronized(joined: JoinedStore, logs: "SealedLogs", *, deletes: bool = False, forgets: str = "") -> None:
    """Do one round, and say what it did. Raises AcpProxyError, OSError."""
    counts = joined.synchronize(logs, deletes=deletes, forgets=forgets)
    typer.echo(f"{counted(counts.received, 'record')} received, {counts.sent} sent.")
    for line in _advice(joined.standing()):
        typer.echo(terminal.line(line), err=True)


def _advice(standing: SyncStatus) -> list[str]:
    lines = []
    if standing.waiting:
        lines.append(f"{counted(standing.waiting, 'session')} will get turns when closed or loaded here.")
    if standing.deletes:
        lines.append(
            f"{standing.deletes} deleted sessions are still on other machines. To delete them there, too: "
            "acp-proxy sync now --deletes"
        )
    lines += [f"{agent}/{name}: {_TROUBLES.get(why, why)}." for agent, name, why in standing.troubled]
    lines += [f"The log of {name} cannot be read further: {why}." for name, _, why in standing.machines if why]
    if standing.trouble:
        lines.append(f"The last attempt failed: {standing.trouble}")
    return lines


def counted(number: int, what: str) -> str:
    """Such as ``2 sessions``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _after(trouble: str) -> str:
    return f" ({trouble})" if trouble else ""
