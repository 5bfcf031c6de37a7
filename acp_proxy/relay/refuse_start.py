"""Answers the editor where ``run`` cannot start the agent: many editors show only the protocol's errors."""

import os
import threading
from contextlib import suppress

from acp_proxy.protocol import jsonrpc
from acp_proxy.relay import pipes

_STDIN, _STDOUT = 0, 1
_WAIT_SECONDS = 1.0
"""Editors send ``initialize`` as soon as they have started an agent."""


def refuse_first_request(text: str) -> None:
    """Answer the first line of stdin with an error if it is a request. Returns at stdin's end, or after a second."""
    answering = threading.Thread(target=_answer_first_line, args=(text,), name="refusal", daemon=True)
    answering.start()
    answering.join(_WAIT_SECONDS)


def _answer_first_line(text: str) -> None:
    line = b""
    while b"\n" not in line and (data := pipes.read(_STDIN, pipes.WIDE_PIPE_BYTES)):
        line += data
    request = jsonrpc.read_message(line.split(b"\n", 1)[0])
    if isinstance(request, jsonrpc.Request):
        with suppress(OSError):  # nobody reads it
            os.write(_STDOUT, jsonrpc.encode_error(request.id, jsonrpc.INTERNAL_ERROR, text))
