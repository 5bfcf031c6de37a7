"""The result of ``doctor``, for people and for programs. Of an editor's configuration it shows only the names of
agents.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acp_proxy import shell_quote
from acp_proxy.tools.doctor.agent_report import AgentReport
from acp_proxy.tools.doctor.capabilities import BY_NOBODY, BY_PROXY, Ability
from acp_proxy.tools.doctor.report import Diagnosis
from acp_proxy.tools.doctor.store_report import StoreReport
from acp_proxy.tools.doctor.versions import PROGRAMS
from acp_proxy.tools.editors.agent_names import explain_built_in
from acp_proxy.tools.editors.configured import Configuration, ConfiguredAgent, Way
from acp_proxy.tools.editors.own_files import format_link
from acp_proxy.views import formatting
from acp_proxy.views.sanitize import make_line

_NAME_WIDTH = 14
_COLUMN = 2 + _NAME_WIDTH + 1
"""Where the texts of a section begin."""
_NUMBERED = re.compile(r"  \d+\. ")
_SEE_ABOVE = "see above"
_NO_NAME = "(none: acp-proxy uses the name of its command; run --agent-id sets another)"


def format_lines(diagnosis: Diagnosis, *, with_versions: bool) -> Iterator[str]:
    yield from _format_advice(diagnosis)
    yield ""
    if diagnosis.agent is not None:  # what the user asked about comes before the rest
        yield from _format_section(
            make_line(f"agent  {shell_quote.join(diagnosis.agent.command)}"), _format_agent(diagnosis.agent)
        )
    yield from _format_section("store", _format_store(diagnosis.store))
    yield "editors"
    for editor in diagnosis.configurations:
        yield from _format_editor(editor, diagnosis.store.root)
    if not diagnosis.configurations:
        yield "  no configuration of a known editor was found on this machine"
    if with_versions:
        yield ""
        yield from list(_format_section("versions", _format_versions(diagnosis.versions)))[:-1]


def find_indent(text: str) -> int:
    """The column below which a line of the report continues, if it is longer than the terminal is wide."""
    if (number := _NUMBERED.match(text)) is not None:
        return number.end()
    return _COLUMN if text[_COLUMN - 1 : _COLUMN] == " " and text.startswith("  ") else 2


def encode_json(diagnosis: Diagnosis) -> dict[str, Any]:
    store = diagnosis.store
    return {
        "isWell": diagnosis.is_well,
        "todo": [{"text": todo.text, "isWrong": todo.is_wrong} for todo in diagnosis.advice],
        "store": {
            "place": str(store.root),
            "exists": store.exists,
            "mode": f"{store.mode:04o}" if store.mode is not None else None,
            "bytes": store.size,
            "files": store.files,
            "agents": store.agents,
            "sessions": store.sessions,
            "unreadable": [{"file": str(path), "reason": reason} for path, reason in store.unreadable],
            "freeBytes": store.free_bytes,
            "notRecording": store.why_not_recording,
        },
        "versions": diagnosis.versions,
        "editors": [_encode_editor(editor) for editor in diagnosis.configurations],
        "agent": _encode_agent(diagnosis.agent) if diagnosis.agent is not None else None,
    }


def _format_section(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    yield title
    for name, text in rows:
        yield make_line(f"  {name:<{_NAME_WIDTH}} {text}").rstrip()
    yield ""


def _format_versions(versions: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    for name in PROGRAMS:
        yield name, versions[name] or "missing"
    yield (
        "libraries",
        ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items() if name not in PROGRAMS),
    )


def _format_store(store: StoreReport) -> Iterator[tuple[str, str]]:
    yield "place", str(store.root)
    if not store.exists:
        yield (
            "state",
            "does not exist yet; the first session creates it" if store.why_not_recording is None else "does not exist",
        )
        if store.why_not_recording is not None:
            yield "recording", f"off; {_SEE_ABOVE}"
        return
    if store.mode is not None:
        yield "mode", f"{store.mode:04o}"
    if store.why_not_recording is not None:
        yield "recording", f"off; {_SEE_ABOVE}"
        return
    size_by_part = {"transcripts": store.transcripts, "deleted ones": store.deleted}
    size_by_part["index"] = store.size - sum(size_by_part.values())
    sizes = ", ".join(f"{part} {formatting.format_size(size)}" for part, size in size_by_part.items())
    yield "size", f"{formatting.format_size(store.size)}: {sizes}; files: {store.files}"
    yield "agents", str(store.agents)
    yield "sessions", str(store.sessions) if store.sessions is not None else "cannot be counted"
    if store.unreadable:
        yield "damage", f"{_SEE_ABOVE}; for a complete check: acp-proxy verify"
    else:
        yield "damage", "none found by a quick check; for a complete one: acp-proxy verify"
    yield (
        "recording",
        f"possible{f', {formatting.format_size(store.free_bytes)} free' if store.free_bytes is not None else ''}",
    )


def _format_editor(configuration: Configuration, root: Path) -> Iterator[str]:
    yield make_line(f"  {configuration.editor.title:<{_NAME_WIDTH}} {format_link(configuration.path)}")
    proxied_names = [agent.name for agent in configuration.agents if agent.way is Way.PROXIED]
    texts = [
        f'"{agent.name}" {explain_built_in(agent.name, proxied_names)}'
        if agent.way is Way.NOT
        else f'"{agent.name}": {_format_way(agent, root)}'
        for agent in configuration.agents
    ]
    if configuration.problem is not None:
        texts = [f"cannot be read; {_SEE_ABOVE}"]
    elif configuration.mentions_proxy is not None:
        texts = ["mentions acp-proxy" if configuration.mentions_proxy else "does not mention acp-proxy"]
    for text in texts or ["no agents"]:
        yield make_line(f"  {'':<{_NAME_WIDTH}} {text}")


def _format_way(agent: ConfiguredAgent, root: Path) -> str:
    if agent.way is Way.PROXIED and not agent.is_recorded:
        return f"{agent.way.value}, but not recorded"
    if agent.store is not None and agent.is_kept_elsewhere(root):
        return f"{agent.way.value}, recorded in another store: {agent.store}"
    return agent.way.value


def _format_agent(report: AgentReport) -> Iterator[tuple[str, str]]:
    if report.problem is not None:
        yield "answers", f"no; {_SEE_ABOVE}"
        yield from (("on stdout", text) for text in dict.fromkeys(report.stray_lines))
        yield from (("on stderr", text) for text in report.stderr)
        return
    offer = report.offer
    if offer is not None:
        yield "name", f"{offer.name or _NO_NAME} {offer.agent_version or ''}".rstrip()
        yield "protocol", f"version {offer.protocol_version}, answered after {report.seconds:.1f} s"
        other_abilities = sorted(offer.served_by_agent - {ability.name for ability in report.abilities})
        if other_abilities:
            yield "also offers", ", ".join(other_abilities)
    if report.folder is not None:
        yield "recorded as", f"{report.folder}; sessions: {report.sessions}"
    for ability in report.abilities:
        yield ability.name, _format_ability(ability)
    if report.load_result is not None:
        session_text = (
            f" (session {report.load_result.session_id})" if report.load_result.session_id is not None else ""
        )
        yield "its own load", f"{report.load_result.text}{session_text}"
    for last_load in report.last_loads:
        shown_replay = "the transcript" if last_load.shown_replay == "transcript" else "the agent's replay"
        yield "last load", f"{shown_replay} was shown ({last_load.reason}), of session {last_load.session_id}"
    if report.stray_lines:
        yield "stray lines", "on stdout; acp-proxy sends them to stderr. The last: " + report.stray_lines[-1]


def _format_ability(ability: Ability) -> str:
    if ability.answered_by == BY_PROXY:
        return f"added: {ability.reason}"
    return f"no: {ability.reason}" if ability.answered_by == BY_NOBODY else ability.reason


def _format_advice(diagnosis: Diagnosis) -> Iterator[str]:
    faults = [todo.text for todo in diagnosis.advice if todo.is_wrong]
    suggestions = [todo.text for todo in diagnosis.advice if not todo.is_wrong]
    yield "What to do:" if faults else "Nothing is wrong."
    for number, text in enumerate(faults, 1):
        yield make_line(f"  {number}. {text}")
    if suggestions:
        yield "\nAdvice:"
    for number, text in enumerate(suggestions, len(faults) + 1):
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
        "mentionsProxy": configuration.mentions_proxy,
        "problem": configuration.problem,
    }


def _encode_agent(report: AgentReport) -> dict[str, Any]:
    offer = report.offer
    return {
        "command": report.command,
        "problem": report.problem,
        "stderr": list(report.stderr),
        "strayLines": list(report.stray_lines),
        "seconds": round(report.seconds, 3) if report.seconds is not None else None,
        "name": offer.name if offer is not None else None,
        "version": offer.agent_version if offer is not None else None,
        "protocolVersion": offer.protocol_version if offer is not None else None,
        "offers": sorted(offer.served_by_agent) if offer is not None else [],
        "abilities": [
            {"name": ability.name, "by": ability.answered_by, "why": ability.reason} for ability in report.abilities
        ],
        "keptAs": report.folder,
        "sessions": report.sessions,
        "lastLoads": [
            {"sessionId": last_load.session_id, "shown": last_load.shown_replay, "why": last_load.reason}
            for last_load in report.last_loads
        ],
        "load": {
            "outcome": report.load_result.outcome,
            "text": report.load_result.text,
            "sessionId": report.load_result.session_id,
            "leavesOut": list(report.load_result.left_out),
        }
        if report.load_result is not None
        else None,
    }
