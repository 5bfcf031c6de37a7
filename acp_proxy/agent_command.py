"""What an agent is called by its command alone: no runner, no scope, no version, no path.

``npx -y @scope/claude-agent-acp@0.31`` is ``claude-agent-acp``; ``python -m foo.bar`` is ``foo.bar``. Programs that run
another one are seen through where the table knows them; of any other (a script of the user's own) the name is its own.
"""

from itertools import pairwise

_VALUED = {
    "nice": "-n --adjustment",
    "ionice": "-c -n --class --classdata",
    "env": "-u -C --unset --chdir",
    "nohup": "",
    "setsid": "",
    "stdbuf": "-i -o -e",
    "time": "-f -o",
    "timeout": "-k -s --kill-after --signal",
    "caffeinate": "-t -w",
    "arch": "-e -d",
    "sudo": "-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir",
    "doas": "-u -C",
    "wsl": "-d -u --distribution --user --cd --shell-type",
    "ssh": "-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w",
    "direnv": "",
    "mise": "-C -E -j --cd --env --jobs",
    "op": "--env-file --account",
    "doppler": "-p -c -t --project --config --token",
    "dotenv": "-f -e",
    "fnm": "--using",
    "asdf": "",
    "poetry": "-C -P --directory --project",
    "pdm": "-p --project",
    "hatch": "-e --env",
    "rye": "",
    "pixi": "-e --environment --manifest-path",
    "conda": "-n -p --name --prefix --cwd",
    "nix": "-p --option --override-input --extra-experimental-features --experimental-features",
    "npx": "-p -w --package --workspace --registry --prefix",
    "npm": "-p -w --package --workspace --registry --prefix",
    "pnpm": "-C -F --dir --filter --package",
    "pnpx": "--package",
    "yarn": "-p --package --cwd",
    "bun": "-r --preload --cwd",
    "bunx": "-p --package",
    "node": "-r -C --require --import --loader --experimental-loader --conditions --title",
    "deno": "-c --config --import-map",
    "uv": (
        "-p -w -i -P --from --with --with-editable --with-requirements --python --directory --project --package"
        " --extra --group --env-file --index --index-url --default-index --cache-dir --config-file"
    ),
    "uvx": "-p -w -i -P --from --with --with-editable --with-requirements --python --directory --env-file --index",
    "pipx": "--spec --python --index-url --pip-args",
}
"""Programs that run another one, and those of their options whose value is a word of its own."""
_ROLE = "acp"
"""What many agents are told to be by a word."""
_PYTHON_VALUED = frozenset({"-W", "-X"})
_VERBS = frozenset({"exec", "dlx", "run", "x", "tool"})
_BEFORE = {"timeout": 1, "ssh": 1, "direnv": 1}
"""How many words stand before what is run: a time, a host, a directory."""
_MARKS = {"mise": ("--",), "nix": ("-c", "--command")}
"""Behind which word the command stands, where they run no task or package of their own."""
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish", "ksh", "cmd", "powershell", "pwsh"})
_SHELL_VALUED = frozenset({"-o", "-O", "+o", "+O", "--rcfile", "--init-file", "-ExecutionPolicy"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_CONTAINER_FLAGS = frozenset({"--rm", "--init", "--privileged", "--read-only", "--interactive", "--tty", "--detach"})
"""Their options without a value behind them, and so is any of these letters: nearly all others have one."""
_CONTAINER_LETTERS = frozenset("-itdP")
_KINDS = frozenset({"exe", "cmd", "bat", "ps1", "py", "mjs", "cjs", "js", "sh"})
_ENTRIES = frozenset({"index", "main"})
"""Files that are called after nothing: their directory has the name, but for such as ``_PLACES``."""
_PACKAGE_ENTRIES = frozenset({"cli", "bin", "dist", "build", "lib", "server", "start"})
_PLACES = frozenset({"", ".", "..", "dist", "bin", "build", "lib", "out", "src"})
_PACKAGES = "node_modules"


def command_name(command: list[str]) -> str:
    name = _base(_seen_through(command)[0]) if command else ""
    return name[:1] + name[1:].partition("@")[0].partition("==")[0] or "agent"


def may_run_others(command: list[str]) -> bool:
    """Whether what is run is told by a word that is no option, nor an option's value: it may be a runner itself."""
    pairs = pairwise(_seen_through(command))
    return any(not (word.startswith("-") or before.startswith("-") or word == _ROLE) for before, word in pairs)


def _seen_through(command: list[str]) -> list[str]:
    """The command that all known runners run in the end."""
    words = list(command)
    while words and (run := _run_by(_base(words[0]), words[1:])):
        words = run
    return words


def _run_by(runner: str, words: list[str]) -> list[str]:
    """The command that a runner runs, by what stands behind it; empty where there is none."""
    if runner == "py" or (runner.startswith("python") and not runner[6:].strip("0123456789.")):
        return _run_by_python(words)
    if runner in _SHELLS:
        return _run_by_shell(words)
    if runner in _CONTAINERS:
        return _run_in_container(words)
    if runner not in _VALUED:
        return []
    mark = next((mark for mark in _MARKS.get(runner, ()) if mark in words), None)
    if mark is not None and words[0] != "run":
        return words[words.index(mark) + 1 :]
    words = _operands(words, runner)
    while words and words[0] in _VERBS:
        words = _operands(words[1:], runner)
    words = _operands(words[_BEFORE.get(runner, 0) :], runner)
    if runner == "ssh" and words:  # one word or many, a shell there reads it
        return _last_of(" ".join(words))
    if runner == "nix" and words:  # nixpkgs#name
        return [words[0].rpartition("#")[2] or words[0], *words[1:]]
    return words


def _run_by_python(words: list[str]) -> list[str]:
    """A module, or a script; an ``-m`` behind that is its own."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m":
            return words[at + 1 :]
        at += 2 if words[at] in _PYTHON_VALUED else 1
    return words[at:]


def _run_by_shell(words: list[str]) -> list[str]:
    """Of a script in the command itself the last command; else the script's file."""
    while words and (words[0].startswith(("-", "+")) or (words[0].startswith("/") and len(words[0]) == 2)):
        if _announces_script(words[0].lower()):
            return _last_of(" ".join(words[1:]))
        words = words[2 if words[0] in _SHELL_VALUED else 1 :]
    return words


def _announces_script(option: str) -> bool:
    """``-c``, ``-lc``; and in the shells of Windows."""
    return option in ("/c", "/k", "-command") or (option[0] == "-" and option[-1] == "c" and option[1:].isalpha())


def _last_of(script: str) -> list[str]:
    """What stands before it only prepares for it. ``exec "$@"`` runs what is given to the script."""
    parts = script.replace("&&", ";").replace("\n", ";").split(";")
    commands = [words for part in parts if (words := [word.strip("'\"") for word in part.split()])]
    words = commands[-1] if commands else []
    words = words[1:] if words[:1] == ["exec"] else words
    return _operands(words[2:] if words[:1] == ["$@"] else words, "")


def _run_in_container(words: list[str]) -> list[str]:
    """The image, by its name alone; of a container that runs already, the command."""
    if not words or words[0] not in ("run", "exec"):
        return []
    verb, words = words[0], words[1:]
    while words and words[0].startswith("-"):
        is_alone = "=" in words[0] or words[0] in _CONTAINER_FLAGS or set(words[0]) <= _CONTAINER_LETTERS
        words = words[1 if is_alone else 2 :]
    if verb == "exec":
        return words[1:]
    return [_base(words[0]).partition(":")[0], *words[1:]] if words else []


def _operands(words: list[str], runner: str) -> list[str]:
    """What is left behind options, their values and assignments."""
    valued, at = _VALUED.get(runner, "").split(), 0
    while at < len(words) and (words[at].startswith("-") or _assigns(words[at])):
        at += 2 if words[at] in valued else 1
    return words[at:]


def _assigns(word: str) -> bool:
    """Whether it sets a variable; ``package==1.2`` does not."""
    name, equals, value = word.partition("=")
    return equals != "" and name.replace("_", "0").isalnum() and not value.startswith("=")


def _base(word: str) -> str:
    *above, name = word.rstrip("/\\").replace("\\", "/").split("/")
    stem, dot, kind = name.rpartition(".")
    if not dot or kind.lower() not in _KINDS:
        return name
    return _directory(stem, above) or stem


def _directory(stem: str, above: list[str]) -> str:
    """What a file that is called after nothing belongs to: a package, or a directory. Empty where that says nothing."""
    if _PACKAGES in above and stem in _ENTRIES | _PACKAGE_ENTRIES:
        package = above[len(above) - above[::-1].index(_PACKAGES) :]
        return next((part for part in package if not part.startswith("@")), "")
    if stem not in _ENTRIES:
        return ""
    named = [part for part in above if part not in _PLACES]
    return named[-1].lstrip(".") if named else ""
