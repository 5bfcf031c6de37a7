"""POSIX's modules, so that tests that use them can be collected on Windows, where these modules are missing."""

import sys
from typing import Any

if sys.platform != "win32":
    import fcntl
    import pty
    import resource
    import termios
    import tty
else:
    fcntl: Any = None
    pty: Any = None
    resource: Any = None
    termios: Any = None
    tty: Any = None

__all__ = ["fcntl", "pty", "resource", "termios", "tty"]
