"""The answers to session/list: every session once, in pages, by directory, with its title."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from acp_proxy.protocol import timestamps
from acp_proxy.store.store import Store
from tests.client import Client, RequestFailed
from tests.end_to_end.proxied import Editor, Proxied, texts
from tests.scripted.agent import NAME
from tests.stored import EPOCH, store_session

PAGE = 500
MANY = 1200
SILENT: Mapping[str, Any] = {"turns": [[{"stop": "end_turn"}]]}
COUNTING: Mapping[str, Any] = {"sessionIds": "counting", "turns": [[{"update": {
    "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "{prompt}"}}}]]}  # fmt: skip
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///project/src/sum.py", "name": "the sum"}
EMBEDDED = {"type": "resource", "resource": {"uri": "file:///project/notes.md", "text": "Read this"}}

Blocks = list[dict[str, Any]]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def started(proxied: Proxied, script: str | Mapping[str, Any] | None = SILENT, *agent: str) -> Editor:
    editor = proxied.editor(script, agent=agent)
    editor.initialize()
    return editor


def prompted(editor: Editor, *prompts: Blocks, **params: Any) -> str:
    """A new session with these prompts."""
    session = editor.new_session(**params)
    for blocks in prompts or ([text("one")],):
        editor.request("session/prompt", {"sessionId": session, "prompt": blocks})
    return session


def listed(editor: Editor, **params: Any) -> list[str]:
    return [one["sessionId"] for one in editor.sessions(**params)]


def code_of(editor: Editor, **params: Any) -> tuple[Any, Any]:
    with pytest.raises(RequestFailed) as refusal:
        editor.request("session/list", params)
    return refusal.value.code, refusal.value.message


# Pages.


def fill(proxied: Proxied, count: int, cwd: str = "/project", prefix: str = "old") -> set[str]:
    """Record so many sessions; every second one has the time of the one before. Their ids."""
    store = Store(proxied.store)
    names = {f"{prefix}-{number}" for number in range(count)}
    for number, session in enumerate(sorted(names)):
        store_session(store, session, (f"prompt {number}", []), agent=NAME, cwd=cwd, at=EPOCH + number // 2)
    return names


def pages(editor: Editor, between: Any = lambda: None, **params: Any) -> list[list[dict[str, Any]]]:
    """All pages, with a call between each two."""
    found: list[list[dict[str, Any]]] = []
    result: dict[str, Any] = {"nextCursor": None}
    while "nextCursor" in result:
        result = editor.request("session/list", {"cursor": result["nextCursor"]} | params)
        found.append(result["sessions"])
        between()
    return found


def test_sessions_are_paged_completely_while_new_ones_arrive(proxied: Proxied) -> None:
    names = fill(proxied, MANY)
    editor = started(proxied)
    other = started(proxied)
    new: list[str] = []

    def talk_on() -> None:
        new.extend(prompted(one) for one in (editor, other))

    found = pages(editor, talk_on)
    assert [len(page) for page in found] == [PAGE, PAGE, MANY - 2 * PAGE]
    rows = [row for page in found for row in page]
    assert sorted(row["sessionId"] for row in rows) == sorted(names)
    times = [row["updatedAt"] for row in rows]
    assert times == sorted(times, reverse=True)

    again = [row for page in pages(editor) for row in page]
    assert {row["sessionId"] for row in again[: len(new)]} == set(new)
    assert again[len(new) :] == rows


def test_one_full_page_has_no_cursor(proxied: Proxied) -> None:
    fill(proxied, PAGE)
    result = started(proxied).request("session/list", {})
    assert len(result["sessions"]) == PAGE
    assert "nextCursor" not in result


def test_the_filter_applies_before_the_pages(proxied: Proxied) -> None:
    wanted = fill(proxied, PAGE + 2, "/wanted", "wanted")
    fill(proxied, 10, "/other", "other")
    found = pages(started(proxied), cwd="/wanted")
    assert [len(page) for page in found] == [PAGE, 2]
    assert {row["sessionId"] for page in found for row in page} == wanted


GARBAGE = [
    "x",
    "",
    "é",
    "\ud800",
    "0" * 100_000,
    base64.urlsafe_b64encode(b'{"page":2}').decode(),
    base64.urlsafe_b64encode(b"[1,2,3,4]").decode(),
    base64.urlsafe_b64encode(b"[" * 5000).decode(),
]


def test_garbage_as_a_cursor_is_refused(proxied: Proxied) -> None:
    editor = started(proxied)
    answers = [code_of(editor, cursor=cursor) for cursor in GARBAGE]
    assert answers == [(-32602, "Invalid cursor")] * len(GARBAGE)


def test_a_cursor_of_another_filter_or_agent_is_refused(proxied: Proxied) -> None:
    fill(proxied, PAGE + 1)
    editor = started(proxied)
    cursor = editor.request("session/list", {})["nextCursor"]
    filtered = editor.request("session/list", {"cwd": "/project"})["nextCursor"]
    assert code_of(editor, cursor=cursor, cwd="/project") == (-32602, "Invalid cursor")
    assert code_of(editor, cursor=filtered) == (-32602, "Invalid cursor")
    assert code_of(editor, cursor=filtered, cwd="/elsewhere") == (-32602, "Invalid cursor")
    assert code_of(started(proxied, SILENT, "--name", "another"), cursor=cursor) == (-32602, "Invalid cursor")
    assert len(listed(editor, cursor=cursor)) == len(listed(editor, cursor=filtered, cwd="/project")) == 1


def test_a_cursor_works_in_a_later_process(proxied: Proxied) -> None:
    fill(proxied, PAGE + 1)
    with started(proxied) as editor:
        cursor = editor.request("session/list", {})["nextCursor"]
    assert len(listed(started(proxied), cursor=cursor)) == 1


def test_null_equals_absence(proxied: Proxied) -> None:
    editor = started(proxied)
    session = prompted(editor)
    for params in (None, {}, {"cursor": None}, {"cwd": None, "cursor": None}):
        assert [one["sessionId"] for one in editor.request("session/list", params)["sessions"]] == [session]


# Directories.


def test_a_relative_directory_is_refused(proxied: Proxied) -> None:
    editor = started(proxied)
    relative = ["relative", "./here", "~", "", "C:here"]
    assert [code_of(editor, cwd=cwd)[0] for cwd in relative] == [-32602] * len(relative)


def test_a_directory_matches_in_any_spelling_even_if_it_is_missing(proxied: Proxied) -> None:
    real, link = proxied.base / "real", proxied.base / "link"
    real.mkdir()
    link.symlink_to(real)
    editor = started(proxied)
    by_name = prompted(editor, cwd=str(real))
    by_link = prompted(editor, cwd=f"{link}/")
    prompted(editor, cwd=str(real / "child"))
    prompted(editor, cwd=f"{real}-sibling")
    prompted(editor, cwd=str(proxied.base))
    spellings = [str(real), f"{real}/", f"{real}//", f"{real}/./", f"{real}/child/..", str(link), f"{link}/"]
    for spelling in spellings:
        assert listed(editor, cwd=spelling) == [by_link, by_name], spelling
    assert [one["cwd"] for one in editor.sessions(cwd=str(real))] == [f"{link}/", str(real)]
    link.unlink()
    real.rmdir()
    assert by_name in listed(editor, cwd=f"{real}/")
    assert by_link in listed(editor, cwd=str(link))


def test_an_unknown_directory_has_no_sessions(proxied: Proxied) -> None:
    editor = started(proxied)
    prompted(editor)
    assert editor.sessions(cwd="/never/was/here") == []
    assert editor.sessions(cwd="C:\\never\\was\\here") == []


def test_additional_directories_are_listed_if_the_agent_supports_them(proxied: Proxied) -> None:
    more = {"additionalDirectories": ["/more", "/and/more"]}
    knows: dict[str, Any] = {"agentCapabilities": {"sessionCapabilities": {"additionalDirectories": {}}}}
    with started(proxied) as editor:
        prompted(editor, **more)
        assert "additionalDirectories" not in editor.sessions()[0]
    with started(proxied, {**SILENT, "initialize": {"result": knows}}) as editor:
        [found] = editor.sessions()
        assert found["additionalDirectories"] == more["additionalDirectories"]


# Agents.


def test_sessions_of_two_agents_with_equal_ids_are_separate(proxied: Proxied) -> None:
    one = started(proxied, COUNTING, "--name", "one")
    other = started(proxied, COUNTING, "--name", "other", "--memory", str(proxied.base / "other memory"))
    assert prompted(one, [text("said to one")]) == prompted(other, [text("said to the other")]) == "session-1"
    assert [row["title"] for row in one.sessions()] == ["said to one"]
    assert [row["title"] for row in other.sessions()] == ["said to the other"]
    assert texts(other.load("session-1").updates) == ["said to the other"]
    one.request("session/delete", {"sessionId": "session-1"})
    assert one.sessions() == []
    assert [row["title"] for row in other.sessions()] == ["said to the other"]
    assert texts(other.load("session-1").updates) == ["said to the other"]


def test_an_id_reused_by_the_agent_is_the_new_session(proxied: Proxied) -> None:
    with started(proxied, COUNTING) as editor:
        assert prompted(editor, [text("yesterday")]) == "session-1"
        editor.end()
    editor = started(proxied, COUNTING)
    assert prompted(editor, [text("today")]) == "session-1"
    assert [row["title"] for row in editor.sessions()] == ["today"]
    assert texts(editor.load("session-1").updates) == ["today"]


# Titles.

TITLES: list[tuple[str, list[Blocks], str | None]] = [
    ("the first prompt", [[text("Mend it")]], "Mend it"),
    ("blank lines are skipped", [[text("\n \t\n  Mend it \nand the rest")]], "Mend it"),
    ("later prompts are ignored", [[text("Mend it")], [text("And more")]], "Mend it"),
    ("an editor's context is skipped", [[text("<context>\nfile"), text("Mend it")]], "Mend it"),
    ("a command is skipped", [[text("/init")], [text("Mend it")]], "Mend it"),
    ("a blank block is skipped", [[text(" \n"), text("Mend it")]], "Mend it"),
    ("only a command", [[text("/init")], [text("<context>")]], "/init"),
    ("a resource's name", [[IMAGE, LINK]], "the sum"),
    ("an embedded resource's name", [[EMBEDDED]], "notes.md"),
    ("text wins over a resource", [[LINK, text("Mend it")]], "Mend it"),
    ("later text wins over a resource", [[LINK], [text("Mend it")]], "Mend it"),
    ("no text", [[IMAGE]], None),
    ("only white space", [[text(" \n\t")]], None),
    ("white space is collapsed", [[text("Mend \t it\u00a0\u2003now\r\nplease")]], "Mend it now"),
    ("control characters are removed", [[text("Mend\x1b[31m\x07 \u009bit\u202e\u200b\x00")]], "Mend it"),
    ("a very long word is cut", [[text("x" * 300)]], "x" * 119 + "…"),
    ("of the maximum length", [[text("x" * 120)]], "x" * 120),
    ("cut at a word", [[text("otter " * 40)]], " ".join(["otter"] * 19) + "…"),
]


def test_a_title_comes_from_the_prompts(proxied: Proxied) -> None:
    editor = started(proxied)
    rules = {prompted(editor, *prompts): (rule, title) for rule, prompts, title in TITLES}
    found = editor.sessions()
    assert {rules[one["sessionId"]][0]: one.get("title") for one in found} == {rule: title for rule, _, title in TITLES}
    assert all("title" in one for one in found if rules[one["sessionId"]][1] is not None)
    assert not any("title" in one for one in found if rules[one["sessionId"]][1] is None)


def test_the_agents_title_time_and_meta_win_until_they_are_cleared(proxied: Proxied) -> None:
    editor = started(proxied, "title")
    session = prompted(editor, [text("Mend it")])
    editor.wait_for(lambda one: step_of(one) == 2)
    [found] = editor.sessions()
    assert found["title"] == "What the agent calls it"
    assert found["updatedAt"] == "2026-11-20T09:15:02.000Z"
    assert found["_meta"] == {
        "tags": ["first"],
        "origin": {"kind": "demo", "step": 2},
        "messageCount": 2,
        "hasErrors": False,
    }

    before = timestamps.normal(datetime.now(UTC))
    editor.prompt(session, "and more")
    [found] = editor.sessions()
    assert found["title"] == "Another name"
    assert found["updatedAt"] >= before
    assert found["_meta"] == {"origin": {"kind": "demo", "step": 2}, "messageCount": 4, "hasErrors": False}

    editor.prompt(session, "and more")
    [found] = editor.sessions()
    assert found["title"] == "Mend it"
    assert found["_meta"] == {"messageCount": 6, "hasErrors": False}


def step_of(message: Any) -> Any:
    match message:
        case {"params": {"update": {"_meta": {"origin": {"step": step}}}}}:
            return step
    return None


def titled(*updates: dict[str, Any]) -> dict[str, Any]:
    steps = [{"update": {"sessionUpdate": "session_info_update", **update}} for update in updates]
    return {"turns": [steps]}


@pytest.mark.parametrize(
    ("update", "title"),
    [
        ({"title": "t" * 600}, "t" * 499 + "…"),
        ({"title": "t" * 500}, "t" * 500),
        ({"title": " a \x1b title\n"}, "a title"),
        ({"title": ""}, "Mend it"),
        ({"title": 7}, "Mend it"),
        ({}, "Mend it"),
    ],
)
def test_the_agents_title_is_cleaned(proxied: Proxied, update: dict[str, Any], title: str) -> None:
    editor = started(proxied, titled(update))
    prompted(editor, [text("Mend it")])
    assert editor.sessions()[0]["title"] == title


@pytest.mark.parametrize("time", ["yesterday", 7, "", "2026-13-40T00:00:00Z"])
def test_an_invalid_time_is_ignored(proxied: Proxied, time: Any) -> None:
    editor = started(proxied, titled({"updatedAt": "2001-02-03T04:05:06Z"}, {"updatedAt": time}))
    prompted(editor)
    assert editor.sessions()[0]["updatedAt"] == "2001-02-03T04:05:06.000Z"


def test_the_agents_meta_wins_over_ours(proxied: Proxied) -> None:
    editor = started(proxied, titled({"_meta": {"messageCount": 99, "hasErrors": None, "x": {"y": 1}}}))
    prompted(editor)
    assert editor.sessions()[0]["_meta"] == {"messageCount": 99, "hasErrors": False, "x": {"y": 1}}


def test_a_failed_prompt_shows_in_the_list(proxied: Proxied) -> None:
    editor = started(proxied, "fails-prompt")
    session = editor.new_session()
    with pytest.raises(RequestFailed):
        editor.prompt(session, "one")
    [found] = editor.sessions()
    assert found["_meta"] == {"messageCount": 1, "hasErrors": True}


# Agents with their own list.

NATIVE = ("--capabilities", "resume,list")


def raw_list(client: Client, **params: Any) -> bytes:
    """The line that answers a list, with a fixed id."""
    since = client.count_lines()
    client.send({"jsonrpc": "2.0", "id": "list", "method": "session/list", "params": params})
    return client.wait_for(lambda one: isinstance(one, dict) and one.get("id") == "list", since=since).raw


def test_the_agents_list_passes_byte_for_byte_without_deleted_sessions(proxied: Proxied) -> None:
    editor = started(proxied, "echo", *NATIVE)
    sessions = [prompted(editor, [text(f"Mend {number}")]) for number in range(3)]
    unprompted = editor.new_session()
    with Editor(proxied.bare_agent("echo", NATIVE)) as direct:
        direct.request("initialize", {"protocolVersion": 1})
        own = raw_list(direct)
        assert raw_list(editor) == own
        assert unprompted.encode() in own

        editor.request("session/delete", {"sessionId": sessions[1]})
        rows = [row for row in json.loads(own)["result"]["sessions"] if row["sessionId"] != sessions[1]]
        less = {"jsonrpc": "2.0", "id": "list", "result": {"sessions": rows}}
        assert raw_list(editor) == json.dumps(less, separators=(",", ":")).encode() + b"\n"
        assert raw_list(direct) == own  # the agent still has it
        project = str(proxied.project)
        assert raw_list(editor, cwd="/elsewhere") == raw_list(direct, cwd="/elsewhere") != raw_list(direct, cwd=project)
    with started(proxied, "echo", *NATIVE) as later:
        assert sessions[1].encode() not in raw_list(later)


def test_only_deleted_sessions_are_removed_from_any_form_of_list(proxied: Proxied) -> None:
    line = '{ "result": {"sessions" : [ {"sessionId":"a"} , {"n":1.0, "sessionId" :"b"} , 7 ], "x":1e2} ,"id":"list" }'
    script = {"methods": {"session/list": {"before": [{"line": line}, {"hang": True}]}}}
    editor = started(proxied, script, *NATIVE)
    editor.request("session/delete", {"sessionId": "another"})
    assert raw_list(editor) == f"{line}\n".encode()
    editor.request("session/delete", {"sessionId": "a"})
    left = line.replace('[ {"sessionId":"a"} , {', "[{").replace(" , 7 ]", ",7]")
    assert raw_list(editor) == f"{left}\n".encode()


def test_the_agents_cursor_and_errors_pass_unchanged(proxied: Proxied) -> None:
    result = {
        "sessions": [{"sessionId": "a", "cwd": "/x", "extra": 1.0}, {"sessionId": "b"}],
        "nextCursor": "c",
        "n": 1,
    }
    editor = started(proxied, {"methods": {"session/list": {"result": result}}}, *NATIVE)
    editor.request("session/delete", {"sessionId": "a"})
    assert editor.request("session/list", {}) == {**result, "sessions": [{"sessionId": "b"}]}
    refusing = started(proxied, None, *NATIVE)
    assert code_of(refusing, cursor="theirs")[0] == -32602


def test_an_agent_with_a_list_gains_load_and_delete(proxied: Proxied) -> None:
    capabilities = proxied.editor(None, agent=NATIVE).initialize()["agentCapabilities"]
    assert capabilities["_meta"]["acp-proxy"]["serves"] == ["delete", "load"]
    assert capabilities["sessionCapabilities"] == {"resume": {}, "list": {}, "delete": {}}
