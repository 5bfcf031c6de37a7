"""What to say of a wrong command line: what is wrong and what to write instead. Imported only then."""

import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

import typer

from acp_proxy import installation, invocation, shell_quote
from acp_proxy.cli.wrapping import fit_to_stream

_LEAST_LIKENESS = 0.7
"""How alike a wrong word and a command or an option have to be: with less, `settings` is like `stats`."""
_MOST_QUOTED = 20
"""Characters of a wrong number in the message."""
_NUMBERS = {
    r"(?P<given>'.*') is not a valid int( range)?\.": "write a whole number, such as 20",
    r"(?P<given>'.*') is not a valid float( range)?\.": "write a number, such as 2 or 0.5",
    r"(?P<given>\S+) is not in the range x>=(?P<least>\S+)\.": "write {least} or more",
    r"(?P<given>\S+) is not in the range (?P<least>[^\s<>]+)<=x<=(?P<most>[^\s<>]+)\.": "write {least} to {most}",
}
"""What to write instead of a wrong number, by the parsing library's message."""
INSTEAD_OF_OPTION = {
    ("list", "--all"): "acp-proxy list; for the archived ones: --archived",
    ("list", "--deleted"): "acp-proxy restore",
    ("delete", "--all"): "acp-proxy prune, which deletes by age, number or size",
    ("export", "--html"): "--format html",
    ("export", "--md"): "--format md",
    ("export", "--markdown"): "--format md",
    ("export", "--json"): "--format json",
    ("list", "--format"): "--json",
    ("search", "--format"): "--json",
    ("stats", "--format"): "--json",
    ("show", "--last"): "acp-proxy show last",
    ("show", "--format"): "--json or --raw; for a document: acp-proxy export",
    ("export", "--last"): "acp-proxy export last",
    ("setup", "--remove"): "--undo",
    ("setup", "--uninstall"): "--undo",
}
"""What to write instead of a frequent wrong option, by command and option."""
_SHARED_OPTIONS = ("--agent", "--here", "--json", "--store", "-a", "-H")
"""Options of many commands; some people write them before the command."""
_OPTIONS_WITH_VALUE = ("--agent", "--store", "-a")
"""Those of ``_SHARED_OPTIONS`` that have a value."""
_COMMANDS_WITHOUT_OPTIONS = ("help", "sessions", "version")
_COMMANDS_WITH_FREE_WORDS = ("list", "search")
"""The commands for whose words ``--`` is advised: words to look for may begin with a hyphen, too."""
_SYNONYMS = {
    "archive": "hide",
    "blame": "annotate who",
    "browse": "tui ui",
    "compress": "compact gzip zip",
    "config": "env options preferences settings",
    "continue": "fork resume switch",
    "delete": "del erase remove rm trash",
    "demo": "example try tutorial",
    "diff": "changes files patch",
    "doctor": "check diagnose health status test",
    "editor": "emacs neovim nvim snippet vim",
    "export": "backup copy cp dump html json markdown md pdf save share",
    "help": "commands docs man",
    "import": "load",
    "list": "history log logs ps",
    "pin": "favorite favourite keep star tag",
    "prune": "clean cleanup empty gc purge",
    "redact": "mask scrub",
    "rename": "move mv name title",
    "repair": "fix",
    "replay": "play watch",
    "restore": "recover undelete",
    "restore, or: acp-proxy setup --undo": "undo",
    "run": "exec record start wrap",
    "search": "find grep rg",
    "setup": "add configure enable init install jetbrains vscode zed",
    "setup --undo": "disable uninstall",
    "show": "cat info open print read view",
    "show --follow": "follow tail",
    "stats": "cost costs du size tokens usage",
    "sync now": "merge pull push",
    "unarchive": "unhide",
    "verify": "fsck validate",
    "web": "dashboard gui http serve server",
    "--install-completion": "completion completions",
}
"""By command: other words that people type for it."""
COMMAND_BY_SYNONYM = {word: f"acp-proxy {command}" for command, words in _SYNONYMS.items() for word in words.split()}
_AGENTS = ["codex-acp", "copilot", "gemini", "goose", "kimi", "npx", "opencode", "uvx", "vibe-acp"]
"""Programs that start an agent, which may be missing here."""
_ACP_WORDS = frozenset({"acp", "--acp", "--experimental-acp"})
"""Arguments by which agents speak the protocol."""
_EDITORS_OF_SETUP = ("code-insiders", "cursor", "jetbrains", "paseo", "vscode", "vscodium", "zed")
"""What users call those whose settings it writes."""
_AGENT_OPTION = "--agent"
_COMMANDS_WITH_AGENT_WORDS = ("adopt", "doctor", "editor")
"""The commands that take an agent's command as words, and not after ``--agent``."""
_UPGRADE_WORDS = ("update", "upgrade")
_DOWNLOADS_COMMAND = "self"
"""What PyApp adds to the executable for people without Python (``packaging/executable``)."""


def shorten_error(problem: Any) -> None:
    """Make an error of the parsing library print what is wrong and what to write instead, in a line or two."""
    if getattr(problem, "is_short", False):
        return
    problem.is_short = True
    text = _explain(problem)
    problem.show = lambda file=None: typer.echo(fit_to_stream(f"acp-proxy: {text}", sys.stderr), err=True)


def _explain(problem: Any) -> str:
    command = problem.ctx.command.name if problem.ctx is not None else ""
    match type(problem).__name__:
        case "MissingParameter":
            return _explain_missing(problem)
        case "NoSuchOption":
            word = _find_word(problem.option_name)
            text = f"there is no option {word}."
            if problem.ctx is not None and problem.ctx.parent is None and problem.option_name in _SHARED_OPTIONS:
                return (
                    f"{text} It goes after the command: acp-proxy {_find_command(problem.option_name)} "
                    f"{problem.option_name} …"
                )
            if problem.option_name == _AGENT_OPTION and (line := _write_without_agent_option(problem.ctx)):
                return f"{text} Write: {line}"
            if replacement := INSTEAD_OF_OPTION.get((command, problem.option_name)):
                return f"{text} Instead: {replacement}"
            if similar_options := _find_similar_options(problem.option_name, problem.possibilities or []):
                return f"{text} Did you mean {' or '.join(similar_options)}?"
            if quoted_agent := _quote_agent(problem.ctx):
                return f"{text} {quoted_agent}"
            if command in _COMMANDS_WITH_FREE_WORDS:
                text += f" As a word: {shell_quote.join(['acp-proxy', command, '--', word])}."
            return f"{text} {_advise_help(problem.ctx)}"
        case "BadParameter":
            text = _explain_number(problem.message) or problem.message
            prefix = problem.format_message().removesuffix(problem.message)  # such as: … for '--limit' / '-n':
            if hint := prefix.partition("'")[2].partition("'")[0]:
                text = f"{hint}: {text}"
            return text if text.endswith((".", "?")) else f"{text}."
        case "BadOptionUsage":
            return f"{problem.option_name} needs a value after it."
    text = str(problem.message)
    if match := re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", text, re.DOTALL):
        text = f"{command} does not take: {match[1]}."
        if quoted_agent := _quote_agent(problem.ctx):
            return f"{text} {quoted_agent}"
        if option := _find_option_for(match[1], problem.ctx):
            return f"{text} Did you mean {option}?"
        if {*match[1].split()} == {"last"}:
            return f"{text} It takes one session."
        takes_words = any(param.param_type_name == "argument" for param in problem.ctx.command.params)
        return f"{text} {'Put a text of several words in quotes.' if takes_words else _advise_help(problem.ctx)}"
    return text


def _find_option_for(words: str, context: typer.Context) -> str | None:
    """The option for which a command was given these words alone: its name, or its value."""
    if any(f"--{words}" in param.opts for param in context.command.params):
        return f"--{words}"
    if context.command.name != "setup":
        return None
    return shell_quote.join(["--editor" if words.lower() in _EDITORS_OF_SETUP else "--agent", words])


def _quote_agent(context: typer.Context | None) -> str | None:
    """What to write where the words of an agent's command follow ``--agent`` without quotes."""
    if context is None or context.command.name != "setup":
        return None
    _, words, _ = _split_at_agent_option(context)
    agent = _join_for_quotes(words).removesuffix(" -y")
    if len(agent.split()) < 2:
        return None
    return f"Put the agent's command in quotes: {shell_quote.join(['--agent', agent])}"


def _write_without_agent_option(context: typer.Context | None) -> str | None:
    """The same command line with the agent at its end, for a command that takes it there."""
    if context is None or context.command.name not in _COMMANDS_WITH_AGENT_WORDS:
        return None
    before, agent, after = _split_at_agent_option(context)
    if context.command.name == "editor":  # whose name comes first
        if {*before[1:], *after} - {"--whole"}:
            return None
        before.append(agent.pop() if len(agent) > 1 else "EDITOR")
    with suppress(ValueError):  # there is half a pair of quotes
        agent = shell_quote.split(agent[0]) if len(agent) == 1 else agent
    return shell_quote.join(["acp-proxy", *before, *after, *agent]) if agent else None


def _split_at_agent_option(context: typer.Context) -> tuple[list[str], list[str], list[str]]:
    """The words before ``--agent``, the words of the agent after it, and the options of the command after these."""
    words = [part for word in invocation.words for part in re.split("(?<=^--agent)=", word, maxsplit=1)]
    if _AGENT_OPTION not in words:
        return words, [], []
    start = words.index(_AGENT_OPTION)
    names = {name for param in context.command.params for name in param.opts if name.startswith("--")}
    agent = [*takewhile(lambda word: word.partition("=")[0] not in names, words[start + 1 :])]
    return words[:start], agent, words[start + 1 + len(agent) :]


def _join_for_quotes(words: list[str]) -> str:
    """A command that gets quotes around it: with few in it, since Windows' shells have none within others."""
    line = " ".join(words)
    with suppress(ValueError):  # there is half a pair of quotes
        if shell_quote.split(line) == words:
            return line
    return shell_quote.join(words)


def _find_word(option: str) -> str:
    """The word in which an option was given: the library takes ``-foo`` for the options -f, -o and -o."""
    if option.startswith("--"):
        return option
    words_before_dashes = takewhile(lambda word: word != "--", invocation.words)
    return next((word for word in words_before_dashes if re.match(rf"-[^-]*{re.escape(option[1:])}", word)), option)


def _find_command(option: str) -> str:
    """The command before which this option was given; ``list`` if there is none."""
    words = list(invocation.words)
    words_after = words[2 if words[:1] == [option] and option in _OPTIONS_WITH_VALUE else 1 :]
    return next(
        (word for word in words_after if word in invocation.commands and word not in _COMMANDS_WITHOUT_OPTIONS),
        "list",
    )


def _advise_help(context: typer.Context | None) -> str:
    return f"To see all: {context.command_path if context is not None else 'acp-proxy'} --help"


def explain_unknown_command(words: Sequence[str], path: str, commands: Iterable[str]) -> str:
    """What is wrong with a word in the place of a command, and what to write instead.

    ``words``: the wrong word and what follows it. ``path``: the words before it, such as ``acp-proxy sync``.
    ``commands``: those of this group.
    """
    word, arguments = words[0], list(words[1:])
    program, *group = path.split()
    text = f"{group[-1]} has no command {word!r}." if group else f"there is no command {word!r}."
    if word in _UPGRADE_WORDS:
        return f"{text} To upgrade: {installation.advise_upgrade()}"
    if word == _DOWNLOADS_COMMAND and not group:
        text += " It is only in the download that brings a Python of its own."
        if arguments[:1] and arguments[0] in _UPGRADE_WORDS:
            return f"{text} To upgrade this one: {installation.advise_upgrade()}"
        return f"{text} To remove this one: acp-proxy setup --undo, then {installation.advise_uninstall()}"
    full_commands = {name: f"{path} {name}" for name in commands}
    begun_names = [name for name in full_commands if name.startswith(word)]
    near_names = begun_names if len(begun_names) == 1 else get_close_matches(word, full_commands, 1, _LEAST_LIKENESS)
    if suggestion := COMMAND_BY_SYNONYM.get(word) or full_commands.get("".join(near_names)):
        is_complete = not arguments or ", or: " in suggestion
        return f"{text} Did you mean: {suggestion if is_complete else f'{suggestion} {shell_quote.join(arguments)}'}"
    if shutil.which(word) is not None or word in _AGENTS or not _ACP_WORDS.isdisjoint(arguments):
        return f"{text} To start an agent: {shell_quote.join([program, 'run', *words])}"
    return f"{text} To see all: {path} help"


def _find_similar_options(option: str, known_options: Sequence[str]) -> list[str]:
    """The options whose name is near. The library counts the dashes too, and finds --json near --long; with less
    likeness, --force would be near --store."""
    word = option.strip("-")
    return [other for other in known_options if get_close_matches(word, [other.strip("-")], cutoff=_LEAST_LIKENESS)]


def _explain_missing(problem: Any) -> str:
    """What a missing argument is, and the example in the command's help."""
    help_text = getattr(problem.param, "help", None) or ""
    examples = [line.strip() for line in (problem.ctx.command.help or "").split("\n") if "Example:" in line]
    if problem.ctx.command.name == "editor" and (editor := problem.ctx.params.get("given_editor")):
        examples = [example.replace("editor zed", f"editor {editor}") for example in examples]
    name = problem.format_message().split("'")[1] if problem.param is not None else "something"
    return "\n".join([f"{name} is missing: {help_text[:1].lower()}{help_text[1:].rstrip('.')}.", *examples[:1]])


def _explain_number(message: str) -> str | None:
    """What to write instead of a wrong number, if the message is about one."""
    for pattern, advice in _NUMBERS.items():
        if match := re.fullmatch(pattern, message, re.DOTALL):
            given = match["given"]  # a number outside of a range is without quotes, and a float: -1.0 for -1
            quoted = (given.strip("'") if given.startswith("'") else given.removesuffix(".0"))[:_MOST_QUOTED]
            return f"{advice.format(**match.groupdict())}, not {quoted!r}"
    return None
