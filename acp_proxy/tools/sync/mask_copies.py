"""Masks what another machine has masked in a session wherever else this machine has it: in the session's forks and
copies, of which the other one may not know, in its subagents' sessions, and in the backups of all of them."""

import re
from collections.abc import Iterable
from contextlib import suppress

from acp_proxy.errors import NewerFormat, Unreadable
from acp_proxy.redaction.masking import DecodedText, Masking
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.relatives import find_relatives
from acp_proxy.store.layout import Layout
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.transcript import file_names


def mask_copies(layout: Layout, agent_folder: str, name: str, secrets: Iterable[bytes]) -> None:
    """Mask these parts of strings of a session in all that has its words, but not in the session. Raises OSError."""
    masking = Masking([re.escape(DecodedText(secret).text) for secret in secrets], rules=())
    is_soft_deleted = file_names.is_soft_deleted_name(name)
    session = agent_folder, file_names.name_before_delete(name) if is_soft_deleted else name
    relatives = find_relatives(layout, [session])
    store = CommandStore(layout.root)
    for path in store.find_redactable([], [session, *relatives]):
        if path == layout.path_by_name(agent_folder, name):
            continue
        with suppress(FileNotFoundError, NewerFormat):
            redact_stored(store, path, masking, dry_run=False)
    with suppress(Unreadable):
        store.reindex([], relatives)
