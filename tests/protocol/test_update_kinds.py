"""The table of update kinds: which are conversation, which are state, and which are merged."""

import pytest

from acp_proxy.protocol import update_kinds
from acp_proxy.protocol.update_kinds import KINDS, UNKNOWN, ComparedBy, ReplayForm, Role, UpdateKind


def test_each_kind_has_one_row() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert all(update_kinds.find(kind.name) is kind for kind in KINDS)


@pytest.mark.parametrize("name", ["something_new", "", None])
def test_an_unknown_kind_is_conversation_and_passes_as_it_came(name: str | None) -> None:
    kind = update_kinds.find(name)
    assert kind is UNKNOWN
    assert (kind.compared_by, kind.form_v1, kind.form_v2) == (
        ComparedBy.EQUAL,
        ReplayForm.AS_IT_CAME,
        ReplayForm.AS_IT_CAME,
    )
    assert update_kinds.is_conversation(name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_state_is_neither_replayed_as_it_came_nor_compared(kind: UpdateKind) -> None:
    assert update_kinds.is_conversation(kind.name) == (kind.role is not Role.STATE)
    if kind.role is Role.STATE:
        assert {kind.form_v1, kind.form_v2} <= {None, ReplayForm.NEVER, ReplayForm.LAST}
        assert kind.compared_by is ComparedBy.NOT_COMPARED
    else:
        assert kind.compared_by is not ComparedBy.NOT_COMPARED
        assert not {kind.form_v1, kind.form_v2} & {ReplayForm.NEVER, ReplayForm.LAST}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_whole_message_is_treated_as_its_chunks(kind: UpdateKind) -> None:
    if kind.chunk is not None:
        chunk = update_kinds.find(kind.chunk)
        assert (kind.role, kind.compared_by, kind.form_v2) == (chunk.role, chunk.compared_by, chunk.form_v2)
        assert chunk.name in update_kinds.V1_MESSAGE_CHUNKS


@pytest.mark.parametrize(
    ("capabilities", "kinds"),
    [
        (None, set()),
        ([], set()),
        ({"session": True, "plan": None, "subagents": False}, set()),
        ({"session": {"compaction": {}}}, {"compaction_update", "compaction_summary_chunk"}),
        ({"session": {"compaction": None, "notices": {}}, "plan": {}}, {"plan_update", "plan_removed"}),
        ({"subagents": {}}, {"subagent_update", "session_message", "session_message_chunk"}),
        ({"session": {"compaction": {}}, "plan": {}, "subagents": {}}, update_kinds.OPTIONAL),
    ],
)
def test_a_client_announces_the_optional_kinds_that_it_understands(capabilities: object, kinds: set[str]) -> None:
    assert update_kinds.find_allowed(capabilities) == kinds


def test_only_what_has_code_to_merge_it_is_merged() -> None:
    assert {kind.role for kind in KINDS if kind.form_v1 is ReplayForm.MERGED} == {Role.CALL, Role.COMPACTION}
    assert {kind.role for kind in KINDS if kind.form_v2 is ReplayForm.MERGED} == {Role.CALL, Role.TERMINAL}
    assert {kind.role for kind in KINDS if kind.compared_by is ComparedBy.CALL} == {Role.CALL}
