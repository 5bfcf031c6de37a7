"""Writes one value into the text of the configuration file. Pure: comments and all other lines stay as they are."""

import json
import re
import tomllib

from acp_proxy.config import config_file, options
from acp_proxy.errors import UsageError

_TABLE = re.compile(r"\s*\[")


def format_value(name: str, value: str) -> str:
    """A value of the command line as the file has it. ``name``: of the option. Raises UsageError."""
    if name in options.OPTIONS and options.OPTIONS[name].is_flag:
        return "true" if options.check_value(name, value) else "false"
    if name in config_file.NUMBERS and re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]+)?", value):
        return value
    try:
        value.encode()
    except UnicodeEncodeError as problem:
        variable = options.OPTIONS[name].variable if name in options.OPTIONS else ""
        raise UsageError(f"{value!r} is not UTF-8, so no file can have it. Set {variable} instead") from problem
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def set_value(text: str, name: str, value_text: str | None) -> str:
    """The text of the file with another value of the option ``name``. Raises UsageError if ``text`` is not TOML, or has
    the value in a form that only a person can change.

    ``value_text``: the value in TOML (``format_value``); None: remove the line.
    """
    old_values = _parse(text)
    lines = text.splitlines(keepends=True)
    first_table = next((index for index, line in enumerate(lines) if _TABLE.match(line)), len(lines))
    indexes = [index for index in range(first_table) if re.match(rf"\s*([\"']?){re.escape(name)}\1\s*=", lines[index])]
    if value_text is None:
        lines = [line for index, line in enumerate(lines) if index not in indexes]
    elif indexes:
        index = indexes[0]
        lines[index] = f"{name} = {value_text}{_find_comment(lines[index])}{_find_end(lines[index])}"
    else:
        if first_table and not _find_end(lines[first_table - 1]):
            lines[first_table - 1] += "\n"
        lines.insert(first_table, f"{name} = {value_text}\n")
    new_text = "".join(lines)
    expected = {key: value for key, value in old_values.items() if key != name}
    expected |= tomllib.loads(f"{name} = {value_text}") if value_text is not None else {}
    try:
        is_as_expected = tomllib.loads(new_text) == expected
    except ValueError:
        is_as_expected = False
    if not is_as_expected:
        raise UsageError(f"the file has {name} in a form that is not changed by a command. Change it in an editor.")
    return new_text


def _parse(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except ValueError as problem:
        raise UsageError(f"the file is not TOML ({problem}). Correct it first.") from problem


def _find_comment(line: str) -> str:
    """The comment after the value of a line, with the space before it."""
    for match in re.finditer(r"\s*#", line):
        try:
            tomllib.loads(line[: match.start()])
        except ValueError:  # inside a text
            continue
        return line[match.start() :].rstrip("\r\n")
    return ""


def _find_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
