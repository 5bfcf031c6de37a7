"""The result of ``doctor``, for people and for programs. Of an editor's configuration it shows only the names of
agents.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acp_proxy import shell_quote
from acp_proxy.tools.doctor.agent_report import AgentReport
from acp_proxy.tools.doctor.capabilities import NOBODY, OURS, Ability
from acp_proxy.tools.doctor.report import Diagnosis
from acp_proxy.tools.doctor.store_report import StoreReport
from acp_proxy.tools.doctor.versions import PROGRAMS
from acp_proxy.tools.editors.configured import Configuration, ConfiguredAgent, Way
from acp_proxy.views import formatting
from acp_proxy.views.sanitize import make_line

_WIDTH = 14
_COLUMN = 2 + _WIDTH + 1
"""Where the texts of a section begin."""
_NUMBERED = re.compile(r"  \d+\. ")
_ABOVE = "see above"
_NAMELESS = "(none: acp-proxy uses the name of its command; run --agent-id sets another)"


def format_lines(found: Diagnosis, *, with_versions: bool) -> Iterator[str]:
    yield from _format_advice(found)
    yield ""
    if found.agent is not None:  # what the user asked about comes before the rest
        yield from _format_section(
            make_line(f"agent  {shell_quote.joined(found.agent.command)}"), _format_agent(found.agent)
        )
    yield from _format_section("store", _format_store(found.store))
    yield "editors"
    for editor in found.editors:
        yield from _format_editor(editor, found.store.place)
    if not found.editors:
        yield "  no configuration of a known editor was found on this machine"
    if with_versions:
        yield ""
        yield from list(_format_section("versions", _format_versions(found.versions)))[:-1]


def find_indent(text: str) -> int:
    """The column below which a line of the report continues, if it is longer than the terminal is wide."""
    if (begun := _NUMBERED.match(text)) is not None:
        return begun.end()
    return _COLUMN if text[_COLUMN - 1 : _COLUMN] == " " and text.startswith("  ") else 2


def encode_json(found: Diagnosis) -> dict[str, Any]:
    store = found.store
    return {
        "isWell": found.is_well,
        "todo": [{"text": todo.text, "isWrong": todo.is_wrong} for todo in found.todo],
        "store": {
            "place": str(store.place),
            "exists": store.is_there,
            "mode": f"{store.mode:04o}" if store.mode is not None else None,
            "bytes": store.size,
            "files": store.files,
            "agents": store.agents,
            "sessions": store.sessions,
            "unreadable": [{"file": str(path), "reason": reason} for path, reason in store.unreadable],
            "freeBytes": store.free,
            "notRecording": store.off,
        },
        "versions": found.versions,
        "editors": [_encode_editor(editor) for editor in found.editors],
        "agent": _encode_agent(found.agent) if found.agent is not None else None,
    }


def _format_section(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    yield title
    for name, text in rows:
        yield make_line(f"  {name:<{_WIDTH}} {text}").rstrip()
    yield ""


def _format_versions(found: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    for name in PROGRAMS:
        yield name, found[name] or "missing"
    yield (
        "libraries",
        ", ".join(f"{name} {version or 'missing'}" for name, version in found.items() if name not in PROGRAMS),
    )


def _format_store(store: StoreReport) -> Iterator[tuple[str, str]]:
    yield "place", str(store.place)
    if not store.is_there:
        yield "state", "does not exist yet; the first session creates it" if store.off is None else "does not exist"
        if store.off is not None:
            yield "recording", f"off; {_ABOVE}"
        return
    if store.mode is not None:
        yield "mode", f"{store.mode:04o}"
    if store.off is not None:
        yield "recording", f"off; {_ABOVE}"
        return
    parts = {"transcripts": store.transcripts, "deleted ones": store.deleted}
    parts["index"] = store.size - sum(parts.values())
    split = ", ".join(f"{what} {formatting.format_size(size)}" for what, size in parts.items())
    yield "size", f"{formatting.format_size(store.size)}: {split}; files: {store.files}"
    yield "agents", str(store.agents)
    yield "sessions", str(store.sessions) if store.sessions is not None else "cannot be counted"
    if store.unreadable:
        yield "damage", f"{_ABOVE}; for a complete check: acp-proxy verify"
    else:
        yield "damage", "none found by a quick check; for a complete one: acp-proxy verify"
    yield "recording", f"possible{f', {formatting.format_size(store.free)} free' if store.free is not None else ''}"


def _format_editor(found: Configuration, root: Path) -> Iterator[str]:
    yield make_line(f"  {found.editor.title:<{_WIDTH}} {found.path}")
    told = [f'"{agent.name}": {_format_way(agent, root)}' for agent in found.agents]
    if found.problem is not None:
        told = [f"cannot be read; {_ABOVE}"]
    elif found.mentions is not None:
        told = ["mentions acp-proxy" if found.mentions else "does not mention acp-proxy"]
    for text in told or ["no agents"]:
        yield make_line(f"  {'':<{_WIDTH}} {text}")


def _format_way(agent: ConfiguredAgent, root: Path) -> str:
    if agent.way is Way.PROXIED and not agent.is_recorded:
        return f"{agent.way.value}, but not recorded"
    if agent.store is not None and agent.is_kept_elsewhere(root):
        return f"{agent.way.value}, recorded in another store: {agent.store}"
    return agent.way.value


def _format_agent(found: AgentReport) -> Iterator[tuple[str, str]]:
    if found.problem is not None:
        yield "answers", f"no; {_ABOVE}"
        yield from (("on stdout", text) for text in dict.fromkeys(found.stray))
        yield from (("on stderr", text) for text in found.stderr)
        return
    offer = found.offer
    if offer is not None:
        yield "name", f"{offer.name or _NAMELESS} {offer.release or ''}".rstrip()
        yield "protocol", f"version {offer.version}, answered after {found.seconds:.1f} s"
        others = sorted(offer.native - {ability.name for ability in found.list_abilities})
        if others:
            yield "also offers", ", ".join(others)
    if found.folder is not None:
        yield "recorded as", f"{found.folder}; sessions: {found.sessions}"
    for ability in found.list_abilities:
        yield ability.name, _format_ability(ability)
    if found.load is not None:
        about = f" (session {found.load.session_id})" if found.load.session_id is not None else ""
        yield "its own load", f"{found.load.text}{about}"
    for shown in found.shown:
        whose = "the transcript" if shown.shown == "transcript" else "the agent's replay"
        yield "last load", f"{whose} was shown ({shown.why}), of session {shown.session_id}"
    if found.stray:
        yield "stray lines", "on stdout; acp-proxy sends them to stderr. The last: " + found.stray[-1]


def _format_ability(ability: Ability) -> str:
    if ability.by == OURS:
        return f"added: {ability.why}"
    return f"no: {ability.why}" if ability.by == NOBODY else ability.why


def _format_advice(found: Diagnosis) -> Iterator[str]:
    wrong = [todo.text for todo in found.todo if todo.is_wrong]
    better = [todo.text for todo in found.todo if not todo.is_wrong]
    yield "What to do:" if wrong else "Nothing is wrong."
    for number, text in enumerate(wrong, 1):
        yield make_line(f"  {number}. {text}")
    if better:
        yield "\nAdvice:"
    for number, text in enumerate(better, len(wrong) + 1):
        yield make_line(f"  {number}. {text}")


def _encode_editor(found: Configuration) -> dict[str, Any]:
    return {
        "editor": found.editor.name.value,
        "file": str(found.path),
        "agents": [
            {
                "name": agent.name,
                "started": agent.way.name.lower(),
                "problem": agent.problem,
                "store": agent.store,
                "isRecorded": agent.way is Way.PROXIED and agent.is_recorded,
            }
            for agent in found.agents
        ],
        "mentionsProxy": found.mentions,
        "problem": found.problem,
    }


def _encode_agent(found: AgentReport) -> dict[str, Any]:
    offer = found.offer
    return {
        "command": found.command,
        "problem": found.problem,
        "stderr": list(found.stderr),
        "strayLines": list(found.stray),
        "seconds": round(found.seconds, 3) if found.seconds is not None else None,
        "name": offer.name if offer is not None else None,
        "version": offer.release if offer is not None else None,
        "protocolVersion": offer.version if offer is not None else None,
        "offers": sorted(offer.native) if offer is not None else [],
        "abilities": [{"name": each.name, "by": each.by, "why": each.why} for each in found.list_abilities],
        "keptAs": found.folder,
        "sessions": found.sessions,
        "lastLoads": [{"sessionId": each.session_id, "shown": each.shown, "why": each.why} for each in found.shown],
        "load": {
            "outcome": found.load.outcome,
            "text": found.load.text,
            "sessionId": found.load.session_id,
            "leavesOut": list(found.load.loses),
        }
        if found.load is not None
        else None,
    }
