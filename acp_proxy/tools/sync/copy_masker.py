"""Masks what another machine has masked in a session wherever else this machine has it: in the session's forks and
copies, of which the other one may not know, in its subagents' sessions, and in the backups of all of them."""

import re
from collections.abc import Iterable
from contextlib import suppress

from acp_proxy.errors import NewerFormat, Unreadable
from acp_proxy.redaction.masking import DecodedText, Masking
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.relatives import Relatives
from acp_proxy.store.layout import Layout
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.transcript import file_names


class CopyMasker:
    """Masks words in the copies of sessions. Knows those that were there when it was made."""

    def __init__(self, layout: Layout) -> None:
        """Opens every transcript. Raises OSError."""
        self._layout = layout
        self._store = CommandStore(layout.root)
        self._relatives = Relatives(layout)

    def mask(self, agent_folder: str, name: str, secrets: Iterable[bytes]) -> None:
        """Mask these parts of strings of a session in all that has its words, but not in the session. Raises OSError at
        the end, if a file cannot be masked."""
        texts = sorted((DecodedText(secret).text for secret in secrets), key=len, reverse=True)  # the longest one wins
        masking = Masking(["|".join(map(re.escape, texts))], rules=())
        is_soft_deleted = file_names.is_soft_deleted_name(name)
        session = agent_folder, file_names.name_before_delete(name) if is_soft_deleted else name
        relatives = self._relatives.find([session])
        failure: OSError | None = None
        for path in self._store.find_redactable([], [session, *relatives]):
            if path == self._layout.path_by_name(agent_folder, name):
                continue
            try:
                redact_stored(self._store, path, masking, dry_run=False)
            except (FileNotFoundError, NewerFormat):
                continue
            except OSError as problem:  # the other files must not keep the secret for this one
                failure = failure or problem
        with suppress(Unreadable):
            self._store.reindex([], relatives)
        if failure is not None:
            raise failure
