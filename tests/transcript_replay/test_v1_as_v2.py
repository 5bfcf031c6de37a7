"""A replay in version 1, restated for a client of version 2."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Replayer
from acp_proxy.transcript_replay.v2_client_replayer import V1ToV2Converter, V2ClientReplayer
from acp_proxy.transcript_replay.v2_replayer import V2Replayer
from tests.conversation import line, prompt, result, update
from tests.transcript.test_v2_entries import accept_prompt, chunk_entry, entry, prompt_entry, state, text, whole_message

PATCH = """diff --git a/w/a b/w/a
--- a/w/a
+++ b/w/a
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
 8
"""


def restate(*updates: dict[str, Any]) -> list[dict[str, Any]]:
    restating = V1ToV2Converter("s")
    [item] = restating.convert([b"".join(map(line, updates))])
    return [json.loads(one)["params"]["update"] for one in item.splitlines()]


def message_chunk(words: str, kind: str = "agent_message_chunk", **more: Any) -> dict[str, Any]:
    return update("s", kind, content=text(words), **more)


def call(sort: str = "tool_call", **more: Any) -> dict[str, Any]:
    return update("s", sort, toolCallId="c", **more)


def changed(old: str | None, new: str) -> str:
    [told] = restate(call(content=[{"type": "diff", "path": "/w/a", "oldText": old, "newText": new}]))
    [item] = told["content"]
    assert item["type"] == "diff"
    assert item["changes"] == [{"operation": "add" if old is None else "modify", "path": "/w/a"}]
    assert item["patch"]["format"] == "git_patch"
    return str(item["patch"]["text"])


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, ""),
        (None, "a\n"),
        ("a", "a\n"),
        ("a\n", ""),
        ("a\n\x0cb\nc\n", "a\n\x0cb\nd\n"),
        ("a\u2028b\nc\n", "a\u2028b\nd\n"),
        ("a\rb\nc\n", "a\rb\nd"),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
    ],
)
def test_git_makes_the_new_text_of_the_old_one(tmp_path: Path, old: str | None, new: str) -> None:
    file = tmp_path / "w" / "a"
    file.parent.mkdir()
    if old is not None:
        file.write_bytes(old.encode())
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=changed(old, new).encode(), check=True)
    assert (file.read_bytes() if file.exists() else b"") == new.encode()


def test_chunks_without_an_id_get_one_for_each_message() -> None:
    told = restate(
        message_chunk("a"),
        message_chunk("b"),
        message_chunk("c", "agent_thought_chunk"),
        message_chunk("d"),
        call(),
        message_chunk("e"),
    )
    ids = [one["messageId"] for one in told if "messageId" in one]
    assert ids == ["acp-proxy-1", "acp-proxy-1", "acp-proxy-2", "acp-proxy-3", "acp-proxy-4"]


def test_an_id_that_another_kind_of_message_has_is_changed() -> None:
    told = restate(
        message_chunk("a", messageId="m"),
        message_chunk("b", "agent_thought_chunk", messageId="m"),
        message_chunk("c", messageId="m"),
    )
    assert [one["messageId"] for one in told] == ["m", "acp-proxy-agent_thought_chunk-m", "m"]


def test_other_lines_and_numbers_keep_their_bytes() -> None:
    restating = V1ToV2Converter("s")
    odd = line(update("s", "_odd", x=1.0)).replace(b":", b" : ")
    assert restating.convert([odd, line(message_chunk("a", messageId="m"))]) == [
        odd,
        line(message_chunk("a", messageId="m")),
    ]
    [told] = restating.convert([line(call(rawInput={"x": 10**30, "y": 1.0}))])
    assert b'"rawInput":{"x":1000000000000000000000000000000,"y":1.0}' in told


def test_a_call_is_an_upsert_in_which_null_changes_nothing_and_a_second_start_clears() -> None:
    first = call(title="Run", status="pending", rawInput=None)
    [one, two, three] = restate(first, call("tool_call_update", status="completed", title=None), call(title="Again"))
    kind = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
    assert one == {**kind, "title": "Run", "status": "pending"}
    assert two == {**kind, "status": "completed"}
    assert three == {**kind, "title": "Again", "kind": None, "status": None, "content": None, "locations": None}


def test_a_diff_gets_a_patch_of_what_has_changed() -> None:
    numbers = [f"{number}\n" for number in range(1, 12)]
    assert changed("".join(numbers), "".join(numbers).replace("5", "five")) == PATCH


@pytest.mark.parametrize(
    ("old", "new", "hunk"),
    [
        (None, "a\n", "@@ -0,0 +1,1 @@\n+a\n"),
        ("a", "b\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n"),
        ("a\na\n", "a\n", "@@ -1,2 +1,1 @@\n a\n-a\n"),
        ("a\n", "", "@@ -1,1 +0,0 @@\n-a\n"),
    ],
)
def test_files_may_be_new_or_end_without_a_newline(old: str | None, new: str, hunk: str) -> None:
    assert changed(old, new).endswith(hunk)
    assert ("--- /dev/null\n" in changed(old, new)) is (old is None)


def test_the_plan_gets_an_id() -> None:
    entries = [{"content": "look", "priority": "high", "status": "pending"}]
    [told] = restate(update("s", "plan", entries=entries))
    plan = {"type": "items", "planId": "acp-proxy-plan", "entries": entries}
    assert told == {"sessionUpdate": "plan_update", "plan": plan}


@pytest.mark.parametrize("broken", [call(content=7), update("s", "plan"), {"x": 1}])
def test_what_makes_no_sense_stays(broken: Any) -> None:
    assert len(V1ToV2Converter("s").convert([line(broken)])) == 1


def test_parts_of_both_versions_are_replayed_in_order() -> None:
    def first(value: Any) -> Entry:
        return entry(value, version=1)

    begun = [entry(prompt(7, "s", "old"), Peer.CLIENT, version=1), first(message_chunk("Old."))]
    begun += [first(call(title="T", status="in_progress")), entry(result(7, {}), of="session/prompt", version=1)]
    later = [
        prompt_entry(),
        state("running"),
        whole_message("hello", id="u1", kind="user_message"),
        accept_prompt(),
        chunk_entry("New."),
    ]
    either = V2ClientReplayer("s", Replayer("s", run_id="own"), V2Replayer("s"))
    lines = [line for number, one in enumerate([*begun, *later, *begun]) for line in either.add(number, one)]
    told = [json.loads(one)["params"]["update"] for one in b"".join([*lines, *either.end()]).splitlines()]
    kinds = [(one["sessionUpdate"], one.get("status")) for one in told]
    once = [("user_message_chunk", None), ("agent_message_chunk", None), ("tool_call_update", "failed")]
    assert kinds == [*once, ("user_message", None), ("agent_message_chunk", None), *once]
    assert len({one["messageId"] for one in told if "messageId" in one}) == 6
