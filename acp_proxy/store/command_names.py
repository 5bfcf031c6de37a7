"""Names an agent by its command: without runner, scope, version and path.

``npx -y @scope/claude-agent-acp@0.31`` becomes ``claude-agent-acp``; ``python -m foo.bar`` becomes ``foo.bar``. The
tables know programs that run another one. A program that they do not know, such as the user's own script, gives its own
name. Nothing is looked up on the disk, and nothing raises.
"""

from itertools import pairwise

_RUNNERS = {
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
"""Programs that run another one, and their options whose value is the next word."""
_ACP_WORD = "acp"
"""The argument that makes many programs speak ACP."""
_PYTHON_VALUE_OPTIONS = frozenset({"-W", "-X"})
_SUBCOMMANDS = frozenset({"exec", "dlx", "run", "x", "tool"})
_WORDS_BEFORE_COMMAND = {"timeout": 1, "ssh": 1, "direnv": 1}
"""How many words come before the command: a time, a host or a directory."""
_COMMAND_MARKS = {"mise": ("--",), "nix": ("-c", "--command")}
"""The words after which the command comes, unless the program runs a task or package of its own."""
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish", "ksh", "cmd", "powershell", "pwsh"})
_SHELL_VALUE_OPTIONS = frozenset({"-o", "-O", "+o", "+O", "--rcfile", "--init-file", "-ExecutionPolicy"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_CONTAINER_FLAGS = frozenset({"--rm", "--init", "--privileged", "--read-only", "--interactive", "--tty", "--detach"})
"""Options of container programs that take no value, as do the letters below. Nearly all other options take one."""
_CONTAINER_LETTERS = frozenset("-itdP")
_EXTENSIONS = frozenset({"exe", "cmd", "bat", "ps1", "py", "mjs", "cjs", "js", "sh"})
_ENTRY_FILES = frozenset({"index", "main"})
"""Names of files that say nothing. Such a file is named after its directory, unless that is one of
``_VAGUE_DIRECTORIES``."""
_PACKAGE_ENTRY_FILES = frozenset({"cli", "bin", "dist", "build", "lib", "server", "start"})
_VAGUE_DIRECTORIES = frozenset({"", ".", "..", "dist", "bin", "build", "lib", "out", "src"})
_PACKAGE_DIRECTORY = "node_modules"


def name_command(command: list[str]) -> str:
    """The name of the agent that a command starts; ``agent`` if there is none."""
    name = _find_program(_strip_runners(command)[0]) if command else ""
    return name[:1] + name[1:].partition("@")[0].partition("==")[0] or "agent"


def may_run_others(command: list[str]) -> bool:
    """Whether the program may be an unknown runner: it gets an argument that is not an option or an option's value."""
    pairs = pairwise(_strip_runners(command))
    return any(not (word.startswith("-") or previous.startswith("-") or word == _ACP_WORD) for previous, word in pairs)


def _strip_runners(command: list[str]) -> list[str]:
    words = list(command)
    while words and (command_run := _find_command_run(_find_program(words[0]).lower(), words[1:])):
        words = command_run
    return words


def _find_command_run(runner: str, words: list[str]) -> list[str]:
    """The command that a runner runs, or an empty list. ``words``: the runner's arguments."""
    if runner == "py" or (runner.startswith("python") and not runner[6:].strip("0123456789.tw")):
        return _find_command_of_python(words)
    if runner in _SHELLS:
        return _find_command_of_shell(words)
    if runner in _CONTAINERS:
        return _find_command_in_container(words)
    if runner not in _RUNNERS:
        return []
    mark = next((mark for mark in _COMMAND_MARKS.get(runner, ()) if mark in words), None)
    if mark is not None and words[0] != "run":
        return words[words.index(mark) + 1 :]
    words = _skip_options(words, runner)
    while words and words[0] in _SUBCOMMANDS:
        words = _skip_options(words[1:], runner)
    words = _skip_options(words[_WORDS_BEFORE_COMMAND.get(runner, 0) :], runner)
    if runner == "ssh" and words:  # a remote shell reads all words as one script
        return _find_last_command(" ".join(words))
    if runner == "nix" and words:  # nixpkgs#name
        return [words[0].rpartition("#")[2] or words[0], *words[1:]]
    return words


def _find_command_of_python(words: list[str]) -> list[str]:
    """The module or script that Python runs, and its arguments; an empty list for code, which has no name."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "-m":
            return words[index + 1 :]
        if _precedes_script(words[index]):
            return []
        index += 2 if words[index] in _PYTHON_VALUE_OPTIONS else 1
    return words[index:]


def _find_command_of_shell(words: list[str]) -> list[str]:
    """The last command of a script given with ``-c``, else the script's file."""
    while words and (words[0].startswith(("-", "+")) or (words[0].startswith("/") and len(words[0]) == 2)):
        if _precedes_script(words[0].lower()):
            return _find_last_command(" ".join(words[1:]))
        words = words[2 if words[0] in _SHELL_VALUE_OPTIONS else 1 :]
    return words


def _precedes_script(option: str) -> bool:
    """Whether an option such as ``-c`` or ``-lc`` (on Windows ``/c`` or ``-command``) is followed by a script."""
    return option in ("/c", "/k", "-command") or (option[0] == "-" and option[-1] == "c" and option[1:].isalpha())


def _find_last_command(script: str) -> list[str]:
    """The last command of a script, since earlier ones only prepare for it. ``exec "$@"`` runs the script's
    arguments."""
    parts = script.replace("&&", ";").replace("\n", ";").split(";")
    commands = [words for part in parts if (words := [word.strip("'\"") for word in part.split()])]
    words = commands[-1] if commands else []
    words = words[1:] if words[:1] == ["exec"] else words
    return _skip_options(words[2:] if words[:1] == ["$@"] else words, "")


def _find_command_in_container(words: list[str]) -> list[str]:
    """The image's name for ``run``; the command in the container for ``exec``."""
    if not words or words[0] not in ("run", "exec"):
        return []
    verb, words = words[0], words[1:]
    while words and words[0].startswith("-"):
        is_alone = "=" in words[0] or words[0] in _CONTAINER_FLAGS or set(words[0]) <= _CONTAINER_LETTERS
        words = words[1 if is_alone else 2 :]
    if verb == "exec":
        return words[1:]
    return [_find_program(words[0]).partition(":")[0], *words[1:]] if words else []


def _skip_options(words: list[str], runner: str) -> list[str]:
    """The words after the options, their values and assignments of variables."""
    value_options, index = _RUNNERS.get(runner, "").split(), 0
    while index < len(words) and (words[index].startswith("-") or _is_assignment(words[index])):
        index += 2 if words[index] in value_options else 1
    return words[index:]


def _is_assignment(word: str) -> bool:
    """Whether a word sets a variable; ``package==1.2`` does not."""
    name, equals, value = word.partition("=")
    return equals != "" and name.replace("_", "0").isalnum() and not value.startswith("=")


def _find_program(word: str) -> str:
    """The name of a program by its path, without the extension."""
    *directories, name = word.rstrip("/\\").replace("\\", "/").split("/")
    stem, dot, extension = name.rpartition(".")
    if not dot or extension.lower() not in _EXTENSIONS:
        return name
    return _find_directory_name(stem, directories) or stem


def _find_directory_name(stem: str, directories: list[str]) -> str:
    """The package or directory of a file whose name says nothing, or an empty string. ``stem``: the file's name without
    its extension. ``directories``: the directories of its path."""
    if _PACKAGE_DIRECTORY in directories and stem in _ENTRY_FILES | _PACKAGE_ENTRY_FILES:
        package = directories[len(directories) - directories[::-1].index(_PACKAGE_DIRECTORY) :]
        return next((part for part in package if not part.startswith("@")), "")
    if stem not in _ENTRY_FILES:
        return ""
    telling = [part for part in directories if part not in _VAGUE_DIRECTORIES]
    return telling[-1].lstrip(".") if telling else ""
