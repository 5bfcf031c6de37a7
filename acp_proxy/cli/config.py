"""``acp-proxy config``: the values of the options, and where each comes from."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.config import config_file, options
from acp_proxy.errors import UsageError
from acp_proxy.store.sessions import find_default_root
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
    def shown(self) -> str:
        """Its value as the configuration file has it."""
        return ("true" if self.value else "false") if self.is_flag else self.value


def config(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False) -> None:
    """Show the value of each option of run, and where it comes from.

    An option on the command line wins over its environment variable, and that over the configuration file. An editor
    can set both for an agent; acp-proxy doctor shows what editors do.

    To set one, write a line into that file, such as: redact = "keys". acp-proxy run --help says what each means.

    Example: acp-proxy config
    """
    path = config_file.find_path()
    values, wrong = config_file.read_own()
    found = list(read_settings(os.environ, values))
    wrong += [problem for each in found if (problem := _find_problem(each)) is not None]
    is_there = os.path.exists(path)
    if as_json:
        _print_json(path, found, wrong, is_there=is_there)
    else:
        typer.echo(sanitize.make_line(f"{path}{'' if is_there else ' (there is no such file)'}"))
        for line in _format_lines(found):
            typer.echo(sanitize.make_line(line) if sys.stdout.isatty() else line)
    for text in wrong:
        typer.echo(fit_to_stream(f"acp-proxy: {sanitize.make_line(text)}", sys.stderr), err=True)
    if wrong:
        raise typer.Exit(2)


def read_settings(environment: Mapping[str, str], file: Mapping[str, str]) -> Iterator[Setting]:
    """Each option of ``run``, in the order of its table. ``file``: the values in the configuration file."""
    for name, option in options.OPTIONS.items():
        if value := environment.get(option.variable):
            source = _ENVIRONMENT
        elif name in file:
            source, value = _FILE, file[name]
        else:
            source, value = _DEFAULT, str(find_default_root()) if name == "store" else option.default
        yield Setting(name, option.variable, value, source, option.is_flag)


def _find_problem(setting: Setting) -> str | None:
    """What is wrong with a value of the environment."""
    if setting.source != _ENVIRONMENT:
        return None
    try:
        options.check_value(setting.name, setting.value)
    except UsageError as problem:
        return f"{setting.variable}: {problem}"
    return None


def _format_lines(settings: list[Setting]) -> Iterator[str]:
    rows = [(one.name, one.shown, one.variable if one.source == _ENVIRONMENT else one.source) for one in settings]
    if not sys.stdout.isatty():
        yield from ("\t".join(row) for row in rows)
        return
    names, values = (max(len(row[at]) for row in rows) for at in (0, 1))
    yield from (f"{name:<{names}}  {value:<{values}}  {source}" for name, value, source in rows)


def _print_json(path: str, settings: list[Setting], wrong: list[str], *, is_there: bool) -> None:
    shown = [
        {
            "name": one.name,
            "value": bool(one.value) if one.is_flag else one.value,
            "from": one.source,
            "variable": one.variable,
        }
        for one in settings
    ]
    report = {"file": path, "isThere": is_there, "options": shown, "problems": wrong}
    typer.echo(sanitize.format_json(report, indent=2))
