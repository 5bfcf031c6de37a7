"""Bytes pass unchanged through any kind of stdin and stdout."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acp_proxy import __version__
from acp_proxy.store.proxy_store import ProxyStore
from tests.client import Client
from tests.end_to_end.proxied import PROXY
from tests.passage import is_for_the_client, lines
from tests.posix import pty, tty
from tests.waiting import SECONDS

MESSAGES = Path(__file__).parents[2] / "fixtures" / "messages"
CLIENT_SAYS = MESSAGES / "talk.lines"
AGENT_SAYS = MESSAGES / "stray.lines"

# Writes its own lines, then repeats and saves what it reads.
ECHO_SOURCE = """
import os, sys
def write(data):
    while data:
        data = data[os.write(1, data):]
with open(sys.argv[1], "rb") as own, open(sys.argv[2], "wb", buffering=0) as heard:
    write(own.read())
    while data := os.read(0, 65536):
        heard.write(data)
        write(data)
"""
ECHO = (sys.executable, "-S", "-c", ECHO_SOURCE)


# --- kinds of stdin: a descriptor, and the bytes to read from it


def a_pipe_in() -> tuple[int, bytes]:
    reading, writing = os.pipe()
    data = CLIENT_SAYS.read_bytes()

    def write() -> None:
        os.write(writing, data)
        os.close(writing)

    threading.Thread(target=write, daemon=True).start()
    return reading, data


def a_file_in() -> tuple[int, bytes]:
    return os.open(CLIENT_SAYS, os.O_RDONLY), CLIENT_SAYS.read_bytes()


def dev_null_in() -> tuple[int, bytes]:
    return os.open(os.devnull, os.O_RDONLY), b""


# --- kinds of stdout: a descriptor, and the bytes that arrived there by the end of the process


class Listener:
    """Reads a pipe or a pty to its end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._heard = bytearray()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def all(self) -> bytes:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "its other end is still open"
        os.close(self._descriptor)
        return bytes(self._heard)

    def _listen(self) -> None:
        try:
            while data := os.read(self._descriptor, 65536):
                self._heard += data
        except OSError:  # the end of a pty
            pass


Out = tuple[int, Callable[[], bytes]]


def a_pipe_out(_: Path) -> Out:
    reading, writing = os.pipe()
    return writing, Listener(reading).all


def a_file_out(base: Path) -> Out:
    path = base / "stdout"
    return os.open(path, os.O_WRONLY | os.O_CREAT), path.read_bytes


def dev_null_out(_: Path) -> Out:
    return os.open(os.devnull, os.O_WRONLY), lambda: b""


def a_pty_out(_: Path) -> Out:
    reading, writing = pty.openpty()
    tty.setraw(writing)  # a terminal would turn every newline into \r

    return writing, Listener(reading).all


OUTS = [a_pipe_out, a_file_out, dev_null_out, *([] if sys.platform == "win32" else [a_pty_out])]


@pytest.mark.parametrize("given_out", OUTS)
@pytest.mark.parametrize("given_in", [a_pipe_in, a_file_in, dev_null_in])
def test_bytes_pass_unchanged_through_any_stdin_and_stdout(
    given_in: Callable[[], tuple[int, bytes]], given_out: Callable[[Path], Out], tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    stdin, said = given_in()
    stdout, arrived = given_out(tmp_path)
    command = [*PROXY, "run", "--store", str(tmp_path / "store"), *ECHO, str(AGENT_SAYS), str(heard)]
    try:
        result = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=SECONDS)
    finally:
        os.close(stdin)
        os.close(stdout)

    assert result.returncode == 0
    assert heard.read_bytes() == said
    spoken = [*lines(AGENT_SAYS.read_bytes()), *lines(said)]
    assert result.stderr == b"".join(line for line in spoken if not is_for_the_client(line))
    if given_out is not dev_null_out:
        assert arrived() == b"".join(line for line in spoken if is_for_the_client(line))


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_a_closed_stdin_or_stdout_acts_like_dev_null(closed: str, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    proxy = [*PROXY, "run", "--store", str(tmp_path / "store"), *ECHO, str(AGENT_SAYS), str(heard)]
    with CLIENT_SAYS.open("rb") as stdin:
        result = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", *proxy], stdin=stdin, capture_output=True, timeout=SECONDS
        )
    assert result.returncode == 0
    assert heard.read_bytes() == (b"" if "<" in closed else CLIENT_SAYS.read_bytes())
    if ">" not in closed:
        assert result.stdout == b"".join(line for line in lines(AGENT_SAYS.read_bytes()) if is_for_the_client(line))


# --- answers out of order

ASKED = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":{"gateway":"token"}}}\n'
    b'{"jsonrpc":"2.0","id":"0","method":"initialize","params":{"protocolVersion":1.0}}\n'
    b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/project","mcpServers":[]}}\n'
    b'{"jsonrpc":"2.0","id":1.0,"method":"session/new","params":{"cwd":"/project","mcpServers":[]}}\n'
)
# In the agent's order. Additions are in angle quotes, and what they replace in section signs.
ANSWERED = (
    '{"jsonrpc":"2.0","id":1.0,"result":{"sessionId":"second", "models":1e2}}\n'
    '{"result":{"agentCapabilities":{"loadSession" : §false§«true»,"big":18446744073709551616,"big":1.0'
    '«,"_meta":{"acp-proxy":{"version":"VERSION","serves":["list","delete","load"],"store":"STORE"}},'
    '"sessionCapabilities":{"list":{},"delete":{}}»},"protocolVersion":1 , "agentInfo":null},'
    '"id":"0","jsonrpc":"2.0"}\r\n'
    '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"first","_meta":{"\\ud800":0}}}\n'
    '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{ }'
    '«,"list":{},"delete":{}»},"_meta":{"agent":"\\udfff"'
    '«,"acp-proxy":{"version":"VERSION","serves":["list","delete","load"],"store":"STORE"}»}«,"loadSession":true»},'
    '"authMethods":[ ]}}\n'
)


ANSWERS = """
import os, sys
count, answers, asked = sys.argv[1:]
with open(answers, "rb") as said, open(asked, "wb") as heard:
    for _ in range(int(count)):
        heard.write(sys.stdin.buffer.readline())
    os.write(1, said.read())
    heard.write(sys.stdin.buffer.read())
"""
"""An agent that reads some lines, says what a file has, and saves all that it reads."""


def answering(base: Path, after: int, answers: str) -> Client:
    """A client of such an agent, which saves into the file "asked"."""
    (base / "answers").write_text(answers, newline="")
    agent = [sys.executable, "-S", "-c", ANSWERS, str(after), str(base / "answers"), str(base / "asked")]
    return Client([*PROXY, "run", "--store", str(base / "store"), *agent])


@pytest.fixture
def out_of_order(tmp_path: Path) -> Iterator[Client]:
    """An agent that reads all four requests before it answers the last."""
    with answering(tmp_path, 4, re.sub("«.*?»|§", "", ANSWERED)) as client:
        yield client


def test_answers_out_of_order_pass_and_only_those_to_initialize_change(out_of_order: Client, tmp_path: Path) -> None:
    out_of_order.send_bytes(ASKED)
    out_of_order.close_stdin()
    out_of_order.wait_for_end()
    assert out_of_order.wait() == 0
    assert (tmp_path / "asked").read_bytes() == ASKED
    store = ProxyStore(tmp_path / "store").id
    amended = re.sub("§.*?§|[«»]", "", ANSWERED.replace("VERSION", __version__).replace("STORE", store))
    assert [line.raw for line in out_of_order.lines] == lines(amended.encode())
