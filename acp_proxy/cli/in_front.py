"""Commands that stand in front of an agent's command: their completion, and their help.

``--help`` leaves out the options that have a ``rich_help_panel``; ``--help-all`` shows them too, grouped by panel.
"""

from typing import Any

import typer
from typer.core import TyperCommand

_ALL = "acp_proxy.help_all"


class InFront(TyperCommand):
    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list[Any]:  # type: ignore[override]
        """Nothing after the agent's first word, so that the shell offers files there."""
        return [] if ctx.params.get("agent") else super().shell_complete(ctx, incomplete)

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                panel = getattr(param, "rich_help_panel", None)
                default = "Arguments" if param.param_type_name == "argument" else "Options"
                if panel is None or _ALL in ctx.meta:
                    sections.setdefault(panel or default, []).append(record)
        first = [name for name in ("Arguments", "Options") if name in sections]
        for name in [*first, *(name for name in sections if name not in first)]:
            with formatter.section(name):
                formatter.write_dl(sections[name])


def show_all(context: typer.Context, wanted: bool) -> None:
    """The callback of ``--help-all``."""
    if wanted:
        typer.echo(full_help(context))
        raise typer.Exit


def full_help(context: typer.Context) -> str:
    context.meta[_ALL] = True
    return context.get_help()
