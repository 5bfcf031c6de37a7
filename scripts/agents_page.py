"""docs/agents.md: what real agents showed, as a table and notes.

The page has nothing that differs between runs: no ids, times or paths.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acp_proxy import __version__
from scripts.agents_checks import CHECKS, LOADS
from scripts.agents_rows import Attempt, Row
from scripts.findings import Finding, is_well, verdict
from scripts.findings import format_findings as lines_of
from scripts.real_agents import PROMPTS, Lived, Reopened, offers
from scripts.shown import Shown, updates

SPEAKERS = ("user", "agent", "thoughts")
WORDS = {"user": "the user's words", "agent": "the agent's words", "thoughts": "the thoughts"}
MUST_COME_BACK = ("user", "agent")

INTRODUCTION = """\
# What do real agents lack?

What agents show of an old conversation, alone and with acp-proxy {version}. Made by `make agents`, offline, against a
stand-in for a model.

A client says "{first}", which makes the model think and use a tool, then "{second}". Everyone is killed.
In new processes the client lists and loads the session and prompts again. "All" is what was shown live. gemini is tried
twice: it refuses to load a session in the minute in which it was made.
"""
ALL = "all"
LOADED = "loads"
HEADER = (
    *("agent", "version", "offers", "added", "shown live", "its own load", "with acp-proxy"),
    f"{LOADS} loads",
)
HISTORIES = """
## Is the history always the same?

With acp-proxy's default options. Each time everyone is killed and the session is opened again in new processes. "ok":
every prompt, answer and tool call is shown once and in place, and the transcript did not change. "{loads}" is {number}
loads in new processes. The other columns:

{others}
"""
Found = Mapping[str, Mapping[str, Sequence[Finding]]]
"""The findings, by agent and check."""


# Reading.


def added(row: Row) -> list[str]:
    alone, behind = row.alone.lived, row.behind.lived
    if alone is None or behind is None:
        return []
    native = offers(alone.initialized)
    return [name for name in offers(behind.initialized) if name not in native]


def describe_screen(screen: Shown, live: Shown) -> str:
    """What the screen shows of the live conversation, in words."""
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
        shown, live = describe_screen(found.shown, lived.shown), describe_screen(lived.shown, lived.shown)
        return ALL if shown == live else shown
    before = describe_screen(found.shown, lived.shown)
    return f"error {found.error.code}" + (f", after {before}" if before != "nothing" else "")


def lost(attempt: Attempt) -> list[str]:
    """What was shown live but not after the load."""
    lived, found = attempt.lived, attempt.reopened
    if lived is None or found is None:
        return [attempt.failure or "not tried"]
    screen = found.shown or Shown()
    less = [WORDS[speaker] for speaker in MUST_COME_BACK if not screen.compared(speaker, lived.shown).whole]
    return less + (["tool calls"] if len(screen.tools) < len(lived.shown.tools) else [])


# Other observations.


def notes(row: Row) -> Iterator[str]:
    if row.alone.lived:
        yield from notes_of_the_talk(row.alone.lived)
    alone, behind = list(notes_of_the_return(row.alone)), list(notes_of_the_return(row.behind))
    yield from (f"{'Both' if note in behind else 'Alone'}: {note}" for note in alone)
    yield from (f"With acp-proxy: {note}" for note in behind if note not in alone)


def notes_of_the_talk(lived: Lived) -> Iterator[str]:
    if not lived.initialized.get("agentInfo"):
        yield "Tells no name or version; the version is its package's."
    opened = next(at for at, one in enumerate(lived.messages) if session_of_answer(one) == lived.session)
    if early := kinds(updates(lived.messages[:opened], lived.session)):
        yield f"Sends before the answer to `session/new`: {early}."
    if any(update.get("sessionUpdate") == "user_message_chunk" for update in updates(lived.messages, lived.session)):
        yield "Echoes the prompt as `user_message_chunk`."
    yield from notes_of_permissions(lived)
    asked = {str(one["method"]) for one in lived.messages if isinstance(one, dict) and "id" in one and "method" in one}
    if others := sorted(asked - {"session/request_permission"}):
        yield f"Asks the client for: {', '.join(f'`{name}`' for name in others)}."


def notes_of_permissions(lived: Lived) -> Iterator[str]:
    """Whether the tool call or the permission request comes first, and whether they belong together."""
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
            yield "Asks for permission by a separate tool call, which never ends."
        elif seen[0] == "permission":
            yield "Asks for permission before it shows the tool call."
        if "tool_call" not in seen and len(set(seen)) > 1:
            yield "Shows tool calls by `tool_call_update` only."


def notes_of_the_return(attempt: Attempt) -> Iterator[str]:
    lived, found = attempt.lived, attempt.reopened
    if lived is None or found is None:
        return
    if found.listed is False:
        yield "a new process does not list the session."
    if found.error:
        yield f"the load fails with {found.error.code} `{found.error.message}`."
    if handed_over(found):
        yield "by [handover](transparency.md#handover)."
    if found.shown:
        more = [WORDS[name] for name in SPEAKERS if found.shown.compared(name, lived.shown).has_more]
        more += ["tool calls"] if len(found.shown.tools) > len(lived.shown.tools) else []
        if more:
            yield f"the load shows more than live: {', '.join(more)}."
    if found.next_error:
        yield f"the load succeeds, then the next prompt fails: {found.next_error.code}."
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


def page(rows: Sequence[Row], found: Found) -> str:
    introduction = INTRODUCTION.format(version=__version__, first=PROMPTS[0], second=PROMPTS[1])
    table = [HEADER, ("-",) * len(HEADER), *(cells(row, found) for row in rows)]
    sections = [
        f"- **{titled(row)}**: " + " ".join(capital(note) for note in dict.fromkeys(found))
        for row, found in noted(rows)
    ]
    return "\n".join(
        [introduction, *(f"|{'|'.join(line)}|" for line in table), *histories(found), "", "## Notes", "", *sections, ""]
    )


def histories(found: Found) -> Iterator[str]:
    """The findings of each check, as a table of all agents."""
    others = (f"- {name}: {what(name)}" for name in CHECKS if name != LOADED)
    yield HISTORIES.format(loads=LOADED, number=LOADS, others="\n".join(others))
    for line in (("agent", *CHECKS), ("-",) * (1 + len(CHECKS)), *(history(name, found) for name in found)):
        yield f"|{'|'.join(line)}|"
    for name, checks in found.items():
        for check, findings in checks.items():
            if not is_well(findings):
                yield f"\n### {name}, {check}\n"
                yield from (f"- {line}" for line in lines_of([one for one in findings if one.is_wrong]))


def what(check: str) -> str:
    """The first line of the check's docstring."""
    return (CHECKS[check].__doc__ or "").partition("\n")[0]


def history(name: str, found: Found) -> tuple[str, ...]:
    return name, *(verdict(found[name][check]) if check in found[name] else "" for check in CHECKS)


def capital(note: str) -> str:
    return note[:1].upper() + note[1:]


def titled(row: Row) -> str:
    return ", ".join(filter(None, (row.name, row.opened.value)))


def noted(rows: Sequence[Row]) -> Iterator[tuple[Row, list[str]]]:
    for row in rows:
        if found := list(notes(row)):
            yield row, found


def cells(row: Row, found: Found) -> tuple[str, ...]:
    if row.untried:
        return titled(row), row.version, *[""] * 4, f"not tried: {row.untried}", ""
    lived = row.alone.lived
    offered = ", ".join(offers(lived.initialized)) if lived else ""
    live = describe_screen(lived.shown, lived.shown) if lived else ""
    plus = ", ".join(added(row))
    return (
        titled(row),
        row.version,
        offered or "nothing",
        plus or "nothing",
        live,
        loaded(row.alone),
        loaded(row.behind),
        verdict(found[row.name][LOADED]) if row.name in found else "",
    )


def summary(row: Row, found: Found) -> dict[str, Any]:
    """The row as JSON."""
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
    verdicts = {check: verdict(findings) for check, findings in found.get(row.name, {}).items()}
    lived = row.alone.lived
    offered = {"offers": offers(lived.initialized) if lived else [], "adds": added(row)}
    return about | offered | loads | {"checks": verdicts, "notes": list(notes(row))}
