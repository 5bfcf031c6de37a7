"""docs/protocol.md names all that the official SDKs name, and says what the code does with it."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from acp_proxy.decisions.capabilities import Modes, Offer, choose_served_here
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.update_kinds import KINDS, ReplayForm, UpdateKind
from acp_proxy.protocol.versions import V2

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
SDK = ROOT / "tests" / "typescript" / "node_modules" / "@agentclientprotocol" / "sdk" / "schema"
ROW = re.compile(r"^\|(?:(\w+): )?`([^`]+)`\|(yes|draft|other draft|)\|(yes|draft|)\|(.*)\|(.*)\|$", re.MULTILINE)
NAMES = {"Methods": "method", "Kinds of updates": "kind", "Capabilities": "capability"}

Versions = dict[str, tuple[str, str]]
"""Names, each with how it is in version 1 and in version 2 of the protocol: yes, draft, or not at all."""


def rows(section: str) -> dict[str, tuple[str, str, str, str]]:
    """The rows of a section, by name."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = [(f"{side}: {name}" if side else name, rest) for side, name, *rest in ROW.findall(text)]
    assert len(found) == len(dict(found)) == text.count("\n|") - 2, "each row can be read, and has a name of its own"
    return {name: (one, two, ours_one, ours_two) for name, (one, two, ours_one, ours_two) in found}


def in_schema(definitions: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a schema of the TypeScript SDK names: the section of the page, and the name."""
    for each in definitions.values():
        if "x-method" in each:
            yield "Methods", each["x-method"]
    updates = definitions["SessionUpdate"]
    for each in updates.get("oneOf") or updates["anyOf"]:
        if kind := each.get("properties", {}).get("sessionUpdate", {}).get("const"):
            yield "Kinds of updates", kind
    for side in ("agent", "client"):
        for path in capabilities(definitions, f"{side.title()}Capabilities"):
            yield "Capabilities", f"{side}: {path}"


def capabilities(definitions: dict[str, Any], name: str, path: str = "") -> Iterator[str]:
    for key, each in definitions[name].get("properties", {}).items():
        if key == "_meta":
            continue
        yield path + key
        for one in (*each.get("anyOf", ()), *each.get("allOf", ())):
            other = one.get("$ref", "").rpartition("/")[2]
            if "Capabilities" in other:
                yield from capabilities(definitions, other, f"{path}{key}.")


def of_the_typescript_sdk() -> dict[str, Versions]:
    if not SDK.is_dir():
        pytest.skip("the TypeScript SDK is not installed; `make test` does it")
    marks: dict[str, dict[str, dict[str, str]]] = {section: {} for section in NAMES}
    for version in ("v1", "v2"):
        for file, mark in (("schema.unstable.json", "draft"), ("schema.json", "yes")):
            definitions = json.loads((SDK / version / file).read_text(encoding="utf-8"))["$defs"]
            for section, name in in_schema(definitions):
                marks[section].setdefault(name, {})[version] = mark
    return {
        section: {name: (found.get("v1", ""), found.get("v2", "")) for name, found in named.items()}
        for section, named in marks.items()
    }


@pytest.mark.parametrize("section", NAMES)
def test_the_page_has_everything_that_the_typescript_sdk_names(section: str) -> None:
    named = of_the_typescript_sdk()[section]
    there = {name: row[:2] for name, row in rows(section).items() if row[0] != "other draft"}
    missing = [
        f"{NAMES[section]} {name} (version 1: {one}; version 2: {two})"
        for name, (one, two) in named.items()
        if there.get(name) != (one, two)
    ]
    assert not missing, f"docs/protocol.md lacks, or says something else of: {', '.join(missing)}"
    assert not there.keys() - named.keys(), "no SDK has these"


def of_the_python_sdk() -> Iterator[tuple[str, str]]:
    from acp import meta, schema  # takes a second, which every process that collects tests would need

    for method in {*meta.AGENT_METHODS.values(), *meta.CLIENT_METHODS.values()}:
        yield "Methods", method
    for model in vars(schema).values():
        field = getattr(model, "model_fields", {}).get("session_update")
        for kind in get_args(field.annotation) if field is not None else ():
            yield "Kinds of updates", kind
    for model, path in (
        (schema.AgentCapabilities, "agent: "),
        (schema.SessionCapabilities, "agent: sessionCapabilities."),
        (schema.ClientCapabilities, "client: "),
    ):
        for name, found in model.model_fields.items():
            if name != "field_meta":
                yield "Capabilities", f"{path}{found.alias or name}"


def test_the_page_has_everything_that_the_python_sdk_names() -> None:
    there = {(section, name) for section in NAMES for name in rows(section)}
    named = set(of_the_python_sdk())
    assert len(named) > 60
    assert ("Kinds of updates", "agent_message_chunk") in named
    missing = [f"{NAMES[section]} {name}" for section, name in sorted(named - there)]
    assert not missing, f"docs/protocol.md lacks: {', '.join(missing)}"


# --- what the page says is what the code does


@pytest.mark.parametrize("version", [1, 2])
def test_the_methods_that_the_page_calls_recorded_are_recorded(version: int) -> None:
    there = {name: row[1 + version] for name, row in rows("Methods").items() if row[version - 1]}
    said = {name for name, how in there.items() if "recorded" in how.split("; ")}
    assert said == (acp.RECORDED_REQUESTS | {acp.UPDATE, acp.CANCEL}) & there.keys()


REPLAYED = {
    ReplayForm.AS_IT_CAME: "replayed as it came",
    ReplayForm.JOINED: "folded in a replay",
    ReplayForm.MERGED: "folded in a replay",
    ReplayForm.LAST_OF_TURN: "the last one of a turn is replayed",
    ReplayForm.LAST: "the last one is replayed",
    ReplayForm.NEVER: "not replayed",
}


IN_SCHEMAS = [kind for kind in KINDS if kind.name != update_kinds.HISTORY_TRUNCATED]
"""The page has the other one among the extensions, since no schema has it."""


@pytest.mark.parametrize("kind", IN_SCHEMAS, ids=lambda kind: kind.name)
def test_the_page_says_what_the_table_of_kinds_says(kind: UpdateKind) -> None:
    in_one, in_two, one, two = rows("Kinds of updates")[kind.name]
    assert (bool(in_one), bool(in_two)) == (kind.form_v1 is not None, kind.form_v2 is not None)
    gate = f"gated by `{'.'.join(kind.needs)}`; " if kind.needs else ""
    for said, replay, before in ((one, kind.form_v1, gate), (two, kind.form_v2, "")):
        expected = f"recorded; {before}{REPLAYED[replay]}" if replay is not None else ""
        assert said == expected or said.startswith(f"{expected}; "), f"docs/protocol.md: {kind.name}: {expected}"


def test_the_table_of_kinds_has_every_kind_of_the_page() -> None:
    assert rows("Kinds of updates").keys() == {kind.name for kind in IN_SCHEMAS}


def test_the_capabilities_that_the_page_calls_added_are_added() -> None:
    offers = [Offer(1, native, None, None, False) for native in (frozenset[str](), frozenset({"load"}))]
    served = {name for offer in offers for name in choose_served_here(offer, Modes(resume="store", unstable=True))}
    said = {
        name.rpartition(".")[2].removeprefix("agent: ")
        for name, row in rows("Capabilities").items()
        if row[2].startswith("amended: added")
    }
    assert {name.removesuffix("Session") for name in said} == served


def test_the_capabilities_that_the_page_calls_added_in_version_2_are_added() -> None:
    said = {name for name, row in rows("Capabilities").items() if row[3].startswith("amended: added")}
    served = choose_served_here(Offer(2, V2.always_served, None, None, False), Modes(unstable=True))
    assert said == {f"agent: session.{name}" for name in served}


# Extensions.

ADAPTERS = Path(os.environ.get("ACP_AGENTS_HOME", "~/.cache/acp-agents")).expanduser() / "npm"
PACKAGES = {
    name: ADAPTERS / folder / "node_modules" / "@agentclientprotocol" / name / "dist"
    for name, folder in (("claude-agent-acp", "claude"), ("codex-acp", "codexacp"))
}
EXTENSION = re.compile(r"""["'`](_(?:auth|codex|session)/[a-z_/]+)["'`]""")
"""The names of methods; the adapters have more names of this form for members of ``_meta``."""


@pytest.mark.parametrize("name", PACKAGES)
def test_the_page_has_every_extension_that_the_adapters_name(name: str) -> None:
    """Where the adapters are installed."""
    if not PACKAGES[name].is_dir():
        pytest.skip(f"{name} is not installed in {ADAPTERS}")
    named = {found for file in PACKAGES[name].rglob("*.js") for found in EXTENSION.findall(file.read_text("utf-8"))}
    assert acp.STEERING in named
    missing = sorted(named - extensions().keys())
    assert not missing, f"docs/protocol.md lacks extensions of {name}: {', '.join(missing)}"


def test_the_extensions_that_the_page_does_not_only_pass_mean_something_here() -> None:
    said = {name for name, how in extensions().items() if how.split(",")[0] != "passed"}
    assert said == acp.EXTENSIONS


def extensions() -> dict[str, str]:
    """What the page says of each extension's method in version 1."""
    text = PAGE.partition("\n## Extensions\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|[^|]*\|$", text, re.MULTILINE)
    return {name: how for names, how in rows for name in re.findall(r"`(_[a-z]+/[^`]+)`", names)}
