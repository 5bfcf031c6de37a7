"""A recorded conversation that the user names: a transcript FILE, or a SESSION of the store.

A FILE needs no store: if the word is a file name, no store is opened or created.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy.cli import completion
from acp_proxy.cli.choose_session import LAST, choose_session, format_short_heading, has_form_of_file
from acp_proxy.cli.open_store import open_store
from acp_proxy.errors import AcpProxyError, NewerFormat, NoTranscript
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import COMPRESSED_SUFFIX, SUFFIX
from acp_proxy.transcript.reader import TranscriptReader

HELP = "A transcript file (.jsonl, .jsonl.zst), a session's id, the beginning of an id, a title, or: last."
RecordingArgument = Annotated[
    str, typer.Argument(metavar="SESSION|FILE", help=HELP, autocompletion=completion.complete_recording)
]
RecordingsArgument = Annotated[
    list[str], typer.Argument(metavar="FILE...", help=HELP, autocompletion=completion.complete_recording)
]


@contextmanager
def open_recording(selector: str, store: str, agent: str) -> Iterator[tuple[TranscriptReader, Header, str | None]]:
    """The transcript, its header and, of a stored session, its heading for people. Raises AcpProxyError, OSError."""
    is_file = selector != LAST and (has_form_of_file(selector) or Path(selector).is_file())
    reader, heading = (_open_file(Path(selector)), None) if is_file else _open_stored(selector, store, agent)
    try:
        header = reader.header or reader.rebuild_header()
        if header is None:
            raise NoTranscript(f"{selector} is not a transcript. Name a file that acp-proxy recorded, or a session.")
        yield reader, header, heading
    finally:
        reader.close()


def _open_file(path: Path) -> TranscriptReader:
    resolved = Path(os.path.realpath(path))  # a link means its target
    if resolved.name.endswith(COMPRESSED_SUFFIX):
        resolved = resolved.with_name(resolved.name.removesuffix(COMPRESSED_SUFFIX) + SUFFIX)
    try:
        return TranscriptReader(resolved, any_name=True)
    except NewerFormat as problem:
        raise AcpProxyError(f"{path}: {problem}") from problem
    except OSError as problem:
        raise NoTranscript(
            f"{path} cannot be read: {problem.strerror}. To see all sessions: acp-proxy list"
        ) from problem


def _open_stored(selector: str, store: str, agent: str) -> tuple[TranscriptReader, str | None]:
    opened_store = open_store(store)
    row = choose_session(opened_store, selector, agent)
    return opened_store.open_listed(row), format_short_heading(opened_store, row)
