"""An editor that can be killed: a separate process between the test and the agent's command.

`python -S torture/editor.py FILE COMMAND…` starts the command and passes everything in both directions. It writes what
the command sends to FILE before it reads on, so that a SIGKILL does not lose it. It imports nothing of the project, so
that it starts at once.
"""

import contextlib
import os
import subprocess
import sys
import threading

READ_SIZE = 64 * 1024  # like editors


def main() -> int:
    file, *command = sys.argv[1:]
    binary = getattr(os, "O_BINARY", 0)  # else Windows writes "\r\n" for each "\n"
    received = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | binary, 0o600)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    threading.Thread(target=pass_on, args=(0, process.stdin.fileno()), daemon=True).start()
    while data := os.read(process.stdout.fileno(), READ_SIZE):
        write(received, data)
        write(1, data)
    return process.wait()


def pass_on(source: int, target: int) -> None:
    with contextlib.suppress(OSError):  # the command has ended
        while data := os.read(source, READ_SIZE):
            write(target, data)
    os.close(target)


def write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


if __name__ == "__main__":
    os._exit(main() & 0xFF)
