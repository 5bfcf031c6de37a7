"""The configuration file: values of options that neither the command line nor the environment gives.

Never raises on a wrong file, except ``read_valid``. Imports little, because ``run`` reads it before the agent starts.
"""

import os
import sys

from acp_proxy.config import options
from acp_proxy.errors import UsageError

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "config.toml"
VARIABLE = "ACP_PROXY_CONFIG"
"""An environment variable with the path of another file."""
NUMBERS = ("grace", "replay-tool-limit", "bin-days")
"""The options whose value may be a number, without quotes."""
PATHS = ("store", "redact")
ONE_AGENT_OPTION = "agent-id"


def find_path(environment: "Mapping[str, str]" = os.environ, platform: str = sys.platform) -> str:
    """The path of the file.

    By hand, since importing platformdirs takes twice the time of all else that is imported before the agent starts (20
    ms of CPU against 10). A test compares the two.
    """
    if path := environment.get(VARIABLE):
        return os.path.expanduser(path)
    home = os.path.expanduser("~")
    if platform == "win32":
        folder = environment.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
    elif platform == "darwin":
        folder = os.path.join(home, "Library", "Application Support")
    else:
        folder = environment.get("XDG_CONFIG_HOME", "").strip()
        if not os.path.isabs(folder):  # the specification of these directories says so
            folder = os.path.join(home, ".config")
    return os.path.join(folder, "acp-proxy", NAME)


def read_user_file(environment: "Mapping[str, str]" = os.environ) -> tuple[dict[str, str], list[str]]:
    """The values in this user's file, and what is wrong in it, as ``read`` returns them. A file that ``VARIABLE`` names
    must exist."""
    path = find_path(environment)
    if environment.get(VARIABLE) and not os.path.lexists(path):
        return {"no-record": "1"}, [
            f"{VARIABLE} names {path}, which does not exist. Correct the variable. {options.NOTHING_IS_RECORDED}"
        ]
    return read(path)


def read(path: str) -> tuple[dict[str, str], list[str]]:
    """The right values in the file, by the option's name and as ``options.parse`` has them; and what is wrong in it.

    A file that does not exist is empty. If the file does not say clearly whether to record or to redact, the values
    have ``no-record``.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except OSError as problem:
        return {"no-record": "1"}, [
            f"{path}: {problem.strerror}. Make it readable. Until then, {options.STOPS_RECORDING}"
        ]
    if not data.strip():
        return {}, []
    import tomllib  # few users have a file

    try:
        text = data.decode("utf-8-sig")  # Notepad may begin a file with a byte order mark
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        return {"no-record": "1"}, [f"{path}: {_explain(problem)}. Correct the file. {options.NOTHING_IS_RECORDED}"]
    values: dict[str, str] = {}
    problems: list[str] = []
    is_clear = True
    for key, value in table.items():
        try:
            values[key] = encode_value(key, value, os.path.dirname(path))
        except UsageError as problem:
            # A misspelt wish not to record must not be ignored, nor one in a table.
            keys = [key, *(value if isinstance(value, dict) else ())]
            must_hold = any(_guess_key(each) in options.DECIDE_RECORDING for each in keys)
            is_clear &= not must_hold
            consequence = f" {options.NOTHING_IS_RECORDED}" if must_hold else ""
            problems.append(f"{path}, line {_find_line(text, key)}: {problem}{consequence}")
    return values if is_clear else {**values, "no-record": "1"}, problems


def read_valid() -> dict[str, str]:
    """The values in this user's file. Raises UsageError with everything that is wrong in it."""
    values, problems = read_user_file()
    if problems:
        raise UsageError(*problems)
    return values


def encode_value(key: str, value: object, folder: str) -> str:
    """The text of a value, with absolute paths. Raises UsageError."""
    if key == ONE_AGENT_OPTION:
        raise UsageError(f"{key} cannot be set here, because it would be the same for every agent. Use --{key}.")
    if key not in options.OPTIONS:
        guessed = _guess_key(key)
        advice = f"Did you mean {guessed}?" if guessed else "To see all: acp-proxy config"
        raise UsageError(f"there is no option {key!r}. {advice}")
    if options.OPTIONS[key].is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{key} takes true or false, not {_format_value(value)}.")
        return "1" if value else ""
    if key in NUMBERS and type(value) in (int, float):
        value = str(value)
    if not isinstance(value, str):
        raise UsageError(f"{key} takes a text in quotes, not {_format_value(value)}.")
    if "\0" in value:
        raise UsageError(f"{key} cannot have a NUL character in it.")
    if key in PATHS and value not in ("", "off", "keys"):
        value = os.path.join(folder, os.path.expanduser(value))
    try:
        return options.check_value(key, value)
    except UsageError as problem:
        raise UsageError(f"{str(problem).removeprefix('--')}.") from problem


def _guess_key(key: str) -> str | None:
    """The option that a wrong line probably means."""
    from difflib import get_close_matches  # few files have a mistake

    names = [name for name in options.OPTIONS if name != ONE_AGENT_OPTION]
    likely_name = key.casefold().removeprefix("acp_proxy_")  # or the name of its environment variable
    return next(iter(get_close_matches(likely_name, names, n=1)), None)


def _format_value(value: object) -> str:
    """A value roughly as the file has it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _find_line(text: str, key: str) -> int:
    """The line of a key at the top level. A table's line, if it is one."""
    for number, line in enumerate(text.split("\n"), 1):
        line_key = line.split("=")[0].strip().strip("[]").strip().strip("\"'")
        if line_key == key or line_key.startswith(f"{key}."):
            return number
    return 1


def _explain(problem: Exception) -> str:
    if isinstance(problem, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(problem, RecursionError):
        return "it is nested too deeply"
    hint = ' (a text needs quotes: redact = "keys")' if str(problem).startswith("Invalid value") else ""
    return f"{problem}{hint}"
