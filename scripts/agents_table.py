"""Writes docs/agents.md from conversations with real agents: `make agents`.

Each agent is asked twice, without the proxy and behind it: a conversation, everyone's death, a load in new processes.
The page has nothing that changes from run to run: no ids, times or paths. Ends with 1 if a load behind the proxy shows
less than was said. With names, only those agents are tried, and the page stays as it is.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from acp_proxy import __version__
from acp_proxy.demo.client import OutputEnded, RequestFailed
from scripts.real_agents import (
    AGENTS,
    PROMPTS,
    PROXY,
    Bench,
    Lived,
    Reopened,
    Shown,
    installed,
    offers,
    stand_in_model,
    updates,
)

PAGE = Path(__file__).parent.parent / "docs" / "agents.md"
INSTALLATION = 3600.0  # seconds: 2 GB over a slow link
SPEAKERS = ("user", "agent", "thoughts")
WORDS = {"user": "the user's words", "agent": "the agent's words", "thoughts": "the thoughts"}
MUST_COME_BACK = ("user", "agent")
NO_HANDOVER = -32000
"""An agent that answers so wants a login: that is no refusal to restore."""

INTRODUCTION = """\
# Real agents, and what a load shows

What some agents show of an old conversation, without acp-proxy and behind it ({version}). Made by `make agents`, with
every agent offline against a stand-in for its model.

A client opens a session and says "{first}", which makes the model think and use a tool; then
"{second}". Permissions are granted. Then the agent is killed with SIGKILL, and so is acp-proxy where it is in front.
In new processes the client asks for the list and loads the session, where that is offered, and says one thing more.

"user", "agent" and "thoughts" are all the words of that speaker. A tool call has the last status that was shown of it.
What was loaded goes on; where it does not, the notes say so. gemini is asked twice, since it refuses to load a session
in the minute in which it was made.
"""
HEADER = ("agent", "version", "it offers", "we add", "shown live", "a load without us", "a load behind us")


class Opened(Enum):
    """When the session is opened again, by the clock, for agents that name their files by the minute."""

    AT_ONCE = ""
    IN_THE_MINUTE = "opened in the same minute"
    LATER = "opened a minute later"


SUBJECTS = (
    ("opencode", Opened.AT_ONCE),
    ("vibe", Opened.AT_ONCE),
    ("gemini", Opened.IN_THE_MINUTE),
    ("gemini", Opened.LATER),
    ("copilot", Opened.AT_ONCE),
    ("openhands", Opened.AT_ONCE),
    ("deepagents", Opened.AT_ONCE),
    ("pydanticacp", Opened.AT_ONCE),
    ("zedcodex", Opened.AT_ONCE),
)
NAMES = tuple(dict.fromkeys(name for name, _ in SUBJECTS))
MINUTE = 60.0
EARLY = 15.0
"""Seconds of a minute after which there is not enough left of it for a conversation and two starts."""


@dataclass(frozen=True)
class Attempt:
    """One agent, asked once: without the proxy or behind it."""

    lived: Lived | None = None
    reopened: Reopened | None = None
    failure: str | None = None  # why there is no more


@dataclass(frozen=True)
class Row:
    """One agent."""

    name: str
    opened: Opened
    package: str
    version: str
    untried: str | None = None
    alone: Attempt = Attempt()
    behind: Attempt = Attempt()
    options: tuple[str, ...] = ()  # the proxy's


# Asking.


def tried(name: str, opened: Opened, recipe: Mapping[str, Any], port: int, handover: bool) -> Row:
    package, pinned = packaged(recipe)
    with tempfile.TemporaryDirectory(prefix="acp-proxy-agents-", ignore_cleanup_errors=True) as directory:
        base = Path(directory).resolve()
        alone = attempt(Bench(base / "alone", name, port, None), opened)
        options = ("--handover", "always") if handover and refused(alone) else ()
        behind = attempt(Bench(base / "behind", name, port, options), opened)
    about = (alone.lived.initialized.get("agentInfo") if alone.lived else None) or {}
    return Row(name, opened, package, str(about.get("version") or pinned), None, alone, behind, options)


def attempt(bench: Bench, opened: Opened) -> Attempt:
    lived = None
    try:
        if opened is Opened.IN_THE_MINUTE and time.time() % MINUTE > EARLY:
            wait_for_the_next_minute()
        lived = bench.talk()
        if opened is Opened.LATER:
            wait_for_the_next_minute()
        return Attempt(lived, bench.reopen(lived.session))
    except (RequestFailed, TimeoutError, OutputEnded, OSError) as problem:
        print(problem, file=sys.stderr)
        where = "the conversation" if lived is None else "the new process"
        what = f"error {problem.code}" if isinstance(problem, RequestFailed) else type(problem).__name__
        return Attempt(lived, None, f"{what} in {where}")


def wait_for_the_next_minute() -> None:
    time.sleep(MINUTE - time.time() % MINUTE + 1.0)


def refused(attempt: Attempt) -> bool:
    error = attempt.reopened.error if attempt.reopened else None
    return error is not None and error.code != NO_HANDOVER


def packaged(recipe: Mapping[str, Any]) -> tuple[str, str]:
    """The name and the version of the package that has the agent."""
    pinned = str((recipe.get("npm") or recipe.get("pip") or [""])[0])
    name, _, version = pinned.replace("==", "@").rpartition("@")
    return name, version


def untried(names: Iterable[str]) -> dict[str, str]:
    """Install what is missing; which could not be, and why."""
    done = subprocess.run(
        [sys.executable, AGENTS / "setup", *sorted(names)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=INSTALLATION,
        check=False,
    )
    print(done.stdout, end="", file=sys.stderr)
    there = installed()
    reasons = dict(re.findall(r"^(\S+): NOT installed: (.*)$", done.stdout, re.MULTILINE))
    return {name: missing(reasons.get(name, "")) for name in names if name not in there}


def missing(why: str) -> str:
    needed = re.search(r"needs (Python [^;]+)", why)
    return f"needs {needed[1]}" if needed else "could not be installed"


def has_handover() -> bool:
    """Whether this proxy knows the option."""
    told = subprocess.run([*PROXY, "--help"], capture_output=True, text=True, check=True, timeout=60)
    return "--handover" in told.stdout


# Reading.


def added(row: Row) -> list[str]:
    alone, behind = row.alone.lived, row.behind.lived
    if alone is None or behind is None:
        return []
    native = offers(alone.initialized)
    return [name for name in offers(behind.initialized) if name not in native]


def told(screen: Shown, live: Shown) -> str:
    """What of the live conversation a screen shows, in words."""
    parts = []
    for speaker in SPEAKERS:
        words = screen.compared(speaker, live)
        if words.kept:
            parts.append(speaker if words.whole else f"some of {WORDS[speaker]}")
    if screen.tools:
        number = len(screen.tools)
        parts.append(f"{number} tool call{'s' if number > 1 else ''} ({', '.join(sorted(screen.tools.values()))})")
    return ", ".join(parts) or "nothing"


def loaded(attempt: Attempt) -> str:
    """What the load showed, in words."""
    lived, found = attempt.lived, attempt.reopened
    if lived is None or found is None:
        return attempt.failure or "not tried"
    if found.shown is None:
        return "no load"
    if found.error is None:
        return told(found.shown, lived.shown)
    before = told(found.shown, lived.shown)
    return f"error {found.error.code}" + (f", after {before}" if before != "nothing" else "")


def lost(attempt: Attempt) -> list[str]:
    """What was shown live and is not after the load."""
    lived, found = attempt.lived, attempt.reopened
    if lived is None or found is None:
        return [attempt.failure or "not tried"]
    screen = found.shown or Shown()
    less = [WORDS[speaker] for speaker in MUST_COME_BACK if not screen.compared(speaker, lived.shown).whole]
    return less + (["tool calls"] if len(screen.tools) < len(lived.shown.tools) else [])


# What else was seen.


def notes(row: Row) -> Iterator[str]:
    if row.alone.lived:
        yield from notes_of_the_talk(row.alone.lived)
    if row.options:
        yield f"Behind us: with `{' '.join(row.options)}`, since it refuses the load."
    alone, behind = list(notes_of_the_return(row.alone)), list(notes_of_the_return(row.behind))
    yield from (f"Without us{' and behind us' if note in behind else ''}: {note}" for note in alone)
    yield from (f"Behind us: {note}" for note in behind if note not in alone)


def notes_of_the_talk(lived: Lived) -> Iterator[str]:
    if not lived.initialized.get("agentInfo"):
        yield "Says neither name nor version in `initialize`; the version is its package's."
    opened = next(at for at, one in enumerate(lived.messages) if session_of_answer(one) == lived.session)
    if early := kinds(updates(lived.messages[:opened], lived.session)):
        yield f"Sends updates before the answer to `session/new`: {early}."
    if any(update.get("sessionUpdate") == "user_message_chunk" for update in updates(lived.messages, lived.session)):
        yield "Echoes the prompt as `user_message_chunk`."
    yield from notes_of_permissions(lived)
    asked = {str(one["method"]) for one in lived.messages if isinstance(one, dict) and "id" in one and "method" in one}
    if others := sorted(asked - {"session/request_permission"}):
        yield f"Asks the client for: {', '.join(f'`{name}`' for name in others)}."


def notes_of_permissions(lived: Lived) -> Iterator[str]:
    """Which of a tool call and the question for it comes first, and whether they belong together."""
    beginnings: dict[str, list[str]] = {}
    for message in lived.messages:
        match message:
            case {"method": "session/request_permission", "params": {"toolCall": {"toolCallId": str(number)}}}:
                beginnings.setdefault(number, []).append("permission")
            case {"method": "session/update", "params": {"update": {"sessionUpdate": kind, "toolCallId": str(number)}}}:
                beginnings.setdefault(number, []).append(kind)
    if not any("permission" in seen for seen in beginnings.values()):
        yield "Asks for no permission."
    for seen in beginnings.values():
        if set(seen) == {"permission"}:
            yield "Asks for the permission by a tool call of its own, which never ends."
        elif seen[0] == "permission":
            yield "Asks for the permission before it shows the tool call."
        if "tool_call" not in seen and len(set(seen)) > 1:
            yield "Shows a tool call by `tool_call_update` only."


def notes_of_the_return(attempt: Attempt) -> Iterator[str]:
    lived, found = attempt.lived, attempt.reopened
    if lived is None or found is None:
        return
    if found.listed is False:
        yield "the session is not in the list of a new process."
    if found.error:
        yield f"the load is answered {found.error.code} `{found.error.message}`."
    if handed_over(found):
        yield "by handover: a new session of the agent, which is given the record; a last message of ours says so."
    if found.shown:
        ours = {"agent"} if handed_over(found) else set()  # the message that says so
        more = [
            WORDS[name] for name in SPEAKERS if name not in ours and found.shown.compared(name, lived.shown).has_more
        ]
        more += ["tool calls"] if len(found.shown.tools) > len(lived.shown.tools) else []
        if more:
            yield f"the load shows what the conversation did not, of: {', '.join(more)}."
    if found.next_error:
        yield f"the load is answered, and then the next prompt refused: {found.next_error.code}."
    elif found.next_turn and not found.next_turn.words("agent"):
        yield "the next prompt is answered without words."


def handed_over(found: Reopened) -> bool:
    match found.answer:
        case {"_meta": {"acp-proxy": {"handover": True}}}:
            return True
    return False


def session_of_answer(message: Any) -> Any:
    match message:
        case {"result": {"sessionId": session}}:
            return session
    return None


def kinds(found: Iterator[Mapping[str, Any]]) -> str:
    return ", ".join(f"`{kind}`" for kind in sorted({str(update.get("sessionUpdate")) for update in found}))


# Writing.


def page(rows: Sequence[Row]) -> str:
    introduction = INTRODUCTION.format(version=__version__, first=PROMPTS[0], second=PROMPTS[1])
    table = [HEADER, ("---",) * len(HEADER), *map(cells, rows)]
    sections = [
        f"### {titled(row)}\n\n" + "".join(f"- {note}\n" for note in dict.fromkeys(found)) for row, found in noted(rows)
    ]
    return "\n".join([introduction, *(f"| {' | '.join(line)} |" for line in table), "", "## Notes", "", *sections])


def titled(row: Row) -> str:
    return ", ".join(filter(None, (row.name, row.opened.value)))


def noted(rows: Sequence[Row]) -> Iterator[tuple[Row, list[str]]]:
    for row in rows:
        if found := list(notes(row)):
            yield row, found


def cells(row: Row) -> tuple[str, ...]:
    if row.untried:
        return titled(row), row.version, *[""] * 4, f"not tried: {row.untried}"
    lived = row.alone.lived
    offered = ", ".join(offers(lived.initialized)) if lived else ""
    live = told(lived.shown, lived.shown) if lived else ""
    plus = ", ".join(added(row))
    return (
        titled(row),
        row.version,
        offered or "nothing",
        plus or "nothing",
        live,
        loaded(row.alone),
        loaded(row.behind),
    )


def summary(row: Row) -> dict[str, Any]:
    """The row for a program."""
    about: dict[str, Any] = {
        "name": row.name,
        "opened": row.opened.value or "at once",
        "package": row.package,
        "version": row.version,
    }
    if row.untried:
        return about | {"untried": row.untried}
    attempts = {"without": row.alone, "behind": row.behind}
    loads = {name: {"load": loaded(one), "lost": lost(one)} for name, one in attempts.items()}
    lived = row.alone.lived
    offered = {"offers": offers(lived.initialized) if lived else [], "adds": added(row), "options": row.options}
    return about | offered | loads | {"notes": list(notes(row))}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="agents_table", description="Tries real agents, and writes docs/agents.md.")
    parser.add_argument(
        "names", nargs="*", metavar="AGENT", help=f"one of {', '.join(NAMES)}; default: all, and the page"
    )
    parser.add_argument("--json", action="store_true", help="print a summary for programs")
    given = parser.parse_args(words)
    if unknown := sorted(set(given.names).difference(NAMES)):
        parser.error(f"no such agent here: {', '.join(unknown)}")
    if not (AGENTS / "setup").exists():
        print(f"There are no real agents to try: {AGENTS} is not there.", file=sys.stderr)
        return 1
    rows = table([subject for subject in SUBJECTS if subject[0] in (given.names or NAMES)])
    if not given.names:
        PAGE.write_text(page(rows), encoding="utf-8")
    if given.json:
        print(json.dumps({"version": __version__, "agents": [summary(row) for row in rows]}, indent=2))
    short = {titled(row): less for row in rows if not row.untried and (less := lost(row.behind))}
    for name, less in short.items():
        print(f"{name}: a load behind us shows less than was said: {', '.join(less)}", file=sys.stderr)
    return 1 if short else 0


def table(subjects: Sequence[tuple[str, Opened]]) -> list[Row]:
    with (AGENTS / "agents.toml").open("rb") as file:
        recipes = tomllib.load(file)
    left_out, handover, rows = untried({name for name, _ in subjects}), has_handover(), []
    with stand_in_model() as port:
        for name, opened in subjects:
            if name in left_out:
                rows.append(Row(name, opened, *packaged(recipes[name]), untried=left_out[name]))
            else:
                rows.append(tried(name, opened, recipes[name], port, handover))
            print(f"{titled(rows[-1])}: {' | '.join(cells(rows[-1])[-2:])}", file=sys.stderr)
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
