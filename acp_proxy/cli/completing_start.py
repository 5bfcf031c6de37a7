"""The start of completion: answers for an id after ``acp-proxy sessions COMMAND``, the most frequent case.

Does not import typer, because that takes half of the time. Also has what all completion of sessions needs.
"""

import os
import re
import sys
from pathlib import Path

from acp_proxy import config_file

TAKE_SESSIONS = [
    "show",
    "path",
    "rename",
    "continue",
    "archive",
    "unarchive",
    "delete",
    "export",
    "verify",
    "repair",
    "redact",
    "compress",
]
"""The commands whose first argument is a session."""
_LINE = re.compile(rf"\S+ +sessions +(?:{'|'.join(TAKE_SESSIONS)}) +((?:[A-Za-z0-9][A-Za-z0-9._:@+~-]*)?)")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(~[0-9]+)*")
_SAID = " .,-_/+@#%=?"
_TITLE = 60


def quickly(shell: str) -> bool:
    """Answer the shell as typer would. Returns False, and has done nothing, if typer has to answer."""
    line = _LINE.fullmatch(os.environ.get("_TYPER_COMPLETE_ARGS", ""))
    if line is None or shell not in ("complete_fish", "complete_zsh"):
        return False
    found = sessions(line[1], root_of(os.environ.get("ACP_PROXY_STORE", "")))
    if shell == "complete_zsh":
        items = ['"' + '":"'.join(text.replace(":", r"\\:") for text in each if text) + '"' for each in found]
        text = "_arguments '*: :(({}))'".format("\n".join(items))
    else:  # bash, too; fish asks before whether there is anything
        is_asked = os.environ.get("_TYPER_COMPLETE_FISH_ACTION") != "is-args"
        text = "\n".join("\t".join(filter(None, each)) for each in found) if is_asked else ""
    if found:
        sys.stdout.write(f"{text}\n" if text else "")
    return bool(found)


def sessions(beginning: str, root: Path, agent: str = "") -> list[tuple[str, str]]:
    """Ids, newest first, with their titles."""
    from acp_proxy.transcripts.archive import Glance  # imported late: slow, and often typer answers

    found = Glance(root).sessions(beginning, agent)
    newest = [("last", "the newest")] if "last".startswith(beginning) else []
    return newest + [(seen.named, plain(seen.title)) for seen in found if is_plain(seen.named)]


def root_of(given: str) -> Path:
    """The store's directory: ``given``, else that of the configuration file, else the default."""
    from acp_proxy.transcripts.archive import default_root

    given = given or config_file.of_user()[0].get("store", "")
    return Path(given).expanduser() if given else default_root()


def is_plain(id: str) -> bool:
    """Whether no character of it has a meaning in a shell."""
    return _PLAIN.fullmatch(id) is not None


def plain(title: str) -> str:
    """The part of a title that has no meaning in a shell."""
    kept = "".join(one if one.isalnum() or one in _SAID else " " for one in title)
    return " ".join(kept.split())[:_TITLE]
