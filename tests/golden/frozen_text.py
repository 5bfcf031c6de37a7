"""Everything that can be seen of a conversation behind acp-proxy, as one text that is always the same.

A plan of the simulation is held through acp-proxy. The text has what the client got, the transcripts, their replays for
clients of both versions of the protocol, and what the commands print about the store. Times, ids made by chance, and
versions of acp-proxy are replaced by their kind.
"""

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from acp_proxy import open_store
from acp_proxy.cli.app import app
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript_replay.replayer import Mode
from simulation.agent import Agent, Message
from simulation.links import Link, Proxied
from simulation.plan import Plan
from simulation.v2 import V2Agent, V2Link
from simulation.world import World

_CHANGING = (
    (re.compile(r'("uid":)"[0-9a-f]+"'), r'\1"UID"'),
    (re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "TIME"),
    (re.compile(r"\b20\d\d-\d\d-\d\d[ ,]+\d\d:\d\d(:\d\d)?( [A-Z+:0-9]+\b)?"), "TIME"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r'("acp-proxy":)"[^"]*"'), r'\1"VERSION"'),
)
_RUN = re.compile(r'"run":"([^"]+)"')
_REPLAYS: list[tuple[int, Mode]] = [(1, "compact"), (1, "full"), (2, "compact"), (2, "full")]


class _Noted(Link):
    """A link, and what the client got from it."""

    def __init__(self, link: Link, got: list[Message]) -> None:
        self._link = link
        self._got = got

    def send(self, message: Message) -> None:
        self._link.send(message)

    def receive(self) -> Message:
        return self._noted([self._link.receive()])[0]

    def end(self) -> list[Message]:
        return self._noted(self._link.end())

    def kill(self, side: str, agent: int) -> list[Message]:
        return self._noted(self._link.kill(side, agent))

    def _noted(self, messages: list[Message]) -> list[Message]:
        self._got += [each for each in messages if not str(each.get("id", "")).startswith("sync-")]
        return messages


class _Silent(Agent):
    """An agent that takes every session and replays nothing, in either version."""

    def __init__(self, info: Message) -> None:
        """``info``: what it says of itself."""
        self._info = info

    def hear(self, message: Message) -> list[Message]:
        if "id" not in message or "method" not in message:
            return []
        result: Message = {}
        if message["method"] == "initialize":
            is_v2 = message["params"]["protocolVersion"] == 2
            result = {"protocolVersion": 2, "capabilities": {"session": {}}} if is_v2 else dict(_V1)
            if self._info:
                result["info" if is_v2 else "agentInfo"] = self._info
        return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]

    def end(self, *, killed: bool) -> None:
        pass


_V1 = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}


def freeze(plan: Plan, root: Path) -> str:
    """The text of a plan. ``root``: an empty directory for its stores."""
    store = root / "store"
    got: dict[str, list[Message]] = {}

    def connect(agent: Agent) -> Link:
        heard = got.setdefault(f"process {len(got) + 1}", [])
        if agent.habits.version == 2:
            return V2Link(_Noted(Proxied(ProxyStore(store), V2Agent(agent), plan.options), heard))
        return _Noted(Proxied(ProxyStore(store), agent, plan.options), heard)

    world = World(plan, connect)
    for at, step in enumerate(plan.steps):
        world.do(at, step)
    world.close()
    sections = [(f"what the client of {name} got", _lines(messages)) for name, messages in got.items()]
    sections += list(_described(store, root, sorted(set(world.ids.values())), plan.habits.info))
    return join_sections(sections, root)


def join_sections(sections: Iterable[tuple[str, str]], root: Path) -> str:
    """The text of sections, each with a name, without what differs from run to run."""
    text = "\n".join(f"=== {name}\n{text.rstrip()}\n" for name, text in sections).replace(str(root), "ROOT")
    for run in sorted({*_RUN.findall(text)} - {"forged"}):
        text = text.replace(run, "RUN")
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return text


def _described(store: Path, root: Path, ids: list[str], info: Message) -> Iterator[tuple[str, str]]:
    for path in sorted(store.glob("transcripts/*/*.jsonl")):
        yield f"transcript {path.relative_to(store)}", path.read_text(encoding="utf-8", errors="surrogateescape")
    seen: dict[str, str] = {}
    for version, mode in _REPLAYS:
        copy = root / f"{version}-{mode}"
        shutil.copytree(store, copy)
        name, text = f"{mode} replay for version {version}", _lines(list(_replays(copy, version, mode, ids, info)))
        yield name, f"(the same as the {seen[text]})" if text in seen else text
        seen.setdefault(text, name)
    yield from commands(store)


def commands(store: Path, *, verifies: bool = False) -> Iterator[tuple[str, str]]:
    """What the commands print about a store and its sessions."""
    name, rows = _printed(store, "list")
    yield name, "\n".join(sorted(rows.splitlines()))  # sessions of the same millisecond have no order
    name, rows = _printed(store, "list", "--json")
    listed, end = json.JSONDecoder().raw_decode(rows or "[]")  # what stderr says follows
    yield name, _lines(sorted(listed, key=lambda row: (row["sessionId"], row["transcript"]))) + rows[end:]
    if verifies:
        yield _printed(store, "verify")
    for session in sorted({each.id for each in open_store(store).sessions()} if store.exists() else ()):
        yield _printed(store, "show", session)
        yield _printed(store, "export", session, "--format", "md", "--thoughts")
        yield _printed(store, "export", session, "--format", "json")


def _replays(store: Path, version: int, mode: Mode, ids: list[str], info: Message) -> Iterator[Message]:
    link = Proxied(ProxyStore(store), _Silent(info), {"load": "store", "resume": "store"}, mode)
    can = "clientCapabilities" if version == 1 else "capabilities"
    link.send(_request(0, "initialize", {"protocolVersion": version, can: {"session": {"compaction": {}}}}))
    yield from _until(link, 0)
    for number, id in enumerate(ids, 1):
        params: Message = {"sessionId": id, "cwd": "/w", "mcpServers": []}
        if version == 1:
            link.send(_request(number, "session/load", params))
        else:
            link.send(_request(number, "session/resume", {**params, "replayFrom": {"type": "start"}}))
        yield from _until(link, number)
    yield from link.end()


def _until(link: Link, id: int) -> Iterator[Message]:
    while True:
        message = link.receive()
        yield message
        if message.get("id") == id and "method" not in message:
            return


def _request(id: int, method: str, params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def _printed(store: Path, *words: str) -> tuple[str, str]:
    result = CliRunner().invoke(app, [*words, "--store", str(store)], env={"COLUMNS": "120", "TZ": "UTC"})
    status = f"\nstatus {result.exit_code}" if result.exit_code else ""
    return f"acp-proxy {' '.join(words)}", f"{result.stdout}{result.stderr}{status}"


def _lines(messages: list[Message]) -> str:
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in messages)
