"""What `run` loads of acp-proxy for a conversation and a load: `python -m benchmarks.loaded [PYTHON]`.

PYTHON: the interpreter of another checkout or environment; default: this one. Prints each module with its lines, and
names those that do not belong to the core, of which there should be none. Needs a C compiler, for the agent.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.build import ROOT, compiled

_IMPORTED = "import time:"  # what -X importtime writes for each module; the last word is its name
_CORE = frozenset(
    {"errors", "shell_quote", "config", "protocol", "transcript", "comparison", "redaction", "transcript_replay"}
)
_CORE |= {"store", "decisions", "recording", "relay", "invocation", "__main__", ""}
_PROMPT: dict[str, object] = {"sessionId": "bench-session-1", "prompt": [{"type": "text", "text": "Go on"}]}
_OPENED: dict[str, object] = {"cwd": "/bench", "mcpServers": []}
_REQUESTS: tuple[tuple[str, dict[str, object]], ...] = (
    ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
    ("session/new", _OPENED),
    ("session/prompt", _PROMPT),
    ("session/load", {"sessionId": "bench-session-1", **_OPENED}),  # the agent resumes it, and acp-proxy replays it
    ("session/prompt", _PROMPT),
    ("session/list", {}),
    ("session/delete", {"sessionId": "bench-session-1"}),
)


def find_loaded(python: str, agent: str, store: Path) -> dict[str, int]:
    """The names of acp-proxy's modules that one ``run`` imports until its end, each with the lines of its file."""
    command = [python, "-P", "-X", "importtime", "-m", "acp_proxy", "run", "--store", str(store), "--", agent]
    with (
        tempfile.TemporaryFile() as imports,  # a pipe would fill up before anybody reads it
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=imports) as proxy,
    ):
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        for id, (method, params) in enumerate(_REQUESTS):
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            proxy.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")  # the agent knows no spaces
            proxy.stdin.flush()
            if "result" not in _read_answer(proxy.stdout, id):
                raise RuntimeError(f"{method} was refused")
        proxy.stdin.close()
        proxy.wait()
        imports.seek(0)
        written = imports.read().decode()
    names = {line.rpartition("|")[2].strip() for line in written.splitlines() if line.startswith(_IMPORTED)}
    names = {name for name in names if name.partition(".")[0] == "acp_proxy"} | {"acp_proxy.__main__"}
    root = _find_package(python)
    return {name: _count_lines(root, name) for name in sorted(names)}


def find_foreign(names: Iterable[str]) -> list[str]:
    """Those of these modules that are not of the core."""
    return [name for name in names if f"{name}..".split(".")[1] not in _CORE]


def main() -> None:
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    with tempfile.TemporaryDirectory() as folder:
        found = find_loaded(python, compiled("agent", Path(folder)), Path(folder) / "store")
    for name, lines in found.items():
        print(f"{lines:6,} {name}")
    print(f"{len(found)} files, {sum(found.values()):,} lines")
    print(f"not of the core: {', '.join(find_foreign(found)) or 'none'}")


def _read_answer(lines: Iterable[bytes], id: int) -> dict[str, object]:
    for line in lines:
        message: dict[str, object] = json.loads(line)
        if message.get("id") == id and "method" not in message:
            return message
    raise RuntimeError("acp-proxy ended before it answered")


def _find_package(python: str) -> Path:
    code = "import acp_proxy; print(acp_proxy.__file__)"
    ran = subprocess.run([python, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return Path(ran.stdout.strip()).parent


def _count_lines(root: Path, name: str) -> int:
    path = root.joinpath(*name.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return len(path.read_bytes().splitlines())


if __name__ == "__main__":
    main()
