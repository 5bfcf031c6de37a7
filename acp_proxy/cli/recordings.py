"""A recorded conversation that the user names: a transcript FILE, or a SESSION of the store.

A FILE needs no store: if the word is a file name, no store is opened or created.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy.cli import completing
from acp_proxy.cli.storing import chosen, store_of
from acp_proxy.errors import AcpProxyError, NewerFormat, NoTranscript
from acp_proxy.transcripts.archive import COMPRESSED_SUFFIX, SUFFIX, Reading
from acp_proxy.wire.record import Header

_HELP = "A transcript file (.jsonl, .jsonl.zst), a session's id, the beginning of an id, a title, or: last."
RecordingArgument = Annotated[
    str, typer.Argument(metavar="SESSION|FILE", help=_HELP, autocompletion=completing.recordings)
]
RecordingsArgument = Annotated[
    list[str], typer.Argument(metavar="FILE...", help=_HELP, autocompletion=completing.recordings)
]


@contextmanager
def opened(wanted: str, store: str, agent: str) -> Iterator[tuple[Reading, Header]]:
    """The transcript, and its header. Raises AcpProxyError, OSError."""
    is_file = wanted != "last" and (_looks_like_a_file(wanted) or Path(wanted).is_file())
    reading = _file(Path(wanted)) if is_file else _stored(wanted, store, agent)
    try:
        header = reading.header or reading.remade_header()
        if header is None:
            raise NoTranscript(f"{wanted} is not a transcript. Name a file that acp-proxy recorded, or a session.")
        yield reading, header
    finally:
        reading.close()


def _file(path: Path) -> Reading:
    resolved = Path(os.path.realpath(path))  # a link means its target
    if resolved.name.endswith(COMPRESSED_SUFFIX):
        resolved = resolved.with_name(resolved.name.removesuffix(COMPRESSED_SUFFIX) + SUFFIX)
    try:
        return Reading(resolved)
    except NewerFormat as problem:
        raise AcpProxyError(f"{path}: {problem}") from problem
    except OSError as problem:
        raise NoTranscript(
            f"{path} cannot be read: {problem.strerror}. To see all sessions: acp-proxy sessions list"
        ) from problem


def _stored(wanted: str, store: str, agent: str) -> Reading:
    found = store_of(store)
    return found.open_listed(chosen(found, wanted, agent))


def _looks_like_a_file(wanted: str) -> bool:
    return wanted.endswith((SUFFIX, COMPRESSED_SUFFIX)) or os.sep in wanted
