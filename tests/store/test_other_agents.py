"""Sessions of other agents in an agent's list: page by page, each once, in the order of time."""

import pytest

from acp_proxy.protocol import proxy_ids
from tests.stored import WholeStore, store_session


def folder(store: WholeStore, name: str) -> str:
    return store.choose_agent(None, name, "")


def pages(store: WholeStore, agent: str, others: list[str], cwd: str | None = None) -> list[list[str]]:
    found, cursor = list[list[str]](), None
    while not found or cursor is not None:
        page = store.list_page(agent, cwd, cursor, "run", other_folders=others)
        found.append([row.session_id for row in page.rows])
        cursor = page.next
    return found


def test_pages_have_every_session_once_newest_first(store: WholeStore) -> None:
    agents = ["mine", "theirs", "others"]
    for number in range(750):
        name = agents[number % 3 if number < 600 else 0]
        store_session(store, f"s{number}", ("go", []), agent=name, at=1_000_000.0 - number)
    mine, theirs, others = (folder(store, name) for name in agents)
    first, second = pages(store, mine, [theirs, others])
    assert (len(first), len(second)) == (500, 250)
    numbers = [int(id.rpartition("s")[2]) for id in (*first, *second)]
    assert numbers == list(range(750))
    assert [proxy_ids.parse_other_agents_id(id) for id in first[:3]] == [None, (theirs, "s1"), (others, "s2")]


def test_one_id_of_two_agents_is_two_rows_on_the_border_of_pages_too(store: WholeStore) -> None:
    for number in range(500):
        store_session(store, f"s{number:03}", ("go", []), agent="mine", at=1000.0)
    store_session(store, "s000", ("go", []), agent="theirs", at=1000.0)
    found = pages(store, folder(store, "mine"), [folder(store, "theirs")])
    assert sorted(id for page in found for id in page)[-500:] == [f"s{number:03}" for number in range(500)]
    assert sum(map(len, found)) == 501


def test_only_the_directory_asked_for_counts(store: WholeStore) -> None:
    for name, cwd in (("mine", "/a"), ("theirs", "/a"), ("theirs", "/b")):
        store_session(store, f"{name}{cwd[-1]}", ("go", []), agent=name, cwd=cwd)
    mine, theirs = folder(store, "mine"), folder(store, "theirs")
    [found] = pages(store, mine, [theirs], "/a")
    assert set(found) == {"minea", proxy_ids.make_other_agents_id(theirs, "theirsa")}
    assert [row.session_id for row in store.list_rows_to_insert(mine, "/b", "run", other_folders=[theirs])] == [
        proxy_ids.make_other_agents_id(theirs, "theirsb")
    ]


def test_the_newest_sessions_of_others_join_a_list_and_all_of_its_agents_own(store: WholeStore) -> None:
    store_session(store, "handed over", ("go", []), agent="mine", at=1.0)
    for number in range(501):
        store_session(store, f"s{number}", ("go", []), agent="theirs", at=1000.0 + number)
    mine, theirs = folder(store, "mine"), folder(store, "theirs")
    rows = store.list_rows_to_insert(mine, None, "run", session_ids=["handed over"], other_folders=[theirs])
    others = [proxy_ids.make_other_agents_id(theirs, f"s{number}") for number in range(500, 0, -1)]
    assert [row.session_id for row in rows] == [*others, "handed over"]


def test_the_users_own_title_of_a_row_wins(store: WholeStore) -> None:
    store_session(store, "s", ("go", []), agent="theirs")
    mine, theirs = folder(store, "mine"), folder(store, "theirs")
    store.set_title(mine, proxy_ids.make_other_agents_id(theirs, "s"), "Mine")
    [row] = store.list_rows_to_insert(mine, None, "run", other_folders=[theirs])
    assert row.title == "Mine"
    assert store.has_transcript_or_original(mine, row.session_id)
    assert not store.has_transcript_or_original(mine, proxy_ids.make_other_agents_id(theirs, "unknown"))


def test_a_row_that_is_archived_here_is_in_no_list(store: WholeStore) -> None:
    store_session(store, "s", ("go", []), agent="theirs")
    mine, theirs = folder(store, "mine"), folder(store, "theirs")
    store.set_archived(mine, proxy_ids.make_other_agents_id(theirs, "s"), True)
    assert store.list_rows_to_insert(mine, None, "run", other_folders=[theirs]) == []
    assert [row.session_id for row in store.list_page(theirs, None, None, "run").rows] == ["s"]


@pytest.mark.parametrize("id", ["acp-proxy.../x", "acp-proxy.x", "acp-proxy.a/b.c", "other.a.b", ""])
def test_an_id_that_names_no_session_of_another_agent_is_not_found(store: WholeStore, id: str) -> None:
    assert proxy_ids.parse_other_agents_id(id) is None
    with pytest.raises(FileNotFoundError):
        store.open_original(id, ["a/b", "..", "x"])


def test_only_listed_agents_can_be_read(store: WholeStore) -> None:
    store_session(store, "s", ("go", []), agent="theirs")
    theirs = folder(store, "theirs")
    with pytest.raises(FileNotFoundError):
        store.open_original(proxy_ids.make_other_agents_id(theirs, "s"), [])
    store.open_original(proxy_ids.make_other_agents_id(theirs, "s"), [theirs]).close()


def test_rows_are_found_by_their_ids_however_old_they_are(store: WholeStore) -> None:
    for number in range(510):
        store_session(store, f"s{number}", ("go", []), agent="theirs", at=1_000_000.0 - number)
    store_session(store, "m", ("go", []), agent="mine", at=1.0)
    mine, theirs = folder(store, "mine"), folder(store, "theirs")
    wanted = [
        proxy_ids.make_other_agents_id(theirs, "s509"),
        "m",
        "unknown",
        proxy_ids.make_other_agents_id("unknown", "s1"),
    ]
    assert [row.session_id for row in store.list_by_ids(mine, "run", wanted, [theirs])] == wanted[:2]
    assert [row.session_id for row in store.list_by_ids(mine, "run", wanted, [])] == ["m"]
