"""The package does what docs/python-api.md says."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import acp_proxy
from acp_proxy import NoStore, NoSuchSession
from acp_proxy.errors import AcpProxyError, UsageError
from tests.stored import EPOCH, WholeStore, chunk, store_session
from tests.waiting import SECONDS

PAGE = Path(__file__).parent.parent / "docs" / "python-api.md"
CALL = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Edit login.py", "status": "pending"}
DONE = {"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = WholeStore(tmp_path / "store")
    store_session(store, "older", ("Hello", [chunk("Hi")]), agent="@scope/other", cwd="/elsewhere")
    updates = [chunk("Look", "agent_thought_chunk"), chunk("I "), chunk("will."), CALL, DONE, chunk("Done.")]
    store_session(store, "newer", ("Fix the login", updates), ("And now?", []), at=EPOCH + 60)
    return store.root


def test_the_script_on_the_page_runs_unchanged(root: Path) -> None:
    [script] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    environment = os.environ | {"ACP_PROXY_STORE": str(root)}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "newer agent Fix the login",
        "older other Hello",
        "1. Fix the login",
        "   1 tool calls, then: I will.",
        "",
        "Done.",
        "2. And now?",
        "   0 tool calls, then: ",
    ]


@pytest.mark.parametrize("heading", ["open_store(path=None)", "A session", "A turn"])
def test_each_table_on_the_page_names_all_that_is_there_and_nothing_else(root: Path, heading: str) -> None:
    store = acp_proxy.open_store(root)
    [newer, _] = store.sessions()
    described: dict[str, object] = {
        "open_store(path=None)": store,
        "A session": newer,
        "A turn": next(newer.turns()),
    }
    there = described[heading]
    members = [name for name in dir(there) if not name.startswith("_")]
    _, _, section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    cells = re.findall(r"^\| (`.+?) \|", section.partition("\n## ")[0], re.MULTILINE)
    named = re.findall(r"`(?:store\.)?(\w+(?:\()?)[^`]*`", " ".join(cells))
    assert sorted(named) == sorted(f"{name}(" if callable(getattr(there, name)) else name for name in members)


def test_each_error_on_the_page_is_in_the_package() -> None:
    _, _, section = PAGE.read_text("utf-8").partition("\n## Errors\n")
    there = {name: getattr(acp_proxy, name) for name in acp_proxy.__all__}
    errors = [name for name, value in there.items() if isinstance(value, type) and issubclass(value, Exception)]
    assert re.findall(r"^\| `acp_proxy\.(\w+)` \|", section, re.MULTILINE) == errors


def test_a_session_has_the_fields_of_a_list_and_its_creation_time(root: Path) -> None:
    session = acp_proxy.open_store(root).session("older")
    assert (session.id, session.agent, session.cwd, session.title) == ("older", "other", "/elsewhere", "Hello")
    assert session.created == session.updated == datetime.fromtimestamp(EPOCH, UTC)


def test_a_turn_has_its_texts_and_tool_calls(root: Path) -> None:
    first, second = acp_proxy.open_store(str(root)).session("newer").turns()
    assert (first.number, first.user, first.agent) == (1, "Fix the login", "I will.\n\nDone.")
    assert (first.tool_calls, first.stop_reason, first.error) == (("Edit login.py",), "end_turn", None)
    assert first.started == datetime.fromtimestamp(EPOCH + 60, UTC)
    assert (second.user, second.agent, second.tool_calls) == ("And now?", "", ())


def test_entries_leave_out_the_header_and_damaged_lines(root: Path) -> None:
    session = acp_proxy.open_store(root).session("older")
    [path] = root.glob("transcripts/*/older*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"at":"\xff\n' + b"[" * 100_000 + b'\n"text"\n{"at":')
    entries = list(session.entries())
    assert [entry["from"] for entry in entries] == ["client", "agent", "agent"]
    assert entries[0]["message"] == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "session/prompt",
        "params": {"sessionId": "older", "prompt": [{"type": "text", "text": "Hello"}]},
    }


def test_a_missing_store_is_reported_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="ACP_PROXY_STORE"):
        acp_proxy.open_store(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_configuration_file_is_reported_where_it_names_the_store(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text("store = 7\n")
    monkeypatch.setenv("ACP_PROXY_CONFIG", str(file))
    monkeypatch.delenv("ACP_PROXY_STORE", raising=False)
    with pytest.raises(UsageError, match=r"config\.toml, line 1: "):
        acp_proxy.open_store()
    assert acp_proxy.open_store(root).path == root


def test_a_missing_session_is_reported_and_a_prefix_is_not_an_id(root: Path) -> None:
    store = acp_proxy.open_store(root)
    for id in ("nobody", "new", ""):
        with pytest.raises(NoSuchSession, match=r"sessions\(\)"):
            store.session(id)


def test_each_error_is_an_error_of_the_package() -> None:
    assert issubclass(NoStore, AcpProxyError)
    assert issubclass(NoSuchSession, AcpProxyError)


def test_importing_the_package_loads_no_other_module() -> None:
    program = "import sys; before = set(sys.modules); import acp_proxy; print(*set(sys.modules) - before)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert result.stdout.split() == ["acp_proxy"]
    with pytest.raises(AttributeError):
        acp_proxy.nothing_of_the_kind  # type: ignore[attr-defined] # noqa: B018
