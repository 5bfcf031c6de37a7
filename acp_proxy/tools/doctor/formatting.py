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


def format_lines(diagnosis: Diagnosis, *, with_versions: bool) -> Iterator[str]:
    yield from _format_advice(diagnosis)
    yield ""
    if diagnosis.agent is not None:  # what the user asked about comes before the rest
        yield from _format_section(
            make_line(f"agent  {shell_quote.join(diagnosis.agent.command)}"), _format_agent(diagnosis.agent)
        )
    yield from _format_section("store", _format_store(diagnosis.store))
    yield "editors"
    for editor in diagnosis.editors:
        yield from _format_editor(editor, diagnosis.store.place)
    if not diagnosis.editors:
        yield "  no configuration of a known editor was found on this machine"
    if with_versions:
        yield ""
        yield from list(_format_section("versions", _format_versions(diagnosis.versions)))[:-1]


def find_indent(text: str) -> int:
    """The column below which a line of the report continues, if it is longer than the terminal is wide."""
    if (begun := _NUMBERED.match(text)) is not None:
        return begun.end()
    return _COLUMN if text[_COLUMN - 1 : _COLUMN] == " " and text.startswith("  ") else 2


def encode_json(diagnosis: Diagnosis) -> dict[str, Any]:
    store = diagnosis.store
    return {
        "isWell": diagnosis.is_well,
        "todo": [{"text": todo.text, "isWrong": todo.is_wrong} for todo in diagnosis.todo],
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
        "versions": diagnosis.versions,
        "editors": [_encode_editor(editor) for editor in diagnosis.editors],
        "agent": _encode_agent(diagnosis.agent) if diagnosis.agent is not None else None,
    }


def _format_section(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    yield title
    for name, text in rows:
        yield make_line(f"  {name:<{_WIDTH}} {text}").rstrip()
    yield ""


def _format_versions(versions: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    for name in PROGRAMS:
        yield name, versions[name] or "missing"
    yield (
        "libraries",
        ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items() if name not in PROGRAMS),
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
    split = ", ".join(f"{part} {formatting.format_size(size)}" for part, size in parts.items())
    yield "size", f"{formatting.format_size(store.size)}: {split}; files: {store.files}"
    yield "agents", str(store.agents)
    yield "sessions", str(store.sessions) if store.sessions is not None else "cannot be counted"
    if store.unreadable:
        yield "damage", f"{_ABOVE}; for a complete check: acp-proxy verify"
    else:
        yield "damage", "none found by a quick check; for a complete one: acp-proxy verify"
    yield "recording", f"possible{f', {formatting.format_size(store.free)} free' if store.free is not None else ''}"


def _format_editor(configuration: Configuration, root: Path) -> Iterator[str]:
    yield make_line(f"  {configuration.editor.title:<{_WIDTH}} {configuration.path}")
    texts = [f'"{agent.name}": {_format_way(agent, root)}' for agent in configuration.agents]
    if configuration.problem is not None:
        texts = [f"cannot be read; {_ABOVE}"]
    elif configuration.mentions is not None:
        texts = ["mentions acp-proxy" if configuration.mentions else "does not mention acp-proxy"]
    for text in texts or ["no agents"]:
        yield make_line(f"  {'':<{_WIDTH}} {text}")


def _format_way(agent: ConfiguredAgent, root: Path) -> str:
    if agent.way is Way.PROXIED and not agent.is_recorded:
        return f"{agent.way.value}, but not recorded"
    if agent.store is not None and agent.is_kept_elsewhere(root):
        return f"{agent.way.value}, recorded in another store: {agent.store}"
    return agent.way.value


def _format_agent(report: AgentReport) -> Iterator[tuple[str, str]]:
    if report.problem is not None:
        yield "answers", f"no; {_ABOVE}"
        yield from (("on stdout", text) for text in dict.fromkeys(report.stray))
        yield from (("on stderr", text) for text in report.stderr)
        return
    offer = report.offer
    if offer is not None:
        yield "name", f"{offer.name or _NAMELESS} {offer.release or ''}".rstrip()
        yield "protocol", f"version {offer.version}, answered after {report.seconds:.1f} s"
        others = sorted(offer.native - {ability.name for ability in report.list_abilities})
        if others:
            yield "also offers", ", ".join(others)
    if report.folder is not None:
        yield "recorded as", f"{report.folder}; sessions: {report.sessions}"
    for ability in report.list_abilities:
        yield ability.name, _format_ability(ability)
    if report.load is not None:
        about = f" (session {report.load.session_id})" if report.load.session_id is not None else ""
        yield "its own load", f"{report.load.text}{about}"
    for shown in report.shown:
        whose = "the transcript" if shown.shown == "transcript" else "the agent's replay"
        yield "last load", f"{whose} was shown ({shown.why}), of session {shown.session_id}"
    if report.stray:
        yield "stray lines", "on stdout; acp-proxy sends them to stderr. The last: " + report.stray[-1]


def _format_ability(ability: Ability) -> str:
    if ability.by == OURS:
        return f"added: {ability.why}"
    return f"no: {ability.why}" if ability.by == NOBODY else ability.why


def _format_advice(diagnosis: Diagnosis) -> Iterator[str]:
    wrong = [todo.text for todo in diagnosis.todo if todo.is_wrong]
    better = [todo.text for todo in diagnosis.todo if not todo.is_wrong]
    yield "What to do:" if wrong else "Nothing is wrong."
    for number, text in enumerate(wrong, 1):
        yield make_line(f"  {number}. {text}")
    if better:
        yield "\nAdvice:"
    for number, text in enumerate(better, len(wrong) + 1):
        yield make_line(f"  {number}. {text}")


def _encode_editor(configuration: Configuration) -> dict[str, Any]:
    return {
        "editor": configuration.editor.name.value,
        "file": str(configuration.path),
        "agents": [
            {
                "name": agent.name,
                "started": agent.way.name.lower(),
                "problem": agent.problem,
                "store": agent.store,
                "isRecorded": agent.way is Way.PROXIED and agent.is_recorded,
            }
            for agent in configuration.agents
        ],
        "mentionsProxy": configuration.mentions,
        "problem": configuration.problem,
    }


def _encode_agent(report: AgentReport) -> dict[str, Any]:
    offer = report.offer
    return {
        "command": report.command,
        "problem": report.problem,
        "stderr": list(report.stderr),
        "strayLines": list(report.stray),
        "seconds": round(report.seconds, 3) if report.seconds is not None else None,
        "name": offer.name if offer is not None else None,
        "version": offer.release if offer is not None else None,
        "protocolVersion": offer.version if offer is not None else None,
        "offers": sorted(offer.native) if offer is not None else [],
        "abilities": [
            {"name": ability.name, "by": ability.by, "why": ability.why} for ability in report.list_abilities
        ],
        "keptAs": report.folder,
        "sessions": report.sessions,
        "lastLoads": [{"sessionId": load.session_id, "shown": load.shown, "why": load.why} for load in report.shown],
        "load": {
            "outcome": report.load.outcome,
            "text": report.load.text,
            "sessionId": report.load.session_id,
            "leavesOut": list(report.load.loses),
        }
        if report.load is not None
        else None,
    }
