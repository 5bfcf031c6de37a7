"""``acp-proxy sync``: the same history on several machines."""

import itertools
import os
import secrets
import socket
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from msgspec.structs import replace

from acp_proxy.cli.app import Group, LazyCommand
from acp_proxy.cli.confirm import ask_to_confirm
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.progress import show_progress
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import JsonOption, StoreOption, YesOption
from acp_proxy.errors import AcpProxyError, NewerFormat, UsageError
from acp_proxy.redaction.masking import Masking
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession
from acp_proxy.store.same_directory import is_windows_path
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.tools.sync.interfaces import BadRecord, Unavailable
from acp_proxy.tools.sync.membership import DamagedSettings, SyncMembership, SyncSettings, SyncStatus
from acp_proxy.tools.sync.open_place import check_packages, open_logs, read_key
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views import sanitize
from acp_proxy.views.formatting import format_count, format_size

if TYPE_CHECKING:
    from acp_proxy.tools.sync.encryption import HistoryKey
    from acp_proxy.tools.sync.object_store import SealedLogs


class SyncGroup(Group):
    """``acp-proxy sync COMMAND``."""

    commands_by_name: ClassVar = {
        "init": LazyCommand("acp_proxy.tools.sync.command", "init"),
        "join": LazyCommand("acp_proxy.tools.sync.command", "join"),
        "now": LazyCommand("acp_proxy.tools.sync.command", "now"),
        "status": LazyCommand("acp_proxy.tools.sync.command", "status"),
        "map": LazyCommand("acp_proxy.tools.sync.command", "map_directory"),
        "forget-machine": LazyCommand("acp_proxy.tools.sync.command", "forget_machine"),
        "rekey": LazyCommand("acp_proxy.tools.sync.command", "rekey"),
        "leave": LazyCommand("acp_proxy.tools.sync.command", "leave"),
    }


app = typer.Typer(
    name="sync",
    help="Keep the same history on several machines.",
    cls=SyncGroup,
    rich_markup_mode=None,
)


# --- ``acp-proxy sync now``, ``status``, ``map`` and ``leave``.


_TROUBLES = {
    "changed": "its file was changed in another way than by redaction. To have it again as it was shared, move that "
    "file out of the store, then: acp-proxy sync now",
    "damaged": "its file is damaged. Run: acp-proxy repair",
    "too large": "a part of it is larger than 256 MiB",
}
DeletesOption = Annotated[bool, typer.Option("--deletes", help="Delete on all machines, even more than 100 sessions.")]


def now(deletes: DeletesOption = False, store: StoreOption = "") -> None:
    """Exchange sessions with the other machines.

    A session that is open here gets its turns when it is closed or loaded. The exit status is 1 also if what another
    machine has sent cannot be read.

    Example: acp-proxy sync now
    """
    with report_errors():
        membership = SyncMembership(open_store(store, for_writing=True).root)
        settings = membership.read_settings()
        print_round(membership, open_logs(settings.url, read_key(settings.key_file)), confirms_deletes=deletes)
        if any(machine.trouble for machine in membership.read_status().machines):
            raise typer.Exit(1)


def status(as_json: JsonOption = False, store: StoreOption = "") -> None:
    """Show what waits, the machines, and what went wrong.

    Example: acp-proxy sync status
    """
    with report_errors():
        membership = SyncMembership(open_store(store).root)
        settings = membership.read_settings()
        sync_status = membership.read_status()
    if as_json:
        machines = [
            {"name": machine.shown_name, "records": machine.last_read, "trouble": machine.trouble or None}
            for machine in sync_status.machines
        ]
        troubled = [{"agent": agent, "transcript": name, "reason": why} for agent, name, why in sync_status.troubled]
        value = {
            "url": settings.url,
            "keyFile": settings.key_file,
            "manual": settings.manual,
            "machine": sync_status.machine,
            "last": sync_status.last_round or None,
            "sent": sync_status.sent,
            "received": sync_status.received,
            "waiting": sync_status.open_here,
            "deletesToConfirm": sync_status.waiting_deletes,
            "machines": machines,
            "sessionsLeftAlone": troubled,
            "trouble": sync_status.trouble or None,
        }
        typer.echo(sanitize.format_json(value, indent=2))
        return
    lines = [f"place     {settings.url}", f"key       {settings.key_file}", f"machine   {sync_status.machine}"]
    interval = "only with: acp-proxy sync now" if settings.manual else "by itself, at most once a minute"
    lines.append(f'when      {interval} (to change that: "manual" in {membership.settings_file})')
    last_round = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(sync_status.last_round)) if sync_status.last_round else "never"
    )
    lines += [f"last      {last_round}", f"records   {sync_status.sent} sent, {sync_status.received} received"]
    lines += [
        f"other     {machine.shown_name}: {format_count(machine.last_read, 'record')}{_format_trouble(machine.trouble)}"
        for machine in sync_status.machines
    ]
    lines += _list_advice(sync_status)
    for line in lines:
        typer.echo(sanitize.make_line(line))


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
    with report_errors():
        if not (theirs.startswith("/") or is_windows_path(theirs)):
            raise UsageError(f"{theirs} is not an absolute path. Write it as the other machine shows it")
        membership = SyncMembership(open_store(store, for_writing=True).root)
        own_directory = os.path.abspath(os.path.expanduser(ours))
        membership.map_directory(theirs, own_directory)
    typer.echo("From now on, sessions of that directory are shown in this one.")
    if not os.path.isdir(own_directory):
        typer.echo(sanitize.make_line(f"Note: there is no directory {own_directory} on this machine yet."), err=True)


def leave(yes: YesOption = False, store: StoreOption = "") -> None:
    """Stop sharing. Sessions here, on other machines and in the shared place stay as they are.

    Example: acp-proxy sync leave
    """
    with report_errors():
        membership = SyncMembership(open_store(store, for_writing=True).root)
        try:
            settings = membership.read_settings()
            place, key = settings.url, f" The key is still in {settings.key_file}."
        except DamagedSettings:
            place, key = "the other machines", ""
        if not yes:
            ask_to_confirm(f"Stop sharing with {place}?")
        membership.leave()
    typer.echo(sanitize.make_line(f"Stopped.{key}"))


def print_round(
    membership: SyncMembership, logs: "SealedLogs", *, confirms_deletes: bool = False, forgets: str = ""
) -> None:
    """Do one round, and say what it did. Raises AcpProxyError, OSError."""
    counts = membership.do_round(logs, confirms_deletes=confirms_deletes, forgets=forgets)
    typer.echo(f"{format_count(counts.received, 'record')} received, {counts.sent} sent.")
    for line in _list_advice(membership.read_status()):
        typer.echo(sanitize.make_line(line), err=True)


def _list_advice(sync_status: SyncStatus) -> list[str]:
    lines = []
    if sync_status.open_here:
        lines.append(f"{format_count(sync_status.open_here, 'session')} will get turns when closed or loaded here.")
    if sync_status.waiting_deletes:
        lines.append(
            f"{sync_status.waiting_deletes} deleted sessions are still on other machines. To delete them there, too: "
            "acp-proxy sync now --deletes"
        )
    lines += [f"{agent}/{name}: {_TROUBLES.get(why, why)}." for agent, name, why in sync_status.troubled]
    lines += [
        f"The log of {machine.shown_name} cannot be read further: {machine.trouble}. If acp-proxy is as new here as "
        "there, and the key is the same, run there: acp-proxy sync leave, and join again; then here: "
        f"acp-proxy sync forget-machine {machine.short_id}"
        for machine in sync_status.machines
        if machine.trouble
    ]
    if sync_status.trouble:
        lines.append(f"The last attempt failed: {sync_status.trouble}")
    return lines


def _format_trouble(trouble: str) -> str:
    return f" ({trouble})" if trouble else ""


# --- ``acp-proxy sync rekey`` and ``forget-machine``: after a machine was lost.


def _read_place(word: str) -> str:
    """The URL of a place; of a directory that is given by its path, too."""
    path = Path(os.path.expanduser(word))
    return path.as_uri() if path.is_absolute() else word


NewUrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="[URL|DIRECTORY]",
        help="The new place. Default: beside the old one.",
        show_default=False,
        callback=_read_place,
    ),
]
NewKeyOption = Annotated[
    str, typer.Option("--key-file", metavar="FILE", help="The new key. Default: a new file beside the old one.")
]
EmptyOption = Annotated[bool, typer.Option("--empty", help="Then delete everything at the old place.")]
MachineArgument = Annotated[str, typer.Argument(metavar="NAME", help="As sync status shows it.", show_default=False)]


def rekey(
    url: NewUrlArgument = "",
    key_file: NewKeyOption = "",
    empty: EmptyOption = False,
    yes: YesOption = False,
    store: StoreOption = "",
) -> None:
    """Go on with another key, for example after a theft.

    Whoever has the old key can read what is shared until now, if they reach it: so first change the credentials of the
    storage. Run sync now on every machine if you can. Then this command makes a new key, and shares all sessions anew,
    encrypted with it. It prints what to do on the other machines. Nothing is lost or doubled.

    Until all have done that, and have synchronized once more, delete, prune and redact nothing: it may come back.

    Example: acp-proxy sync rekey
    """
    with report_errors():
        membership = SyncMembership(open_store(store, for_writing=True).root)
        old_settings = membership.read_settings()
        check_packages()
        from acp_proxy.tools.sync.encryption import HistoryKey

        new_url, key = url or old_settings.url, HistoryKey.create()
        path = (
            Path(os.path.expanduser(key_file)).absolute() if key_file else _choose_key_file(Path(old_settings.key_file))
        )
        if path.exists():
            raise UsageError(f"{path} exists. Name another file with --key-file")
        logs = open_logs(new_url, key)
        if not yes:
            ask_to_confirm(f"Share all sessions anew at {new_url}, with a new key?")
        logs.check(secrets.token_hex(8))
        do_last_round(membership, old_settings)
        key.write(path)
        move_history(membership, replace(old_settings, url=new_url, key_file=str(path)), key)
        if empty:
            open_logs(old_settings.url, read_key(old_settings.key_file)).empty()
    for line in _advise_after_rekey(old_settings, new_url, path, is_empty=empty):
        typer.echo(sanitize.make_line(line))


def forget_machine(name: MachineArgument, store: StoreOption = "") -> None:
    """Ask no more for news of a machine that is gone.

    What came from it stays. If it comes back, it goes on under a new id, and nothing that was said on it is lost. Its
    key still opens everything: if somebody else may have it, use sync rekey.

    Example: acp-proxy sync forget-machine old-laptop
    """
    with report_errors():
        membership = SyncMembership(open_store(store, for_writing=True).root)
        settings = membership.read_settings()
        logs = open_logs(settings.url, read_key(settings.key_file))
        membership.do_round(logs)  # to read its log to the end, and to know its name
        print_round(membership, logs, forgets=membership.find_machine(name))
    typer.echo(
        sanitize.make_line(f"{name} is forgotten, on the other machines with their next sync. Its sessions stay.")
    )


def do_last_round(membership: SyncMembership, old_settings: SyncSettings) -> None:
    """Do a last round with a place that is left; it may be out of reach already."""
    try:
        membership.do_round(open_logs(old_settings.url, read_key(old_settings.key_file)))
    except (AcpProxyError, OSError) as problem:
        explanation = (
            f"The old place is out of reach, and what others have sent there since the last sync comes later: {problem}"
        )
        typer.echo(sanitize.make_line(explanation), err=True)


def move_history(membership: SyncMembership, settings: SyncSettings, key: "HistoryKey") -> None:
    """Move to the place in these settings, and share everything there. Raises AcpProxyError, OSError."""
    membership.write_settings(replace(settings, history=key.history))
    print_round(membership, open_logs(settings.url, key))


def _choose_key_file(path: Path) -> Path:
    stem = path.stem.rpartition("-")[0] if path.stem.rpartition("-")[2].isdigit() else path.stem
    return next(
        path_to_try
        for n in itertools.count(2)
        if not (path_to_try := path.with_name(f"{stem}-{n}{path.suffix}")).exists()
    )


def _advise_after_rekey(old_settings: SyncSettings, new_url: str, path: Path, *, is_empty: bool) -> list[str]:
    lines = [
        f"The new key is in {path}. Keep a copy.",
        f"On every other machine, copy that file there, then: acp-proxy sync join {new_url} --key-file {path}",
    ]
    if not is_empty:
        folder = _find_folder(old_settings)
        lines.append(
            f"The old place still has everything, for the old key. When all machines have membership, delete {folder}"
        )
    return lines


def _find_folder(old_settings: SyncSettings) -> str:
    """The directory or prefix of a history."""
    return f"{old_settings.url.rstrip('/')}/{old_settings.history or read_key(old_settings.key_file).history}"


# --- ``acp-proxy sync init`` and ``join``: make this store part of a history.


_IS_JOINED = "this store is synchronized already. To stop that: acp-proxy sync leave"
_SHOWN_SESSIONS = 20
"""Agents and directories whose sessions are counted one by one."""
UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL|DIRECTORY",
        help="s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or a directory by its absolute path.",
        show_default=False,
        callback=_read_place,
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

    Example: acp-proxy sync init /mnt/nas/acp-proxy
    """
    with report_errors():
        check_packages()
        opened_store = open_store(store, create=True, for_writing=True)
        membership = SyncMembership(opened_store.root)
        if membership.find_settings() is not None:
            raise UsageError(_IS_JOINED)
        from acp_proxy.tools.sync.encryption import HistoryKey

        path, key = _find_key_file(key_file, opened_store), HistoryKey.create()
        if path.exists():
            raise UsageError(
                f"{path} exists: it is the key of a history. To take part in that: acp-proxy sync join {url}. "
                "For a new history, name another file with --key-file"
            )
        logs = open_logs(url, key)
        settings = replace(_make_settings(opened_store, url, path, agent, cwd), manual=manual)
        _ask_to_share(opened_store, membership, settings, redact=redact, yes=yes)
        logs.check(secrets.token_hex(8))
        key.write(path)
        _join(membership, settings, key, name, is_first=True)
    typer.echo(sanitize.make_line(f"The key is in {path}. Without it, what is at {url} cannot be read: keep a copy."))
    typer.echo(
        sanitize.make_line(f"On another machine, put that file into the same place, then: acp-proxy sync join {url}")
    )


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

    Example: acp-proxy sync join /mnt/nas/acp-proxy
    """
    with report_errors():
        check_packages()
        opened_store = open_store(store, create=True, for_writing=True)
        membership = SyncMembership(opened_store.root)
        from acp_proxy.tools.sync.encryption import HistoryKey

        path = _find_key_file(key_file, opened_store)
        key = HistoryKey.read(path)
        logs = open_logs(url, key)
        if not any(_can_open(logs, machine) for machine in logs.list_machines()):
            raise UsageError(f"there is no history with this key at {url}. Check the URL, and that {path} is its key")
        old_settings = membership.find_settings()
        if old_settings is not None:
            _move(membership, old_settings, url, path, key, yes=yes)
            return
        settings = replace(_make_settings(opened_store, url, path, agent, cwd), manual=manual)
        _ask_to_share(opened_store, membership, settings, redact=redact, yes=yes)
        _join(membership, settings, key, name, is_first=False)


def _can_open(logs: "SealedLogs", machine: str) -> bool:
    """Whether the key is that of a machine's log."""
    try:
        return logs.get(machine, 1) is not None
    except BadRecord:
        return False


def _move(
    membership: SyncMembership, old_settings: SyncSettings, url: str, path: Path, key: "HistoryKey", *, yes: bool
) -> None:
    if old_settings.history == key.history:
        raise UsageError(_IS_JOINED)
    if not yes:
        ask_to_confirm(f"Leave {old_settings.url}, and share all sessions at {url}?")
    do_last_round(membership, old_settings)
    move_history(membership, replace(old_settings, url=url, key_file=str(path)), key)


def _find_key_file(key_file: str, opened_store: CommandStore) -> Path:
    """Raises UsageError."""
    import platformdirs

    default_path = Path(platformdirs.user_config_dir("acp-proxy", appauthor=False)) / "sync.key"
    path = Path(os.path.expanduser(key_file)).absolute() if key_file else default_path
    if path.resolve().is_relative_to(opened_store.root.resolve()):
        raise UsageError(f"{path} is in the store. The key must be elsewhere: name another file with --key-file")
    return path


def _make_settings(opened_store: CommandStore, url: str, path: Path, agent: str, cwd: str) -> SyncSettings:
    agents = tuple(opened_store.list_agents(agent)) if agent else ()
    if agent and not agents:
        raise UsageError(f"no agent has the name {agent!r}. To see all agents: acp-proxy list")
    return SyncSettings(url, str(path), agents, (os.path.abspath(cwd),) if cwd else ())


def _ask_to_share(
    opened_store: CommandStore, membership: SyncMembership, settings: SyncSettings, *, redact: bool, yes: bool
) -> None:
    """Show what would leave this machine, and ask. Raises OSError."""
    leaving = membership.list_leaving(settings)
    rows = [row for row in opened_store.list_newest() if (row.agent_folder, row.name) in leaving]
    if not rows:
        typer.echo("No session leaves this machine now; new ones will, encrypted.", err=True)
        return
    masking = Masking()
    counts = _mask_secrets(opened_store, rows, masking, dry_run=True)
    size = format_size(sum(row.size for row in rows))
    typer.echo(f"{format_count(len(rows), 'session')} ({size}) would leave this machine, encrypted.", err=True)
    places = Counter(
        f"{name_agent(row.agent_folder)}{f' in {row.cwd}' if row.cwd else ''}" for row in rows
    ).most_common()
    for place, count in places[:_SHOWN_SESSIONS]:
        typer.echo(sanitize.make_line(f"  {count} of {place}"), err=True)
    if rest := sum(count for _, count in places[_SHOWN_SESSIONS:]):
        typer.echo(f"  {rest} of other agents or directories", err=True)
    if counts:
        kinds = ", ".join(f"{count} x {rule}" for rule, count in sorted(counts.items()))
        advice = "They are masked first" if redact else "--redact masks them first"
        typer.echo(f"Secrets in them: {kinds}. {advice}.", err=True)
    if not yes:
        ask_to_confirm("Share them?")
    if redact and counts:
        _mask_secrets(opened_store, rows, masking, dry_run=False)
        opened_store.reindex(rows)


def _mask_secrets(
    opened_store: CommandStore, rows: list[ListedSession], masking: Masking, *, dry_run: bool
) -> Counter[str]:
    """Mask the secrets in these sessions. Returns how many of each kind there are. ``dry_run``: only count them."""
    counts: Counter[str] = Counter()
    for path in show_progress(
        opened_store.find_redactable(rows) if rows else [], "Searching" if dry_run else "Masking"
    ):
        try:
            counts += redact_stored(opened_store, path, masking, dry_run=dry_run)
        except (FileNotFoundError, NewerFormat):
            continue
    return counts


def _join(membership: SyncMembership, settings: SyncSettings, key: "HistoryKey", name: str, *, is_first: bool) -> None:
    machine = name or socket.gethostname().partition(".")[0] or "machine"
    membership.join(replace(settings, history=key.history), machine, is_first=is_first)
    try:
        print_round(membership, open_logs(settings.url, key))
    except Unavailable as problem:
        raise AcpProxyError(f"{problem}. This machine has joined all the same. Later: acp-proxy sync now") from problem
