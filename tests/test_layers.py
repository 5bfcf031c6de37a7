"""Imports go one way. The tables are the rules; the checker names the file and the import that break one."""

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

PACKAGE = Path(__file__).parent.parent / "acp_proxy"

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "shell_quote": set(),
    "invocation": set(),
    "installation": {"shell_quote", "invocation"},
    "config": {"errors"},
    "protocol": {"errors"},
    "transcript": {"protocol", "shell_quote", "errors"},
    "redaction": {"transcript", "protocol", "errors"},
    "comparison": {"transcript", "protocol", "errors"},
    "transcript_replay": {"transcript", "protocol", "shell_quote", "errors"},
    "store": {"redaction", "transcript", "protocol", "shell_quote", "errors"},
    "decisions": {"comparison", "transcript", "protocol", "errors"},
    "recording": {"decisions", "store", "transcript", "protocol", "errors"},
    "sessions": {"store", "transcript", "protocol", "errors"},
    "views": {"transcript_replay", "sessions", "store", "redaction", "transcript", "protocol", "shell_quote", "errors"},
    "api": {"views", "sessions", "store", "transcript", "protocol", "config", "errors"},
    "relay": {
        "recording",
        "decisions",
        "store",
        "transcript_replay",
        "comparison",
        "redaction",
        "transcript",
        "protocol",
        "config",
    }
    | {"shell_quote", "invocation", "installation", "errors"},
    "cli": {
        "relay",
        "views",
        "sessions",
        "store",
        "redaction",
        "transcript",
        "protocol",
        "config",
        "shell_quote",
        "invocation",
        "installation",
        "errors",
        "__init__",
    },
    "tools": {"cli", "api", "relay", "recording", "views", "decisions", "sessions", "store", "transcript_replay"}
    | {"comparison", "redaction", "transcript", "protocol", "config", "shell_quote", "invocation", "installation"}
    | {"errors", "__init__"},
    "__init__": {"api", "errors"},
    "__main__": {"tools", "cli", "relay", "errors", "__init__"},
}
"""Each package or module, and what it may import. Outside of the core are sessions, views, api, cli and tools."""
TOOLS_MAY_IMPORT = {
    "adopt": {"doctor", "editors", "redact", "export", "registry"},
    "blame": {"changes", "search"},
    "browse": {"search", "show", "export", "changes"},
    "continue_session": {"doctor", "editors", "registry"},
    "doctor": {"editors", "registry"},
    "editors": {"registry"},
    "setup": {"doctor", "editors", "registry"},
    "maintenance": {"search", "sync"},
    "export": {"redact", "stats", "changes"},
    "show": {"changes"},
    "recall": {"search"},
    "search": {"changes"},
    "sync": {"redact"},
    "web": {"export", "search", "stats"},
}
"""The tools that use a public function of another one."""
TRANSCRIPT_FORMAT = {"file_format", "titles", "chunk_runs", "v2_entries", "rewinds", "handover_record_text"}
"""What ``comparison``, ``transcript_replay`` and ``decisions`` may import of ``transcript``: the rest reads and writes
files."""
ONLY_IN = {
    "anyio": {"tools.mock_agent"},
    "starlette": {"tools.web"},
    "uvicorn": {"tools.web"},
    "typer": {"cli", "views", "tools"},
    "mcp": {"tools.recall"},
    "mcp_types": {"tools.recall"},
    "pydantic": {"tools.recall"},
    "rich": {"cli", "views", "tools"},
    "sqlite3": {"store", "sessions", "relay", "cli", "tools"},
    "obstore": {"tools.sync"},
    "nacl": {"tools.sync"},
}
"""Libraries, and the only packages that may import them."""
WORLD = {"asyncio", "datetime", "io", "os", "pathlib", "random", "secrets", "shutil", "socket", "sqlite3"}
WORLD |= {"subprocess", "tempfile", "threading", "time", "uuid"}
PURE = {
    "comparison": WORLD,
    "decisions": WORLD,
    "redaction": WORLD,
    "transcript_replay": WORLD,
    "protocol": WORLD - {"datetime", "io"},  # BytesIO cuts lines
}
"""Packages that touch no file, clock or thread, and the modules that they may not import."""
COROUTINE = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)


def all_sources() -> dict[PurePath, str]:
    """The source of each file, by its path within the package."""
    return {file.relative_to(PACKAGE): file.read_text("utf-8") for file in sorted(PACKAGE.rglob("*.py"))}


@functools.cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """What the checks look at in a source, which several tests read. All nodes would be 70 MB more."""
    looked_at = (ast.Import, ast.ImportFrom, ast.Call, *COROUTINE)
    return (*(node for node in ast.walk(ast.parse(source)) if isinstance(node, looked_at)),)


def violations(file: PurePath, source: str) -> Iterator[str]:
    """The violations in a file (its path is relative to the package), as sentences."""
    package = file.parts[0].removesuffix(".py")
    if package not in MAY_IMPORT:
        yield f"{file} has no place in the table"
        return
    for node in nodes(source):
        yield from (f"{file} imports {name}" for name in list_imported(file, node) if not is_allowed(file, name))
        if package == "decisions" and isinstance(node, COROUTINE):
            yield f"{file} waits: decisions/ decides and returns"
        if (
            package in PURE
            and isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "open"
        ):
            yield f"{file} opens a file"


def is_allowed(file: PurePath, name: str) -> bool:
    package, inner, *_ = [part.removesuffix(".py") for part in (*file.parts, "")]
    top, imports, part, *_ = [*name.split("."), "", ""]
    if top != "acp_proxy":
        places = ONLY_IN.get(top)
        is_placed = places is None or bool(places & {package, f"{package}.{inner}"})
        return is_placed and top not in PURE.get(package, ())
    if package == imports == "tools":
        return part in TOOLS_MAY_IMPORT.get(inner, set()) | {inner}
    if package in ("comparison", "transcript_replay", "decisions") and imports == "transcript":
        return part in TRANSCRIPT_FORMAT
    return imports not in MAY_IMPORT or imports in MAY_IMPORT[package] | {package, "__init__"}


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
            for name in list_imported(file, node)
            if (found := module_of(name)) not in ("", module)
        }
        for module, file in modules.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as problem:
        return list(problem.args[1])
    return []


def list_imported(file: PurePath, node: ast.AST) -> list[str]:
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
    one, other = PurePath("protocol/one.py"), PurePath("protocol/other.py")
    sources = {
        one: "from acp_proxy.protocol.other import Other",
        other: "def late():\n    from acp_proxy.protocol import one",
    }
    assert set(circle(sources)) == {"acp_proxy.protocol.one", "acp_proxy.protocol.other"}
    assert circle(sources | {other: "from acp_proxy import wire"}) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("protocol/jsonrpc.py", "from acp_proxy.decisions import open_requests"),
        ("protocol/jsonrpc.py", "from ..decisions.open_requests import OpenRequests"),
        ("decisions/open_requests.py", "import acp_proxy.store.proxy_store"),
        ("decisions/open_requests.py", "from acp_proxy import transcript_replay"),
        ("decisions/connection.py", "from acp_proxy.transcript.reader import TranscriptReader"),
        ("transcript_replay/entry_updates.py", "from .. import store"),
        ("store/proxy_store.py", "from acp_proxy.transcript_replay import entry_updates"),
        ("store/proxy_store.py", "from acp_proxy.sessions import soft_deleted"),
        ("sessions/command_store.py", "from acp_proxy.tools.search import search"),
        ("errors.py", "from .protocol import acp"),
        ("config/options.py", "import acp_proxy.protocol.acp"),
        ("tools/demo/agent.py", "from acp_proxy.tools.search.search import Hit"),
        ("tools/search/command.py", "from acp_proxy.tools.export.command import export"),
        ("relay/relay.py", "from acp_proxy.cli.app import app"),
        ("relay/run_command.py", "def launch():\n    from acp_proxy.tools.chain import chain"),
        ("cli/app.py", "from acp_proxy.__main__ import main"),
        ("cli/app.py", "from acp_proxy.tools.demo import agent"),
        ("decisions/open_requests.py", "def later():\n    import anyio.abc"),
        ("relay/relay.py", "import anyio"),
        ("relay/relay.py", "import typer"),
        ("tools/demo/agent.py", "import mcp"),
        ("decisions/open_requests.py", "from time import monotonic"),
        ("transcript_replay/entry_updates.py", "import os.path"),
        ("protocol/acp.py", "import sqlite3"),
        ("transcript_replay/entry_updates.py", "open('x')"),
        ("decisions/connection.py", "async def decide(): ..."),
        ("helpers.py", ""),
    ],
)
def test_the_checker_names_the_file_that_breaks_a_rule(file: str, source: str) -> None:
    [broken] = violations(PurePath(file), source)
    assert broken.startswith(file)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("transcript/file_format.py", "from datetime import datetime\nfrom ..errors import AcpProxyError"),
        (
            "decisions/connection.py",
            "from acp_proxy.transcript import file_format\nfrom acp_proxy.comparison import comparison",
        ),
        (
            "relay/relay.py",
            "import os, psutil\nfrom acp_proxy import __version__\nfrom acp_proxy.decisions import events",
        ),
        ("__main__.py", "def main():\n    from acp_proxy.cli.app import app"),
        ("cli/open_store.py", "import typer\nfrom acp_proxy.sessions.command_store import Archive"),
        ("tools/doctor/report.py", "from acp_proxy.tools.editors import configured\nfrom . import probe"),
        ("tools/recall/server.py", "import mcp"),
        ("relay/run_command.py", "from acp_proxy.store import proxy_store"),
    ],
)
def test_allowed_imports_pass(file: str, source: str) -> None:
    assert list(violations(PurePath(file), source)) == []
