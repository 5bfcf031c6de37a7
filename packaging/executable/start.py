"""What PyApp runs in its Python at each start (``packaging/executable.py``)."""

import os
import sys

from acp_proxy import invocation

invocation.executable = os.environ.pop("PYAPP")
os.environ.pop("PYAPP_COMMAND_NAME", None)
# PyApp puts its Python's directory in front of PATH, but an agent, and what it starts, must find the user's Python.
folder = os.path.dirname(sys.executable)
for own in (folder, os.path.join(folder, "Scripts")):
    first, separator, rest = os.environ.get("PATH", "").partition(os.pathsep)
    if first == own:
        os.environ["PATH"] = rest
        if not separator:  # there was no PATH
            del os.environ["PATH"]

from acp_proxy.__main__ import main  # noqa: E402

main()
