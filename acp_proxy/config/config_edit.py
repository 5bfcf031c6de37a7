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
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def set_value(text: str, name: str, written: str | None) -> str:
    """The text of the file with this value, as the file has it. None: without the line. Raises UsageError if the text
    is not TOML, or has the value in a form that only a person can change."""
    before = _parse(text)
    lines = text.splitlines(keepends=True)
    first_table = next((at for at, line in enumerate(lines) if _TABLE.match(line)), len(lines))
    indexes = [at for at in range(first_table) if re.match(rf"\s*([\"']?){re.escape(name)}\1\s*=", lines[at])]
    if written is None:
        lines = [line for at, line in enumerate(lines) if at not in indexes]
    elif indexes:
        at = indexes[0]
        lines[at] = f"{name} = {written}{_find_comment(lines[at])}{_find_end(lines[at])}"
    else:
        if first_table and not _find_end(lines[first_table - 1]):
            lines[first_table - 1] += "\n"
        lines.insert(first_table, f"{name} = {written}\n")
    after = "".join(lines)
    expected = {key: value for key, value in before.items() if key != name}
    expected |= tomllib.loads(f"{name} = {written}") if written is not None else {}
    try:
        is_right = tomllib.loads(after) == expected
    except ValueError:
        is_right = False
    if not is_right:
        raise UsageError(f"the file has {name} in a form that is not changed by a command. Change it in an editor.")
    return after


def _parse(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except ValueError as problem:
        raise UsageError(f"the file is not TOML ({problem}). Correct it first.") from problem


def _find_comment(line: str) -> str:
    """The comment behind the value of a line, with the space before it."""
    for match in re.finditer(r"\s*#", line):
        try:
            tomllib.loads(line[: match.start()])
        except ValueError:  # inside a text
            continue
        return line[match.start() :].rstrip("\r\n")
    return ""


def _find_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
