"""Compactions and other kinds that only some clients understand."""

import json
from typing import Any, get_args

import pytest

from acp_proxy.protocol import update_kinds
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from tests.transcript_replay.entries import (
    RUN,
    SESSION,
    Value,
    answer,
    chunk,
    message_chunk,
    message_entry,
    prompt_entry,
    text,
    update,
    updates_in,
)

MODES = pytest.mark.parametrize("mode", get_args(Mode))
KINDS = update_kinds.find_allowed({"session": {"compaction": {}}})


def compaction_entry(status: str, id: str = "c", run: str = RUN, **more: object) -> Entry:
    return update("compaction_update", run, compactionId=id, status=status, **more)


def summed(words: str, id: str = "c") -> Entry:
    return update("compaction_summary_chunk", compactionId=id, content=text(words))


def tell(*entries: Entry, mode: Mode = "compact", kinds: frozenset[str] = KINDS, run: str = "later") -> list[Value]:
    replayer = Replayer(SESSION, run_id=run, mode=mode, client_update_kinds=kinds)
    told = [one for number, entry in enumerate(entries, 1) for one in replayer.add(number, entry)]
    return updates_in(told + replayer.end())


def whole(status: str, id: str = "c", **more: Any) -> Value:
    return {"sessionUpdate": "compaction_update", "compactionId": id, "status": status, **more}


def test_a_compaction_is_one_update_in_its_final_state_in_its_place() -> None:
    told = tell(
        chunk("a"),
        compaction_entry("in_progress", _meta={"x": 1.0}),
        summed("We "),
        chunk("b"),
        summed("talked."),
        compaction_entry("completed", odd=[2.50]),
        chunk("c"),
    )
    final = whole("completed", _meta={"x": 1.0}, odd=[2.5], summary=[text("We "), text("talked.")])
    assert told == [message_chunk("a"), final, message_chunk("bc")]


def test_absent_members_stay_and_null_removes_them() -> None:
    begun = compaction_entry("in_progress", summary=[text("a")], error="e", _meta={"x": 1})
    assert tell(begun, compaction_entry("failed")) == [whole("failed", summary=[text("a")], error="e", _meta={"x": 1})]
    assert tell(begun, compaction_entry("failed", summary=None, error=None, _meta=None)) == [whole("failed")]
    assert tell(begun, compaction_entry("completed", summary=[]), summed("b")) == [
        whole("completed", error="e", _meta={"x": 1}, summary=[text("b")])
    ]


def test_a_summary_chunk_can_begin_a_compaction() -> None:
    assert tell(summed("a"), compaction_entry("completed")) == [whole("completed", summary=[text("a")])]


@MODES
def test_an_unfinished_compaction_has_failed(mode: Mode) -> None:
    def statuses(*entries: Entry, run: str = "later") -> list[object]:
        return [one["status"] for one in tell(*entries, mode=mode, run=run) if "status" in one]

    begun = ["in_progress"] if mode == "full" else []
    assert statuses(prompt_entry("go"), compaction_entry("in_progress"), answer(), prompt_entry("on", id=2)) == [
        *begun,
        "failed",
    ]
    assert statuses(prompt_entry("go"), compaction_entry("in_progress"), run=RUN) == ["in_progress"]
    assert statuses(compaction_entry("cancelled"), prompt_entry("go")) == ["cancelled"]
    assert statuses(summed("a"), prompt_entry("go")) == ["failed"]


@MODES
def test_a_compaction_across_two_prompts_is_finished_where_it_was(mode: Mode) -> None:
    told = tell(
        prompt_entry("go"),
        compaction_entry("in_progress"),
        prompt_entry("on", id=2),
        summed("a"),
        compaction_entry("completed"),
        mode=mode,
    )
    kinds = [one["sessionUpdate"] for one in told if one["sessionUpdate"] != "user_message_chunk"]
    assert kinds == ["compaction_update", "compaction_summary_chunk", "compaction_update"]
    assert [one["status"] for one in told if "status" in one] == ["in_progress", "completed"]


def test_full_mode_replays_every_update_unchanged() -> None:
    entries = [compaction_entry("in_progress"), summed("a"), compaction_entry("completed", error=None)]
    replayer = Replayer(SESSION, run_id=RUN, mode="full", client_update_kinds=KINDS)
    assert [replayer.add(1, entry) for entry in entries] == [[(entry.raw or b"") + b"\n"] for entry in entries]


@MODES
def test_clients_that_did_not_announce_a_kind_get_none_of_its_updates(mode: Mode) -> None:
    optional = [update(kind, n=1) for kind in ("plan_update", "subagent_update", "session_message")]
    entries = [
        chunk("a"),
        compaction_entry("in_progress"),
        summed("x"),
        *optional,
        compaction_entry("completed"),
        chunk("b"),
    ]
    told = tell(*entries, update("new_kind"), mode=mode, kinds=frozenset())
    joined = [message_chunk("ab")] if mode == "compact" else [message_chunk("a"), message_chunk("b")]
    assert told == [*joined, {"sessionUpdate": "new_kind"}]
    assert tell(compaction_entry("in_progress"), prompt_entry("go"), mode=mode, kinds=frozenset())[-1][
        "content"
    ] == text("go")


@MODES
def test_other_optional_kinds_are_replayed_unchanged_to_clients_that_announced_them(mode: Mode) -> None:
    kinds = update_kinds.find_allowed({"plan": {}})
    entries = [update("plan_update", plan={"type": "items", "planId": "p", "entries": []}), summed("x")]
    assert tell(*entries, mode=mode, kinds=kinds) == [json.loads(entries[0].raw or b"")["params"]["update"]]


@MODES
@pytest.mark.parametrize("more", [{}, {"compactionId": None}, {"compactionId": 1}])
def test_a_compaction_without_an_id_is_skipped(more: Value, mode: Mode) -> None:
    params = {"sessionId": SESSION, "update": {"sessionUpdate": "compaction_update", "status": "completed", **more}}
    bad = message_entry({"jsonrpc": "2.0", "method": "session/update", "params": params})
    assert tell(bad, update("compaction_summary_chunk", compactionId="c", content=1), mode=mode) == []
