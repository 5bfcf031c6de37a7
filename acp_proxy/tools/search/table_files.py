"""The files of the search tables, of which ``Layout`` knows only how to remove them."""

import os
from contextlib import suppress
from pathlib import Path

from acp_proxy.store.layout import SEARCH_TABLE, Layout
from acp_proxy.transcript import file_access


def list_search_tables(layout: Layout, digit: str, kind: str = "") -> list[Path]:
    """The search tables for transcripts with this digit (``file_names.find_table_digit``). ``kind``: ``.calls`` for
    those of tool calls, ``.parts`` for those of the parts of turns."""
    with suppress(FileNotFoundError):
        return sorted(
            layout.search / file
            for file in os.listdir(layout.search)
            if (match := SEARCH_TABLE.fullmatch(file)) and file[0] == digit and (match[1] or "") == kind
        )
    return []


def make_search_table_path(layout: Layout, digit: str, kind: str = "") -> Path:
    """A path for a new search table, with a name never used before. Raises OSError, StoreRefused.

    Another process may still have an old table open after it was removed.
    """
    file_access.make_inner_directory(layout.search)
    return layout.search / f"{digit}-{os.urandom(8).hex()}{kind}.sqlite3"
