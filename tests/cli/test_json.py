"""The same thing has the same JSON key in every command, and docs/json.md lists it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import get_json, get_stdout, run
from tests.stored import EPOCH, chunk, store_session

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\|`([^`]+)`\|(.*)\|$", re.MULTILINE)
COMMANDS = dict(re.findall(r"^### (.+)\n((?:(?!###).*\n)*)", PAGE, re.MULTILINE))
SESSION = {key for key, _ in ROW.findall(PAGE.partition("## By command")[0])}
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def store(tmp_path: Path) -> ProxyStore:
    store = ProxyStore(tmp_path / "store")
    updates = [chunk(f"{number} done " * 100) for number in range(10)]
    store_session(store, "s", (f"Mend it {TOKEN}", updates), error={"code": 1, "message": "no"}, at=EPOCH)
    store_session(store, "soft", ("Deleted", []), at=EPOCH + 1)
    get_stdout(store, "delete", "soft", "--soft", "--yes")
    return store


def list_documented_keys(command: str) -> set[str]:
    """The keys that the page lists for a command, in the first column of its tables."""
    cells = re.findall(r"^\|([^|]*)\|", COMMANDS[command], re.MULTILINE)
    paths = [path for cell in cells for path in re.findall(r"`([\w.\[\]]+)`", cell)]
    return {key for path in paths for key in re.findall(r"\w+", path)}


def keys_in(value: Any) -> set[str]:
    """All keys, at any depth; of objects with keys of an agent or client, none."""
    if isinstance(value, list):
        return set().union(*map(keys_in, value))
    if isinstance(value, dict):
        return set(value).union(*(keys_in(each) for key, each in value.items() if key not in ("masked", "cost")))
    return set()


def test_a_session_has_the_same_keys_in_every_command(store: ProxyStore) -> None:
    [listed] = get_json(store, "list")
    [hit] = get_json(store, "search", "mend")
    assert set(listed) == SESSION
    assert {key: hit[key] for key in listed} == listed
    [deleted] = get_json(store, "restore")
    assert set(deleted) == SESSION | {"deletedAt", "removedAt"}
    [restored] = get_json(store, "restore", "soft")
    assert {**restored, "transcript": ""} == {key: deleted[key] for key in restored} | {"transcript": ""}
    assert restored in get_json(store, "list")
    for row in get_json(store, "prune", "--keep", "0", "--dry-run")["sessions"]:
        [same] = [each for each in get_json(store, "list") if each["transcript"] == row["transcript"]]
        assert {key: row[key] for key in row if key not in ("bytes", "deletedAt")}.items() <= same.items()


@pytest.mark.parametrize(
    "words",
    [
        ("search", "mend"),
        ("restore",),
        ("prune", "--keep", "0", "--dry-run"),
        ("stats",),
        ("redact", "--dry-run"),
        ("compress", "--older-than", "0s", "--min-size", "1"),
    ],
    ids=" ".join,
)
def test_the_page_lists_every_key_of_a_command(store: ProxyStore, words: tuple[str, ...]) -> None:
    found = keys_in(get_json(store, *words))
    assert found
    if words[0] == "search":
        call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read", "kind": "read", "status": "completed"}
        store_session(store, "called", ("Read it", [call | {"locations": [{"path": "/project/a"}]}]))
        found |= keys_in(get_json(store, "search", "--tool", "read"))
    if words[0] == "stats":
        found |= keys_in([get_json(store, *words, "--by", by) for by in ("day", "project", "agent", "model")])
        found |= {"priced", "unpricedTokens", "modelsWithoutPrice"}  # only with a list of prices
    assert found <= SESSION | list_documented_keys(words[0])
    assert list_documented_keys(words[0]) <= found | SESSION | {"reason"}


def test_the_page_lists_every_key_of_damage(store: ProxyStore) -> None:
    path = store_session(store, "damaged", ("Break it", []))
    path.write_bytes(path.read_bytes() + b"garbage\n")
    (store.root / "unindexed" / "nobody").mkdir()
    (store.root / "foreign").touch()
    lines = [json.loads(line) for line in run(store, "verify", "--json").stdout.splitlines()]
    assert len(lines) > 1
    for line in lines:
        assert set(line) == list_documented_keys("verify")
        assert "" not in line.values()
