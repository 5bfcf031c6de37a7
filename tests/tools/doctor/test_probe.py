"""Probing an agent always ends, however the agent fails to answer, and ends the agent too."""

from pathlib import Path

import psutil
import pytest

from acp_proxy.protocol.jsonrpc import Response
from acp_proxy.relay.process_tree import find_running
from acp_proxy.tools.doctor.probe import NoAnswer, Probe
from tests.agents import answering_agent, offer_capabilities, python_command, read_requests
from tests.waiting import SECONDS

SOON = 0.3
ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"yes":true}}'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait before ending an agent that does not end by itself."""
    monkeypatch.setattr("acp_proxy.tools.doctor.probe.GRACE_SECONDS", 0.05)


def answer_of(source: str, seconds: float = SECONDS) -> Response:
    with Probe(python_command(source)) as probe:
        return probe.ask("initialize", {}, seconds)


def reason_of(source: str, seconds: float = SECONDS) -> str:
    with pytest.raises(NoAnswer) as caught:
        answer_of(source, seconds)
    return str(caught.value)


def test_an_answer_comes_after_its_notifications(tmp_path: Path) -> None:
    past = [{"sessionUpdate": "plan"}, {"sessionUpdate": "notice"}]
    heard: list[object] = []
    with Probe(
        answering_agent(tmp_path / "notes", {"initialize": offer_capabilities(), "session/load": {"result": {}}}, past)
    ) as probe:
        assert probe.ask("initialize", {"a": 1}, SECONDS).result == offer_capabilities()["result"]
        assert (
            probe.ask("session/load", {"sessionId": "s"}, SECONDS, lambda told: heard.append(told.params)).result == {}
        )
    assert heard == [{"sessionId": "s", "update": update} for update in past]
    assert [(request["id"], request["method"], request["params"]) for request in read_requests(tmp_path / "notes")] == [
        (1, "initialize", {"a": 1}),
        (2, "session/load", {"sessionId": "s"}),
    ]


@pytest.mark.parametrize(
    "source",
    [
        f"print({ANSWER!r})",
        f"import sys; sys.stdout.write({ANSWER!r})",
        f"print('banner'); print(); print('[1]'); print('{{\"id\":7,\"result\":1}}'); print({ANSWER!r})",
    ],
)
def test_an_answer_is_found_among_other_lines_and_without_a_newline(source: str) -> None:
    assert answer_of(source).result == {"yes": True}


def test_a_request_of_the_agent_is_refused_with_its_id() -> None:
    source = """
import json
print('{"jsonrpc":"2.0","id":"one","method":"fs/read_text_file","params":{}}', flush=True)
input()
refusal = json.loads(input())
print(json.dumps({"jsonrpc": "2.0", "id": 1, "result": refusal}), flush=True)
"""
    result = answer_of(source).result
    assert isinstance(result, dict)
    assert (result["id"], result["error"]["code"]) == ("one", -32601)


@pytest.mark.parametrize(
    "source",
    [
        "import time; time.sleep(1000)",
        "while True: print('y')",
        'while True: print(\'{"jsonrpc":"2.0","method":"x"}\')',
        'while True: print(\'{"jsonrpc":"2.0","id":1,"method":"x"}\')',
        "import sys\nwhile True: sys.stderr.write('y' * 1000)",
        "import os; os.close(0); import time; time.sleep(1000)",
    ],
)
def test_the_wait_for_a_silent_or_flooding_agent_is_bounded(source: str) -> None:
    assert reason_of(source, SOON) == "does not answer within 0.3 s"


def test_an_agent_that_writes_something_else_and_then_nothing_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.tools.doctor.probe._STRAY_SECONDS", SOON)
    stays = "import time; time.sleep(1000)"
    assert reason_of(f"print('notice'); print('> ready', flush=True); {stays}") == 'writes "> ready", and no answer'
    late_answer = f"import time; time.sleep({2 * SOON}); print({ANSWER!r}, flush=True)"
    message = '{"jsonrpc":"2.0","method":"x"}'
    assert answer_of(f"print('notice', flush=True); print({message!r}, flush=True); {late_answer}").result


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise SystemExit(3)", "exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "ended by SIGKILL"),
        ("print('banner'); raise SystemExit(0)", "exited with status 0"),
    ],
)
def test_the_end_of_an_agent_is_reported(source: str, reason: str) -> None:
    assert reason_of(source) == reason


def test_an_endless_line_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.tools.doctor.probe._LINE_BYTES", 1_000_000)
    assert reason_of("import sys\nwhile True: sys.stdout.write('y' * 100_000)") == "writes a line that does not end"


def test_the_last_lines_of_stderr_and_other_output_are_kept() -> None:
    source = "import sys\nfor n in range(100): print(f'out {n}\\x1b[2J'); sys.stderr.write(f'err {n}\\n')"
    with Probe(python_command(source)) as probe, pytest.raises(NoAnswer):
        probe.ask("initialize", {}, SECONDS)
    assert [words.split()[1] for words in probe.stderr_lines] == [str(number) for number in range(80, 100)]
    assert probe.stray_lines[-1] == "out 99\ufffd[2J"
    assert len(probe.stray_lines) == 20


def test_every_process_of_the_agent_ends_even_if_it_ignores_sigterm(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    source = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {stubborn!r}])
print('{{"jsonrpc":"2.0","id":1,"result":%d}}' % child.pid, flush=True)
child.wait()
"""
    with Probe(python_command(source)) as probe:
        pid = probe.ask("initialize", {}, SECONDS).result
        assert isinstance(pid, int)
        processes = [psutil.Process(pid), psutil.Process(pid).parent()]
    assert find_running([process for process in processes if process is not None]) == []


def test_an_interrupt_while_an_agent_ends_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    probe = Probe(python_command(stubborn))
    process = psutil.Process(probe._process.pid)
    monkeypatch.setattr(probe, "_drop_output", interrupt)
    with pytest.raises(KeyboardInterrupt):
        probe.__exit__(None, None, None)
    assert not process.is_running()


def test_a_missing_program_or_directory_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Probe([str(tmp_path / "nothing")])
    with pytest.raises(PermissionError):
        Probe([str(tmp_path)])


def test_listening_hears_what_comes_after_an_answer_until_it_is_quiet() -> None:
    late = '{"jsonrpc":"2.0","method":"late"}'
    source = f"import time; print({ANSWER!r}); print({late!r}, flush=True); time.sleep(1000)"
    heard: list[str] = []
    with Probe(python_command(source)) as probe:
        probe.ask("initialize", {}, SECONDS)
        probe.listen(SOON, SECONDS, lambda told: heard.append(told.method))
    assert heard == ["late"]


def test_listening_ends_with_the_agent_and_says_so_as_the_next_question_does() -> None:
    with Probe(python_command(f"print({ANSWER!r})")) as probe:
        probe.ask("initialize", {}, SECONDS)
        with pytest.raises(NoAnswer, match="exited with status 0"):
            probe.listen(SECONDS, SECONDS, lambda told: None)
        with pytest.raises(NoAnswer, match="exited with status 0"):
            probe.ask("session/list", {}, SECONDS)


def test_listening_to_an_agent_that_is_never_quiet_is_bounded() -> None:
    with Probe(python_command('while True: print(\'{"jsonrpc":"2.0","method":"x"}\')')) as probe:
        probe.listen(SECONDS, SOON, lambda told: None)


def test_an_agent_may_have_another_environment() -> None:
    answer = '{"jsonrpc":"2.0","id":1,"result":"%s"}'
    with Probe(python_command(f"import os; print({answer!r} % os.environ['WHO'])"), environment={"WHO": "me"}) as probe:
        assert probe.ask("initialize", {}, SECONDS).result == "me"
