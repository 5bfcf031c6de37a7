"""``acp-proxy sessions``: commands on recorded sessions."""

from typing import ClassVar

import typer

from acp_proxy.cli.group import Group, Place


class Sessions(Group):
    table: ClassVar = {
        "list": Place("acp_proxy.cli.listing", "list_sessions"),
        "show": Place("acp_proxy.cli.show", "show"),
        "search": Place("acp_proxy.cli.search", "search"),
        "stats": Place("acp_proxy.cli.stats", "stats"),
        "path": Place("acp_proxy.cli.path", "path"),
        "rename": Place("acp_proxy.cli.rename", "rename"),
        "delete": Place("acp_proxy.cli.delete", "delete"),
        "restore": Place("acp_proxy.cli.restore", "restore"),
        "prune": Place("acp_proxy.cli.prune", "prune"),
        "export": Place("acp_proxy.cli.export", "export"),
        "import": Place("acp_proxy.cli.importing", "take_in"),
        "verify": Place("acp_proxy.cli.damage", "verify"),
        "repair": Place("acp_proxy.cli.damage", "repair"),
        "redact": Place("acp_proxy.cli.redact", "redact"),
        "compress": Place("acp_proxy.cli.compress", "compress"),
    }
    renamed: ClassVar = {"compact": "compress"}


app = typer.Typer(
    name="sessions",
    help="Find, read, share and tidy up recorded sessions.",
    cls=Sessions,
    no_args_is_help=True,
    rich_markup_mode=None,
)
