"""``acp-proxy sync``: the same history on several machines."""

from typing import ClassVar

import typer

from acp_proxy.cli.group import Group, LazyCommand


class SyncGroup(Group):
    table: ClassVar = {
        "init": LazyCommand("acp_proxy.cli.sync_begin", "init"),
        "join": LazyCommand("acp_proxy.cli.sync_begin", "join"),
        "now": LazyCommand("acp_proxy.cli.sync_now", "now"),
        "status": LazyCommand("acp_proxy.cli.sync_now", "status"),
        "map": LazyCommand("acp_proxy.cli.sync_now", "map_directory"),
        "forget-machine": LazyCommand("acp_proxy.cli.sync_moving", "forget_machine"),
        "rekey": LazyCommand("acp_proxy.cli.sync_moving", "rekey"),
        "leave": LazyCommand("acp_proxy.cli.sync_now", "leave"),
    }


app = typer.Typer(
    name="sync",
    help="Keep the same history on several machines.",
    cls=SyncGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)
