"""``acp-proxy config``: the values of the options, what they mean, and where each comes from; and set them."""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy import shell_quote
from acp_proxy.cli import config_edit, output_files
from acp_proxy.cli.completion import complete_file
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.run_help import METAVARS
from acp_proxy.cli.shared_options import JsonOption
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.config import config_file, options
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.store.store_root import resolve_root
from acp_proxy.views import sanitize

_DEFAULT, _ENVIRONMENT, _FILE = "default", "environment", "file"


@dataclass(frozen=True, slots=True)
class Setting:
    """An option of ``run``. ``source``: default, environment or file. A flag's value is ``1`` or empty."""

    name: str
    variable: str
    value: str
    source: str
    is_flag: bool

    @property
    def file_text(self) -> str:
        """Its value as the configuration file has it."""
        return ("true" if self.value else "false") if self.is_flag else self.value


_GET, _SET, _UNSET = "get", "set", "unset"
_USAGE = {_GET: ("NAME", "redact"), _SET: ("NAME VALUE", "redact keys"), _UNSET: ("NAME", "redact")}
"""By the word that says what to do: the words that follow it, and an example of them."""
_SYNONYMS = dict.fromkeys(("clear", "delete", "remove", "reset", "rm"), _UNSET)
"""Other words that people type for one of these."""
_HINT = "What one means: acp-proxy config NAME. To set it: acp-proxy config set NAME VALUE"


def _complete_word(context: typer.Context, beginning: str) -> list[str]:
    """What to do or an option, then an option, then its values."""
    given = list(context.params.get("words") or ())
    offered: list[str] = []
    if not given:
        offered = [_GET, _SET, _UNSET, *options.OPTIONS]
    elif len(given) == 1 and given[0] in (_GET, _SET, _UNSET):
        offered = list(options.OPTIONS)
    elif len(given) == 2 and given[0] == _SET and given[1] in options.OPTIONS:
        offered = _list_values(given[1])
    files = complete_file(beginning) if "FILE" in offered else []
    # a word in capitals stands for any text
    return [*(word for word in offered if word.startswith(beginning) and not word.isupper()), *files]


def config(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME | get NAME | set NAME VALUE | unset NAME]",
            help="An option, to see what it and its values mean; or what to write into the configuration file.",
            show_default=False,
            autocompletion=_complete_word,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the options of run with their values, and set them.

    Example: acp-proxy config redact
    Example: acp-proxy config set redact keys

    The first shows what redact means and which values it takes; the second writes it into the configuration file, and
    unset removes it from there. Comments stay. get prints the value alone.

    An option on the command line wins over its environment variable, and that over the configuration file. An editor
    can set both for an agent; acp-proxy doctor shows what editors do. A running agent keeps its values until it is
    started again.
    """
    path = config_file.find_path()
    if words and words[0] in (_SET, _UNSET):
        with report_errors():
            _change(path, words)
        _print_problems(config_file.read(path)[1])
        return
    values, problems = config_file.read_user_file()
    if words:
        is_get = words[0] == _GET
        with report_errors():
            _check_count(words)
            name = _read_name(words[1]) if is_get else _read_name(words[0], tuple(_USAGE))
            if len(words) > 1 and not is_get:
                raise UsageError(f"to set it: {shell_quote.join(['acp-proxy', 'config', _SET, *words])}")
        [setting] = [setting for setting in read_settings(os.environ, values) if setting.name == name]
        if as_json:
            typer.echo(sanitize.format_json(_encode_setting(setting), indent=2))
        elif is_get:
            typer.echo(sanitize.make_line(setting.file_text))
        else:
            for line in _explain(setting):
                typer.echo(fit_to_stream(sanitize.make_line(line), sys.stdout, _COLUMN))
        _print_problems(problems)
        return
    settings = list(read_settings(os.environ, values))
    problems += [problem for setting in settings if (problem := _find_variable_problem(setting)) is not None]
    is_there = os.path.exists(path)
    if as_json:
        _print_json(path, settings, problems, is_there=is_there)
    else:
        typer.echo(sanitize.make_line(f"{path}{'' if is_there else ' (there is no such file)'}"))
        for line in _format_lines(settings):
            typer.echo(sanitize.make_line(line) if sys.stdout.isatty() else line)
    if sys.stdout.isatty() and not as_json:
        typer.echo(fit_to_stream(_HINT, sys.stderr), err=True)
    _print_problems(problems)


def _print_problems(problems: Sequence[str]) -> None:
    """Print what is wrong, and end with 2 if anything is."""
    for text in problems:
        typer.echo(fit_to_stream(f"acp-proxy: {sanitize.make_line(text)}", sys.stderr), err=True)
    if problems:
        raise typer.Exit(2)


def read_settings(environment: Mapping[str, str], file: Mapping[str, str]) -> Iterator[Setting]:
    """Each option of ``run``, in the order of its table. ``file``: the values in the configuration file."""
    for name, option in options.OPTIONS.items():
        if value := environment.get(option.variable):
            source = _ENVIRONMENT
        elif name in file:
            source, value = _FILE, file[name]
        else:
            source, value = _DEFAULT, str(resolve_root("")) if name == "store" else option.default
        yield Setting(name, option.variable, value, source, option.is_flag)


def _find_variable_problem(setting: Setting) -> str | None:
    """What is wrong with a value of the environment."""
    if setting.source != _ENVIRONMENT:
        return None
    try:
        options.check_value(setting.name, setting.value)
    except UsageError as problem:
        return f"{setting.variable}: {problem}"
    return None


def _format_lines(settings: list[Setting]) -> Iterator[str]:
    rows = [
        (setting.name, setting.file_text, setting.variable if setting.source == _ENVIRONMENT else setting.source)
        for setting in settings
    ]
    if not sys.stdout.isatty():
        yield from ("\t".join(row) for row in rows)
        return
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    yield from (f"{name:<{names}}  {value:<{values}}  {source}" for name, value, source in rows)


_COLUMN = len("variable  ")


def _explain(setting: Setting) -> Iterator[str]:
    """What an option and its values mean, and what it is now."""
    option = options.OPTIONS[setting.name]
    is_set = setting.source != _DEFAULT
    where = f"  ({setting.source})" if is_set or option.is_flag or option.default or setting.value else "(not set)"
    yield f"{'meaning':<{_COLUMN}}{option.help_text}"
    yield f"{'values':<{_COLUMN}}{', '.join(_list_values(setting.name))}"
    if option.default or option.is_flag:
        yield f"{'default':<{_COLUMN}}{'false' if option.is_flag else option.default}"
    yield f"{'now':<{_COLUMN}}{setting.file_text}{where}"
    yield f"{'variable':<{_COLUMN}}{setting.variable}"
    example = next(
        (value for value in _list_values(setting.name) if value not in (setting.file_text, option.default)), ""
    )
    if setting.source == _FILE:
        yield f"{'to unset':<{_COLUMN}}acp-proxy config unset {setting.name}"
    if setting.name != config_file.ONE_AGENT_OPTION:
        yield f"{'to set':<{_COLUMN}}acp-proxy config set {setting.name} {example}"


def _list_values(name: str) -> list[str]:
    option = options.OPTIONS[name]
    return ["false", "true"] if option.is_flag else [*(option.choices or METAVARS[name].split("|"))]


def _read_name(word: str, other_words: tuple[str, ...] = ()) -> str:
    """The option that a user names, with or without dashes in front. ``other_words``: what may stand there too. Raises
    UsageError."""
    name = word.removeprefix("--").replace("_", "-")
    if name not in options.OPTIONS:
        synonyms = [_SYNONYMS[name]] if other_words and name in _SYNONYMS else []
        near_names = synonyms or get_close_matches(name, [*options.OPTIONS, *other_words], n=1)
        suggestion = f"Did you mean {near_names[0]}?" if near_names else "To see all: acp-proxy config"
        raise UsageError(f"there is no option {word!r}. {suggestion}")
    return name


def _check_count(words: list[str]) -> None:
    """Raises UsageError if too many words follow get, set or unset, or too few."""
    expected_words, example = _USAGE.get(words[0], ("", ""))
    if expected_words and len(words) != 1 + len(expected_words.split()):
        raise UsageError(f"config {words[0]} takes {expected_words}, such as: acp-proxy config {words[0]} {example}")


def _change(path: str, words: list[str]) -> None:
    """Write a value into the file, or remove it. Raises UsageError, AcpProxyError."""
    is_set = words[0] == _SET
    _check_count(words)
    name, folder = _read_name(words[1]), os.path.dirname(path)
    value_text = None
    if is_set:
        value = words[2]
        if not value.strip():
            raise UsageError(f"the value of {name} is empty. To unset it: acp-proxy config unset {name}")
        if name in config_file.PATHS and value not in ("off", "keys"):
            value = os.path.abspath(os.path.expanduser(value))  # the file's relative paths begin at its own directory
        if name == "store" and os.path.exists(value) and not os.path.isdir(value):
            raise UsageError(f"{value} is not a directory. Choose another place.")
        if options.OPTIONS[name].is_flag:
            try:
                options.check_value(name, value)
            except UsageError as problem:
                raise UsageError(f"{name} takes {' or '.join(_list_values(name))}, not {value!r}") from problem
        value_text = config_edit.format_value(name, value)
        try:
            read_value = tomllib.loads(f"value = {value_text}")["value"]
        except ValueError as problem:  # a number of thousands of digits
            raise UsageError(f"{name} takes a smaller number") from problem
        config_file.encode_value(name, read_value, folder)
    target = Path(os.path.realpath(path))  # a link stays one
    try:
        mode, text = target.stat().st_mode & 0o777, target.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        mode, text = 0o600, ""
    except (OSError, UnicodeDecodeError) as problem:
        raise AcpProxyError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or 'not UTF-8'}.") from problem
    try:
        changed = config_edit.set_value(text, name, value_text)
    except UsageError as problem:
        raise UsageError(f"{path}: {problem}") from problem
    if changed != text:
        output_files.make_directory(target.parent)
        output_files.write_file(target, [changed.encode()], force=True)
        os.chmod(target, mode)
    removal = f"{name} is removed from" if changed != text else f"{name} is not set in"
    typer.echo(sanitize.make_line(f"{name} = {value_text}  in {path}" if is_set else f"{removal} {path}"))
    if os.environ.get(options.OPTIONS[name].variable):
        print_on_stderr(f"{options.OPTIONS[name].variable} is set in your environment, and wins.")


def _encode_setting(setting: Setting) -> dict[str, object]:
    return {
        "name": setting.name,
        "value": bool(setting.value) if setting.is_flag else setting.value,
        "from": setting.source,
        "variable": setting.variable,
    }


def _print_json(path: str, settings: list[Setting], problems: list[str], *, is_there: bool) -> None:
    encoded = [_encode_setting(setting) for setting in settings]
    report = {"file": path, "isThere": is_there, "options": encoded, "problems": problems}
    typer.echo(sanitize.format_json(report, indent=2))
