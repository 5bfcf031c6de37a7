"""``acp-proxy sessions``: what is kept, for people and for programs."""

import typer

from acp_proxy.cli import damage
from acp_proxy.cli.compact import compact
from acp_proxy.cli.delete import delete
from acp_proxy.cli.export import export
from acp_proxy.cli.importing import take_in
from acp_proxy.cli.listing import list_sessions
from acp_proxy.cli.order import Sessions
from acp_proxy.cli.path import path
from acp_proxy.cli.prune import prune
from acp_proxy.cli.redact import redact
from acp_proxy.cli.rename import rename
from acp_proxy.cli.restore import restore
from acp_proxy.cli.search import search
from acp_proxy.cli.show import show
from acp_proxy.cli.stats import stats

app = typer.Typer(
    help="What is kept: find it, read it, share it, tidy it up.",
    cls=Sessions,
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(redact)
app.command()(compact)
app.command()(export)
app.command("import")(take_in)
app.command("list")(list_sessions)
app.command()(show)
app.command()(rename)
app.command()(delete)
app.command()(restore)
app.command()(prune)
app.command()(stats)
app.command()(path)
app.command()(search)
app.command()(damage.verify)
app.command()(damage.repair)
