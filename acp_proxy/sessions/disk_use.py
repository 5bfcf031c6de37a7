"""How much room sessions take on disk."""

import os

from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_names import SUFFIX

_PLAIN_EXTENSION = SUFFIX.removeprefix(".")


def measure_sizes(layout: Layout, agent_folder: str, plain_names: set[str] | None = None) -> dict[str, int]:
    """Bytes on disk by transcript name, backups and soft-deleted transcripts included. Raises OSError.

    ``plain_names``: gets the names of transcripts with a plain file, which then do not count: the index has their
    size, and to ask the system for 100,000 takes half a second.
    """
    sizes: dict[str, int] = {}
    for folder in (layout.transcripts, layout.deleted, layout.backups):
        try:
            with os.scandir(folder / agent_folder) as entries:
                for file in entries:
                    name, _, suffix = file.name.partition(".")
                    if plain_names is not None and suffix == _PLAIN_EXTENSION and folder is layout.transcripts:
                        plain_names.add(name)
                    else:
                        sizes[name] = sizes.get(name, 0) + file.stat(follow_symlinks=False).st_size
        except FileNotFoundError:  # or a file was deleted in the meantime
            continue
    return sizes
