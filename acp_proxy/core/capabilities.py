"""What the agent offers, what we add to it, and the one line in which that is said.

Source: seeds of session/list, session/delete and session/resume; the schema's AgentCapabilities.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from acp_proxy.wire import acp, splice

LIST, LOAD, DELETE = "list", "load", "delete"


@dataclass(frozen=True, slots=True)
class Offer:
    """The agent's side of initialize. ``native`` names what it serves itself."""

    version: object
    native: frozenset[str]
    name: str | None
    release: str | None
    directories: bool


def read_offer(result: object) -> Offer:
    """Read an initialize result, however little of it is there."""
    capabilities = acp.member(result, "agentCapabilities")
    sessions = acp.member(capabilities, "sessionCapabilities")
    native = {name for name in ("list", "delete", "resume", "close", "fork") if acp.offers(sessions, name)}
    if acp.offers(capabilities, "loadSession"):
        native.add(LOAD)
    info = acp.member(result, "agentInfo")
    return Offer(
        version=acp.member(result, "protocolVersion"),
        native=frozenset(native),
        name=acp.text(info, "name") or None,
        release=acp.text(info, "version"),
        directories=acp.offers(sessions, "additionalDirectories"),
    )


def additions(offer: Offer) -> tuple[str, ...]:
    """What we serve for this agent: what it lacks and we can."""
    if offer.version != acp.VERSION or isinstance(offer.version, bool):
        return ()
    served = [name for name in (LIST, DELETE) if name not in offer.native]
    if LOAD not in offer.native and "resume" in offer.native:
        served.append(LOAD)
    return tuple(served)


def amended(raw: bytes, serves: tuple[str, ...], release: str) -> bytes:
    """The initialize response with our additions; every value that is not one of them keeps its bytes."""
    wanted: dict[str, object] = {"_meta": {"acp-proxy": {"version": release, "serves": list(serves)}}}
    if LOAD in serves:
        wanted["loadSession"] = True
    sessions: dict[str, object] = {name: {} for name in (LIST, DELETE) if name in serves}
    if sessions:
        wanted["sessionCapabilities"] = sessions
    text = splice.decode(raw)
    result = splice.members(text, splice.whole(text)[0])["result"]
    return splice.encode(splice.replaced(text, _set(text, result, {"agentCapabilities": wanted})))


def _set(text: str, span: splice.Span, values: Mapping[str, object]) -> list[tuple[splice.Span, str]]:
    """The changes that give an object these members; an object among them is added to, not replaced."""
    there = splice.members(text, span[0])
    changes: list[tuple[splice.Span, str]] = []
    new: list[str] = []
    for key, value in values.items():
        if key not in there:
            new.append(f"{json.dumps(key)}:{_dump(value)}")
        elif isinstance(value, Mapping) and value and text[there[key][0]] == "{":
            changes += _set(text, there[key], value)
        else:
            changes.append((there[key], _dump(value)))
    if new:
        end = span[1] - 1
        changes.append(((end, end), ("," if there else "") + ",".join(new)))
    return changes


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
