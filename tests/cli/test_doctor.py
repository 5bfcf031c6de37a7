"""``doctor`` reports what it found and what to do. Its exit status is 1 if something is wrong."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from acp_proxy import shell_quote
from acp_proxy.installation import explain_no_mcp
from acp_proxy.store.proxy_store import ProxyStore
from tests.agents import answering_agent, offer_capabilities, python_command, read_requests
from tests.cli.commands import invoke
from tests.stored import chunk, store_session

SECRET = "sk-very-secret-1234567890"
PROXIED = {
    "command": sys.executable,
    "args": ["-m", "acp_proxy", "run", sys.executable, "x", SECRET],
    "env": {"KEY": SECRET},
}
GONE = {"command": os.path.abspath("/no/such/acp-proxy"), "args": ["run", sys.executable, "x"]}
BOGUS = ["run", "--bogus", "a"]
DIRECT = {"command": sys.executable, "args": ["x", SECRET], "env": {"KEY": SECRET}}
USER = chunk("Mend it", "user_message_chunk")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user without editors."""
    monkeypatch.setattr("acp_proxy.tools.doctor.probe.GRACE_SECONDS", 0.05)
    for name in ("XDG_CONFIG_HOME", "NVIM_APPNAME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "USERPROFILE"):  # the second one is Windows'
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("APPDATA", str(home / "AppData/Roaming"))
    monkeypatch.setenv("LOCALAPPDATA", str(home / "AppData/Local"))
    return home


def zed_settings(home: Path) -> Path:
    return home / ("AppData/Roaming/Zed" if sys.platform == "win32" else ".config/zed") / "settings.json"


def doctor(root: Path, *words: str) -> Result:
    return invoke("doctor", "--store", str(root), *words)


def get_json(root: Path, *words: str) -> Any:
    return json.loads(doctor(root, "--json", *words).stdout)


def configure(path: Path, **agents: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("// mine\n" + json.dumps({"agent_servers": agents}))


GOLDEN = """\
Nothing is wrong.

Advice:
  1. Elsewhere: 1 agent is not recorded. To see them: acp-proxy doctor

agent  AGENT
  name           scripted 1.2.3
  protocol       version 1, answered after TIME
  also offers    close
  recorded as    FOLDER; sessions: 1
  list           the agent's own, without the sessions deleted here
  load           the agent's own; if it leaves something out, acp-proxy shows the transcript
  resume         no: the agent has none; editors use session/load instead; --resume store adds it
  delete         added: the agent has no session/delete
  its own load   it leaves out: the agent's words; acp-proxy shows the transcript instead (session s)

store
  place          ROOT
  mode           0700
  size           SIZE
  agents         1
  sessions       1
  damage         none found by a quick check; for a complete one: acp-proxy verify
  recording      possible, FREE free

editors
  Zed            HOME/.config/zed/settings.json
                 "kept": through acp-proxy
                 "other": directly
                 "theirs": from the editor's registry; to record it: acp-proxy setup
"""
VERSIONS = """
versions
  acp-proxy      VERSION
  Python         VERSION
  SQLite         VERSION
  system         VERSION
  libraries      VERSION
"""


def test_a_machine_in_order_gets_a_complete_report(root: Path, home: Path, tmp_path: Path) -> None:
    path = store_session(ProxyStore(root), "s", ("Mend it", [chunk("done")]), agent="scripted", cwd=str(tmp_path))
    configure(zed_settings(home), kept=PROXIED, other=DIRECT, theirs={"type": "registry"})
    offer = offer_capabilities(loadSession=True, sessionCapabilities={"list": {}, "close": {}})
    agent = answering_agent(tmp_path / "notes", {"initialize": offer, "session/load": {"result": {}}}, [USER])
    result, with_versions = doctor(root, *agent), doctor(root, "--versions").stdout
    versions = re.sub(r"(\n  [\w-]+ +).*", r"\1VERSION", with_versions[with_versions.rindex("\nversions\n") :])
    assert versions == VERSIONS
    said = re.sub(r"(?<=\nagent  ).*?(?=\n  name)", "AGENT", result.stdout, flags=re.DOTALL)
    for what, name in ((str(root), "ROOT"), (str(home), "HOME"), (path.parent.name, "FOLDER")):
        said = said.replace(what, name)
    said = re.sub(r"(?<=\n  size           ).*", "SIZE", said)
    said = re.sub(r"(?<=possible, ).*(?= free)", "FREE", said)
    said = re.sub(r"(?<=after ).* s\b", "TIME", said)
    assert said == GOLDEN
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("is_another_proxied", [True, False])
def test_for_settings_that_are_a_link_to_a_read_only_file_the_command_that_prints_is_advised(
    root: Path, home: Path, tmp_path: Path, is_another_proxied: bool
) -> None:
    configure(tmp_path / "dotfiles/zed.json", mine=DIRECT)
    settings = zed_settings(home)
    settings.parent.mkdir(parents=True)
    settings.symlink_to(tmp_path / "dotfiles/zed.json")
    (tmp_path / "dotfiles/zed.json").chmod(0o444)
    if is_another_proxied:
        configure(home / ".jetbrains/acp.json", kept=PROXIED)
    said = " ".join(doctor(root).stdout.split())
    link = f"it is a link, to {tmp_path / 'dotfiles/zed.json'}. To print what to put there: acp-proxy editor zed"
    assert f"Setup leaves {settings} to you: {link}" in said
    assert "acp-proxy setup" not in said


def test_settings_that_are_such_a_link_are_a_point_of_their_own(root: Path, home: Path, tmp_path: Path) -> None:
    configure(tmp_path / "dotfiles/zed.json", mine=DIRECT)
    settings = zed_settings(home)
    settings.parent.mkdir(parents=True)
    settings.symlink_to(tmp_path / "dotfiles/zed.json")
    (tmp_path / "dotfiles/zed.json").chmod(0o444)
    configure(home / ".jetbrains/acp.json", other=DIRECT)
    said = " ".join(doctor(root).stdout.split())
    assert f"To set them up: acp-proxy setup 2. Setup leaves {settings} to you" in said


def test_an_agent_can_be_named_as_the_editor_names_it(
    root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *arguments = answering_agent(tmp_path / "notes", {"initialize": offer_capabilities()}, [USER])
    configure(zed_settings(home), **{"My Agent": {"command": program, "args": arguments}})
    assert get_json(root, "My Agent")["agent"]["problem"] is None
    monkeypatch.setenv("A_KEY", "")
    assert get_json(root, "A_KEY=x=1", "My Agent")["agent"]["problem"] is None
    assert os.environ["A_KEY"] == "x=1"
    assert "Nobody is not in PATH" in doctor(root, "Nobody").stdout


def test_json_has_the_same_report(root: Path, home: Path, tmp_path: Path) -> None:
    store_session(ProxyStore(root), "s", ("Mend it", [chunk("done")]), agent="scripted", cwd=str(tmp_path))
    configure(home / ".jetbrains/acp.json", kept=PROXIED, other=DIRECT)
    agent = answering_agent(
        tmp_path / "notes", {"initialize": offer_capabilities(loadSession=True), "session/load": {"result": {}}}
    )
    value = get_json(root, *agent)
    text = "Elsewhere: 1 agent is not recorded. To see them: acp-proxy doctor"
    assert (value["isWell"], value["todo"]) == (True, [{"text": text, "isWrong": False}])
    assert value["store"]["place"] == str(root)
    assert (value["store"]["mode"], value["store"]["sessions"], value["store"]["notRecording"]) == ("0700", 1, None)
    assert value["versions"]["SQLite"]
    [editor] = value["editors"]
    assert editor["editor"] == "jetbrains"
    assert [one["started"] for one in editor["agents"]] == ["proxied", "direct"]
    assert (value["agent"]["name"], value["agent"]["offers"]) == ("scripted", ["load"])
    assert {ability["name"]: ability["by"] for ability in value["agent"]["abilities"]} == {
        "list": "acp-proxy",
        "load": "agent",
        "resume": "nobody",
        "delete": "acp-proxy",
    }
    assert value["agent"]["load"]["leavesOut"] == ["the user's words", "the agent's words"]


def test_several_agents_that_are_not_recorded_are_one_point(root: Path, home: Path, tmp_path: Path) -> None:
    configure(zed_settings(home), kept=PROXIED, one=DIRECT)
    advice = 'Zed starts "one" directly, so it is not recorded. To put acp-proxy in front of it: acp-proxy setup'
    assert [one["text"] for one in get_json(root)["todo"]] == [f"{advice} --editor zed --agent one"]
    configure(zed_settings(home), kept=PROXIED, one=DIRECT, two=DIRECT)
    configure(tmp_path / "dotfiles/acp.json", three=DIRECT, four=DIRECT)
    (jetbrains := home / ".jetbrains").mkdir()
    (jetbrains / "acp.json").symlink_to(tmp_path / "dotfiles/acp.json")
    (tmp_path / "dotfiles/acp.json").chmod(0o444)
    ours, theirs = [one["text"] for one in get_json(root)["todo"]]
    text = "2 agents are started directly, so they are not recorded."
    assert ours == f"{text} To put acp-proxy in front of them: acp-proxy setup"
    assert theirs.startswith(f"{text} Setup leaves {jetbrains / 'acp.json'} to you: it is a link")


def test_with_an_agent_only_its_own_entries_are_judged(root: Path, home: Path, tmp_path: Path) -> None:
    program, *arguments = answering_agent(tmp_path / "notes", {"initialize": offer_capabilities()}, [USER])
    mine = {"command": program, "args": arguments}
    lost = {"command": sys.executable, "args": ["-m", "acp_proxy", "run", "no-such-agent"]}
    configure(zed_settings(home), mine=mine, kept=PROXIED, other=DIRECT, lost=lost, both={"command": "sh -c x"})
    (home / ".jetbrains").mkdir()
    (home / ".jetbrains/acp.json").write_text("{")
    own = 'Zed starts "mine" directly, so it is not recorded. To put acp-proxy in front of it: acp-proxy setup'
    others = "Elsewhere: 1 agent is not recorded, 2 agents do not work, 1 file cannot be read."
    for words in ([program, *arguments], ["mine"]):
        value = get_json(root, *words)
        assert [(one["text"], one["isWrong"]) for one in value["todo"]] == [
            (f"{own} --editor zed --agent mine", False),
            (f"{others} To see them: acp-proxy doctor", False),
        ]
    assert len(todo(doctor(root))) == 3
    assert len(todo(doctor(root, "no-such-agent"))) == 1


def test_where_setup_would_change_nothing_it_is_advised_with_an_agent(root: Path, home: Path) -> None:
    configure(zed_settings(home), gemini={"env": {}})
    [text] = [one["text"] for one in get_json(root)["todo"]]
    assert text.endswith("through acp-proxy. To add an agent that is recorded: acp-proxy setup --agent AGENT")


def test_only_names_of_a_configuration_are_reported(root: Path, home: Path) -> None:
    configure(zed_settings(home), kept=PROXIED, other=DIRECT, gone=GONE)
    emacs = (home / "AppData/Roaming" if sys.platform == "win32" else home) / ".emacs.d/init.el"
    emacs.parent.mkdir(parents=True)
    emacs.write_text(f"(require 'agent-shell) (setq x '(\"{SECRET}\"))")
    for words in ((), ("--json",)):
        said = doctor(root, *words)
        assert "agent-shell" in said.stdout
        assert SECRET not in said.stdout + said.stderr


def test_a_store_in_a_variable_is_named_but_not_where_an_agent_is_asked_about(root: Path) -> None:
    variables = {"ACP_PROXY_STORE": "/srv/place"}
    assert "config set store /srv/place" in invoke("doctor", "--store", str(root), variables=variables).stdout
    assert "config set" not in invoke("doctor", "--store", str(root), "no-such-agent", variables=variables).stdout


def test_on_a_new_machine_nothing_is_wrong_and_nothing_is_created(root: Path) -> None:
    result = doctor(root)
    assert result.exit_code == 0
    assert "Nothing is wrong." in result.stdout
    assert "acp-proxy setup" in result.stdout
    assert not root.exists()


def todo(result: Result) -> list[str]:
    """The numbered list of problems."""
    assert result.exit_code == 1
    _, found, rest = result.stdout.partition("What to do:\n")
    assert found
    return re.findall(r"^  \d+\. (.*)", rest.partition("\n\n")[0], re.MULTILINE)


def test_an_unreadable_transcript_is_named_and_the_others_are_counted(root: Path) -> None:
    store = ProxyStore(root)
    store_session(store, "a", ("one", []))
    newer, directory = (store_session(store, session, ("two", [])) for session in ("b", "c"))
    newer.write_bytes(newer.read_bytes().replace(b'"acp-transcript":1', b'"acp-transcript":9'))
    directory.unlink()
    directory.mkdir()
    result = doctor(root)
    first, second = todo(result)
    assert {str(newer), str(directory)} == {first.split()[0], second.split()[0]}
    assert "EISDIR" in first + second
    assert re.search(r"sessions +1\n", result.stdout)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_store_that_others_can_write_is_refused_with_the_command_to_fix_it(root: Path, mode: int) -> None:
    root.mkdir()
    root.chmod(mode)
    result = doctor(root)
    [text] = todo(result)
    assert f"chmod 700 {root}" in text
    assert f"mode           {mode:04o}" in result.stdout


def test_a_file_in_place_of_the_store_is_refused(root: Path) -> None:
    root.write_text("")
    assert str(root) in todo(doctor(root))[0]


def test_an_editor_that_starts_a_missing_program_is_named(root: Path, home: Path) -> None:
    configure(zed_settings(home), gone=GONE, kept=PROXIED)
    [text] = todo(doctor(root))
    assert '"gone"' in text
    assert "acp-proxy setup --editor zed" in text


def test_an_acp_proxy_that_is_gone_is_named_once_for_all_its_entries(root: Path, home: Path) -> None:
    configure(zed_settings(home), one=GONE, two=GONE)
    configure(home / ".jetbrains/acp.json", three=GONE)
    mend = f"{GONE['command']} does not exist: acp-proxy setup writes the present path."
    assert todo(doctor(root)) == [f'{mend} Used by: "one" in Zed, "two" in Zed, "three" in JetBrains.']


def test_where_a_fault_of_the_file_stops_recording_no_option_is_blamed(
    root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "config.toml").write_text('redact = "/no/such/file"\n')
    monkeypatch.setenv("ACP_PROXY_CONFIG", str(file))
    configure(zed_settings(home), one=PROXIED)
    [text] = todo(found := doctor(root))
    assert (text.startswith(f"{file}, line 1: "), "--no-record" in found.stdout) == (True, False)
    file.write_text("no-record = true\nlod = 'auto'\n")
    assert "run records nothing, because of --no-record" in doctor(root).stdout


def test_an_editors_agent_that_does_not_exist_is_named_as_for_a_single_agent(root: Path, home: Path) -> None:
    command = [sys.executable, "-m", "acp_proxy", "run", "no-such-agent", SECRET]
    configure(zed_settings(home), lost={"command": command[0], "args": command[1:]}, kept=PROXIED)
    [text] = todo(doctor(root))
    cause = "no-such-agent is not in PATH, so it would not start. Install it, or give its absolute path."
    assert text == f'Zed starts "lost" through acp-proxy, but {cause}'
    [alone] = todo(doctor(root, "no-such-agent"))
    assert (alone.startswith(cause), alone.endswith('Used by: "lost" in Zed.')) == (True, True)


def test_a_configuration_that_does_not_parse_is_a_problem_with_its_place(root: Path, home: Path) -> None:
    path = zed_settings(home)
    configure(path, kept=PROXIED)
    path.write_text('// mine\n{\n  "theme": "x"\n  "agent_servers": {}\n}\n')
    result = doctor(root)
    place = "it is not valid JSON at line 4, column 3: a comma or a closing bracket is missing"
    assert todo(result) == [f"{path} cannot be read: {place}. Correct the file."]
    assert "cannot be read; see above\n" in result.stdout
    assert ("Nothing is wrong" in result.stdout, "No editor on this machine" in result.stdout) == (False, False)
    assert get_json(root)["editors"][0]["problem"] == place


def test_an_entry_that_cannot_work_is_reported_with_the_reason(root: Path, home: Path) -> None:
    forgotten, unknown = ({"command": sys.executable, "args": ["-m", "acp_proxy", *words]} for words in (["a"], BOGUS))
    configure(zed_settings(home), forgotten=forgotten, unknown=unknown)
    result = doctor(root)
    first, second = todo(result)
    assert ('"forgotten"' in first, "run is missing" in first) == (True, True)
    assert ('"unknown"' in second, "no option --bogus" in second) == (True, True)
    assert result.stdout.count("with arguments that it refuses") == 2
    assert "No editor on this machine starts an agent through acp-proxy" not in result.stdout


def test_of_an_acp_proxy_that_is_gone_nothing_else_is_said(root: Path, home: Path) -> None:
    configure(zed_settings(home), gone={"command": os.path.abspath("/no/such/acp-proxy"), "args": ["serve"]})
    assert todo(doctor(root)) == [
        f'Zed starts "gone" with {os.path.abspath("/no/such/acp-proxy")}, which does not exist. Correct the entry.'
    ]


GONE_LINE = f"{GONE['command']} run {sys.executable} acp"
LINES: dict[str, tuple[object, str]] = {
    "an agent": (
        {"command": f"{sys.executable} --acp"},
        f"the words after {sys.executable} in its command belong into args, each on its own",
    ),
    "an acp-proxy": (
        {"command": GONE_LINE, "args": []},
        f"the words after {GONE['command']} in its command belong into args, each on its own",
    ),
    "arguments": (
        {"command": sys.executable, "args": ["-m", "acp_proxy", f"run {sys.executable} acp"]},
        'the words of "run …" in its args belong there each on its own',
    ),
    "a text": (
        f"{sys.executable} --acp",
        "it is a text: its program belongs into command, and the words after it into args, each on its own",
    ),
}


@pytest.mark.parametrize("kind", LINES)
def test_an_entry_with_several_words_in_one_is_explained(root: Path, home: Path, kind: str) -> None:
    entry, fault = LINES[kind]
    configure(zed_settings(home), both=entry, kept=PROXIED)
    result = doctor(root)
    assert todo(result) == [f'The entry "both" in Zed is wrong: {fault}. Correct it.']
    assert '"both": in a way that cannot be read' in result.stdout


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"null", "it is not a JSON object"),
        (b"[]", "it is not a JSON object"),
        ('{"é": {"agent_servers": {}}}'.encode("latin-1"), "it is not UTF-8"),
        ("{}".encode("utf-16"), "it is not UTF-8"),
    ],
)
def test_what_setup_cannot_read_the_doctor_cannot_either(root: Path, home: Path, data: bytes, reason: str) -> None:
    path = zed_settings(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    assert todo(doctor(root)) == [f"{path} cannot be read: {reason}. Correct the file."]
    assert f"stays as it is: {reason}." in invoke("setup", "--dry-run").stderr


def test_an_option_of_run_after_the_agent_is_doubted(root: Path, home: Path) -> None:
    def entry(*words: str) -> dict[str, object]:
        return {"command": sys.executable, "args": ["-m", "acp_proxy", "run", *words]}

    after, before = entry(sys.executable, "x", "--redact", "keys"), entry("--redact", "keys", sys.executable, "--acp")
    configure(zed_settings(home), after=after, before=before, cut=entry(sys.executable, "--", "--redact"))
    assert get_json(root)["isWell"]
    [text] = [one["text"] for one in get_json(root)["todo"]]
    beginning = 'Zed starts "after" with --redact after the agent, which gets it.'
    assert text == f"{beginning} If it is for acp-proxy, write it before the agent."


def test_an_entry_with_another_store_or_without_recording_is_reported(root: Path, home: Path) -> None:
    def entry(*words: str) -> dict[str, object]:
        return {"command": sys.executable, "args": ["-m", "acp_proxy", "run", *words, sys.executable]}

    agents = {"same": entry("--store", str(root)), "own": entry("--store", "/my own"), "none": entry("--no-record")}
    configure(zed_settings(home), **agents)
    result = doctor(root)
    assert (result.exit_code, "Nothing is wrong." in result.stdout) == (0, True)
    assert '"same": through acp-proxy\n' in result.stdout
    assert '"own": through acp-proxy, recorded in another store: /my own\n' in result.stdout
    assert '"none": through acp-proxy, but not recorded\n' in result.stdout
    own, none = result.stdout.partition("Advice:\n")[2].partition("\n\n")[0].splitlines()
    assert ('"own"' in own, own.endswith(f"acp-proxy doctor --store {shell_quote.quote('/my own')}")) == (True, True)
    assert ('"none"' in none, "--no-record" in none) == (True, True)
    [editor] = get_json(root)["editors"]
    told_of = [(agent["started"], agent["store"], agent["isRecorded"], agent["problem"]) for agent in editor["agents"]]
    assert told_of == [
        ("proxied", str(root), True, None),
        ("proxied", "/my own", True, None),
        ("proxied", None, False, None),
    ]


def test_a_missing_agent_is_explained(root: Path) -> None:
    for words in ([], ["run", "--list", "store"]):
        [text] = todo(doctor(root, *words, "no-such-agent", "--acp"))
        assert "no-such-agent is not in PATH" in text


def test_a_missing_agent_of_an_editor_is_explained_with_acp_proxy_or_without(root: Path, home: Path) -> None:
    missing = {"command": "no-such-agent", "args": [SECRET]}
    proxied = {**PROXIED, "args": ["-m", "acp_proxy", "run", "no-such-agent", SECRET]}
    configure(zed_settings(home), plain=missing, kept=proxied)
    cause = "no-such-agent is not in PATH, so it would not start. Install it, or give its absolute path."
    found = doctor(root)
    assert todo(found) == [f'{cause} Used by: "plain" in Zed, "kept" in Zed.']
    assert "acp-proxy setup" not in found.stdout  # which refuses such an entry


def test_the_missing_package_of_recall_is_a_problem(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["run", "--recall", sys.executable]
    recalling = {"command": sys.executable, "args": ["-m", "acp_proxy", *words]}
    (runner := tmp_path / "uvx.exe").touch(0o755)
    run_by_uvx = {"command": str(runner), "args": ["acp-proxy", *words]}  # with packages of its own
    configure(zed_settings(home), one=recalling, plain=PROXIED, other=run_by_uvx)
    assert "Nothing is wrong" in doctor(root).stdout
    monkeypatch.setattr("acp_proxy.tools.doctor.editor_advice.find_spec", {"mcp": None}.get)
    assert todo(doctor(root)) == [f'Zed starts "one" with --recall, but {explain_no_mcp()}']
    configure(home / ".jetbrains/acp.json", two=recalling, passive={**recalling, "env": {"ACP_PROXY_NO_RECORD": "1"}})
    text = f"R{explain_no_mcp()[1:]}"
    assert todo(doctor(root)) == [f'{text}. Used by: "one" in Zed, "two" in JetBrains.']
    configure(zed_settings(home), plain=PROXIED)
    configure(home / ".jetbrains/acp.json", plain=PROXIED)
    assert "Nothing is wrong" in doctor(root).stdout
    monkeypatch.setenv("ACP_PROXY_RECALL", "1")
    assert todo(doctor(root)) == [text]


def test_each_problem_is_said_once_and_the_worst_first(root: Path, home: Path) -> None:
    root.write_text("")
    configure(zed_settings(home), lost={"command": "no-such-agent"}, gone={**GONE, "args": ["run", "no-such-agent"]})
    found = doctor(root, "no-such-agent")
    of_store, of_agent, of_entry = todo(found)
    assert (str(root) in of_store, of_agent[:13], "acp-proxy setup" in of_entry) == (True, "no-such-agent", True)
    assert found.stdout.count("is not in PATH") == found.stdout.count(of_store) == 1
    assert "  answers        no; see above\n" in found.stdout
    assert "  recording      off; see above\n" in found.stdout


def test_an_agent_without_a_name_is_recorded_under_its_command(root: Path) -> None:
    stdout = doctor(root, sys.executable, "-m", "tests.scripted.agent", "--no-info").stdout
    [name] = [line for line in stdout.splitlines() if line.startswith("  name ")]
    assert "--agent-id" in name


def test_an_agents_words_cannot_control_the_terminal(root: Path, tmp_path: Path) -> None:
    offer = offer_capabilities()
    offer["result"]["agentInfo"] = {"name": "a\x1b[2J\u202e", "version": "\x9b31m\n"}
    agent = answering_agent(tmp_path / "notes", {"initialize": offer})
    noisy = python_command("import sys; print('out\\x1b[2J'); sys.exit('err\\x1b[2J')")
    for words in (agent, noisy):
        stdout = doctor(root, *words).stdout
        assert not {"\x1b", "\x9b", "\u202e"} & set(stdout)


def test_options_of_run_apply_in_a_line_from_an_editors_settings(root: Path, tmp_path: Path) -> None:
    agent = answering_agent(tmp_path / "notes", {"initialize": offer_capabilities(sessionCapabilities={"list": {}})})
    line = ["/opt/bin/acp-proxy", "run", "--list", "store", "--delete", "agent", "--", *agent]
    list_abilities = {ability["name"]: ability for ability in get_json(root, *line)["agent"]["abilities"]}
    assert (list_abilities["list"]["by"], list_abilities["delete"]["by"]) == ("acp-proxy", "nobody")
    assert [request["method"] for request in read_requests(tmp_path / "notes")] == ["initialize"]


def test_a_line_from_an_editors_settings_may_be_one_argument(root: Path, tmp_path: Path) -> None:
    agent = answering_agent(tmp_path / "notes", {"initialize": offer_capabilities()})
    line = shlex.join(["/opt/bin/acp-proxy", "run", "--delete", "agent", *agent])
    list_abilities = {ability["name"]: ability["by"] for ability in get_json(root, line)["agent"]["abilities"]}
    assert (list_abilities["list"], list_abilities["delete"]) == ("acp-proxy", "nobody")


def test_the_variables_of_run_apply(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACP_PROXY_NO_RECORD", "1")
    value = get_json(root, *answering_agent(tmp_path / "notes", {"initialize": offer_capabilities()}))
    assert {ability["by"] for ability in value["agent"]["abilities"]} == {"nobody"}
    assert "it records nothing" in value["agent"]["abilities"][0]["why"]
    assert [(one["isWrong"], "NO_RECORD" in one["text"]) for one in value["todo"][:1]] == [(False, True)]


@pytest.mark.parametrize("words", [(), ("AGENT",)])
def test_a_variable_that_run_would_refuse_is_reported(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ACP_PROXY_GRACE", "soon")
    agent = answering_agent(tmp_path / "notes", {"initialize": offer_capabilities()})
    [text] = todo(doctor(root, *(agent if words else [])))
    assert "'soon'" in text


def test_the_agent_runs_with_the_users_umask(root: Path, tmp_path: Path) -> None:
    os.umask(0o027)
    doctor(root, *answering_agent(tmp_path / "notes", {"initialize": offer_capabilities()}))
    assert (tmp_path / "notes").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "words",
    [
        ["--no-such-option"],
        ["acp-proxy", "run", "--no-such", "x"],
        ["acp-proxy", "run"],
        ["acp-proxy", "x"],
        ['acp-proxy run "x'],
    ],
)
def test_wrong_usage_exits_with_2(root: Path, words: list[str]) -> None:
    result = doctor(root, *words)
    assert (result.exit_code, result.stdout) == (2, "")
