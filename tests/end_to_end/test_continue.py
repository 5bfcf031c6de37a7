"""Sessions that continue with another agent: a copy is made, listed, replayed and handed over."""

from collections.abc import Iterator
from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.tools.demo.display import ShownItem, list_items
from acp_proxy.transcript.handover_record_text import ATTACHED, END, INTRODUCTION
from tests.cli.commands import get_stdout, invoke
from tests.end_to_end.handovers import CLOSING, NOTHING, given, notes, read_memory, record_session
from tests.end_to_end.proxied import (
    NOT_FOUND,
    Editor,
    Proxied,
    conversation,
    entries,
    say,
    texts,
)

ANSWERS: dict[str, Any] = {"turns": [[say("This is my answer.")]]}
KINDS = [
    ("--capabilities", "none"),
    ("--capabilities", "resume"),
    ("--capabilities", "load"),
    ("--capabilities", "load,list"),
    ("--capabilities", "load,resume,list,delete"),
]
"""What the second agent can do."""
OFFERS_ALL = KINDS[-1]


class Second(Proxied):
    """Another agent with the same store and project."""

    def __init__(self, first: Proxied) -> None:
        (first.base / "second").mkdir()
        super().__init__(first.base / "second")
        self.store, self.project = first.store, first.project

    def open_second(self, agent: tuple[str, ...], script: Any = ANSWERS, *options: str) -> Editor:
        return self.start(script, agent=("--name", "beta", *agent), options=options)


@pytest.fixture
def second(proxied: Proxied) -> Iterator[Second]:
    place = Second(proxied)
    yield place
    place.close()


def copy_session(proxied: Proxied, second: Second, session: str) -> str:
    """Copy a session to the second agent, which has no folder yet. The copy's id."""
    agent = second.bare_agent(agent=("--name", "beta"))
    words = ["continue", "--store", str(proxied.store), session, "--", *agent]
    made = invoke(*words)
    assert made.exit_code == 0, made.stderr
    return made.stdout.strip()


def ids(editor: Editor) -> list[str]:
    return [session["sessionId"] for session in editor.sessions(cwd=str(editor.project))]


@pytest.mark.parametrize("agent", KINDS)
def test_a_session_continues_with_another_agent(proxied: Proxied, second: Second, agent: tuple[str, ...]) -> None:
    session, seen = record_session(proxied, "mend it", "and the other?")
    before = proxied.transcript(session).read_bytes()
    copy = copy_session(proxied, second, session)
    with second.open_second(agent) as editor:
        [row] = editor.sessions()
        assert (row["sessionId"], row["title"], row["cwd"]) == (copy, "mend it", str(proxied.project))
        loaded = editor.load(copy)
        assert list_items(loaded.updates) == [*list_items(seen), ShownItem("agent", CLOSING)]
        editor.prompt(copy, "go on")
        assert ids(editor) == [copy]
        assert editor.end() == 0
    [heard] = given(second, session)
    assert heard.startswith(INTRODUCTION)
    assert heard.endswith(f"{END}\n\ngo on")
    for words in ["User:\n> mend it", "User:\n> and the other?"]:
        assert words in heard
    assert proxied.transcript(session).read_bytes() == before


@pytest.mark.parametrize("agent", [KINDS[0], KINDS[2], OFFERS_ALL])
def test_a_copy_is_one_session_for_later_processes(proxied: Proxied, second: Second, agent: tuple[str, ...]) -> None:
    session, _ = record_session(proxied, "mend it", script=ANSWERS)
    copy = copy_session(proxied, second, session)
    with second.open_second(agent) as editor:
        editor.load(copy)
        editor.prompt(copy, "go on")
        assert editor.end() == 0
    with second.open_second(agent) as editor:
        assert ids(editor) == [copy]
        loaded = editor.load(copy)
        said = [(item.kind, item.text) for item in list_items(loaded.updates) if item.text != CLOSING]
        answer = ("agent", "This is my answer.")
        assert said == [("user", "mend it"), answer, ("user", "go on"), answer]
        editor.prompt(copy, "and on")
        assert ids(editor) == [copy]
        assert editor.end() == 0
    prompts = [exchange["prompt"] for one in read_memory(second) for exchange in one["exchanges"]]
    assert [words.splitlines()[-1] for words in prompts] == ["go on", "and on"]
    [note] = [entry["note"] for entry in entries(proxied.transcript(copy)) if "continued" in str(entry.get("note"))]
    assert (note["type"], note["session"]) == ("continued", session)


def test_a_resume_of_a_copy_hands_it_over_without_a_replay(proxied: Proxied, second: Second) -> None:
    session, _ = record_session(proxied, "mend it")
    copy = copy_session(proxied, second, session)
    with second.open_second(OFFERS_ALL) as editor:
        since = editor.count_lines()
        editor.request("session/resume", editor.place(copy))
        assert texts(editor.list_updates(copy, since)) == [CLOSING]
        editor.prompt(copy, "go on")
        [heard] = given(second, session)
        assert "> mend it" in heard


def test_copies_join_the_first_page_of_the_agents_list_by_time(proxied: Proxied, second: Second) -> None:
    session, _ = record_session(proxied, "mend it")
    old = {"sessionId": "old", "cwd": str(proxied.project), "updatedAt": "2001-01-01T00:00:00Z"}
    new = {"sessionId": "new", "cwd": str(proxied.project), "updatedAt": "2999-01-01T00:00:00Z"}
    page = {"sessions": [new, old], "nextCursor": "more"}
    lists = ANSWERS | {"methods": {"session/list": {"result": page}}}
    copy = copy_session(proxied, second, session)
    with second.open_second(OFFERS_ALL, lists) as editor:
        first = editor.request("session/list", {})
        assert [row["sessionId"] for row in first["sessions"]] == ["new", copy, "old"]
        assert first["nextCursor"] == "more"
        further = editor.request("session/list", {"cursor": "more"})
        assert [row["sessionId"] for row in further["sessions"]] == ["new", "old"]
        elsewhere = editor.request("session/list", {"cwd": "/elsewhere"})
        assert [row["sessionId"] for row in elsewhere["sessions"]] == ["new", "old"]


@pytest.mark.parametrize("options", [("--list", "agent"), ("--no-synthesize",), ("--handover", "never")])
def test_copies_do_not_join_a_list_from_which_they_cannot_be_opened(
    proxied: Proxied, second: Second, options: tuple[str, ...]
) -> None:
    session, _ = record_session(proxied, "mend it")
    copy_session(proxied, second, session)
    with second.open_second(OFFERS_ALL, ANSWERS, *options) as editor:
        assert ids(editor) == []


@pytest.mark.parametrize("agent", [KINDS[0], OFFERS_ALL])
def test_a_deleted_copy_is_gone_and_the_original_stays(
    proxied: Proxied, second: Second, agent: tuple[str, ...]
) -> None:
    session, _ = record_session(proxied, "mend it")
    copy = copy_session(proxied, second, session)
    with second.open_second(agent) as editor:
        editor.load(copy)
        editor.prompt(copy, "go on")
        editor.request("session/delete", {"sessionId": copy})
        assert ids(editor) == []
        assert editor.load(copy).answer["error"]["code"] == NOT_FOUND
    assert [path.name for path in proxied.transcripts()] == [proxied.transcript(session).name]


def test_a_copy_of_a_copy_goes_back_to_the_first_agent(proxied: Proxied, second: Second) -> None:
    session, _ = record_session(proxied, "mend it", script=ANSWERS)
    copy = copy_session(proxied, second, session)
    with second.open_second(OFFERS_ALL) as editor:
        editor.load(copy)
        editor.prompt(copy, "go on")
        assert editor.end() == 0
    store = ProxyStore(proxied.store)
    back = get_stdout(store, "continue", copy, "--with", "acp-proxy-demo-agent").strip()
    with proxied.start(ANSWERS, agent=("--capabilities", "load,list")) as editor:
        assert sorted(ids(editor)) == sorted([session, back])
        loaded = editor.load(back)
        said = [item.text for item in list_items(loaded.updates) if item.kind == "user"]
        assert said == ["mend it", "go on"]
        editor.prompt(back, "and back")
        assert editor.end() == 0
    assert "> go on" in read_memory(proxied)[-1]["exchanges"][-1]["prompt"]


def test_a_long_session_is_copied_whole(proxied: Proxied, second: Second) -> None:
    long = {"turns": [[say("x" * 700_000), say("y" * 700_000)]]}
    session, _ = record_session(proxied, "tell me much", script=long)
    copy = copy_session(proxied, second, session)
    original, its = proxied.transcript(session).read_bytes(), proxied.transcript(copy).read_bytes()
    assert original.split(b"\n", 1)[1] in its
    assert notes(proxied.transcript(copy), "continued")[0]["agent"].startswith("acp-proxy-demo-agent")
    with second.open_second(KINDS[0]) as editor:
        assert len("".join(texts(editor.load(copy).updates))) == 1_400_000 + len(CLOSING)


def test_images_follow_the_record_and_their_echo_is_not_shown(proxied: Proxied, second: Second) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    with proxied.start(ANSWERS, agent=("--capabilities", "none")) as editor:
        session = editor.new_session()
        editor.request("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "look"}, image]})
        assert editor.end() == 0
    copy = copy_session(proxied, second, session)
    with second.open_second(KINDS[0], {"turns": [[{"echo_prompt": True}]]}) as editor:
        editor.load(copy)
        heard = [update["content"] for update in conversation(editor.prompt(copy, "go on"))]
        assert heard == [{"type": "text", "text": "go on"}]
    [record] = given(second, session)
    assert "> look[image 1: image/png]" in record
    assert f"{ATTACHED}image 1." in record


def test_the_size_of_the_record_can_be_limited(proxied: Proxied, second: Second) -> None:
    session, _ = record_session(proxied, "x" * 5000, "and the other?", script=ANSWERS)
    copy = copy_session(proxied, second, session)
    with second.open_second(KINDS[0], ANSWERS, "--record-size", "1024") as editor:
        editor.load(copy)
        editor.prompt(copy, "go on")
    [record] = given(second, session)
    assert len(record.removesuffix("\n\ngo on").encode()) <= 1024
    assert "> and the other?" in record


# --- sessions of other agents in the list


ALSO = ("--also-list", "acp-proxy-demo-agent")


@pytest.mark.parametrize(
    ("agent", "also"), [*((agent, "all") for agent in KINDS), (OFFERS_ALL, "nobody,acp-proxy-demo")]
)
def test_a_session_of_another_agent_is_listed_shown_and_continued(
    proxied: Proxied, second: Second, agent: tuple[str, ...], also: str
) -> None:
    session, seen = record_session(proxied, "mend it", "and the other?")
    with second.open_second(agent, ANSWERS, "--also-list", also) as editor:
        [row] = editor.sessions(cwd=str(proxied.project))
        assert ("no agent called 'nobody' has a recorded session" in editor.read_stderr()) == also.startswith("nobody")
        id = row["sessionId"]
        assert (row["title"], row["cwd"]) == ("mend it · acp-proxy-demo-agent", str(proxied.project))
        assert row["_meta"]["acp-proxy"] == {"agent": "acp-proxy-demo-agent"}
        loaded = editor.load(id)
        assert list_items(loaded.updates) == [*list_items(seen), ShownItem("agent", CLOSING)]
        assert len(proxied.transcripts()) == 1
        assert [one["title"] for one in editor.sessions()] == [row["title"]]
        editor.prompt(id, "go on")
        [copy] = editor.sessions()
        assert (copy["sessionId"], copy["title"]) == (id, "mend it")
        assert "acp-proxy" not in copy["_meta"]
        assert editor.end() == 0
    [heard] = given(second, session)
    assert "> and the other?" in heard
    path = proxied.transcript(id)
    assert proxied.transcript(session).read_bytes().split(b"\n", 1)[1] in path.read_bytes()
    assert [entry["note"]["type"] for entry in entries(path) if "note" in entry][-4:] == [
        "continued",
        "opened",
        "replay",
        "handover",
    ]
    with second.open_second(agent, ANSWERS, "--also-list", also) as editor:
        assert ids(editor) == [id]
        said = [item.text for item in list_items(editor.load(id).updates) if item.kind == "user"]
        assert said == ["mend it", "and the other?", "go on"]


@pytest.mark.parametrize("agent", [KINDS[0], OFFERS_ALL])
def test_a_row_that_was_only_opened_leaves_nothing_behind(
    proxied: Proxied, second: Second, agent: tuple[str, ...]
) -> None:
    session, _ = record_session(proxied, "mend it")
    with second.open_second(agent, ANSWERS, *ALSO) as editor:
        [id] = ids(editor)
        editor.load(id)
        editor.load(id)
        assert ids(editor) == [id]
        assert editor.end() == 0
    assert [path.name for path in proxied.transcripts()] == [proxied.transcript(session).name]


@pytest.mark.parametrize("agent", [KINDS[0], OFFERS_ALL])
def test_a_deleted_row_is_hidden_here_only(proxied: Proxied, second: Second, agent: tuple[str, ...]) -> None:
    session, _ = record_session(proxied, "mend it")
    with second.open_second(agent, ANSWERS, *ALSO) as editor:
        [id] = ids(editor)
        editor.request("session/delete", {"sessionId": id})
        assert ids(editor) == []
        assert editor.load(id).answer["error"]["code"] == NOT_FOUND
        assert editor.end() == 0
    with second.open_second(agent, ANSWERS, *ALSO) as editor:
        assert ids(editor) == []
    assert proxied.transcript(session).exists()
    with proxied.start(agent=NOTHING) as editor:
        assert ids(editor) == [session]


@pytest.mark.parametrize("agent", [KINDS[0], OFFERS_ALL])
def test_a_deleted_copy_does_not_bring_its_row_back(proxied: Proxied, second: Second, agent: tuple[str, ...]) -> None:
    record_session(proxied, "mend it")
    with second.open_second(agent, ANSWERS, *ALSO) as editor:
        [id] = ids(editor)
        editor.load(id)
        editor.prompt(id, "go on")
        editor.request("session/delete", {"sessionId": id})
        assert ids(editor) == []


def test_nothing_of_another_agent_is_listed_by_default(proxied: Proxied, second: Second) -> None:
    record_session(proxied, "mend it")
    for agent, options in ((NOTHING, ()), (OFFERS_ALL, ()), (NOTHING, (*ALSO, "--load", "agent"))):
        with second.open_second(agent, ANSWERS, *options) as editor:
            assert ids(editor) == []


def test_a_copy_that_nobody_continued_is_not_listed_as_another_agents(proxied: Proxied, second: Second) -> None:
    session, _ = record_session(proxied, "mend it")
    copy = copy_session(proxied, second, session)
    with proxied.start(ANSWERS, agent=NOTHING, options=["--also-list", "all"]) as editor:
        assert ids(editor) == [session]
    with second.open_second(NOTHING, ANSWERS, "--also-list", "all") as editor:
        assert ids(editor) == [copy]
        editor.load(copy)
        editor.prompt(copy, "go on")
        assert editor.end() == 0
    with proxied.start(ANSWERS, agent=NOTHING, options=["--also-list", "all"]) as editor:
        assert [row["title"] for row in editor.sessions()] == ["mend it · beta", "mend it"]


def test_two_windows_that_continue_one_row_share_its_copy(proxied: Proxied, second: Second) -> None:
    record_session(proxied, "mend it")
    with (
        second.open_second(NOTHING, ANSWERS, *ALSO) as one,
        second.open_second(NOTHING, ANSWERS, *ALSO) as other,
    ):
        [id] = ids(one)
        for editor in (one, other):
            editor.load(id)
        for editor in (one, other):
            editor.prompt(id, "go on")
        assert ids(one) == ids(other) == [id]
        assert one.end() == other.end() == 0
    path = proxied.transcript(id)
    assert len(notes(path, "continued")) == 1
    assert len(proxied.transcripts()) == 2
