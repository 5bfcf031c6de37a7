"""Mistakes that the simulation finds: each play is one that it drew and shortened. Without the mistake, all is well."""

from typing import Any

import pytest

from acp_proxy.tools.sync import apply, local_changes, pull, push
from acp_proxy.tools.sync.context import DataDeleted, SyncContext
from acp_proxy.tools.sync.interfaces import Move, Unavailable
from acp_proxy.tools.sync.state_db import LocalSession, SyncState
from tests.tools.sync.plays import Step, play
from tests.tools.sync.world import MemorySessions

Patch = tuple[object, str, Any]


def _write_blindly(context: SyncContext) -> None:
    data = context.state.get_pending()
    if data is not None:
        context.logs.create(context.machine, context.state.get_number("sent") + 1, data)
        push.confirm_written(context)


def _by_name(context: SyncContext, agent: str, move: Move) -> list[LocalSession]:
    local = context.state.find_named(agent, move.name)
    return [local] if local is not None else []


def _missing_is_deleted(context: SyncContext) -> None:
    there = {(file.agent_folder, file.name) for file in context.sessions.list_files()}
    for local in context.state.list_local_sessions():
        if local.name and (local.agent_folder, local.name) not in there:
            context.delete_everywhere(local)
    _FILES(context)


def _words_must_be_there(context: SyncContext, uid: str) -> bool:
    try:
        return apply._apply_tree_once(context, uid)
    except DataDeleted as gone:
        raise Unavailable("a part of a session is gone") from gone


_FILES = local_changes._find_files
MISTAKES: dict[str, tuple[list[Patch], list[Step]]] = {
    "a title's stamp is the clock's time": (
        [(SyncContext, "make_stamp", lambda context: int(context.now() * 1000))],
        [("clock", 3, 1, -1e5), ("change", 2, 5, "rename"), ("all", 3, 3, None), ("change", 3, 2, "rename")],
    ),
    "turns that a file has already are not recognized": (
        [(apply, "_match_and_complete", lambda context, tree, local: False)],
        [("new", 3, 5, "2"), ("clone", 3, 4, None), ("talk", 1, 5, "prompt")],
    ),
    "a record in the place of another counts as written": (
        [(pull, "_check_own_log", lambda context: None), (push, "_write_pending", _write_blindly)],
        [("talk", 0, 0, "prompt"), ("clone", 0, 0, None), ("talk", 0, 0, "prompt"), ("talk", 2, 0, "prompt")],
    ),
    "a missing file is a delete": (
        [(local_changes, "_find_files", _missing_is_deleted)],
        [("talk", 0, 0, "prompt"), ("all", 0, 0, None), ("all", 0, 0, None), ("change", 0, 0, "lose")],
    ),
    "a delete means the name, although the id was given again": (
        [(local_changes, "_find_moved", _by_name)],
        [
            ("talk", 1, 3, "prompt"),
            ("sync", 1, 3, None),
            ("sync", 1, 4, None),
            ("change", 3, 5, "lose"),
            ("change", 3, 0, "delete"),
        ],
    ),
    "the words of a deleted session stay in the shared place": (
        [(push, "_rewrite_records", lambda context: None)],
        [("talk", 0, 0, "prompt"), ("all", 0, 0, None), ("change", 0, 0, "delete")],
    ),
    "a redaction stays on its machine": (
        [(apply, "_compare_and_mask", lambda context, tree, local: local)],
        [("talk", 0, 0, "prompt"), ("all", 0, 0, None), ("all", 0, 0, None), ("change", 0, 0, "redact")],
    ),
    "a forgotten machine that comes back does not say where its log ends": (
        [(pull, "_publish_ends", lambda context: None)],
        [("talk", 2, 3, "prompt"), ("all", 3, 5, None), ("new", 2, 2, "2"), ("forget", 1, 0, None)],
    ),
    "a delete does not come along to another shared place": (
        [(SyncState, "list_deleted_trees", lambda state: [])],
        [("talk", 1, 1, "prompt"), ("move", 1, 1, None), ("change", 0, 5, "delete")],
    ),
    "a title does not come along to another shared place": (
        [(SyncState, "list_session_labels", lambda state: [])],
        [("move", 2, 0, None), ("change", 3, 4, "rename")],
    ),
    "a redaction that comes later than the words is not remembered": (
        [(pull, "_note_mask", lambda context, mask: None)],
        [
            ("talk", 1, 2, "prompt"),
            ("meanwhile", 3, 2, (18, "delete")),
            ("fault", 1, 0, (42, "lost")),
            ("change", 3, 4, "redact"),
        ],
    ),
    "words that were deleted after they were first read are waited for": (
        [(apply, "_apply_tree", _words_must_be_there)],
        [
            ("talk", 0, 2, "prompt"),
            ("change", 1, 4, "rename"),
            ("sync", 3, 2, None),
            ("meanwhile", 2, 3, (4, "sync")),
            ("change", 0, 1, "soft_delete"),
            ("meanwhile", 0, 2, (3, "ask")),
            ("clone", 2, 5, None),
            ("change", 1, 1, "delete"),
            ("talk", 0, 4, "prompt"),
            ("meanwhile", 3, 0, (40, "sync")),
            ("meanwhile", 2, 2, (3, "delete")),
        ],
    ),
    "turns are added to a session that somebody opened meanwhile": (
        [(MemorySessions, "is_open", lambda self, agent, name: False)],
        [
            ("clone", 3, 0, None),
            ("clone", 1, 0, None),
            ("talk", 0, 0, "ask"),
            ("sync", 0, 3, None),
            ("meanwhile", 3, 3, (8, "hold")),
            ("talk", 3, 5, "prompt"),
        ],
    ),
    "a segment ends within a turn": (
        [(push, "find_end_of_turns", lambda data, header, is_whole: len(data))],
        [("talk", 1, 1, "ask"), ("all", 2, 2, None), ("all", 3, 4, None), ("talk", 0, 2, "prompt")],
    ),
    "a title's stamp does not follow those that were seen": (
        [(SyncContext, "note_stamp", lambda context, stamp: None)],
        [("clock", 3, 1, -1e5), ("change", 2, 5, "rename"), ("all", 3, 3, None), ("change", 3, 2, "rename")],
    ),
    "a dead session is dead only where it was deleted": (
        [(apply, "_delete_dead", lambda context, tree: None)],
        [("talk", 0, 0, "prompt"), ("all", 0, 0, None), ("change", 0, 0, "delete")],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patches, steps = MISTAKES[mistake]
    play(steps)
    for where, name, wrong in patches:
        monkeypatch.setattr(where, name, wrong)
    with pytest.raises(AssertionError):
        play(steps)


def test_turns_that_were_deleted_before_a_copy_of_their_machine_published_them_leave_the_shared_place() -> None:
    play(
        [
            ("talk", 0, 2, "prompt"),
            ("sync", 0, 5, None),
            ("part", 0, 1, None),
            ("talk", 0, 3, "prompt"),
            ("fault", 1, 3, (29, "before")),
            ("clone", 2, 1, None),
            ("talk", 1, 4, "prompt"),
            ("meanwhile", 2, 4, (6, "sync")),
            ("all", 1, 1, None),
            ("change", 1, 1, "delete"),
            ("all", 0, 2, None),
        ]
    )


def test_a_delete_of_one_of_two_forks_leaves_the_other() -> None:
    begun: list[Step] = [("talk", 0, 0, "prompt"), ("all", 0, 0, None)]
    apart: list[Step] = [("talk", 0, 0, "prompt"), ("talk", 1, 0, "prompt"), ("all", 0, 0, None), ("all", 0, 0, None)]
    for session in (0, 1):
        users = play([*begun, *apart, ("all", 0, 0, None), ("change", 0, session, "delete")])
        assert [len(machine.sessions.found) for machine in users.machines] == [1, 1]
