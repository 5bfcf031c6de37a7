"""The real commands on a store, run by typer's runner."""

import json
from collections.abc import Mapping
from typing import Any

from typer.testing import CliRunner, Result

from acp_proxy.cli.app import app
from acp_proxy.store.proxy_store import ProxyStore


def invoke(*words: str, answer: str | bytes | None = None, variables: Mapping[str, str | None] | None = None) -> Result:
    """Run a command line of acp-proxy in this process; a bug in it fails the test. ``answer``: what is typed."""
    result = CliRunner().invoke(app, list(words), input=answer, env=variables)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def run(store: ProxyStore, *words: str, answer: str | bytes | None = None) -> Result:
    """Run a command of `sessions` on the store; what became of it."""
    return invoke(*words, "--store", str(store.root), answer=answer)


def get_stdout(store: ProxyStore, *words: str) -> str:
    """The stdout of a command that succeeds."""
    result = run(store, *words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


class Command:
    """A command, given by its first words."""

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, store: ProxyStore, *words: str) -> Result:
        return run(store, self._name, *words)

    def get_stdout(self, store: ProxyStore, *words: str) -> str:
        return get_stdout(store, self._name, *words)


def get_json(store: ProxyStore, *words: str) -> Any:
    """What a command prints with --json, parsed."""
    return json.loads(get_stdout(store, *words, "--json"))


def get_error(store: ProxyStore, *words: str) -> tuple[int, str]:
    """The exit code and the one line on stderr of a command that prints nothing."""
    result = run(store, *words)
    assert result.stdout == ""
    assert result.stderr.startswith("acp-proxy: ")
    return result.exit_code, result.stderr


def list_titles(store: ProxyStore) -> list[str]:
    """The titles of the list, in its order."""
    return [row["title"] for row in get_json(store, "list")]


def list_ids(store: ProxyStore, *words: str) -> list[str]:
    """The sessions of the list with these options, in its order."""
    result = run(store, "list", *words, "--json")
    session_ids = [row["sessionId"] for row in json.loads(result.stdout)]
    assert result.exit_code == (1 if words and not session_ids else 0)
    return session_ids
