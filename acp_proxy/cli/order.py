"""The order in which a group's help lists its commands: what is wanted often and first, before the rest."""

from typing import ClassVar

import typer
from typer.core import TyperGroup


class Ordered(TyperGroup):
    """A command that is not in the order comes at the end."""

    order: ClassVar[tuple[str, ...]] = ()

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        names = list(super().list_commands(ctx))
        return sorted(names, key=lambda name: self.order.index(name) if name in self.order else len(self.order))


class Main(Ordered):
    order = ("run", "editor", "doctor", "sessions", "replay", "mock-agent", "chain", "demo")


class Sessions(Ordered):
    order = (
        *("list", "show", "search", "stats", "path"),
        *("rename", "delete", "restore", "prune"),
        *("export", "import"),
        *("verify", "repair", "redact", "compact"),
    )
