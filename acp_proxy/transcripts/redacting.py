"""Masks what is secret in a stored file, in place, also while others append to it.

A file is never moved, replaced or shortened, and no byte but a secret's is written: nobody who appends has to wait, and
doing it again changes nothing. There is no backup, which would keep the secret. What is appended meanwhile is looked at
as well, as far as it has come when the end is reached. A packed file has to be made plain first.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from acp_proxy.redaction.masking import Change, Masking, changed
from acp_proxy.redaction.spread import Spread
from acp_proxy.transcripts.access import open_private, read_at, write_at
from acp_proxy.transcripts.reading import to_read
from acp_proxy.wire import record
from acp_proxy.wire.framing import LineFramer

_READ_SIZE = 64 * 1024


def redact_file(path: Path, masking: Masking, *, dry: bool) -> Counter[str]:
    """How often which rule found something; ``dry``: without changing it. Raises OSError, NewerFormat.

    A packed file can only be looked at.
    """
    found: Counter[str] = Counter()
    fd, packed = to_read(path) if dry else (open_private(path, os.O_RDWR), None)
    try:
        for change in _changes(packed.read if packed is not None else partial(read_at, fd), masking):
            found[change.rule] += change.counts
            if not dry:
                write_at(fd, change.new, change.at)
        if found and not dry:
            os.fsync(fd)
    finally:
        os.close(fd)
    return found


def _changes(read: Callable[[int, int], bytes], masking: Masking) -> Iterator[Change]:
    spread, at = Spread(masking), 0
    for line in _lines(read):
        if not at:
            record.decode_header(line)  # what a later version stands on we cannot know
        changes = masking.changes(line)
        yield from (replace(change, at=at + change.at) for change in changes)
        yield from spread.add(changed(line, changes), at)
        at += len(line)
    yield from spread.end()


def _lines(read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    framer, at = LineFramer(), 0
    while data := read(_READ_SIZE, at):
        at += len(data)
        yield from framer.feed(data)
    if rest := framer.rest():
        yield rest
