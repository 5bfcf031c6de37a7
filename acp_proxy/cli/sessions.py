"""``acp-proxy sessions``: commands on recorded sessions."""

from typing import ClassVar

import typer

from acp_proxy.cli.group import Group, LazyCommand

DELETE = dict.fromkeys(("remove", "rm"), "acp-proxy sessions delete")


class SessionsGroup(Group):
    table: ClassVar = {
        "list": LazyCommand("acp_proxy.cli.list_sessions", "list_sessions"),
        "show": LazyCommand("acp_proxy.cli.show", "show"),
        "search": LazyCommand("acp_proxy.cli.search", "search"),
        "stats": LazyCommand("acp_proxy.cli.stats", "stats"),
        "path": LazyCommand("acp_proxy.cli.path", "path"),
        "rename": LazyCommand("acp_proxy.cli.rename", "rename"),
        "continue": LazyCommand("acp_proxy.cli.continue_session", "continue_session"),
        "archive": LazyCommand("acp_proxy.cli.archiving", "archive"),
        "unarchive": LazyCommand("acp_proxy.cli.archiving", "unarchive"),
        "delete": LazyCommand("acp_proxy.cli.delete", "delete"),
        "restore": LazyCommand("acp_proxy.cli.restore", "restore"),
        "prune": LazyCommand("acp_proxy.cli.prune", "prune"),
        "export": LazyCommand("acp_proxy.cli.export", "export"),
        "import": LazyCommand("acp_proxy.cli.import_transcripts", "take_in"),
        "adopt": LazyCommand("acp_proxy.cli.adopt", "adopt", in_front=True),
        "verify": LazyCommand("acp_proxy.cli.verify_repair", "verify"),
        "repair": LazyCommand("acp_proxy.cli.verify_repair", "repair"),
        "redact": LazyCommand("acp_proxy.cli.redact", "redact"),
        "compress": LazyCommand("acp_proxy.cli.compress", "compress"),
    }
    renamed: ClassVar = {"compact": "compress"}
    short: ClassVar = {"ls": ("list",)}
    elsewhere: ClassVar = {**DELETE, "browse": "acp-proxy browse", "replay": "acp-proxy replay"}


app = typer.Typer(
    name="sessions",
    help="Find, read, share and tidy up recorded sessions.",
    cls=SessionsGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)
