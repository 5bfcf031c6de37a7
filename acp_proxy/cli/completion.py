"""Completion of the word that the user is typing. It never raises an error, whatever the state of the store.

Ids and titles come from other people, and zsh evaluates the text it gets: only characters without a meaning in shells
pass.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import typer
from typer import _completion_classes

from acp_proxy.config import config_file

_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(~[0-9]+)*")
COMPLETE_VARIABLE = "_ACP_PROXY_COMPLETE"
"""Set by the shell's script: this process completes a word."""
_TITLE_PUNCTUATION = " .,-_/+@#%=?"
_TITLE_PUNCTUATION_OUTSIDE_ZSH = ":()"
"""Characters of titles that other shells only show: zsh evaluates a list of words in parentheses."""
_TITLE_CHARACTERS = 60


def skip_rich() -> None:
    """Let typer offer titles as they are. With rich, it renders each one: too slow at a prompt. A command may import
    rich all the same."""
    _completion_classes._sanitize_help_text = lambda text: text


def _list_newest(beginning: str, root: Path, agent: str = "") -> list[tuple[str, str]]:
    """Ids, newest first, with their titles."""
    from acp_proxy.sessions.completion_query import CompletionQuery  # imported late: slow, and often typer answers

    sessions = CompletionQuery(root).find_sessions(beginning, agent)
    last_entry = [("last", "the newest")] if "last".startswith(beginning) else []
    return last_entry + [
        (session.selector, clean_title(session.title)) for session in sessions if is_plain(session.selector)
    ]


def _choose_root(path: str) -> Path:
    """The store's directory: ``path``, else that of the configuration file, else the default."""
    from acp_proxy.store.store_root import resolve_root

    path = path or config_file.read_user_file()[0].get("store", "")
    return resolve_root(path)


def _is_for_zsh() -> bool:
    return not os.environ.get(COMPLETE_VARIABLE, "").endswith("_fish")  # which our script for bash asks for, too


def is_plain(id: str) -> bool:
    """Whether no character of it has a meaning in a shell."""
    return _PLAIN_ID.fullmatch(id) is not None


def clean_title(title: str) -> str:
    """The part of a title that has no meaning in a shell."""
    from acp_proxy.views.formatting import strip_markdown  # imported late, as the store is

    kept_punctuation = _TITLE_PUNCTUATION if _is_for_zsh() else _TITLE_PUNCTUATION + _TITLE_PUNCTUATION_OUTSIDE_ZSH
    plain_title = "".join(
        character if character.isalnum() or character in kept_punctuation else " "
        for character in strip_markdown(title)
    )
    return " ".join(plain_title.split())[:_TITLE_CHARACTERS]


_PLAIN_FOLDER = re.compile(r"[A-Za-z0-9._:@+/-]*")


def complete_session(context: typer.Context, beginning: str) -> list[tuple[str, str]]:
    """Ids, newest first, with their titles."""
    return _list_newest(beginning, _find_root(context), str(context.params.get("agent") or ""))


def complete_recording(context: typer.Context, beginning: str) -> list[tuple[str, str]]:
    """Sessions, and files that may be transcripts."""
    return [*complete_session(context, beginning), *((path, "") for path in _complete_transcript(beginning))]


def complete_deleted(context: typer.Context, beginning: str) -> list[tuple[str, str]]:
    """Ids of soft-deleted sessions, the latest first, with the titles that the user gave them."""
    from acp_proxy.sessions.completion_query import CompletionQuery  # imported late: no command needs it

    deleted_sessions = CompletionQuery(_find_root(context)).list_deleted()
    last_entry = [("last", "the latest")] if "last".startswith(beginning) else []
    return last_entry + [
        (session.selector, clean_title(session.title or ""))
        for session in deleted_sessions
        if session.selector.startswith(beginning) and is_plain(session.selector)
    ]


def make_word_completion(words: Sequence[str]) -> Callable[[str], list[str]]:
    """A completion function that offers those of a few words that begin with what is typed."""

    def list_offered(beginning: str) -> list[str]:
        return [word for word in words if word.startswith(beginning)]

    return list_offered


def complete_agent(context: typer.Context, beginning: str) -> list[str]:
    """The names of recorded agents, in the form that --agent takes."""
    from acp_proxy.sessions.completion_query import CompletionQuery
    from acp_proxy.transcript.file_names import name_agent, strip_hash

    completions = set[str]()
    for folder in CompletionQuery(_find_root(context)).list_agents():
        names_to_try = (name_agent(folder), strip_hash(folder))  # with the scope, if the user typed its beginning
        completions.update(next(([name] for name in names_to_try if name.startswith(beginning) and is_plain(name)), []))
    return sorted(completions)


def _complete_transcript(beginning: str) -> list[str]:
    from acp_proxy.transcript.file_names import COMPRESSED_SUFFIX, SUFFIX

    return [path for path in complete_file(beginning) if path.endswith(("/", SUFFIX, COMPRESSED_SUFFIX))]


def complete_file(beginning: str) -> list[str]:
    """Files, and directories with a slash after them."""
    folder, name = os.path.split(beginning)
    if not _PLAIN_FOLDER.fullmatch(folder):
        return []
    try:
        entries = [entry for entry in os.scandir(folder or ".") if entry.name.startswith(name) and is_plain(entry.name)]
        typed_folder = beginning.removesuffix(name)  # with the separators of the user
        paths = [typed_folder + entry.name + ("/" if entry.is_dir() else "") for entry in entries]
    except OSError:
        return []
    return sorted(paths)


def _find_root(context: typer.Context) -> Path:
    return _choose_root(str(context.params.get("store") or os.environ.get("ACP_PROXY_STORE", "")))
