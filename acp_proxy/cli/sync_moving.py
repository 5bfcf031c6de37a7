"""``acp-proxy sync rekey`` and ``forget-machine``: after a machine was lost."""

import secrets
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli.storing import StoreOption, YesOption, agreed, explained, store_of
from acp_proxy.cli.sync_now import synchronized
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.sync.joined import JoinedStore, Membership
from acp_proxy.sync.reaching import key_in, logs_of
from acp_proxy.views import terminal

if TYPE_CHECKING:  # needs packages that only sync needs
    from acp_proxy.sync.sealing import HistoryKey

NewUrlArgument = Annotated[
    str, typer.Argument(metavar="[URL]", help="The new place. Default: beside the old one.", show_default=False)
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
    """Go on with another key, for example because a laptop was lost.

    Whoever has the old key can read what is shared until now, if they reach it: so first change the credentials of the
    storage. Run sync now on every machine if you can. Then this command makes a new key, and shares all sessions anew,
    encrypted with it. It prints what to do on the other machines. Nothing is lost or doubled.

    Until all have done that, and have synchronized once more, delete, prune and redact nothing: it may come back.

    Example: acp-proxy sync rekey
    """
    with explained():
        joined = JoinedStore(store_of(store, change=True).root)
        old = joined.settings()
        from acp_proxy.sync.sealing import HistoryKey

        new, key = url or old.url, HistoryKey.new()
        path = Path(key_file).expanduser().absolute() if key_file else _beside(Path(old.key_file))
        if path.exists():
            raise UsageError(f"{path} exists. Name another file with --key-file")
        logs_of(new, key).check(secrets.token_hex(8))
        if not yes:
            agreed(f"Share all sessions anew at {new}, with a new key?")
        last_round(joined, old)
        key.write(path)
        moved(joined, replace(old, url=new, key_file=str(path)), key)
        if empty:
            logs_of(old.url, key_in(old.key_file)).empty()
    for line in _advice(old, new, path, is_empty=empty):
        typer.echo(terminal.line(line))


def forget_machine(name: MachineArgument, store: StoreOption = "") -> None:
    """Ask no more for news of a machine that is lost or was thrown away.

    What came from it stays. If it comes back, it goes on under a new id, and nothing that was said on it is lost. Its
    key still opens everything: if somebody else may have it, use sync rekey.

    Example: acp-proxy sync forget-machine old-laptop
    """
    with explained():
        joined = JoinedStore(store_of(store, change=True).root)
        settings = joined.settings()
        logs = logs_of(settings.url, key_in(settings.key_file))
        joined.synchronize(logs)  # to read its log to the end, and to know its name
        synchronized(joined, logs, forgets=joined.machine(name))
    typer.echo(terminal.line(f"{name} is forgotten, on the other machines with their next sync. Its sessions stay."))


def last_round(joined: JoinedStore, old: Membership) -> None:
    """Exchange what is new with a place that is left; it may be out of reach already."""
    try:
        joined.synchronize(logs_of(old.url, key_in(old.key_file)))
    except (AcpProxyError, OSError) as problem:
        why = (
            f"The old place is out of reach, and what others have sent there since the last sync comes later: {problem}"
        )
        typer.echo(terminal.line(why), err=True)


def moved(joined: JoinedStore, settings: Membership, key: "HistoryKey") -> None:
    """Move to the place in these settings, and share everything there. Raises AcpProxyError, OSError."""
    joined.change(replace(settings, history=key.history))
    synchronized(joined, logs_of(settings.url, key))


def _beside(path: Path) -> Path:
    stem = path.stem.rpartition("-")[0] if path.stem.rpartition("-")[2].isdigit() else path.stem
    return next(each for n in count(2) if not (each := path.with_name(f"{stem}-{n}{path.suffix}")).exists())


def _advice(old: Membership, new: str, path: Path, *, is_empty: bool) -> list[str]:
    lines = [
        f"The new key is in {path}. Keep a copy.",
        f"On every other machine, copy that file there, then: acp-proxy sync join {new} --key-file {path}",
    ]
    if not is_empty:
        lines.append(
            f"The old place still has everything, for the old key. When all machines have joined, delete {_folder(old)}"
        )
    return lines


def _folder(old: Membership) -> str:
    """The directory or prefix of a history."""
    return f"{old.url.rstrip('/')}/{old.history or key_in(old.key_file).history}"
