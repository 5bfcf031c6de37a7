"""A minimal proxy in Python: a thread for each direction, and a file with everything from the agent.

threads.py FILE BYTES COMMAND…      BYTES: the size of a read; larger than a pipe's default, pipes are enlarged to it
"""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterable

USUAL = 64 * 1024  # bytes: the default capacity of a pipe


def write(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def pass_on(source: int, targets: Iterable[int], size: int) -> None:
    while data := os.read(source, size):
        for target in targets:
            write(target, data)


def main() -> None:
    kept = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    size = int(sys.argv[2])
    agent = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert agent.stdin is not None
    assert agent.stdout is not None
    to_agent, from_agent = agent.stdin.fileno(), agent.stdout.fileno()
    if size > USUAL:
        for fd in (0, 1, to_agent, from_agent):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)

    def up() -> None:
        pass_on(0, [to_agent], size)
        os.close(to_agent)

    threading.Thread(target=up, daemon=True).start()
    pass_on(from_agent, [1, kept], size)
    os._exit(agent.wait())


main()
