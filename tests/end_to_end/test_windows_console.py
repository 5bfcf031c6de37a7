"""A console of Windows: what a command shows in it, and its Ctrl-C. The console has no window."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.proxied import PROXY
from tests.stored import WholeStore, store_running_session
from tests.waiting import SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "win32", reason="tests what only Windows has")

BEGIN = """
import ctypes, json, msvcrt, os, subprocess, sys, time

kernel = ctypes.windll.kernel32

def ctrl_c():
    kernel.SetConsoleCtrlHandler(None, True)  # not for this process; one started from now on would ignore it too
    kernel.GenerateConsoleCtrlEvent(0, 0)
"""
SHOWS = """
output = os.open("CONOUT$", os.O_RDWR)
console, mode, count = msvcrt.get_osfhandle(output), ctypes.c_uint32(), ctypes.c_uint32()
text = ctypes.create_unicode_buffer(4000)
kernel.SetConsoleOutputCP(437)
command = subprocess.Popen(sys.argv[1:], stdout=output, stderr=subprocess.PIPE)
end = time.monotonic() + 60
while "> Work on" not in text.value and time.monotonic() < end and command.poll() is None:
    time.sleep(0.1)
    kernel.ReadConsoleOutputCharacterW(console, text, 2000, 0, ctypes.byref(count))
kernel.GetConsoleMode(console, ctypes.byref(mode))
ctrl_c()
errors = command.communicate()[1].decode()
print(json.dumps({"status": command.wait(), "errors": errors, "shown": text.value, "mode": mode.value}))
"""
RUNS = """
proxy = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
ready = proxy.stderr.readline().decode()
ctrl_c()
print(json.dumps({"ready": ready, "errors": proxy.communicate()[1].decode(), "status": proxy.returncode}))
"""
PROXY_THAT_TELLS = """
import signal, sys, threading, time
from acp_proxy.__main__ import main

def tell():
    while signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        time.sleep(0.01)
    print("ready", file=sys.stderr, flush=True)

threading.Thread(target=tell, daemon=True).start()
sys.exit(main())
"""
"""acp-proxy that tells when it handles Ctrl-C."""


def in_console(source: str, *command: str) -> Any:
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    words = [sys.executable, "-c", BEGIN + source, *command]
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, creationflags=flags)
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


def test_a_command_shows_all_characters_and_colours_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    with store_running_session(store, "busy", "Work on Grüße 漢字"):
        command = [*PROXY, "show", "busy", "--follow", "--store", str(store.root)]
        told = in_console(SHOWS, *command)
    assert (told["status"], told["errors"]) == (130, "")
    assert "Work on Grüße 漢字" in told["shown"]
    assert told["mode"] & 4, "escape sequences are interpreted"


def test_ctrl_c_gives_the_agent_the_end_of_its_input_and_its_status_is_ours(tmp_path: Path) -> None:
    agent = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(7)"]
    proxy = [sys.executable, "-c", PROXY_THAT_TELLS, "run", "--store", str(tmp_path / "store")]
    told = in_console(RUNS, *proxy, "--", *agent)
    assert (told["ready"].strip(), told["errors"], told["status"]) == ("ready", "", 7)
