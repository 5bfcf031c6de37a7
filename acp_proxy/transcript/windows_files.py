"""Opens, locks and names files on Windows as POSIX systems do.

``open_shared``: others may remove or rename a file while it is open, and an append goes to the file's end whoever
else appends. ``lock``: shared and exclusive locks between processes. They are on one byte far past any file's end,
because Windows lets nobody write, or nobody else read, what is locked. ``make_reachable``: paths of any length. Used on
Windows only.
"""

import ctypes
import ntpath
import os
import sys
from typing import Any

_GENERIC_READ, _GENERIC_WRITE, _APPEND_DATA = 0x80000000, 0x40000000, 0x4
_SHARE_READ_WRITE_DELETE = 0x7
_CREATE_NEW, _CREATE_ALWAYS, _OPEN_EXISTING, _OPEN_ALWAYS, _TRUNCATE_EXISTING = 1, 2, 3, 4, 5
_NORMAL = 0x80
_FAIL_IMMEDIATELY, _EXCLUSIVE = 0x1, 0x2
_IN_THE_WAY = frozenset({33, 997})
"""The errors when another lock is in the way: ERROR_LOCK_VIOLATION, ERROR_IO_PENDING."""
_NO_LOCKS = frozenset({1, 50})
"""The errors where there are no locks: ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED."""
_LOCKED = 0x7FFFFFFF
"""The upper half of the locked byte's offset."""
FILE, FOLDER, END = 0, 1, 2
"""What a locked byte stands for: the file, the folder that it is in, or the file's end."""


_LONGEST_PATH = 247
"""Characters of the longest path of a directory in the usual form; that of a file may have 12 more."""
_LONGEST_BELOW_STORE = 180
"""How much longer than the store's the path of a file in it can be."""
_UNLIMITED = "\\\\?\\"


def make_reachable(root: str) -> str:
    """The path of a store in the form by which Windows finds every file in it: one without a limit if it is long."""
    path = ntpath.abspath(root)
    if len(path) + _LONGEST_BELOW_STORE <= _LONGEST_PATH or path.startswith(_UNLIMITED):
        return root
    return f"{_UNLIMITED}UNC{path[1:]}" if path.startswith("\\\\") else f"{_UNLIMITED}{path}"


class _Overlapped(ctypes.Structure):
    _fields_ = (
        ("Internal", ctypes.c_size_t),
        ("InternalHigh", ctypes.c_size_t),
        ("Offset", ctypes.c_uint32),
        ("OffsetHigh", ctypes.c_uint32),
        ("hEvent", ctypes.c_void_p),
    )


def translate_flags(flags: int) -> tuple[int, int]:
    """The access and the disposition that CreateFileW needs for the flags of ``os.open``."""
    writes = _APPEND_DATA if flags & os.O_APPEND else _GENERIC_WRITE
    access = {os.O_RDONLY: _GENERIC_READ, os.O_WRONLY: writes}.get(flags & 3, _GENERIC_READ | writes)
    if flags & os.O_CREAT:
        if flags & os.O_EXCL:
            return access, _CREATE_NEW
        return access, _CREATE_ALWAYS if flags & os.O_TRUNC else _OPEN_ALWAYS
    return access, _TRUNCATE_EXISTING if flags & os.O_TRUNC else _OPEN_EXISTING


if sys.platform == "win32":
    import msvcrt

    _kernel: Any = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateFileW.restype = ctypes.c_void_p
    _kernel.CreateFileW.argtypes = [
        ctypes.c_wchar_p,
        *[ctypes.c_uint32] * 2,
        ctypes.c_void_p,
        *[ctypes.c_uint32] * 2,
        ctypes.c_void_p,
    ]
    _kernel.LockFileEx.argtypes = [ctypes.c_void_p, *[ctypes.c_uint32] * 4, ctypes.POINTER(_Overlapped)]
    _kernel.UnlockFileEx.argtypes = [ctypes.c_void_p, *[ctypes.c_uint32] * 3, ctypes.POINTER(_Overlapped)]
    _FAILED = ctypes.c_void_p(-1).value

    def open_shared(path: str, flags: int) -> int:
        """As ``os.open``. Raises OSError."""
        access, disposition = translate_flags(flags)
        handle = _kernel.CreateFileW(path, access, _SHARE_READ_WRITE_DELETE, None, disposition, _NORMAL, None)
        if handle == _FAILED:
            raise _make_problem(ctypes.get_last_error(), path)
        return msvcrt.open_osfhandle(handle, flags & (os.O_APPEND | os.O_RDONLY) | os.O_NOINHERIT)

    def lock(fd: int, *, shared: bool, wait: bool, lock_byte: int = FILE) -> bool:
        """As ``file_access.lock``, but of ``lock_byte`` (``FILE``, ``FOLDER`` or ``END``), in place of what this
        descriptor had locked there."""
        handle, position = msvcrt.get_osfhandle(fd), _Overlapped(Offset=lock_byte, OffsetHigh=_LOCKED)
        _unlock(fd, lock_byte)  # else it would be in our own way
        flags = (0 if shared else _EXCLUSIVE) | (0 if wait else _FAIL_IMMEDIATELY)
        if _kernel.LockFileEx(handle, flags, 0, 1, 0, ctypes.byref(position)):
            return True
        code = ctypes.get_last_error()
        if code in _IN_THE_WAY:
            raise BlockingIOError(11, os.strerror(11))
        if code in _NO_LOCKS:
            return False
        raise _make_problem(code, None)

    def append(fd: int, data: "bytes | memoryview") -> int:
        """As ``os.write``, to a file opened with O_APPEND: alone, since Wine and network drives append in two steps."""
        is_locked = lock(fd, shared=False, wait=True, lock_byte=END)
        try:
            return os.write(fd, data)
        finally:
            if is_locked:
                _unlock(fd, END)

    def _unlock(fd: int, lock_byte: int) -> None:
        position = _Overlapped(Offset=lock_byte, OffsetHigh=_LOCKED)
        _kernel.UnlockFileEx(msvcrt.get_osfhandle(fd), 0, 1, 0, ctypes.byref(position))

    def _make_problem(code: int, path: str | None) -> OSError:
        return OSError(0, ctypes.FormatError(code).strip(), path, code)
