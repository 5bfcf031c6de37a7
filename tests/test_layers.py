"""Imports go one way. The tables are the rules; the checker names the file and the import that break one."""

import ast
import functools
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

PACKAGE = Path(__file__).parent.parent / "acp_proxy"

MAY_IMPORT: dict[str, set[str]] = {
    "__init__": {"api", "errors"},
    "errors": set(),
    "options": {"errors"},
    "config_file": {"options", "errors"},
    "agent_command": set(),
    "typed": set(),
    "wire": {"errors"},
    "titles": {"wire"},
    "history": {"wire", "errors"},
    "core": {"history", "titles", "wire", "errors"},
    "replay": {"titles", "typed", "wire", "errors"},
    "redaction": {"wire", "errors"},
    "transcripts": {"redaction", "titles", "typed", "wire", "errors"},
    "sync": {"transcripts", "typed", "wire", "errors"},
    "recording": {"core", "transcripts", "agent_command", "wire", "errors"},
    "demo": set(),
    "editors": {"typed", "wire", "errors", "options", "config_file"},
    "shell": {"recording", "core", "history", "redaction", "replay", "sync", "titles", "transcripts", "wire", "errors"}
    | {"options", "config_file"},
    "diagnosis": {"editors", "shell", "core", "history", "replay", "transcripts", "agent_command", "wire", "errors"}
    | {"options", "typed", "config_file"},
    "adoption": {"diagnosis", "editors", "core", "history", "redaction", "transcripts", "agent_command", "titles"}
    | {"wire", "errors"},
    "conversation": {"replay", "transcripts", "wire"},
    "api": {"conversation", "transcripts", "wire", "errors", "config_file"},
    "mock": {"replay", "transcripts", "wire", "errors"},
    "recall": {"api", "transcripts", "wire", "errors", "__init__"},
    "views": {"conversation", "diagnosis", "editors", "replay", "transcripts", "titles", "typed", "wire", "errors"},
    "cli": {
        "shell",
        "views",
        "adoption",
        "conversation",
        "diagnosis",
        "editors",
        "demo",
        "mock",
        "recall",
        "core",
        "redaction",
        "replay",
        "sync",
        "transcripts",
    }
    | {"agent_command", "titles", "typed", "wire", "errors", "options", "config_file"},
    "__main__": {"cli", "shell", "errors"},
}
STORE_PACKAGES: dict[str, set[str]] = {
    "__init__": set(),
    "files": set(),
    "lives": {"files"},
    "listing": {"files", "lives"},
    "search": {"files", "lives", "listing"},
    "upkeep": {"files", "lives", "listing", "search"},
    "opened": {"files", "lives", "listing"},
    "store": {"files", "lives", "listing", "opened"},
    "archive": {"files", "lives", "listing", "search", "upkeep", "opened"},
    "sharing": {"files", "lives", "listing", "opened"},
}
"""The packages of transcripts/, and its three interfaces."""
INTERFACES = {
    "store": {"recording", "shell", "sync"},
    "archive": {"adoption", "api", "cli", "conversation", "diagnosis", "mock", "recall", "views"},
    "sharing": {"sync"},
    "opened": {"shell"},
}
"""Who uses which interface of the store: a running proxy, commands, and sync. ``opened`` is for a proxy's start."""
FOR_RUN = "acp_proxy.sync.starting"
"""All that a running proxy uses of sync."""
ONLY_IN = {
    "anyio": {"mock"},
    "typer": {"cli", "views"},
    "mcp": {"recall"},
    "mcp_types": {"recall"},
    "pydantic": {"recall"},
    "rich": {"cli", "views"},
    "sqlite3": {"transcripts", "shell", "cli", "diagnosis", "sync"},
    "obstore": {"sync"},
    "nacl": {"sync"},
}
WORLD = {"asyncio", "datetime", "io", "os", "pathlib", "random", "secrets", "shutil", "socket", "sqlite3"}
WORLD |= {"subprocess", "tempfile", "threading", "time", "uuid"}
NOT_IN = {
    "core": WORLD,
    "history": WORLD,
    "redaction": WORLD,
    "replay": WORLD,
    "titles": WORLD,
    "agent_command": WORLD,
    "wire": WORLD - {"datetime", "io"},
}  # BytesIO cuts lines
FIRST_LOADED = """
import sys
from acp_proxy.shell import lasting, launch, proxy
from acp_proxy.cli import list_start
from acp_proxy.transcripts.listing import catalog, glance
lasting.load_telling()
print(*sys.modules)
"""
"""Prints what `run` loads at its start and for a first load, and what a plain list and completion load."""
COROUTINE = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)


def all_sources() -> dict[PurePath, str]:
    """The source of each file, by its path within the package."""
    return {file.relative_to(PACKAGE): file.read_text("utf-8") for file in sorted(PACKAGE.rglob("*.py"))}


@functools.cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Everything in a source, which several tests read."""
    return (*ast.walk(ast.parse(source)),)


def violations(file: PurePath, source: str) -> Iterator[str]:
    """The violations in a file (its path is relative to the package), as sentences."""
    package, inner, *_ = [part.removesuffix(".py") for part in (*file.parts, "")]
    if package not in MAY_IMPORT or (package == "transcripts" and inner not in STORE_PACKAGES):
        yield f"{file} has no place in the table"
        return
    for node in nodes(source):
        names = imported(file, node)
        yield from (f"{file} imports {name}" for name in names if not allowed(package, name))
        if package == "transcripts":
            yield from (f"{file} imports {name}" for name in names if not allowed_inside(inner, name))
        if package == "core" and isinstance(node, COROUTINE):
            yield f"{file} waits: core decides and returns"
        if (
            package in NOT_IN
            and isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "open"
        ):
            yield f"{file} opens a file"


def allowed(package: str, name: str) -> bool:
    top, inner, *_ = [*name.split("."), ""]
    if top == "acp_proxy":
        if inner == "transcripts" and package in MAY_IMPORT and inner in MAY_IMPORT[package]:
            return package in INTERFACES.get(name.split(".")[2] if name.count(".") > 1 else "", ())
        if (package, inner) == ("shell", "sync"):
            return name.startswith(FOR_RUN)
        return inner not in MAY_IMPORT or inner in MAY_IMPORT[package] | {package, "__init__"}
    return package in ONLY_IN.get(top, {package}) and top not in NOT_IN.get(package, ())


def allowed_inside(package: str, name: str) -> bool:
    """Whether a package of transcripts/ may import this name; names outside transcripts/ are allowed."""
    top, outer, inner, *_ = [*name.split("."), "", ""]
    return (top, outer) != ("acp_proxy", "transcripts") or inner in STORE_PACKAGES[package] | {package}


def circle(sources: dict[PurePath, str]) -> list[str]:
    """The modules of an import cycle, imports within functions included; empty if there is none."""
    modules = {".".join(("acp_proxy", *file.with_suffix("").parts)).removesuffix(".__init__"): file for file in sources}

    def module_of(name: str) -> str:
        while name and name not in modules:
            name = name.rpartition(".")[0]
        return name

    graph = {
        module: {
            found
            for node in nodes(sources[file])
            for name in imported(file, node)
            if (found := module_of(name)) not in ("", module)
        }
        for module, file in modules.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as problem:
        return list(problem.args[1])
    return []


def uses(source: str, module: str) -> bool:
    """Whether a file imports this module, or something out of it."""
    return any(
        name == module or name.startswith(f"{module}.") for node in nodes(source) for name in imported(PurePath(), node)
    )


def imported(file: PurePath, node: ast.AST) -> list[str]:
    """The full names of the modules and members that an import statement imports."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            here = ("acp_proxy", *file.parts[:-1])
            base = here[: len(here) + 1 - node.level] if node.level else ()
            return [".".join(filter(None, (*base, node.module, alias.name))) for alias in node.names]
        case _:
            return []


def test_every_import_follows_the_tables() -> None:
    broken = [words for file, source in all_sources().items() for words in violations(file, source)]
    assert not broken, "\n".join(broken)


def test_there_are_no_import_cycles() -> None:
    assert not (found := circle(all_sources())), " -> ".join(found)


def test_an_import_cycle_is_reported_with_its_modules() -> None:
    one, other = PurePath("wire/one.py"), PurePath("wire/other.py")
    sources = {one: "from acp_proxy.wire.other import Other", other: "def late():\n    from acp_proxy.wire import one"}
    assert set(circle(sources)) == {"acp_proxy.wire.one", "acp_proxy.wire.other"}
    assert circle(sources | {other: "from acp_proxy import wire"}) == []


def test_what_run_and_a_list_load_first_has_values_and_all_else_has_dataclasses() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_LOADED], capture_output=True, text=True, timeout=60, check=True)
    first = {name for name in done.stdout.split() if name.startswith("acp_proxy.")}
    assert {"acp_proxy.core.interceptor", "acp_proxy.replay.telling"} <= first
    broken = []
    for file, source in all_sources().items():
        module = ".".join(("acp_proxy", *file.with_suffix("").parts))
        other = "dataclasses" if module in first else "acp_proxy.wire.value"
        if uses(source, other) and module != "acp_proxy.shell.launch":  # that only asks for the check
            broken.append(f"{file} imports {other}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("wire/jsonrpc.py", "from acp_proxy.core import ledger"),
        ("wire/jsonrpc.py", "from ..core.ledger import Ledger"),
        ("core/ledger.py", "import acp_proxy.transcripts.store"),
        ("core/ledger.py", "from acp_proxy import replay"),
        ("replay/compose.py", "from .. import transcripts"),
        ("transcripts/store.py", "from acp_proxy.replay import compose"),
        ("errors.py", "from .wire import acp"),
        ("options.py", "import acp_proxy.wire.acp"),
        ("demo/agent.py", "from acp_proxy.transcripts.store import Store"),
        ("mock/playing_agent.py", "from acp_proxy.demo.client import Client"),
        ("shell/relay.py", "from acp_proxy.cli.app import app"),
        ("cli/app.py", "from acp_proxy.__main__ import main"),
        ("core/ledger.py", "def later():\n    import anyio.abc"),
        ("shell/relay.py", "import anyio"),
        ("shell/relay.py", "import typer"),
        ("demo/agent.py", "from rich.console import Console"),
        ("core/ledger.py", "from time import monotonic"),
        ("replay/compose.py", "import os.path"),
        ("wire/record.py", "import sqlite3"),
        ("wire/record.py", "open('x')"),
        ("core/interceptor.py", "async def decide(): ..."),
        ("helpers.py", ""),
        ("transcripts/helpers.py", ""),
        ("transcripts/files/names.py", "from acp_proxy.transcripts.lives import deleting"),
        ("transcripts/lives/forks.py", "def late():\n    from acp_proxy.transcripts.listing.index import Index"),
        ("transcripts/listing/catalog.py", "from ..search.searching import Progress"),
        ("transcripts/search/words.py", "import acp_proxy.transcripts.upkeep.damage"),
        ("transcripts/upkeep/pruning.py", "from acp_proxy.transcripts.archive import Archive"),
        ("transcripts/store.py", "from acp_proxy.transcripts.archive import Archive"),
        ("shell/finding.py", "from acp_proxy.transcripts.files.reading import Reading"),
        ("recording/files.py", "from acp_proxy.transcripts.archive import Archive"),
        ("cli/storing.py", "from acp_proxy.transcripts.store import Store"),
        ("shell/serving.py", "from acp_proxy.sync.joined import JoinedStore"),
        ("views/session_list.py", "from acp_proxy import transcripts"),
    ],
)
def test_the_checker_names_the_file_that_breaks_a_rule(file: str, source: str) -> None:
    [broken] = violations(PurePath(file), source)
    assert broken.startswith(file)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("wire/record.py", "from datetime import datetime\nfrom .framing import feed\nfrom ..errors import ProxyError"),
        ("shell/relay.py", "import os, psutil\nfrom acp_proxy import __version__\nfrom acp_proxy.core import events"),
        ("__main__.py", "def main():\n    from acp_proxy.cli.app import app"),
        ("cli/app.py", "import typer\nfrom acp_proxy.demo import agent\nfrom . import sessions"),
        ("cli/storing.py", "from acp_proxy.transcripts.archive import Archive"),
        ("shell/lasting.py", "from acp_proxy.sync import starting\nfrom acp_proxy.transcripts import store"),
        ("transcripts/search/words.py", "from acp_proxy.transcripts.files import names"),
        ("transcripts/archive.py", "from acp_proxy.transcripts.upkeep import pruning"),
    ],
)
def test_allowed_imports_pass(file: str, source: str) -> None:
    assert list(violations(PurePath(file), source)) == []
