"""An agent without a name is named after its command: after the program, not after the runner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.store.command_names import may_run_others, name_command
from tests.strategies import texts


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @scope/claude-agent-acp@0.31", "claude-agent-acp"),
        ("python -m foo.bar", "foo.bar"),
        ("/opt/x/amp --acp", "amp"),
        ("amp", "amp"),
        ("amp@1.2.3", "amp"),
        ("npx @scope/acme", "acme"),
        ("npx --yes acme@latest acp", "acme"),
        ("npx.cmd -y @scope/acme@1", "acme"),
        (r"C:\Program-Files\nodejs\npx.CMD -y @scope/acme@1", "acme"),
        (r"C:\Program-Files\nodejs\NPX.CMD -y @scope/acme@1", "acme"),
        ("CMD.EXE /C npx -y acme", "acme"),
        ("npm exec -- @scope/acme@1", "acme"),
        ("npm x -- acme", "acme"),
        ("pnpm dlx acme@2", "acme"),
        ("yarn dlx @scope/acme", "acme"),
        ("bunx acme", "acme"),
        ("bun x acme@1", "acme"),
        ("bun run agent.ts", "agent.ts"),
        ("uvx acme@0.3", "acme"),
        ("uvx acme==0.3", "acme"),
        ("uv tool run acme@0.3", "acme"),
        ("uv run acme", "acme"),
        ("uv run python -m foo.bar", "foo.bar"),
        ("pipx run acme==1.0", "acme"),
        ("node /opt/agent/cli.mjs --acp", "cli"),
        ("node --no-warnings ./agent.js", "agent"),
        ("deno run -A ./agent.js", "agent"),
        ("python3.11 -u -m foo", "foo"),
        ("python3 /opt/agent.py --acp", "agent"),
        ("py -3 -m foo", "foo"),
        (r"C:\Python\Python.EXE -m foo", "foo"),
        ("pythonw.exe -m foo", "foo"),
        ("python3.14t -m foo", "foo"),
        ("python -c print(1/2)", "python"),
        ("python -X utf8 -uc pass", "python"),
        ("python -m foo -m bar", "foo"),
        ("python3 -X dev launch.py one python -m foo", "launch"),
        ("python", "python"),
        ("npx", "npx"),
        ("env A=1 B=2 amp --acp", "amp"),
        ("env A=1 npx -y @scope/acme@1", "acme"),
        ("nohup npx -y @scope/acme@1", "acme"),
        ("A=1 amp", "A=1"),
        (r"C:\tools\amp.EXE --acp", "amp"),
        ("./amp.sh", "amp"),
        ("/opt/amp/", "amp"),
        ("@scope/acme@1", "acme"),
        ("@scope", "@scope"),
        ("claude-agent-acp", "claude-agent-acp"),
        ("launch deepagents", "launch"),
        ("nice -n 5 amp", "amp"),
        ("env -u X -C /x amp", "amp"),
        ("timeout -k 3 5s amp", "amp"),
        ("stdbuf -o L amp", "amp"),
        ("sudo -E -u me A=1 amp", "amp"),
        ("env A=1 nice -n 5 timeout 3 npx -y @scope/acme@1", "acme"),
        ("uv run --directory /x a.py", "a"),
        ("uv --directory /x run --with b --python 3.12 a.py", "a"),
        ("uvx --from acme acme-acp", "acme-acp"),
        ("npx -p @scope/acme acme-acp", "acme-acp"),
        ("npx --package=@scope/acme acme-acp", "acme-acp"),
        ("python -X utf8 agent.py", "agent"),
        ("conda run -n env amp", "amp"),
        ("poetry run amp", "amp"),
        ("direnv exec . amp", "amp"),
        ("mise exec node@20 -- npx acme", "acme"),
        ("op run --env-file x -- amp", "amp"),
        ("nix run nixpkgs#amp -- --acp", "amp"),
        ("nix run nixpkgs#amp -- -c x", "amp"),
        ("mise run amp -- --acp", "amp"),
        ("wsl -e amp -e x", "amp"),
        ("nix run github:me/amp", "amp"),
        ("nix shell nixpkgs#nodejs -c npx acme", "acme"),
        ("wsl -d Ubuntu amp", "amp"),
        ("wsl.exe -d Ubuntu -- amp", "amp"),
        ("ssh -i key host amp --acp", "amp"),
        ("ssh host", "ssh"),
        ("docker run -i --rm -e A=1 -v /x:/y ghcr.io/o/amp:1.2@sha256:12 --acp", "amp"),
        ("docker run --rm -i --network host node:20 npx -y @scope/acme@1", "acme"),
        ("docker exec -i box amp --acp", "amp"),
        ("docker", "docker"),
        ("bash ./amp.sh", "amp"),
        ("bash -l", "bash"),
        (r"cmd /c C:\tools\amp.cmd", "amp"),
        ("cmd.exe /d /s /c npx -y acme", "acme"),
        ("powershell -NoProfile -Command amp", "amp"),
        ("node /x/node_modules/@scope/acme/dist/index.js", "acme"),
        ("node /x/node_modules/acme/cli.js", "acme"),
        ("node /x/node_modules/.pnpm/acme@1.0.0/node_modules/acme/dist/esm/index.js", "acme"),
        ("node /x/node_modules/acme/dist/acme-acp.js", "acme-acp"),
        ("node /x/node_modules/index.js", "index"),
        ("/x/node_modules/.bin/acme", "acme"),
        ("node /x/acme/dist/index.js", "acme"),
        ("node ./dist/index.js", "index"),
        ("python /x/acme/main.py", "acme"),
    ],
)
def test_a_command_is_named_without_its_runner_scope_version_and_path(command: str, name: str) -> None:
    assert name_command(command.split()) == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["bash", "-lc", "cd /x && exec amp --acp"], "amp"),
        (["bash", "-o", "pipefail", "-c", ". ~/.nvm/nvm.sh; A=1 npx -y @scope/acme@1"], "acme"),
        (["sh", "-c", 'exec "$@"', "_", "amp", "--acp"], "amp"),
        (["sh", "-c", "'/opt/amp/amp' --acp"], "amp"),
        (["ssh", "host", "cd /x && amp acp"], "amp"),
        (["bash", "/opt/amp.sh", "-c", "other"], "amp"),
        (["bash", "-c", ""], "bash"),
        (["bash", "-c", "&& ; "], "bash"),
    ],
)
def test_a_shell_command_is_named_after_its_last_command(command: list[str], name: str) -> None:
    assert name_command(command) == name


@pytest.mark.parametrize("command", [[], [""], ["/"], ["npx", "-y"], ["python", "-m"], ["env", "A=1"], ["npx", ""]])
def test_a_command_without_a_program_still_has_a_name(command: list[str]) -> None:
    assert name_command(command)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("npx -y @scope/acme@0.31", "npx -y @scope/acme@0.32.1-beta.2"),
        ("npx -y @scope/acme", "npx -y @scope/acme@latest"),
        ("uvx acme==1.0", "uvx acme==2.0"),
        ("/usr/bin/python3.11 -m acme", "/opt/python3.13/bin/python3.13 -m acme"),
        ("/opt/amp-1/amp", "/opt/amp-2/amp"),
    ],
)
def test_an_upgrade_does_not_change_the_name(old: str, new: str) -> None:
    assert name_command(old.split()) == name_command(new.split())


@given(
    st.lists(
        texts
        | st.sampled_from(
            ["npx", "python", "-m", "env", "uv", "tool", "run", "-y", "A=1", "--", "bash", "-c", "docker", "nix"]
        )
    )
)
def test_every_command_has_a_name(command: list[str]) -> None:
    assert name_command(command)


@pytest.mark.parametrize(
    ("command", "may"),
    [
        ("launch one", True),
        ("launch -v --quiet one", False),  # "one" may be the value of an option
        ("acme acp", False),
        ("acme", False),
        ("acme --acp", False),
        ("acme --memory /x --script y", False),
        ("npx -y @scope/acme@1 --acp", False),
        ("npx -y @scope/acme@1 acp", False),
        ("npx -y @scope/acme@1 one", True),
        ("python -m acme --memory /x", False),
        ("", False),
    ],
)
def test_a_word_that_is_not_an_option_may_name_what_is_run(command: str, may: bool) -> None:
    assert may_run_others(command.split()) is may


def test_a_script_of_several_lines_is_named_after_its_last_line() -> None:
    assert name_command(["bash", "-c", "export A=1\nacme --acp"]) == "acme"
