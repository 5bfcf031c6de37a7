"""Seals records: compressed with zstd, then encrypted and authenticated with XChaCha20-Poly1305 (PyNaCl).

The history, the machine and the number are authenticated too, so nobody without the key can make a record, change it,
or put it in another place. A key file holds the history's id and its key.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
    crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
    crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
)
from nacl.exceptions import CryptoError

from acp_proxy import shell_quote
from acp_proxy.errors import AcpProxyError
from acp_proxy.tools.sync.interfaces import BadRecord
from acp_proxy.tools.sync.segment_cut import LARGEST_BYTES

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_KEY_FILE_BEGINS = b"acp-proxy sync 1"
_ZSTD_LEVEL = 9
_LARGEST_RECORD_BYTES = LARGEST_BYTES + 1024 * 1024
"""Bytes of the largest record: a segment and its head."""


@dataclass(frozen=True, slots=True)
class HistoryKey:
    """``history``: the id of the history. ``key``: 32 random bytes."""

    history: str
    key: bytes

    @classmethod
    def create(cls) -> "HistoryKey":
        """A key for a new history."""
        return cls(os.urandom(16).hex(), os.urandom(crypto_aead_xchacha20poly1305_ietf_KEYBYTES))

    def write(self, path: Path) -> None:
        """Write a new key file, for this user only. Raises AcpProxyError if there is a file."""
        text = b"%s\nhistory %s\nkey %s\n" % (_KEY_FILE_BEGINS, self.history.encode(), self.key.hex().encode())
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as problem:
            raise AcpProxyError(
                f"{path} exists already: it is the key of another history. To use another file: --key-file FILE"
            ) from problem
        with os.fdopen(fd, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)

    @classmethod
    def read(cls, path: Path) -> "HistoryKey":
        """Raises AcpProxyError if there is no key file, or others can read it."""
        try:
            mode = path.stat().st_mode
            lines = path.read_bytes().splitlines()
        except OSError as problem:
            raise AcpProxyError(
                f"{path} cannot be read: {problem.strerror}. Copy the key file from a machine that has it; "
                "sync status shows its place there"
            ) from problem
        if sys.platform != "win32" and mode & 0o077:
            raise AcpProxyError(f"other users can read {path}. Run: {shell_quote.join(['chmod', '600', str(path)])}")
        try:
            first, history, key = lines
            values = history.removeprefix(b"history ").decode(), bytes.fromhex(key.removeprefix(b"key ").decode())
        except ValueError:
            first, values = b"", ("", b"")
        if first != _KEY_FILE_BEGINS or len(values[1]) != crypto_aead_xchacha20poly1305_ietf_KEYBYTES:
            raise AcpProxyError(f"{path} is not a key file of acp-proxy. Copy it again from another machine")
        return cls(*values)

    def seal(self, machine: str, number: int, data: bytes) -> bytes:
        """A sealed record."""
        nonce = os.urandom(crypto_aead_xchacha20poly1305_ietf_NPUBBYTES)
        packed = zstd.compress(data, _ZSTD_LEVEL)
        return nonce + crypto_aead_xchacha20poly1305_ietf_encrypt(
            packed, self._encode_position(machine, number), nonce, self.key
        )

    def open(self, machine: str, number: int, sealed: bytes) -> bytes:
        """The record. Raises BadRecord."""
        size = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
        nonce, rest = sealed[:size], sealed[size:]
        try:
            packed = crypto_aead_xchacha20poly1305_ietf_decrypt(
                rest, self._encode_position(machine, number), nonce, self.key
            )
        except (CryptoError, ValueError) as problem:
            raise BadRecord("a record was not written with this key, or was changed or moved") from problem
        return _decompress(packed)

    def _encode_position(self, machine: str, number: int) -> bytes:
        return f"{self.history}/{machine}/{number}".encode()


def _decompress(packed: bytes) -> bytes:
    decompressor = zstd.ZstdDecompressor()
    try:
        data = decompressor.decompress(packed, _LARGEST_RECORD_BYTES + 1)
    except zstd.ZstdError as problem:
        raise BadRecord("a record cannot be decompressed") from problem
    if len(data) > _LARGEST_RECORD_BYTES or not decompressor.eof:
        raise BadRecord("a record is larger than 256 MiB")
    return bytes(data)
