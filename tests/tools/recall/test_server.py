"""``acp-proxy mcp``, asked by the official MCP client."""

from pathlib import Path

from acp_proxy.tools.recall.lookup import INTRODUCTION, RecallAnswers
from acp_proxy.tools.recall.visible_sessions import EVERYWHERE
from tests.stored import WholeStore, chunk, store_session
from tests.tools.recall.asking import ask_lookup, ask_server, texts


def test_the_three_tools_only_read(store: WholeStore) -> None:
    tools, _ = ask_lookup(RecallAnswers(store.root, EVERYWHERE))
    assert {tool.name for tool in tools} == {"search_history", "read_session", "list_sessions"}
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.description
    required = {tool.name: tool.input_schema.get("required", []) for tool in tools}
    assert required == {"search_history": ["query"], "read_session": ["id"], "list_sessions": []}


def test_an_agent_finds_lists_and_reads_a_session(store: WholeStore, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner").mkdir()
    store_session(store, "one", ("Fix the login", [chunk("The cookie was late.")]), agent="claude", cwd=str(tmp_path))
    store_session(store, "other", ("login", []), cwd="/elsewhere")
    _, results = ask_server(
        ("search_history", {"query": "login"}),
        ("list_sessions", {"since": "2023-11-01", "limit": 5}),
        ("list_sessions", {"since": "7d"}),
        ("read_session", {"id": "claude/one", "turns": "1"}),
        words=["--store", str(store.root)],
        cwd=tmp_path / "inner",
    )
    found, listed, recent, read = texts(results)
    assert not any(result.is_error for result in results)
    for text in (found, listed, read):
        assert text.startswith(INTRODUCTION)
        assert "Session claude/one ·" in text
        assert "elsewhere" not in text
    assert recent == "There are no earlier sessions here."
    assert "> The cookie was late." in read


def test_everywhere_and_another_directory_are_options(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "one", ("login", []), cwd=str(tmp_path / "one"))
    store_session(store, "other", ("login", []), cwd=str(tmp_path / "other"))
    for words, shown in ((["--everywhere"], {"one", "other"}), (["--cwd", str(tmp_path / "other")], {"other"})):
        _, results = ask_server(("list_sessions", {}), words=["--store", str(store.root), *words], cwd=tmp_path)
        [text] = texts(results)
        assert {name for name in ("one", "other") if f"agent/{name}" in text} == shown


def test_wrong_arguments_are_named_in_a_sentence(store: WholeStore) -> None:
    _, results = ask_lookup(
        RecallAnswers(store.root, EVERYWHERE),
        ("search_history", {}),
        ("search_history", {"query": 5, "limit": "x"}),
        ("search_history", {"query": "login", "limit": 21}),
        ("list_sessions", {"limit": 1.5, "since": None}),
    )
    assert all(result.is_error for result in results)
    assert texts(results) == [
        "search_history: query is missing.",
        "search_history: query must be a string, and limit must be an integer.",
        "search_history: limit must be at most 20.",
        "list_sessions: since must be a string, and limit must be an integer.",
    ]


def test_a_mistake_is_answered_with_what_to_do(store: WholeStore) -> None:
    _, results = ask_lookup(
        RecallAnswers(store.root, EVERYWHERE),
        ("search_history", {"query": "…"}),
        ("search_history", {"query": "login", "since": "some day"}),
        ("list_sessions", {"limit": 0}),
        ("read_session", {"id": "missing"}),
        ("read_session", {"id": "missing", "turns": "x"}),
    )
    assert all(result.is_error for result in results)
    for text, advice in zip(
        texts(results),
        ("Give words", "such as 7d", "list_sessions: limit must be at least 1.", "list_sessions", "such as 3, 2-5"),
        strict=True,
    ):
        assert advice in text
