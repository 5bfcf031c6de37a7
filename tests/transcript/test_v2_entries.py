"""Entries of version 2 read as entries of version 1: everything in its last state, in its first place."""

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import v2_updates
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript.v2_entries import V2AsV1
from tests.conversation import error, notification, prompt, raw, result, update
from tests.strategies import values

AT, RUN = "2026-11-20T09:15:02.123Z", "k3f9a1"


def entry(said: Any, peer: Peer = Peer.AGENT, of: str | None = None, version: int = 2, run: str = RUN) -> Entry:
    found = file_format.decode_entry(file_format.encode_message(AT, run, peer, raw(said), of, protocol_version=version))
    assert found is not None
    return found


def note(kind: str, run: str = RUN) -> Entry:
    return Entry(AT, run, None, note={"type": kind})


def prompt_entry(id: int = 1, text: str = "hello", run: str = RUN) -> Entry:
    return entry(prompt(id, "s", text), Peer.CLIENT, run=run)


def accept_prompt(id: int = 1) -> Entry:
    return entry(result(id, {"messageId": f"u{id}"}), of="session/prompt")


def state(name: str, **more: Any) -> Entry:
    return entry(update("s", "state_update", state=name, **more))


def update_entry(sort: str, **more: Any) -> Entry:
    return entry(notification("session/update", {"sessionId": "s", "update": {"sessionUpdate": sort, **more}}))


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def chunk_entry(said: str, id: str = "a", kind: str = "agent_message_chunk") -> Entry:
    return update_entry(kind, messageId=id, content=text(said))


def whole_message(*said: str, id: str = "a", kind: str = "agent_message") -> Entry:
    return update_entry(kind, messageId=id, content=[text(each) for each in said])


def encode_base64(said: bytes) -> str:
    return base64.b64encode(said).decode()


def retell(*entries: Entry, at_once: bool = False) -> list[Entry]:
    retelling = V2AsV1(at_once=at_once)
    return [out for one in entries for out in retelling.add(one)] + retelling.end()


def updates(entries: list[Entry]) -> list[Any]:
    """The updates among the entries, as they are to be in version 1."""
    for one in entries:
        assert one.raw is None or json.loads(one.raw) == one.value, "the value is what the bytes say"
    return [one.value["params"]["update"] for one in entries if one.peer is Peer.AGENT and one.answered_method is None]  # type: ignore[index]


def words(entries: list[Entry]) -> list[str]:
    return [one["content"]["text"] for one in updates(entries) if "message" in one["sessionUpdate"]]


def turn(*entries: Entry, **idle: Any) -> list[Entry]:
    return retell(prompt_entry(), state("running"), accept_prompt(), *entries, state("idle", **idle))


def test_a_turn_ends_with_idle_and_not_with_the_answer_that_accepts_the_prompt() -> None:
    out = turn(chunk_entry("Done."), stopReason="end_turn")
    assert [one.answered_method for one in out] == [None, None, "session/prompt"]
    assert out[-1].value == {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}


def test_a_turn_that_ends_with_an_error_has_failed() -> None:
    problem = {"code": -32603, "message": "rate limit"}
    [*_, last] = turn(stopReason="error", error=problem)
    assert last.value == {"jsonrpc": "2.0", "id": 1, "error": problem}


def test_a_refused_prompt_has_failed() -> None:
    refused = entry(error(1, -32000, "log in"), of="session/prompt")
    assert retell(prompt_entry(), refused)[-1] == refused


def test_repeated_idle_and_idle_before_the_prompt_is_accepted_end_no_turn() -> None:
    out = retell(prompt_entry(), state("idle"), accept_prompt(), state("running"), state("idle"), state("idle"))
    assert [one.answered_method for one in out] == [None, "session/prompt"]


def test_a_turn_that_ends_before_its_prompt_is_accepted_ends_then() -> None:
    out = retell(prompt_entry(), state("running"), chunk_entry("Done."), state("idle"), accept_prompt())
    assert [one.answered_method for one in out] == [None, None, "session/prompt"]


def test_one_idle_ends_the_turns_of_all_accepted_prompts() -> None:
    out = retell(
        prompt_entry(1),
        accept_prompt(1),
        prompt_entry(2),
        accept_prompt(2),
        prompt_entry(3),
        state("running"),
        state("idle"),
    )
    assert [one.value["id"] for one in out if one.answered_method] == [1, 2]  # type: ignore[index]


def test_chunks_of_messages_that_interleave_are_joined_by_id() -> None:
    out = turn(chunk_entry("one ", "a"), chunk_entry("two ", "b"), chunk_entry("1", "a"), chunk_entry("2", "b"))
    assert words(out) == ["one 1", "two 2"]


def test_a_whole_message_replaces_its_chunks_in_their_place() -> None:
    out = turn(
        chunk_entry("dratf", "a"), chunk_entry("next", "b"), whole_message("draft", id="a"), chunk_entry(" more", "a")
    )
    assert words(out) == ["draft more", "next"]


def test_null_and_an_empty_array_clear_a_message_and_nothing_leaves_it() -> None:
    assert words(turn(chunk_entry("gone"), update_entry("agent_message", messageId="a", content=None))) == []
    assert words(turn(chunk_entry("gone"), whole_message())) == []
    assert words(turn(chunk_entry("stays"), update_entry("agent_message", messageId="a", _meta={"x": 1}))) == ["stays"]


def test_messages_of_different_speakers_may_have_one_id() -> None:
    out = turn(
        whole_message("hi", id="1", kind="user_message"),
        whole_message("hello", id="1"),
        whole_message("hm", id="1", kind="agent_thought"),
    )
    assert [one["sessionUpdate"] for one in updates(out)] == [
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
    ]


def test_blocks_that_are_not_text_stay_as_they_are() -> None:
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    out = turn(update_entry("agent_message", messageId="a", content=[text("see"), image, text("done")]))
    assert [one["content"] for one in updates(out)] == [text("see"), image, text("done")]


def test_null_clears_a_field_of_a_call_and_what_is_omitted_stays() -> None:
    [call] = updates(
        turn(
            update_entry("tool_call_update", toolCallId="c", title="Run", kind="execute", rawInput={"a": 1}),
            update_entry("tool_call_update", toolCallId="c", status="completed", rawInput=None),
        )
    )
    assert call == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "Run",
        "kind": "execute",
        "status": "completed",
    }


def test_chunks_add_to_the_content_of_a_call_and_an_update_replaces_it() -> None:
    items = [v2_updates.make_text_item(name) for name in "abc"]
    [call] = updates(
        turn(
            update_entry("tool_call_content_chunk", toolCallId="c", content=items[0]),
            update_entry("tool_call_update", toolCallId="c", content=[items[1]]),
            update_entry("tool_call_content_chunk", toolCallId="c", content=items[2]),
        )
    )
    assert call["content"] == items[1:]
    assert call["title"] == "c"


def permission(subject: Any) -> Entry:
    params = {"sessionId": "s", "title": "May I?", "options": [{"optionId": "y"}], "subject": subject}
    return entry({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params})


def test_a_permission_request_counts_as_an_update_of_its_call() -> None:
    call = {"toolCallId": "c", "title": "Run"}
    out = turn(
        permission({"type": "tool_call", "toolCall": call}),
        update_entry("tool_call_update", toolCallId="c", status="cancelled"),
    )
    questions = [one.value for one in out if one.answered_method is None and one.peer is Peer.AGENT]
    [question] = [value for value in questions if "id" in value]  # type: ignore[operator]
    assert question == {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "session/request_permission",
        "params": {"sessionId": "s", "toolCall": call, "options": [{"optionId": "y"}]},
    }
    [said] = updates([one for one in out if b"tool_call" in (one.raw or b"")])
    assert (said["title"], said["status"]) == ("Run", "failed")


def test_a_permission_request_about_a_command_has_the_requests_title() -> None:
    [question] = retell(permission({"type": "command", "command": "make", "toolCallId": "c"}))
    assert question.value["params"]["toolCall"] == {"toolCallId": "c", "title": "May I?"}  # type: ignore[index]


def test_a_permission_request_about_no_call_gets_an_id_of_its_own() -> None:
    for subject in ({"type": "command", "command": "make"}, None):
        [question] = retell(permission(subject))
        call = question.value["params"]["toolCall"]  # type: ignore[index]
        assert call == {"toolCallId": f"acp-proxy-permission-{RUN}-7", "title": "May I?"}


def test_a_call_shows_the_output_of_its_terminal_also_what_comes_later() -> None:
    shows = update_entry("tool_call_update", toolCallId="c", content=[{"type": "terminal", "terminalId": "x"}])
    begun = update_entry("terminal_update", terminalId="x", command="make")
    out = turn(begun, shows, update_entry("terminal_output_chunk", terminalId="x", data=encode_base64(b"12 ")))
    assert updates(out)[0]["content"] == [v2_updates.make_text_item("```\n$ make\n12 \n```")]
    later = retell(
        prompt_entry(1),
        accept_prompt(1),
        begun,
        shows,
        state("idle"),
        prompt_entry(2),
        update_entry("terminal_output_chunk", terminalId="x", data=encode_base64(b"passed\n")),
        update_entry("terminal_update", terminalId="x", exitStatus={"exitCode": 0}),
    )
    first, last = updates(later)
    assert (first["sessionUpdate"], last["sessionUpdate"]) == ("tool_call", "tool_call_update")
    assert last["content"] == [v2_updates.make_text_item("```\n$ make\npassed\n```\n[exited with code 0]")]


def test_a_snapshot_of_a_terminals_output_replaces_it() -> None:
    shows = update_entry("tool_call_update", toolCallId="c", content=[{"type": "terminal", "terminalId": "x"}])
    chunked = update_entry("terminal_output_chunk", terminalId="x", data=encode_base64(b"old"))
    out = turn(shows, chunked, update_entry("terminal_update", terminalId="x", output={"data": encode_base64(b"new")}))
    assert updates(out)[0]["content"] == [v2_updates.make_text_item("```\nnew\n```")]


def git_patch(text: str, *changes: dict[str, Any], kind: str = "git_patch") -> dict[str, Any]:
    return {"type": "diff", "changes": list(changes), "patch": {"format": kind, "text": text}}


def change(operation: str, path: str, **more: str) -> dict[str, Any]:
    return {"operation": operation, "path": path, **more}


def test_a_patch_becomes_a_diff_for_each_hunk() -> None:
    text = (
        "diff --git /b /b\n--- /b\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
        "diff --git /a /a\n--- /a\n+++ /a\n@@ -1 +1 @@\n-1\n+2\n@@ -9 +9 @@\n-8\n+9\n"
        "diff --git /c /c\n--- /dev/null\n+++ /c\n@@ -0,0 +1 @@\n+new\n"
    )
    patch = git_patch(text, change("modify", "/a"), change("delete", "/b"), change("add", "/c"))
    [call] = updates(turn(update_entry("tool_call_update", toolCallId="c", content=[patch])))
    assert [(item["path"], item["oldText"], item["newText"]) for item in call["content"]] == [
        ("/a", "1\n", "2\n"),
        ("/a", "8\n", "9\n"),
        ("/b", "old\n", ""),
        ("/c", None, "new\n"),
    ]
    assert [v2_updates.is_hunk(item) for item in call["content"]] == [True, True, False, False]
    assert call["locations"] == [{"path": "/a"}, {"path": "/b"}, {"path": "/c"}]


def test_a_patch_that_lacks_a_change_is_text_and_changes_without_one_are_listed() -> None:
    changes = [change("modify", "/a"), change("move", "/c", oldPath="/b")]
    other_format = git_patch("@@ -1 +1 @@\n-a\n+b\n", changes[0], kind="_mine")
    content = [git_patch("-a\n+b\n", *changes), other_format, {"type": "diff", "changes": changes}]
    [call] = updates(turn(update_entry("tool_call_update", toolCallId="c", content=content)))
    assert call["content"] == [
        v2_updates.make_text_item("```diff\n-a\n+b\n```"),
        v2_updates.make_text_item("```diff\n@@ -1 +1 @@\n-a\n+b\n```"),
        v2_updates.make_text_item("modify /a\nmove /b -> /c"),
    ]


def test_the_files_of_a_diff_are_locations_unless_the_agent_states_some() -> None:
    diff = {"type": "diff", "changes": [change("modify", "/a"), change("move", "/c", oldPath="/b")]}
    bare, stated = (
        update_entry("tool_call_update", toolCallId=id, content=[diff], **more)
        for id, more in (("1", {}), ("2", {"locations": [{"path": "/a", "line": 3}]}))
    )
    assert [update["locations"] for update in updates(turn(bare, stated))] == [
        [{"path": "/a"}, {"path": "/b"}, {"path": "/c"}],
        [{"path": "/a", "line": 3}],
    ]


def test_plans_are_told_by_id_in_their_last_state() -> None:
    def plan(id: str, *steps: str) -> Entry:
        return update_entry(
            "plan_update", plan={"type": "items", "planId": id, "entries": [{"content": step} for step in steps]}
        )

    out = turn(
        plan("p", "look"),
        plan("q", "mend"),
        plan("p", "look", "think"),
        plan("r", "gone"),
        update_entry("plan_removed", planId="r"),
    )
    [said] = updates(out)
    assert (said["sessionUpdate"], [each["content"] for each in said["entries"]]) == ("plan", ["look", "think", "mend"])


def test_kinds_that_nobody_knows_and_state_pass_as_they_are() -> None:
    odd, usage = update_entry("_odd", value=1), update_entry("usage_update", used=1, size=2)
    other = update_entry("plan_update", plan={"type": "markdown", "planId": "p", "content": "# Plan"})
    out = turn(odd, usage, other)
    assert all(one in out for one in (odd, usage, other))


def test_entries_of_version_1_pass_as_they_are() -> None:
    first = [entry(prompt(1, "s"), Peer.CLIENT, version=1), entry(update("s", "agent_message"), version=1)]
    first += [entry(result(1, {"stopReason": "end_turn"}), of="session/prompt", version=1), note("closed")]
    assert retell(*first) == first
    assert retell(chunk_entry("second"), *first)[1:] == first


def test_told_at_once_a_whole_message_adds_only_its_new_words() -> None:
    out = retell(prompt_entry(), chunk_entry("All "), whole_message("All good"), chunk_entry("."), at_once=True)
    assert words(out) == ["All ", "good", "."]


def test_told_at_once_other_words_begin_a_new_message() -> None:
    out = retell(prompt_entry(), chunk_entry("dratf"), whole_message("draft"), at_once=True)
    first, last = updates(out)
    assert (first["messageId"], first["content"]["text"]) == ("a", "dratf")
    assert ("messageId" in last, last["content"]["text"]) == (False, "draft")


def test_a_prompt_during_a_turn_repeats_no_words() -> None:
    out = retell(
        prompt_entry(1),
        accept_prompt(1),
        chunk_entry("one "),
        prompt_entry(2),
        accept_prompt(2),
        whole_message("one two"),
        state("idle"),
    )
    assert words(out) == ["one ", "two"]


KINDS = ["user_message", "agent_message", "agent_message_chunk", "tool_call_update", "tool_call_content_chunk"]
KINDS += ["terminal_update", "terminal_output_chunk", "plan_update", "plan_removed", "state_update", "_odd"]
NAMES = ["content", "messageId", "toolCallId", "terminalId", "plan", "planId", "data", "output", "status", "state"]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(NAMES), values | st.just("x")))))
def test_whatever_an_agent_sends_is_read(said: list[tuple[str, dict[str, Any]]]) -> None:
    entries = [update_entry(kind, **members) for kind, members in said]
    for at_once in (False, True):
        retell(prompt_entry(), accept_prompt(), *entries, at_once=at_once)
    v2_updates.read_replay_as_v1([one.value["params"]["update"] for one in entries])  # type: ignore[index]
