"""Lines leave as the bytes that came: every fixture, every chunking, both directions at once.

The exceptions are documented: the answer to initialize is amended, requests that we serve are answered here, and lines
of the agent that are not a JSON object or array go to stderr.
"""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.relay import pump
from tests.passage import PACKET, Passage, Passed, is_for_the_client, lines, value_of
from tests.strategies import chunked, messages, spelled, values

FIXTURES = Path(__file__).parent.parent / "fixtures"
FILES = sorted(path for path in FIXTURES.rglob("*") if path.is_file())
MESSAGES = FIXTURES / "messages"
LINES_OF_PEERS = sorted(MESSAGES.glob("*.lines"))

OURS = ("initialize", "session/list", "session/load", "session/delete")
"""Methods whose lines are amended or answered here if the agent can only resume."""
INITIALIZE = b'{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":1}}\n'
INITIALIZED = (
    b'{"jsonrpc":"2.0","id":"first","result":{"protocolVersion":1,"agentInfo":{"name":"agent"},'
    b'"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}}\n'
)

Chunking = Callable[[bytes], list[bytes]]
Sent = tuple[list[bytes], list[bytes]]
"""The pieces that the client writes, and those that the agent writes."""


def asks_us(data: bytes) -> bool:
    values_of = [value_of(line) for line in lines(data)]
    return any(isinstance(value, dict) and value.get("method") in OURS for value in values_of)


OUR_TITLE = re.compile(
    rb'\{"jsonrpc":"2.0","method":"session/update","params":\{"sessionId":.*,'
    rb'"update":\{"sessionUpdate":"session_info_update","title":".*"\}\}\}\n'
)


def check_unchanged(
    passed: Passed, from_client: bytes, from_agent: bytes, before: tuple[bytes, bytes] = (b"", b"")
) -> None:
    """Check that everything arrived unchanged. ``before``: what had passed already, to the agent and to the client."""
    to_client = b"".join(line for line in lines(from_agent) if is_for_the_client(line))
    to_stderr = b"".join(line for line in lines(from_agent) if not is_for_the_client(line))
    assert passed.to_agent == before[0] + from_client
    titled = set(lines(passed.to_client)) - set(lines(from_agent)) if before[1] else set()
    ours = {line for line in titled if OUR_TITLE.fullmatch(line)}  # sent once, at the end of a new session's first turn
    assert b"".join(line for line in lines(passed.to_client) if line not in ours) == before[1] + to_client
    assert passed.to_stderr == to_stderr
    assert passed.warnings == []


def initialize(passage: Passage) -> tuple[bytes, bytes]:
    """Initialize an agent that can only resume: what passed to the agent and to the client."""
    passage.say(Peer.CLIENT, INITIALIZE)
    asked = passage.hear(Peer.AGENT)
    passage.say(Peer.AGENT, INITIALIZED)
    answer = passage.hear(Peer.CLIENT)
    assert json.loads(answer)["result"]["agentCapabilities"]["loadSession"] is True
    return asked, answer


# --- every fixture, every chunking


def whole(data: bytes) -> list[bytes]:
    return [data]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def in_random_pieces(data: bytes) -> list[bytes]:
    dice, pieces, at = random.Random(len(data)), list[bytes](), 0
    while at < len(data):
        size = dice.choice((1, 2, dice.randint(1, 80), dice.randint(1, PACKET)))
        pieces.append(data[at : at + size])
        at += size
    return pieces


def for_each_file(files: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("file", files, ids=lambda path: path.relative_to(FIXTURES).as_posix())


every_chunking = pytest.mark.parametrize("chunking", [whole, byte_by_byte, in_random_pieces])


@every_chunking
@for_each_file(FILES)
def test_every_fixture_passes_both_ways_without_recording(file: Path, chunking: Chunking) -> None:
    data = file.read_bytes()
    with Passage(packets=chunking is not whole) as passage:
        check_unchanged(passage.end(chunking(data), chunking(data)), data, data)


@every_chunking
@for_each_file(LINES_OF_PEERS)
def test_every_message_fixture_passes_both_ways_while_recording(file: Path, chunking: Chunking, tmp_path: Path) -> None:
    data = file.read_bytes()
    with Passage(tmp_path / "store", serves=False, packets=chunking is not whole) as passage:
        check_unchanged(passage.end(chunking(data), chunking(data)), data, data)


@every_chunking
@for_each_file([file for file in LINES_OF_PEERS if not asks_us(file.read_bytes())])
def test_every_message_fixture_passes_both_ways_while_list_load_and_delete_are_served(
    file: Path, chunking: Chunking, tmp_path: Path
) -> None:
    data = file.read_bytes()
    with Passage(tmp_path / "store", packets=chunking is not whole) as passage:
        before = initialize(passage)
        check_unchanged(passage.end(chunking(data), chunking(data)), data, data, before)


def test_stray_lines_of_the_agent_go_to_stderr_in_order() -> None:
    data = (MESSAGES / "stray.lines").read_bytes()
    with Passage() as passage:
        passed = passage.end(from_agent=whole(data))
    good = [line for line in lines(data) if b'"_whole"' in line or b"an update among them" in line]
    assert lines(passed.to_client) == good
    assert lines(passed.to_stderr) == [line for line in lines(data) if line not in good]
    assert len(good) == 2


def test_only_certain_message_fixtures_have_stray_lines() -> None:
    strange = {
        file.name for file in LINES_OF_PEERS if not all(is_for_the_client(line) for line in lines(file.read_bytes()))
    }
    assert strange == {"stray.lines", "only-newlines.lines", "torn.lines", "torn-character.lines"}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_last_line_without_a_newline_passes_if_it_is_json_and_goes_to_stderr_otherwise(
    recorded: bool, tmp_path: Path
) -> None:
    for name, is_delivered in {"no-newline.lines": True, "no-newline-update.lines": True, "torn.lines": False}.items():
        data = (MESSAGES / name).read_bytes()
        *complete, last = lines(data)
        with Passage(tmp_path / name if recorded else None) as passage:
            passed = passage.end(from_agent=whole(data))
        assert passed.to_client == b"".join(complete) + (last if is_delivered else b"")
        assert passed.to_stderr == (b"" if is_delivered else last)


def test_every_message_fixture_is_described() -> None:
    described = re.findall(r"`([^`]+\.lines)`", (MESSAGES / "README.md").read_text(encoding="utf-8"))
    assert sorted(described) == sorted(file.name for file in LINES_OF_PEERS)


# --- any bytes

FRAGMENTS = (
    *(b"\n", b"\r\n", b"\r", b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b" ", b"0", b"\xff", b"\xef\xbb\xbf"),
    *(b"null", b'{"id":1}', b'"method"', b'"session/update"', b'{"jsonrpc":"2.0"', b"\xe2\x80\xa8", b"\xc2\x85"),
)


@st.composite
def raw_bytes(draw: st.DrawFn) -> Sent:
    pieces = st.lists(st.binary(max_size=40) | st.sampled_from(FRAGMENTS), max_size=30)
    client, agent = b"".join(draw(pieces)), b"".join(draw(pieces))
    return draw(chunked(client)), draw(chunked(agent))


SESSIONS = st.sampled_from(["s1", "s2", "s\u2028", "\ud800"])
METHODS = (
    *("session/new", "session/prompt", "session/cancel", "session/set_mode", "session/fork", "session/close"),
    *("session/resume", "session/update", "session/request_permission", "terminal/create", "terminal/output"),
    *("terminal/release", "authenticate", "$/cancel_request", "_ext/thing", "unheard/of"),
)
IDS: st.SearchStrategy[object] = st.sampled_from([0, 1, "0", "1", 1.0, True, None, -1, 2**53 - 1, 2**70, "acp-proxy/0"])
KINDS = ("agent_message_chunk", "user_message_chunk", "tool_call", "session_info_update", "usage_update", "unheard_of")
UPDATES = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(KINDS)}, optional={"content": values, "title": values, "_meta": values}
)
PARAMS = st.fixed_dictionaries(
    {}, optional={"sessionId": SESSIONS, "update": UPDATES, "cwd": st.just("/"), "prompt": values, "terminalId": values}
)
RESULTS = values | st.fixed_dictionaries({"sessionId": SESSIONS}, optional={"stopReason": st.just("end_turn")})
TALK = (
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "method": st.sampled_from(METHODS), "params": PARAMS}, optional={"id": IDS}
    )
    | st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": IDS, "result": RESULTS})
    | st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": IDS, "error": values})
)
"""Nearly valid messages with few session ids and request ids, so that they concern one another."""


def as_the_sdks_write(value: object) -> str:
    """Compact JSON, so that updates can take the fast path."""
    return json.dumps(value, separators=(",", ":"))


LINES = spelled(messages | TALK | st.lists(TALK, max_size=3)) | TALK.map(as_the_sdks_write)


@st.composite
def shaped(draw: st.DrawFn, line: st.SearchStrategy[str]) -> Sent:
    def side() -> bytes:
        ending = draw(st.sampled_from(["\n", "\r\n"]))
        text = ending.join(draw(st.lists(line, max_size=8)))
        return (text + draw(st.sampled_from([ending, ""]))).encode()

    client, agent = side(), side()
    return draw(chunked(client)), draw(chunked(agent))


@given(sent=raw_bytes() | shaped(LINES))
@settings(max_examples=40)
def test_any_bytes_pass_without_recording(sent: Sent) -> None:
    with Passage(packets=True) as passage:
        check_unchanged(passage.end(*sent), b"".join(sent[0]), b"".join(sent[1]))


def needs_no_newline(line: str) -> bool:
    """Whether no answer can be to a resume, which gets the newline that it lacks, since more may follow it."""
    return "session/resume" not in line


@given(sent=raw_bytes() | shaped(LINES.filter(needs_no_newline)))
@settings(max_examples=40)
def test_any_bytes_pass_while_recording(sent: Sent, tmp_path_factory: pytest.TempPathFactory) -> None:
    with Passage(tmp_path_factory.mktemp("store"), serves=False, packets=True) as passage:
        check_unchanged(passage.end(*sent), b"".join(sent[0]), b"".join(sent[1]))


def passes(line: str) -> bool:
    """Whether a line passes."""
    return not asks_us(line.encode()) and needs_no_newline(line)


@given(sent=shaped(LINES.filter(passes)))
@settings(max_examples=40)
def test_any_lines_that_we_do_not_serve_pass_while_list_load_and_delete_are_served(
    sent: Sent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Passage(tmp_path_factory.mktemp("store"), packets=True) as passage:
        before = initialize(passage)
        check_unchanged(passage.end(*sent), b"".join(sent[0]), b"".join(sent[1]), before)


# --- lines that are too long to be read: with these limits, short ones too


@given(sent=raw_bytes() | shaped(LINES), limit=st.integers(0, 120))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_pass_beyond_the_limit_of_a_line(
    sent: Sent, limit: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pump, "LINE_LIMIT", limit)
    with Passage(tmp_path_factory.mktemp("store"), serves=False, packets=True) as passage:
        passed = passage.end(*sent)
    assert passed.to_agent == b"".join(sent[0])
    said = lines(b"".join(sent[1]))
    assert sorted([*lines(passed.to_client), *lines(passed.to_stderr)]) == sorted(said)
    assert all(line in said for line in lines(passed.to_client))


# --- lines of any length

PROMPT = (
    b'{"jsonrpc":"2.0","id":2,"method":"session/prompt",'
    b'"params":{"sessionId":"s1","prompt":[{"type":"text","text":"%s"}]}}\n'
)
UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1",'
    b'"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n'
)


@pytest.mark.parametrize("size", [563_000, 64 * 1024 * 1024], ids=["563 KB, as observed", "64 MiB"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_line_of_any_length_passes_each_way_at_once(size: int, recorded: bool, tmp_path: Path) -> None:
    client, agent = PROMPT % (b"p" * size), UPDATE % ("é" * (size // 2)).encode()
    with Passage(tmp_path / "store" if recorded else None) as passage:
        passed = passage.end(whole(client), whole(agent))
    assert [passed.to_agent == client, passed.to_client == agent] == [True, True]  # too long to be shown in a failure
    assert passed.to_stderr == b""


def test_a_long_line_may_arrive_in_pieces_of_any_size() -> None:
    line = b'{"jsonrpc":"2.0","method":"_long","params":["' + b"\xc3\xa9" * 281_500 + b'"]}\n'
    with Passage(packets=True) as passage:
        check_unchanged(passage.end(in_random_pieces(line), in_random_pieces(line)), line, line)


# --- answers find their requests


def test_one_id_open_in_both_directions_belongs_to_two_requests(tmp_path: Path) -> None:
    prompt = b'{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}\n'
    permission = (
        b'{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","options":[]}}\n'
    )
    allowed = b'{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}\n'
    done = b'{"jsonrpc":"2.0","id":0,"result":{"stopReason":"end_turn"}}\n'
    talk = [(Peer.CLIENT, prompt), (Peer.AGENT, permission), (Peer.AGENT, done), (Peer.CLIENT, allowed)]
    with Passage(tmp_path / "store") as passage:
        for peer, line in talk:
            passage.say(peer, line)
            assert passage.hear(peer.other) == line
        passed = passage.end()
    assert passed.kept == {"s1": [line[:-1] for _, line in talk]}
