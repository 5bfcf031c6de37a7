"""A deleted session leaves no word in any file of the store.

Every session is searched before its delete, so that its words are in the search tables too. These omit what a word
shares with the one before it in the alphabet, so the end of each word is looked for.

Every prompt has a unique word, which the agent repeats in texts, titles, plans, tool calls, their ids and images; the
session's directory has one in its name. After a delete, every byte of every file of the store is searched. Lost: a word
that is still there, an incomplete session that was not deleted, and a deleted one that is listed.
"""

import contextlib
import json
import os
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.client import OutputEnded, RequestFailed, prompt_params
from tests.end_to_end.proxied import PROXY, Editor, Proxied, say
from tests.stored import WholeStore
from torture import faults
from torture.faults import Disk
from torture.outcome import Outcome, Scale

_SECONDS = 30
_COMMON = len("secret") + 8
"""The part of a word after this length is unique."""
_TEXT = {"type": "text", "text": "{prompt}"}


def _update(name: str, **fields: Any) -> dict[str, Any]:
    return {"update": {"sessionUpdate": name, **fields}}


_SCRIPT = {
    "turns": [
        [
            {"echo_prompt": True},
            say("I heard: {prompt}"),
            _update("agent_thought_chunk", content=_TEXT),
            _update("plan", entries=[{"content": "{prompt}", "priority": "high", "status": "pending"}]),
            _update(
                "tool_call",
                toolCallId="{prompt}",
                title="{prompt}",
                kind="read",
                status="completed",
                content=[{"type": "content", "content": _TEXT}],
                rawOutput={"of the tool": "{prompt}"},
                locations=[{"path": "/{prompt}"}],
            ),
            _update("agent_message_chunk", content={"type": "image", "mimeType": "image/png", "data": "{prompt}"}),
            _update("session_info_update", title="{prompt}", _meta={"{prompt}": "{prompt}"}),
        ]
    ]
}


class Sessions:
    """Sessions of several editors in one store, and the words in each."""

    def __init__(self, scale: Scale, name: str) -> None:
        base = scale.place / name
        base.mkdir()
        self.proxied = Proxied(base)
        self.store = self.proxied.store
        self.words: dict[str, list[bytes]] = {}
        self._script = self.proxied.script(_SCRIPT)
        self._chance = scale.chance(name)

    def editor(self, *capabilities: str, **options: Any) -> Editor:
        given = ["--capabilities", ",".join(("resume", *capabilities))]
        editor = self.proxied.editor(agent=["--script", str(self._script), *given], **options)
        editor.initialize()
        return editor

    def open(self, editor: Editor) -> str:
        word = self.word()
        directory = self.proxied.base / word
        directory.mkdir()
        session = editor.new_session(cwd=str(directory))
        self.words[session] = [word.encode()]
        return session

    def prompt(self, editor: Editor, session: str) -> bytes:
        word = self.word()
        editor.request("session/prompt", prompt_params(session, word))
        self.words[session].append(word.encode())
        return word.encode()

    def word(self) -> str:
        return f"secret{self._chance.getrandbits(80):020x}"

    def left(self, words: list[bytes]) -> list[str]:
        """The files that still contain any of the words."""
        return [
            f"{path.relative_to(self.store)}: {word.decode()}"
            for path in self.store.rglob("*")
            for word in words
            if word[_COMMON:] in os.fsencode(path.name) or (path.is_file() and word[_COMMON:] in _read(path))
        ]

    def search(self, word: bytes) -> list[str]:
        """The sessions in which the command line finds it."""
        found = _command(self, "search", word.decode(), "--json")
        return [load["sessionId"] for load in json.loads(found)] if found else []

    def close(self) -> None:
        self.proxied.close()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # a file of the index, meanwhile
        return b""


def run(scale: Scale) -> Iterator[Outcome]:
    parts = [_in_every_way, _while_others_read, _at_random]
    if faults.are_available():
        parts.append(_killed)
    with ThreadPoolExecutor(scale.of(1, len(parts))) as at_once:
        yield from at_once.map(lambda part: part(scale), parts)


def _in_every_way(scale: Scale) -> Outcome:
    """Deletes over the wire, by an agent with its own delete, and from the command line; forks stay."""
    here, trouble, checked = Sessions(scale, "ways"), [], 0

    def by_wire(editor: Editor, session: str) -> None:
        editor.request("session/delete", {"sessionId": session})

    def by_command(_: Editor, session: str) -> None:
        _command(here, "delete", session, "--permanent", "--yes", "--force")

    ways: list[tuple[tuple[str, ...], Callable[[Editor, str], None]]] = [
        (("fork",), by_wire),
        (("fork", "delete"), by_wire),
        (("fork", "list", "load"), by_command),
    ]
    times = 0
    if scale.short:
        ways = ways[1:2]
    try:
        for capabilities, delete in ways:
            editor = here.editor(*capabilities)
            kept = here.open(editor)
            here.prompt(editor, kept)
            for _ in range(scale.of(20, 1)):
                session = here.open(editor)
                here.prompt(editor, session)
                place = {"sessionId": session, "cwd": str(here.proxied.project), "mcpServers": []}
                fork = editor.request("session/fork", place)["sessionId"]
                here.prompt(editor, session)
                editor.sessions()
                if here.search(here.words[session][-1]) != [session]:
                    trouble.append(f"{session} is not found by a search")
                shared, own = here.words[session][:2], here.words[session][2:]  # the directory and the first words
                delete(editor, session)
                editor.sessions()
                trouble += here.left(own)
                if here.search(own[-1]):
                    trouble.append(f"{session} is found by a search")
                trouble += here.left(own)
                if not here.left(shared):
                    trouble.append("a fork has lost what it began with")
                by_wire(editor, fork)
                editor.sessions()
                trouble += here.left(here.words[session])
                checked += 3
                times += 2
            if not all(here.left([word]) for word in here.words[kept]):
                trouble.append("a session that was not deleted is not whole")
            editor.end()
    finally:
        here.close()
    return Outcome(
        "deleted by the editor, the agent or the command line",
        times,
        checked,
        "words",
        lost=len(trouble),
        trouble=tuple(trouble),
    )


def _while_others_read(scale: Scale) -> Outcome:
    """A reader is in the middle of a query of the index when the session is deleted."""
    here, trouble, times = Sessions(scale, "readers"), [], scale.of(30, 1)
    before = 0
    try:
        editor, other = here.editor(), here.editor()
        for _ in range(times):
            session = here.open(editor)
            here.prompt(editor, session)
            editor.sessions()
            here.search(here.words[session][-1])
            reader = sqlite3.connect(here.store / "index.sqlite3", isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM transcripts").fetchall()
            editor.request("session/delete", {"sessionId": session})
            if session in [row["sessionId"] for row in [*editor.sessions(), *other.sessions()]]:
                trouble.append(f"{session} is listed")
            found = here.left(here.words[session])
            before += bool(found)
            trouble += [one for one in found if not one.startswith("index.sqlite3")]
            reader.execute("COMMIT")
            other.sessions()  # the next list
            trouble += here.left(here.words[session])
            reader.close()
    finally:
        here.close()
    return Outcome(
        "deleted while another process reads the index",
        times,
        times * 2,
        "words",
        lost=len(trouble),
        also=f"{before:,} times left in the index or its log until that process was done",
        trouble=tuple(trouble),
    )


def _at_random(scale: Scale) -> Outcome:
    """Three editors prompt, list, load and delete at random; a deleted session may be revived."""
    here, trouble, times = Sessions(scale, "random"), list[str](), scale.of(150, 6)
    lock = threading.Lock()
    gone: list[bytes] = []
    sessions: dict[str, list[bytes]] = {}

    def work(number: int) -> None:
        chance, editor, known = scale.chance("editor", number), here.editor(), set[str]()
        try:
            for _ in range(times):
                with lock:
                    if len(sessions) < 4:
                        session = here.open(editor)
                        sessions[session] = list(here.words[session])
                    session = chance.choice(list(sessions))
                    word = here.word()
                what = chance.choice(("prompt", "prompt", "prompt", "list", "load", "search", "delete"))
                if what == "prompt":
                    if session not in known:  # each agent must learn of a session once
                        known.add(session)
                        editor.load(session)
                    with contextlib.suppress(RequestFailed):  # it was deleted before it could be loaded
                        editor.request("session/prompt", prompt_params(session, word))
                    with lock:
                        sessions.setdefault(session, []).append(word.encode())
                elif what == "delete":
                    with lock:
                        said = sessions.pop(session, [])
                    editor.request("session/delete", {"sessionId": session})
                    with lock:
                        gone.extend(said)
                elif what == "list":
                    editor.sessions()
                elif what == "search":
                    here.search(word.encode())
                else:
                    editor.load(session)
            editor.end()
        except Exception as problem:  # noqa: BLE001 - told with the outcome
            trouble.append(f"{type(problem).__name__}: {problem}")

    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        alive = {row.session_id for row in WholeStore(here.store).list_all()}
        # The first word names the session's directory, which a revived session still has.
        directories = [here.words[session][0] for session in alive]
        words = [word for word in gone if word not in directories]
        trouble += here.left(words)
    finally:
        here.close()
    return Outcome(
        "three editors prompt, list, load and delete the same sessions",
        times * 3,
        len(words),
        "words",
        lost=len(trouble),
        trouble=tuple(trouble),
    )


def _killed(scale: Scale) -> Outcome:
    """SIGKILL before each system call of a delete, by a proxy and by the command line."""
    here, trouble, checked, died = Sessions(scale, "killed"), [], 0, 0
    disk = Disk(scale.place, here.store)
    try:
        keeper = here.editor()
        steps = [(first, way) for first in range(1, 31) for way in ("wire", "command")]
        if scale.short:
            steps = scale.chance("steps").sample(steps, 1)
        for first, way in steps:
            sessions = [here.open(keeper) for _ in range(2)]
            for session in sessions:
                here.prompt(keeper, session)
            keeper.sessions()
            session, kept = sessions
            here.search(here.words[session][-1])
            if way == "wire":
                editor = here.editor(env=disk.env)
                with disk.kills(faults.CHANGES, faults.ALL_FILES, first), contextlib.suppress(OutputEnded):
                    editor.request("session/delete", {"sessionId": session})
                    editor.end()
                died += disk.hit_count > 0
                editor.close()
            else:
                with disk.kills(faults.CHANGES, faults.ALL_FILES, first):
                    _command(here, "delete", session, "--permanent", "--yes", "--force", env=disk.env)
                died += disk.hit_count > 0
            store = WholeStore(here.store)
            session_ids = {row.session_id for row in store.list_all()}
            left = here.left(here.words[session])
            deleted = any(session in store.read_deleted(agent) for agent in store.list_agents())
            if deleted and (left or session in session_ids):
                trouble.append(f"killed before call {first} ({way}): deleted, and {left or 'listed'}")
            if not deleted and (session not in session_ids or len(left) < len(here.words[session])):
                trouble.append(f"killed before call {first} ({way}): not deleted, and not whole")
            if kept not in session_ids or not all(here.left([word]) for word in here.words[kept]):
                trouble.append(f"killed before call {first} ({way}): another session is not whole")
            checked += 4
    finally:
        here.close()
    return Outcome(
        "SIGKILL before each system call of a delete",
        died,
        checked,
        "words",
        lost=len(trouble),
        trouble=tuple(trouble),
    )


def _command(here: Sessions, *words: str, env: dict[str, str] | None = None) -> bytes:
    return subprocess.run(
        [*PROXY, *words, "--store", str(here.store)],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_SECONDS,
        check=False,
    ).stdout
