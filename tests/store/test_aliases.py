"""The agent's ids of sessions that continue in new ones of it."""

from tests.stored import WholeStore, store_session


def record_old_session(store: WholeStore) -> str:
    """The folder of an agent whose session ``old`` was recorded."""
    return store_session(store, "old", ("go", []), cwd="/a").parent.name


def test_an_alias_is_noted_once_and_leads_to_its_session_also_when_that_is_deleted(store: WholeStore) -> None:
    agent = record_old_session(store)
    for _ in range(2):
        store.add_alias(agent, "old", "new")
        store.add_alias(agent, "old", "old")
    assert (store.root / "transcripts" / agent / "state.jsonl").read_bytes().count(b"\n") == 1
    assert store.read_aliases(agent) == {"new": "old"}
    assert (store.find_by_alias(agent, "new"), store.find_by_alias(agent, "old")) == ("old", None)
    store.delete(agent, "old", soft=False)
    assert store.find_by_alias(agent, "new") == "old"


def test_an_id_with_a_transcript_of_its_own_is_no_alias(store: WholeStore) -> None:
    agent = record_old_session(store)
    store.add_alias(agent, "old", "new")
    store_session(store, "new", ("go on", []))
    assert (store.read_aliases(agent), store.find_by_alias(agent, "new")) == ({}, None)


def test_the_alias_of_a_session_that_is_gone_is_a_session_again(store: WholeStore) -> None:
    agent = record_old_session(store)
    store.add_alias(agent, "old", "new")
    for path in (store.root / "transcripts" / agent).glob("old*"):
        path.unlink()
    assert (store.read_aliases(agent), store.find_by_alias(agent, "new")) == ({}, None)


def test_a_session_with_an_alias_joins_the_list_by_place_and_archive_state(store: WholeStore) -> None:
    agent = record_old_session(store)
    store_session(store, "other", ("go", []), cwd="/a")

    def joining(cwd: str | None, *, archived: bool | None = False) -> list[str]:
        rows = store.list_rows_to_insert(agent, cwd, "run", archive_filter=archived, session_ids=["old"])
        return [row.session_id for row in rows]

    assert (joining(None), joining("/a"), joining("/b")) == (["old"], ["old"], [])
    store.set_archived(agent, "old", True)
    assert (joining("/a"), joining("/a", archived=True), joining("/a", archived=None)) == ([], ["old"], ["old"])
