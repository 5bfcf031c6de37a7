"""Which of the editors' agents are asked for their sessions."""

import sys
from pathlib import Path

import pytest

from acp_proxy.tools.adopt.candidates import AskedAgent, choose_agents
from acp_proxy.tools.editors.launch_commands import StartedAgent
from acp_proxy.tools.registry.agents import RegistryError
from acp_proxy.tools.registry.resolve import ResolvedAgent

RUN = ("acp-proxy", "run")
ROOT = Path("/store")


def list_candidates(*agents: StartedAgent, ours: dict[str, str] | None = None) -> tuple[list[AskedAgent], list[str]]:
    return choose_agents(agents, ours or {}, ROOT, find)


def find(command: list[str], source: str) -> ResolvedAgent:
    """A registry with one agent."""
    if command[0] == "registry:kimi":
        return ResolvedAgent(["uvx", "kimi-cli", *command[1:]], {"MODE": "acp", "KEY": "theirs"})
    if command[0].startswith("registry:"):
        raise RegistryError(f"the registry {source} has no such agent.")
    return ResolvedAgent(command, {})


def zed(name: str, *words: str, **environment: str) -> StartedAgent:
    return StartedAgent("Zed", name, words, tuple(environment.items()))


@pytest.fixture(autouse=True)
def no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_the_proxy_is_left_out_of_the_command_and_its_options_count() -> None:
    words = (*RUN, "--agent-id", "mine", "--redact", "keys", "npx", "agent")
    [asked], texts = list_candidates(zed("One", *words))
    assert (asked.name, asked.command) == ("One (Zed)", ("npx", "agent"))
    assert (asked.environment, asked.agent_id, asked.redact, texts) == (None, "mine", "keys", [])


def test_an_agent_gets_our_environment_and_what_its_editor_adds() -> None:
    [asked], _ = list_candidates(
        zed("One", "agent", KEY="theirs", ACP_PROXY_AGENT_ID="mine"), ours={"KEY": "ours", "HOME": "/h"}
    )
    assert dict(asked.environment or ()) == {"KEY": "theirs", "HOME": "/h", "ACP_PROXY_AGENT_ID": "mine"}
    assert asked.agent_id == "mine"


def test_an_agent_of_two_editors_is_asked_once_unless_something_differs() -> None:
    same = StartedAgent("JetBrains", "Other name", ("npx", "agent"))
    asked, texts = list_candidates(
        zed("One", "npx", "agent"), same, zed("Two", *RUN, "npx", "agent"), zed("Three", "npx", "x")
    )
    assert ([each.name for each in asked], texts) == (["One (Zed)", "Three (Zed)"], [])
    assert len(list_candidates(zed("One", "agent"), zed("Two", "agent", KEY="other"))[0]) == 2


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (StartedAgent("Zed", "One", None), "One (Zed): only the editor knows how to start it. To adopt its sessions"),
        (
            StartedAgent("Zed", "kimi", None, registered="registry:kimi"),
            "kimi (Zed): only the editor knows how to start it. To adopt its sessions: acp-proxy adopt registry:kimi",
        ),
        (
            StartedAgent("Zed", "Kimi", None, registered="registry:Kimi"),  # no id can be so
            "Kimi (Zed): only the editor knows how to start it. To adopt its sessions, give its command",
        ),
        (zed("One", "acp-proxy", "npx"), "One (Zed): it cannot be started: run is missing. Write: acp-proxy run"),
        (zed("One", *RUN, "--bogus", "x"), "One (Zed): it cannot be started: run has no option --bogus"),
        (zed("One", *RUN, "--no-record", "x"), "One (Zed): not asked, because its sessions are not to be recorded"),
        (zed("One", *RUN, "--store", "/other", "x"), "One (Zed): its sessions are in another store. Add: --store"),
    ],
)
def test_an_agent_that_is_not_asked_is_named_with_the_reason(agent: StartedAgent, text: str) -> None:
    asked, [said] = list_candidates(agent)
    assert asked == []
    assert said.startswith(text)


def test_the_same_store_is_no_other_store() -> None:
    asked, texts = list_candidates(zed("One", *RUN, "--store", str(ROOT), sys.executable))
    assert (len(asked), texts) == (1, [])


def test_an_agent_that_is_given_by_its_id_is_asked_by_its_proxy_command() -> None:
    [asked], texts = list_candidates(zed("Kimi", *RUN, "registry:kimi", "--debug", KEY="mine"), ours={"PATH": "/bin"})
    assert asked.command == ("uvx", "kimi-cli", "--debug")
    assert dict(asked.environment or ()) == {"PATH": "/bin", "MODE": "acp", "KEY": "mine"}
    assert texts == []


def test_an_id_that_the_registry_does_not_know_is_named() -> None:
    asked, [text] = list_candidates(zed("Gone", *RUN, "--registry", "mine.json", "registry:gone"))
    assert asked == []
    assert text == "Gone (Zed): it cannot be started: the registry mine.json has no such agent."
