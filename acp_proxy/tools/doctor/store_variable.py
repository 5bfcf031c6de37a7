"""What to know of a store that a variable names, which this terminal has and an editor may not have."""

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from acp_proxy import shell_quote
from acp_proxy.cli.open_store import STORE_VARIABLE, find_root
from acp_proxy.errors import AcpProxyError


def explain_store_variable(environment: Mapping[str, str]) -> str | None:
    """What the variable changes here alone, and what to do; None if it changes nothing."""
    if not (place := environment.get(STORE_VARIABLE)):
        return None
    with suppress(AcpProxyError):  # what is wrong is reported elsewhere
        root = find_root(place)
        if root == find_root(""):
            return None
        if Path(tempfile.gettempdir()).resolve() in root.resolve().parents:
            return (
                f"{STORE_VARIABLE} leads to {place}, in the directory for temporary files, as that of acp-proxy demo "
                f"--keep does. Before you record sessions of your own, type: unset {STORE_VARIABLE}"
            )
    command = shell_quote.join(["acp-proxy", "config", "set", "store", place])
    return (
        f"{STORE_VARIABLE} is set to {place} here. An editor that does not have it, such as one started from a menu, "
        f"uses another store. To use this one everywhere: {command}"
    )
