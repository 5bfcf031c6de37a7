"""Drafts of the protocol that acp-proxy only forwards: what passes, what is recorded and what never is.

The fixture is `fixtures/agents/drafts.json`. The official TypeScript SDK's schemas judge it.
"""

import json
import subprocess
from typing import Any

from tests.client import first_option
from tests.end_to_end.proxied import SCRIPTS, Proxied, entries, kinds, texts
from tests.end_to_end.typescript import TYPESCRIPT, TYPESCRIPT_TIMEOUT, find_node

SYSTEM = {"mode": "append", "content": [{"type": "text", "text": "be-brief-and-secret"}]}
ANSWER = {"action": "accept", "content": {"branch": "branch-of-the-user"}}
EMAIL = "ada@example.com"
WANTED: dict[str, Any] = {"plan": {}, "subagents": {}, "session": {"notices": {}}}
SCHEMAS = {
    "auth/status_update": "zAuthStatusUpdateNotification",
    "elicitation/create": "zCreateElicitationRequest",
}


def answers(request: dict[str, Any]) -> Any:
    return ANSWER if request["method"] == "elicitation/create" else first_option(request)


def talk(proxied: Proxied) -> tuple[str, list[Any]]:
    """A session with one turn of every draft, and everything that the editor got."""
    with proxied.editor("drafts", on_request=answers) as editor:
        editor.initialize(clientCapabilities=WANTED)
        assert editor.request("auth/status", {})["accounts"][0]["email"] == EMAIL
        session = editor.new_session(systemPrompt=SYSTEM)
        editor.prompt(session, "mend it")
        editor.wait_for_update("usage_update")
        assert editor.end() == 0
        return session, editor.messages()


def test_the_fixture_meets_the_schemas_of_the_official_sdk() -> None:
    script = json.loads((SCRIPTS / "drafts.json").read_text())
    lines = [("zAuthStatusResponse", script["methods"]["auth/status"]["result"])]
    for step in script["turns"][0]:
        if "update" in step:
            lines.append(("zSessionNotification", {"sessionId": "s", "update": step["update"]}))
        elif "result" in step:
            lines.append(("zPromptResponse", step["result"]))
        else:
            method = step.get("notify") or step["request"]
            scope = {"sessionId": "s"} if "request" in step else {}
            lines.append((SCHEMAS[method], scope | step["params"]))
    lines += [("zSystemPrompt", SYSTEM), ("zCreateElicitationResponse", ANSWER)]
    program = [find_node(), str(TYPESCRIPT / "validate.mjs")]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    ended = subprocess.run(program, input=given, capture_output=True, text=True, timeout=TYPESCRIPT_TIMEOUT)
    assert (ended.returncode, ended.stderr, json.loads(ended.stdout)) == (0, "", [])


def test_everything_passes_and_what_was_said_is_recorded(proxied: Proxied) -> None:
    session, messages = talk(proxied)
    steps = json.loads((SCRIPTS / "drafts.json").read_text().replace("{session}", session))["turns"][0]
    sent = [(step.get("session", session), step["update"]) for step in steps if "update" in step]
    updates = [message["params"] for message in messages if message.get("method") == "session/update"]
    got = [(params["sessionId"], params["update"]) for params in updates]
    assert [
        one for one in got if one[1]["sessionUpdate"] not in ("available_commands_update", "session_info_update")
    ] == sent
    for each in {session, f"{session}-child", f"{session}-child-2"}:
        kept = [entry["message"] for entry in entries(proxied.transcript(each)) if "message" in entry]
        recorded = [message["params"]["update"] for message in kept if message.get("method") == "session/update"]
        assert [one for one in recorded if kinds([one]) != ["available_commands_update"]] == [
            update for owner, update in sent if owner == each
        ]


def test_what_is_private_is_never_recorded(proxied: Proxied) -> None:
    _, messages = talk(proxied)
    assert EMAIL in json.dumps([message for message in messages if message.get("method") == "auth/status_update"])
    private = (EMAIL, "be-brief-and-secret", "branch-of-the-user")
    files = [path for path in proxied.store.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert [(path, word) for path in files for word in private if word.encode() in path.read_bytes()] == []


def test_a_child_session_is_recorded_and_never_listed(proxied: Proxied) -> None:
    session, _ = talk(proxied)
    header, *_ = entries(proxied.transcript(f"{session}-child"))
    assert (header["sessionId"], header["origin"]) == (f"{session}-child", "partial")
    with proxied.start("drafts") as editor:
        assert [row["sessionId"] for row in editor.sessions()] == [session]
        assert editor.end() == 0
    listed = json.loads(proxied.run("list", "--json"))
    assert [row["sessionId"] for row in listed] == [session]


def test_subagents_are_shown_inside_their_parents(proxied: Proxied) -> None:
    session, _ = talk(proxied)
    result = proxied.run("show", session)
    told = [
        "I ask a colleague.",
        "Reviewer begins",
        "Review the login, please.",
        "Read login.py",
        "Typist begins",
        "Typed.",
    ]
    told += ["Typist ends", "It looks good.", "Reviewer ends", "It is reviewed."]
    places = [result.index(each) for each in told]
    assert places == sorted(places)
    assert [result.count(each) for each in told] == [1] * len(told)
    for form in ("md", "html", "json"):
        exported = proxied.run("export", session, "--format", form)
        assert all(exported.count(each) >= 1 for each in ("Reviewer", "Typist", "Typed.", "login.py")), form
    items = json.loads(proxied.run("export", session, "--format", "json"))["turns"][0]["items"]
    [child] = [item for item in items if item["type"] == "subagent"]
    assert (child["sessionId"], child["title"]) == (f"{session}-child", "Reviewer")
    said = [
        (item["type"], "".join(block["text"] for block in item["content"]))
        for item in child["items"]
        if item["type"] in ("user", "thought", "agent")
    ]
    assert said == [
        ("user", "Review the login, please."),
        ("thought", "The login it is."),
        ("agent", "It looks good."),
    ]
    assert [item["title"] for item in child["items"] if item["type"] == "subagent"] == ["Typist"]
    plain = proxied.run("export", session, "--format", "json", "--no-thoughts", "--tools", "none")
    assert "The login it is." not in plain
    assert "Read login.py" not in plain


def test_secrets_of_subagents_are_masked_in_an_export(proxied: Proxied) -> None:
    session, _ = talk(proxied)
    patterns = proxied.base / "patterns"
    patterns.write_text("Typed|login")
    exported = proxied.run("export", session, "--format", "json", "--redact", str(patterns))
    assert "Typist" in exported
    assert "Typed" not in exported
    assert "login" not in exported


def test_a_session_that_somebody_opened_is_not_shown_inside_another(proxied: Proxied) -> None:
    """An agent may name any session, and an export is for other people."""
    mine = proxied.recorded("a secret of mine", script="conversation")
    names = {"update": {"sessionUpdate": "subagent_update", "sessionId": mine, "title": "Mine"}}
    itself = {"update": {"sessionUpdate": "subagent_update", "sessionId": "{session}", "title": "Itself"}}
    unknown = {"update": {"sessionUpdate": "subagent_update", "sessionId": "unknown", "title": "Unknown"}}
    session = proxied.recorded("mend it", script={"turns": [[names, itself, unknown]]})
    assert "a secret of mine" not in proxied.run("export", session, "--format", "json")
    assert "subagent" not in proxied.run("show", session)


def test_a_load_shows_drafts_only_to_a_client_that_knows_them(proxied: Proxied) -> None:
    session, _ = talk(proxied)
    drafts = ["plan_update", "plan_update", "plan_removed", "subagent_update", "session_message", "session_message"]
    drafts += ["subagent_update", "plan_update"]
    for wanted, expected in ((WANTED, drafts), ({}, [])):
        with proxied.editor("drafts") as editor:
            editor.initialize(clientCapabilities=wanted)
            updates = editor.load(session).updates
            assert [kind for kind in kinds(updates) if kind in drafts] == expected
            assert "notice" not in kinds(updates)
            assert "".join(texts(updates)) == "I ask a colleague. It is reviewed."
