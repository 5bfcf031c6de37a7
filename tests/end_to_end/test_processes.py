"""Whoever ends first: every request is answered, the exit status is the agent's, and no process is left."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from acp_proxy import shell_quote
from tests import forked
from tests.agents import python_command
from tests.client import RequestFailed
from tests.end_to_end.proxied import INTERNAL_ERROR, PROXY, Editor, Proxied, kinds, texts
from tests.pipes import count_held_bytes
from tests.posix import pty
from tests.waiting import SECONDS
from torture.processes import are_gone, is_gone

SHORT_GRACE = ("--grace", "0.2")
FAIR_GRACE = ("--grace", "2")
"""Enough for an agent that ends with its input, even on a busy machine; others use up all of it."""
ENDLESS_GRACE = ("--grace", "600")
PYTHON = (sys.executable, "-S", "-c")
ON_WINDOWS = (*PYTHON, "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))")
LAUNCHER = ON_WINDOWS if sys.platform == "win32" else ("sh", "-c", '"$@"; exit $?', "launcher")
"""A program that starts its arguments as a child with the same streams, and waits for it."""
SHELL = "cmd" if sys.platform == "win32" else "sh"
STAYS = 300
"""Seconds: a child that is not ended outlives the test, which then fails."""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a death signal")


class Watched:
    """Processes that a test watches, and that end with it at the latest."""

    def __init__(self) -> None:
        self._all: list[psutil.Process] = []

    def tree(self, editor: Editor) -> list[psutil.Process]:
        """The agent and its current descendants."""
        return self.add(*psutil.Process(editor.pid).children(recursive=True))

    def add(self, *processes: psutil.Process) -> list[psutil.Process]:
        assert processes
        self._all += processes
        return list(processes)

    def named_in(self, pidfile: Path) -> psutil.Process:
        return self.add(psutil.Process(int(pidfile.read_text())))[0]

    def close(self) -> None:
        for process in self._all:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.close()


def start(proxied: Proxied, agent: Sequence[str], options: Sequence[str] = ()) -> Editor:
    """An editor with any command as its agent."""
    editor = Editor([*PROXY, "run", "--store", str(proxied.store), *options, "--", *agent])
    editor.project = proxied.project
    return editor


def agent_says(text: str) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}


# --- the agent ends


def test_open_requests_are_answered_when_the_agent_exits_and_its_status_is_ours(proxied: Proxied) -> None:
    hangs = {"_hang": {"before": [{"hang": True}]}, "_exit": {"before": [{"exit": 17}]}}
    with proxied.editor({"methods": hangs}) as editor:
        editor.initialize()
        since, ids = editor.count_lines(), ["7", '"7"', "7.0", "12345678901234567890", "null", '"\\ud800"']
        for id in ids:
            editor.send_line(b'{"jsonrpc":"2.0","id":%s,"method":"_hang"}' % id.encode())
        editor.send_line(b'{"jsonrpc":"2.0","id":"last","method":"_exit"}')
        assert editor.wait() == 17
        editor.wait_for_end()
        error = b',"error":{"code":-32603,"message":"agent exited with status 17"}}\n'
        expected = [b'{"jsonrpc":"2.0","id":' + id.encode() + error for id in [*ids, '"last"']]
        assert sorted(line.raw for line in editor.lines[since:]) == sorted(expected)


@pytest.mark.parametrize(("script", "status"), [("raise SystemExit(1)", 1), ("print('usage: agent acp')", 0)])
def test_an_agent_that_ends_before_it_answers_initialize_is_reported_with_the_command_that_says_why(
    proxied: Proxied, script: str, status: int
) -> None:
    agent = [*PYTHON, f"import sys; sys.stdin.readline(); {script}"]
    with start(proxied, agent) as editor:
        first, second = editor.start_request("initialize", {"protocolVersion": 1}), editor.start_request("_other")
        error, other = (editor.wait_for_answer(number)["error"] for number in (first, second))
        assert editor.wait() == status
        editor.wait_for_end()
    text = error["message"]
    assert text.startswith(f"agent exited with status {status}. To see why: ")
    assert text.endswith(f" doctor {shell_quote.join(agent)}")
    assert other["message"] == f"agent exited with status {status}"
    assert f"acp-proxy: {text}" in editor.read_stderr().splitlines()


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_killed_agent_is_reported_by_its_signal(proxied: Proxied, name: str) -> None:
    with proxied.editor({"turns": [[agent_says("so far"), {"signal": name}, {"hang": True}]]}) as editor:
        session = editor.open()
        number = editor.start_prompt(session, "go")
        error = editor.wait_for_answer(number)["error"]
        assert error == {"code": -32603, "message": f"agent ended by {name}"}
        assert texts(editor.list_updates(session)) == ["so far"]
        assert editor.wait() == 128 + signal.Signals[name]


def test_everything_that_the_agent_wrote_is_delivered_before_its_end(proxied: Proxied) -> None:
    count = 40_000  # as much as two reads: it exits while the first is processed
    script = f"import os, sys; sys.stdin.readline(); os.write(1, b'{{}}\\n' * {count}); os._exit(3)"
    with start(proxied, [sys.executable, "-c", script]) as editor:
        editor.wait_for_answer(editor.start_request("_go"))
        assert editor.wait() == 3
        editor.wait_for_end()
        *told, last = editor.lines
        assert [line.raw for line in told] == [b"{}\n"] * count
        assert last.message["error"]["message"] == "agent exited with status 3"


@pytest.mark.parametrize(
    ("last", "delivered"),
    [('{"jsonrpc":"2.0","method":"_last"}', True), ('{"jsonrpc":"2.0","method":"_la', False), ("bye", False)],
)
def test_a_last_line_without_a_newline_is_delivered_if_it_is_json_and_else_printed_on_stderr(
    proxied: Proxied, last: str, delivered: bool
) -> None:
    with proxied.editor({"methods": {"_go": {"before": [{"raw": last}, {"exit": 0}]}}}) as editor:
        editor.initialize()
        since = editor.count_lines()
        with pytest.raises(RequestFailed):  # the error has its own line
            editor.request("_go")
        editor.wait()
        editor.wait_for_end()
        assert (editor.lines[since].raw == last.encode() + b"\n") is delivered
    assert editor.read_stderr() == ("" if delivered else last)


def test_an_agent_that_closes_its_stdout_is_ended_and_open_requests_are_answered(
    proxied: Proxied, watched: Watched
) -> None:
    with proxied.editor({"turns": [[agent_says("bye"), {"close_stdout": True}, {"hang": True}]]}) as editor:
        session = editor.open()
        processes = watched.tree(editor)
        error = editor.wait_for_answer(editor.start_prompt(session, "go"))["error"]
        assert error == {"code": -32603, "message": "agent exited with status 0"}
        assert editor.wait() == 0
        assert are_gone(processes)


_CLOSING_STDIN = """
import json, os, sys, time
for line in iter(lambda: sys.stdin.buffer.raw.readline(), b""):
    request = json.loads(line)
    result = {"protocolVersion": 1, "sessionId": "s"}
    if request["method"] == "session/prompt":
        os.close(0)
        print('{"jsonrpc":"2.0","method":"_closed"}', flush=True)
        time.sleep(float(sys.argv[1]))
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def test_an_agent_that_closes_its_stdin_is_ended_when_more_is_sent(proxied: Proxied, watched: Watched) -> None:
    agent = python_command(_CLOSING_STDIN, str(STAYS))
    command = [*PROXY, "run", "--store", str(proxied.store), "--grace", "0.1", "--", *agent]
    with Editor(command) as editor:
        editor.project = proxied.project
        session = editor.open()
        processes = watched.tree(editor)
        asked = editor.start_prompt(session, "go")
        editor.wait_for_method("_closed")
        errors = [editor.wait_for_answer(id)["error"] for id in (editor.start_prompt(session, "go on"), asked)]
        end = "the agent closed its input, then the agent ended by SIGTERM, as it went on for 0.1 s (--grace)"
        assert errors == [{"code": INTERNAL_ERROR, "message": end}] * 2
        editor.wait()
        assert are_gone(processes)


def test_a_grandchild_that_holds_stdout_does_not_delay_the_end(proxied: Proxied, watched: Watched) -> None:
    child = {"seconds": STAYS, "holds_stdout": True, "ignore_eof": True, "pidfile": "{cwd}/child.pid"}
    with proxied.editor({"turns": [[agent_says("bye"), {"spawn": child}, {"exit": 17}]]}) as editor:
        session = editor.open()
        number = editor.start_prompt(session, "go")
        assert editor.wait_for_answer(number)["error"]["message"] == "agent exited with status 17"
        assert editor.wait() == 17
        assert texts(editor.list_updates(session)) == ["bye"]
        pidfile = proxied.project / "child.pid"
        if sys.platform == "win32":
            assert not psutil.pid_exists(int(pidfile.read_text()))  # the agent's job has ended it
        else:
            assert watched.named_in(pidfile).is_running()


def test_a_grandchild_that_keeps_writing_does_not_delay_the_end(proxied: Proxied, watched: Watched) -> None:
    pidfile = proxied.base / "child.pid"
    child = (
        f"import os, time; open({str(pidfile)!r}, 'w').write(str(os.getpid()))\n"
        "while os.write(1, b'{}\\n'): time.sleep(0.05)"
    )
    agent = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.readline(); sys.exit(17)"
    with start(proxied, [*PYTHON, agent, *PYTHON, child]) as editor:
        editor.wait_for(lambda message: message == {})
        chatter = watched.named_in(pidfile)
        editor.send_line(b"now")
        assert editor.wait() == 17
        assert is_gone(chatter)  # its pipe broke


# --- the agent does not start


@pytest.mark.parametrize(
    ("content", "mode", "status"),
    [
        (None, 0, 127),
        ("#!/no/such/interpreter\n", 0o755, 127),
        ("#!/bin/sh\n", 0o644, 126),
        ("neither a program\0nor a script", 0o755, 126),
        ("", 0o755, 126),
    ],
    ids=["missing", "without its interpreter", "not executable", "not a program", "empty"],
)
def test_a_command_that_cannot_start_is_reported_in_one_line(
    proxied: Proxied, content: str | None, mode: int, status: int
) -> None:
    command = proxied.base / "agent"
    if content is not None:
        command.write_text(content)
        command.chmod(mode)
    if sys.platform == "win32" and content is not None:
        status = 126  # no text is a program there
    with start(proxied, [str(command), "--acp"]) as editor:
        assert editor.wait() == status
        editor.wait_for_end()
        assert editor.lines == []
    [line] = editor.read_stderr().splitlines(keepends=True)
    assert str(command) in line
    assert line.endswith("\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no text is a program there")
@pytest.mark.parametrize("is_in_path", [True, False])
def test_a_script_that_names_no_interpreter_is_run_by_the_shell_as_from_many_editors(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch, is_in_path: bool
) -> None:
    script = proxied.base / "agent"
    script.write_text('exec "$@"\n')
    script.chmod(0o755)
    if is_in_path:
        monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    with start(proxied, [script.name if is_in_path else str(script), *proxied.bare_agent()]) as editor:
        session = editor.open()
        assert texts(editor.prompt(session, "go"))


def test_an_unknown_command_exits_with_127(proxied: Proxied) -> None:
    with start(proxied, ["no-such-agent-anywhere"]) as editor:
        assert editor.wait() == 127  # though stdin stays open, and nothing comes
        editor.wait_for_end()
        assert editor.lines == []
    [line] = editor.read_stderr().splitlines()
    assert "no-such-agent-anywhere is not in PATH. The registry" in line


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["no-such-agent-anywhere", "acp"], 127, "no-such-agent-anywhere is not in PATH."),
        ([f"{SHELL} -c agent"], 127, "put the words after it into args"),
        (["--registry", "/no/such/file", "registry:kimi"], 127, "/no/such/file"),
        (["--redat", "keys", "opencode", "acp"], 2, "--redact"),
    ],
)
def test_the_editor_gets_the_message_of_a_run_that_starts_no_agent(words: list[str], status: int, told: str) -> None:
    with Editor([*PROXY, "run", *words]) as editor:
        error = editor.wait_for_answer(editor.start_request("initialize", {"protocolVersion": 1}))["error"]
        assert editor.wait() == status
        editor.wait_for_end()
    assert error["code"] == INTERNAL_ERROR
    assert told in error["message"]
    assert editor.read_stderr() == f"acp-proxy: {error['message']}\n"


@pytest.mark.parametrize("given", ["", "words", "words\n", '{"jsonrpc":"2.0","method":"initialize"}\n'])
def test_a_run_that_starts_no_agent_answers_nothing_but_a_request(given: str) -> None:
    result = forked.run([*PROXY, "run", "no-such-agent-anywhere"], given=given, text=True, timeout=SECONDS)
    assert (result.returncode, result.stdout) == (127, "")


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("ACP_PROXY_LOAD", "takes one of auto, agent, store, not 'bogus'."),
        ("ACP_PROXY_NO_RECORD", "takes 1 or 0, not 'bogus'. Until it is correct, nothing is recorded."),
    ],
)
def test_a_wrong_variable_stops_no_agent(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch, variable: str, told: str
) -> None:
    monkeypatch.setenv(variable, "bogus")
    with proxied.editor("conversation") as editor:
        editor.prompt(editor.open(), "hello")
        assert editor.end() == 0
    assert editor.read_stderr().splitlines() == [f"acp-proxy: {variable} {told}"]
    assert proxied.store.exists() == (variable != "ACP_PROXY_NO_RECORD")


def test_a_line_in_one_argument_is_said_to_be_several_words(proxied: Proxied) -> None:
    with start(proxied, [f"{SHELL} -c agent"]) as editor:
        assert editor.wait() == 127
        editor.wait_for_end()
    [line] = editor.read_stderr().splitlines()
    assert line.endswith(f"If the program is {SHELL}, put the words after it into args, each on its own.")


def test_a_variable_before_the_agents_command_is_said_to_belong_in_the_settings(proxied: Proxied) -> None:
    with start(proxied, ["SOME_KEY=1", sys.executable]) as editor:
        assert editor.wait() == 127
        editor.wait_for_end()
    assert 'Put SOME_KEY into "env" of the agent\'s entry' in editor.read_stderr()


# --- the editor ends


@pytest.mark.parametrize(
    ("options", "afterwards", "told"),
    [
        ((), "exit 3", "exited with status 3"),
        (SHORT_GRACE, "exec sleep 600", "ended by SIGTERM, as it went on for 0.2 s (--grace)"),
    ],
)
def test_the_answer_to_a_request_that_is_open_when_the_editor_ends_says_who_ended(
    proxied: Proxied, options: Sequence[str], afterwards: str, told: str
) -> None:
    with start(proxied, ["sh", "-c", f"cat >/dev/null; {afterwards}"], options) as editor:
        number = editor.start_request("initialize", {"protocolVersion": 1})
        editor.close_stdin()
        assert editor.wait_for_answer(number)["error"]["message"] == f"the editor ended, then the agent {told}"


def test_closing_the_input_ends_the_agent_gracefully(proxied: Proxied, watched: Watched) -> None:
    with proxied.editor("conversation", options=ENDLESS_GRACE) as editor:
        editor.prompt(editor.open(), "hello")
        processes = watched.tree(editor)
        assert editor.end() == 0
        assert are_gone(processes)


def test_the_agents_last_message_after_the_end_of_its_input_is_delivered(proxied: Proxied) -> None:
    bye = b'{"jsonrpc":"2.0","method":"_bye"}\n'
    with start(proxied, [*PYTHON, f"import os, sys; sys.stdin.read(); os.write(1, {bye!r}); sys.exit(3)"]) as editor:
        assert editor.end() == 3
        editor.wait_for_end()
        assert [line.raw for line in editor.lines] == [bye]


def test_closing_the_output_ends_the_agent(proxied: Proxied, watched: Watched) -> None:
    command = proxied.command("conversation", options=ENDLESS_GRACE)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    [ours] = watched.add(psutil.Process(process.pid))
    assert process.stdin is not None
    assert process.stdout is not None
    hello = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
    process.stdin.write(hello)
    process.stdout.readline()
    processes = watched.add(*ours.children(recursive=True))
    process.stdout.close()
    process.stdin.write(hello)  # its answer cannot be delivered
    assert process.wait(SECONDS) == 0
    assert are_gone(processes)
    process.stdin.close()


def fill(editor: Editor) -> int:
    """Write to the proxy until nothing more is taken. The number of bytes taken."""
    assert editor.process.stdin is not None
    descriptor, written = editor.process.stdin.fileno(), 0
    both = 2 * count_held_bytes(descriptor)  # once both have started, the pipes to the proxy and to the agent hold this
    while select.select([], [descriptor], [], SECONDS if written <= both else 0.5)[1]:
        assert written < 10_000_000, "nobody stops reading"
        written += os.write(descriptor, b"x" * (select.PIPE_BUF - 1) + b"\n")
    return written


def test_closing_the_input_is_noticed_even_if_the_agent_does_not_read(proxied: Proxied, watched: Watched) -> None:
    with start(proxied, ["sleep", str(STAYS)], SHORT_GRACE) as editor:
        fill(editor)
        processes = watched.tree(editor)
        assert editor.end() == 128 + signal.SIGTERM
        assert are_gone(processes)


READS_SLOWLY = """
import os, sys, time
open(sys.argv[1]).close()
heard = 0
while data := os.read(0, 4096):
    heard += len(data)
    time.sleep(0.15 if heard < 100_000 else 0)
os.write(2, b"heard %d" % heard)
"""
"""A program that waits until its FIFO is opened, and then reads for four seconds with short pauses."""


def test_a_slow_agent_gets_all_input_before_its_end(
    proxied: Proxied,
) -> None:
    begin = proxied.base / "begin"
    os.mkfifo(begin)
    with start(proxied, [sys.executable, "-c", READS_SLOWLY, str(begin)], ["--grace", "2.5"]) as editor:
        written = fill(editor)
        begin.open("w").close()
        assert editor.end() == 0
        assert editor.read_stderr() == f"heard {written}"


def test_an_agent_that_ignores_the_end_of_its_input_gets_sigterm(proxied: Proxied, watched: Watched) -> None:
    with proxied.editor(options=SHORT_GRACE, agent=["--ignore-eof"]) as editor:
        number = editor.start_prompt(editor.open(), "hello")
        editor.wait_for_result(number)
        processes = watched.tree(editor)
        assert editor.end() == 128 + signal.SIGTERM
        assert are_gone(processes)


def test_an_agent_that_ignores_sigterm_is_killed(proxied: Proxied, watched: Watched) -> None:
    with proxied.editor(options=SHORT_GRACE, agent=["--ignore-eof", "--ignore-sigterm"]) as editor:
        editor.initialize()
        processes = watched.tree(editor)
        assert editor.end() == 128 + signal.SIGKILL
        assert are_gone(processes)


def test_a_descendant_left_behind_is_ended_with_the_agent(proxied: Proxied, watched: Watched) -> None:
    child = {"spawn": {"seconds": STAYS, "ignore_eof": True, "pidfile": "{cwd}/child.pid"}}
    with proxied.editor({"turns": [[child]]}, options=FAIR_GRACE) as editor:
        editor.prompt(editor.open(), "go")
        left_behind = watched.named_in(proxied.project / "child.pid")
        assert left_behind in watched.tree(editor)
        assert editor.end() == 0
        assert is_gone(left_behind)


def test_a_daemon_outside_the_process_tree_keeps_running(proxied: Proxied, watched: Watched) -> None:
    pidfile = proxied.base / "daemon.pid"
    daemon = f"(sleep {STAYS} </dev/null >/dev/null 2>&1 & echo $! >'{pidfile}'); "
    with start(proxied, ["sh", "-c", daemon + 'exec "$@"', "agent", *proxied.bare_agent()], ENDLESS_GRACE) as editor:
        editor.initialize()
        left = watched.named_in(pidfile)
        processes = watched.tree(editor)
        assert left not in processes
        assert editor.end() == 0
        assert are_gone(processes)
        assert left.is_running()


# --- launchers


def launch_agent(proxied: Proxied, *agent: str, options: Sequence[str] = ()) -> Editor:
    """An agent behind two launchers, as in ``npx -> node -> child``."""
    return start(proxied, [*LAUNCHER, *LAUNCHER, *proxied.bare_agent(None, agent)], options)


def test_an_agent_behind_launchers_ends_with_its_input_and_its_status_is_ours(
    proxied: Proxied, watched: Watched
) -> None:
    with launch_agent(proxied, options=ENDLESS_GRACE) as editor:
        assert "agent_message_chunk" in kinds(editor.prompt(editor.open(), "hello"))
        processes = watched.tree(editor)
        assert len(processes) == 3 or sys.platform == "win32"  # consoles are processes too
        assert editor.end() == 0
        assert are_gone(processes)


@pytest.mark.parametrize("deaf", [["--ignore-eof"], ["--ignore-eof", "--ignore-sigterm"]])
def test_an_agent_that_outlives_its_launchers_is_ended(proxied: Proxied, watched: Watched, deaf: list[str]) -> None:
    with launch_agent(proxied, *deaf, options=SHORT_GRACE) as editor:
        editor.initialize()
        processes = watched.tree(editor)
        assert len(processes) == 3
        assert editor.end() == 128 + signal.SIGTERM  # the launcher's status
        assert are_gone(processes)


# --- signals


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_is_passed_on_and_ends_everything(proxied: Proxied, watched: Watched, name: str) -> None:
    number = signal.Signals[name]
    hangs = {"turns": [[agent_says("so far"), {"hang": True}]]}
    with proxied.editor(hangs, options=ENDLESS_GRACE, agent=["--ignore-eof"]) as editor:
        open_prompt = editor.start_prompt(editor.open(), "hello")
        editor.wait_for_text("so far")
        processes = watched.tree(editor)
        editor.signal(number)
        assert editor.wait_for_answer(open_prompt)["error"]["message"] == (
            f"acp-proxy got {name}, then the agent ended by {name}"
        )
        assert editor.wait() == 128 + number
        assert are_gone(processes)


def test_a_signal_after_the_end_of_the_input_is_passed_on(proxied: Proxied, watched: Watched) -> None:
    says_when_it_hears_the_end = f"cat >/dev/null; echo '{{}}'; exec sleep {STAYS}"
    with start(proxied, ["sh", "-c", says_when_it_hears_the_end], ENDLESS_GRACE) as editor:
        editor.close_stdin()
        editor.wait_for(lambda message: message == {})
        processes = watched.tree(editor)
        editor.signal(signal.SIGTERM)
        assert editor.wait() == 128 + signal.SIGTERM
        assert are_gone(processes)


def test_a_signal_ends_an_agent_behind_launchers(proxied: Proxied, watched: Watched) -> None:
    with launch_agent(proxied, "--ignore-eof", "--ignore-sigterm", options=SHORT_GRACE) as editor:
        editor.initialize()
        processes = watched.tree(editor)
        editor.signal(signal.SIGTERM)
        assert editor.wait() == 128 + signal.SIGTERM
        assert are_gone(processes)


def test_a_signal_ends_the_agent_even_if_the_editor_does_not_read(proxied: Proxied, watched: Watched) -> None:
    with proxied.editor("flood") as editor:
        session = editor.open()
        processes = watched.tree(editor)
        editor.pause()
        editor.start_prompt(session, "go")
        editor.signal(signal.SIGTERM)
        editor.wait()
        assert are_gone(processes)


@linux_only
def test_the_agent_dies_with_a_killed_proxy(proxied: Proxied, watched: Watched) -> None:
    with proxied.editor(agent=["--ignore-eof", "--ignore-sigterm"]) as editor:
        editor.initialize()
        processes = watched.tree(editor)
        editor.kill()
        assert are_gone(processes)


def test_an_agent_behind_launchers_ends_with_a_killed_proxy(proxied: Proxied, watched: Watched) -> None:
    with launch_agent(proxied) as editor:
        editor.initialize()
        processes = watched.tree(editor)
        assert len(processes) == 3 or sys.platform == "win32"
        editor.kill()
        assert are_gone(processes)


# --- what the agent inherits


def test_the_agent_inherits_stderr_environment_directory_and_process_group(proxied: Proxied) -> None:
    script = (
        "import json, os; os.write(2, b'from the agent\\n'); group = getattr(os, 'getpgrp', int)();"
        "print(json.dumps([os.getcwd(), os.environ['MARK'], group, os.umask(0)]), flush=True)"
    )
    command = [*PROXY, "run", "--store", str(proxied.store), sys.executable, "-c", script]
    with Editor(command, cwd=proxied.project, env={**os.environ, "MARK": "ours"}) as editor:
        told = editor.wait_for(lambda message: isinstance(message, list)).message
        assert editor.wait() == 0
        inherited = [os.getpgrp(), current_umask()] if sys.platform != "win32" else [0, 0]
        assert told == [str(proxied.project), "ours", *inherited]
    assert editor.read_stderr() == "from the agent\n"


def current_umask() -> int:
    os.umask(current := os.umask(0))
    return current


# --- in a terminal


def in_a_terminal(command: Sequence[str]) -> tuple[int, int, str]:
    """Run a command with a terminal as all its streams. Its process id, its status, and its output."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        try:
            while data := os.read(ours, 65536):
                shown.extend(data)
        except OSError:  # the end of a terminal
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    status = process.wait(SECONDS)
    reader.join(SECONDS)
    os.close(ours)
    return process.pid, status, shown.decode()


def test_in_a_terminal_the_agent_replaces_the_proxy_with_all_its_arguments(proxied: Proxied) -> None:
    script = "import os, sys; print(os.getpid(), sys.argv[1:], sys.stdin.isatty()); sys.exit(5)"
    run = [*PROXY, "run", "--store", str(proxied.store), sys.executable, "-c", script, "--acp"]
    pid, status, shown = in_a_terminal([*run, "--login", "with spaces"])
    said, agents = shown.split(f"{pid} ")
    assert agents == "['--acp', '--login', 'with spaces'] True\r\n"
    assert "nothing is recorded" in said
    assert "acp-proxy editor" in said
    assert status == 5
    assert not proxied.store.exists()


@pytest.mark.parametrize(("content", "status"), [(None, 127), ("#!/bin/sh\n", 126)])
def test_in_a_terminal_a_command_that_cannot_start_has_the_shells_status(
    proxied: Proxied, content: str | None, status: int
) -> None:
    command = proxied.base / "agent"
    if content is not None:
        command.write_text(content)
    _, ended, shown = in_a_terminal([*PROXY, "run", str(command)])
    assert ended == status
    assert str(command) in shown


SLOW_TO_LOAD = """
import json, sys, time

OFFER = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
RESULTS = {"initialize": OFFER, "session/new": {"sessionId": "s"}}
for line in sys.stdin:
    request = json.loads(line)
    time.sleep(0.3 if request["method"] == "session/load" else 0)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": RESULTS.get(request["method"], {})}), flush=True)
"""


def test_a_prompt_that_waits_for_a_load_reaches_the_agent_although_the_editor_ends(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(SLOW_TO_LOAD)
    command = [sys.executable, "-m", "acp_proxy", "run", "--store", str(tmp_path / "store"), "--"]
    session: dict[str, object] = {"sessionId": "s", "cwd": str(tmp_path), "mcpServers": []}
    prompt: dict[str, object] = {"sessionId": "s", "prompt": [{"type": "text", "text": "go on"}]}
    initialize: tuple[str, dict[str, object]] = ("initialize", {"protocolVersion": 1, "clientCapabilities": {}})

    def talk(*requests: tuple[str, dict[str, object]]) -> list[object]:
        lines = [
            json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
            for number, (method, params) in enumerate([initialize, *requests])
        ]
        with subprocess.Popen(
            [*command, sys.executable, str(agent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as proxy:
            assert proxy.stdin is not None
            assert proxy.stdout is not None
            proxy.stdin.write(lines[0])
            proxy.stdin.flush()
            proxy.stdout.readline()  # loads are served once this is answered
            proxy.stdin.writelines(lines[1:])
            proxy.stdin.close()
            answers = [json.loads(line) for line in proxy.stdout]
        return [answer["id"] for answer in answers if "result" in answer]

    assert talk(("session/new", session), ("session/prompt", prompt)) == [1, 2]
    assert talk(("session/load", session), ("session/load", session), ("session/prompt", prompt)) == [1, 2, 3]
