"""The main job, and the mock agent, driven by the clients of the official SDKs.

Every line that they receive meets their own models.
"""

import logging
import os
import re
from typing import Any

import anyio.to_thread
import pytest

from acp_proxy.tools.demo.display import ShownItem, list_items
from tests.end_to_end.proxied import PROXY, Proxied, conversation, list_replayed, texts
from tests.end_to_end.typescript import ROOT, find_node, run_typescript

PROMPTS = ("Mend the failing test", "And the other one?", "And the third?")
LAST_PROMPT = "What did I ask you first?"


@pytest.fixture(autouse=True)
def same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the Python SDK starts finds the modules that we find: the SDK leaves most variables out, also PYTHONPATH."""
    monkeypatch.setattr("acp.transports.DEFAULT_INHERITED_ENV_VARS", list(os.environ))


def assert_main_job_was_done(report: dict[str, Any], proxied: Proxied) -> None:
    """Check a client's report: what it saw live, then in a new process."""
    assert report["malformed"] == []
    offered = report["initialized"]["agentCapabilities"]
    assert offered["loadSession"] is True
    assert offered["sessionCapabilities"].keys() == {"resume", "list", "delete"}
    [listed] = report["listed"]
    assert (listed["sessionId"], listed["cwd"]) == (report["session"], str(proxied.project))
    assert listed["title"] == PROMPTS[0]
    assert listed["_meta"]["messageCount"] == 2 * len(PROMPTS)
    turns = zip(PROMPTS, report["live"], strict=True)
    live = [told for text, turn in turns for told in [ShownItem("user", text), *list_replayed(turn)]]
    assert list_items(report["loaded"]) == live
    assert {told.kind for told in live} == {"user", "thought", "plan", "agent", "tool call", "image", "resource_link"}
    assert f"I remember 3 earlier prompts; the first was: {PROMPTS[0]}" in texts(report["further"])
    assert report["left"] == []
    assert report["status"] == 0
    assert proxied.transcripts() == []


def mock_agent(proxied: Proxied) -> tuple[str, list[str]]:
    """A recorded session, and the command of a mock agent that has it."""
    session = proxied.recorded(*PROMPTS)
    return session, [*PROXY, "mock-agent", "--speed", "0", str(proxied.transcript(session))]


def assert_recorded_session_was_played(report: dict[str, Any], recorded: str) -> None:
    """Check a client's report: what it saw of the session, and of a new one with the same first prompt."""
    assert report["malformed"] == []
    assert [(row["sessionId"], row["title"]) for row in report["listed"]] == [(recorded, PROMPTS[0])]
    items = list_items(report["loaded"])
    assert [one.text for one in items if one.kind == "user"] == list(PROMPTS)
    second = [one.text for one in items].index(PROMPTS[1])
    assert [ShownItem("user", PROMPTS[0]), *list_replayed(report["live"])] == items[:second]
    continued, live = (conversation(report[which]) for which in ("continued", "live"))
    assert continued == live  # state updates follow the answer to a load, and may arrive with the next prompt
    assert report["session"] != recorded
    assert (report["left"], report["status"]) == ([], 0)


@pytest.mark.anyio
async def test_the_python_client_does_the_main_job(proxied: Proxied, caplog: pytest.LogCaptureFixture) -> None:
    from tests.end_to_end.python_sdk import connect

    caplog.set_level(logging.WARNING)  # the SDK only logs what it cannot read
    report: dict[str, Any] = {"malformed": []}
    place = proxied.command("conversation"), proxied.project, report["malformed"]
    async with connect(*place) as editor:
        await editor.initialize()
        report["session"] = session = await editor.new()
        report["live"] = [await editor.prompt(session, text) for text in PROMPTS]
        editor.process.kill()
        await editor.process.wait()
    async with connect(*place) as editor:
        report["initialized"] = await editor.initialize()
        report["listed"] = await editor.list()
        report["loaded"] = await editor.load(session)
        report["further"] = await editor.prompt(session, LAST_PROMPT)
        await editor.delete(session)
        report["left"] = await editor.list()
    report["status"] = editor.process.returncode
    assert_main_job_was_done(report, proxied)
    assert caplog.messages == []


@pytest.mark.anyio
async def test_the_python_client_plays_a_recorded_session(proxied: Proxied, caplog: pytest.LogCaptureFixture) -> None:
    from tests.end_to_end.python_sdk import connect

    caplog.set_level(logging.WARNING)
    recorded, command = await anyio.to_thread.run_sync(mock_agent, proxied)
    report: dict[str, Any] = {"malformed": []}
    async with connect(command, proxied.project, report["malformed"]) as editor:
        await editor.initialize()
        report["listed"] = await editor.list()
        report["loaded"] = await editor.load(recorded)
        report["continued"] = await editor.prompt(recorded, PROMPTS[0])
        report["session"] = await editor.new()
        report["live"] = await editor.prompt(report["session"], PROMPTS[0])
        for session in (recorded, report["session"]):
            await editor.delete(session)
        report["left"] = await editor.list()
    report["status"] = editor.process.returncode
    assert_recorded_session_was_played(report, recorded)
    assert caplog.messages == []


def test_the_example_in_the_documentation_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "mock-agent.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert "tests/recordings/login.jsonl" in example
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(example.replace("tests/recordings/login.jsonl", "fixtures/transcripts/v1/conversation.jsonl"), names)  # noqa: S102 - ours
    names["test_the_words_arrive_in_order"]()


def test_the_typescript_client_does_the_main_job(proxied: Proxied) -> None:
    words = [str(proxied.project), *PROMPTS, LAST_PROMPT]
    report = run_typescript("main_job.mjs", *words, "--", *proxied.command("conversation"))
    assert_main_job_was_done(report, proxied)


def test_the_typescript_client_plays_a_recorded_session(proxied: Proxied) -> None:
    find_node()
    recorded, command = mock_agent(proxied)
    report = run_typescript("mock_agent.mjs", str(proxied.project), recorded, PROMPTS[0], "--", *command)
    assert_recorded_session_was_played(report, recorded)
