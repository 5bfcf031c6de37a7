"""Long lines pass in pieces if their beginning is all that has to be known."""

from typing import Any

import pytest

from acp_proxy.core.effects import BeginTurn, Effect, Forward, RecordPiece
from acp_proxy.core.events import AgentEnded, PieceRead
from acp_proxy.wire.jsonrpc import Peer
from tests.conversation import (
    RESUMES,
    Stored,
    Talk,
    chunk,
    line,
    load,
    prompt,
    request,
    result,
    stopped,
    titled,
    update,
)

TEXT = {"type": "text", "text": "Mend it"}
COMMAND = {"type": "text", "text": "/command"}
LINK = {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"}
IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo"}
UPDATE = line(chunk("s", "a long one"))
PROMPT = line(prompt("id", "s", "a long one"))


def talking(*, records: bool = True) -> Talk:
    return Talk(records=records).begins(RESUMES).opens("s")


def opened(talk: Talk, peer: Peer, said: bytes) -> list[Effect]:
    effects = talk.core.opens_long_line(peer, said[:-5])
    assert effects is not None
    return effects


def test_a_long_update_passes_and_is_recorded_in_pieces() -> None:
    talk = talking()
    begins = opened(talk, Peer.AGENT, UPDATE)
    assert begins == [
        RecordPiece("s", Peer.AGENT, UPDATE[:-5], first=True, last=False),
        Forward(Peer.CLIENT, UPDATE[:-5], first=True, ends=False),
    ]
    assert talk.core.handle(PieceRead(Peer.AGENT, UPDATE[-5:], last=True)) == [
        RecordPiece("s", Peer.AGENT, UPDATE[-5:], first=False, last=True),
        Forward(Peer.CLIENT, UPDATE[-5:], first=True, begins=False),
    ]
    assert talk.agent(chunk("s", "another")).to_client == line(chunk("s", "another"))


def test_a_long_prompt_begins_a_turn_and_is_recorded_before_it_is_forwarded() -> None:
    talk = talking()
    assert opened(talk, Peer.CLIENT, PROMPT) == [
        BeginTurn("s"),
        RecordPiece("s", Peer.CLIENT, PROMPT[:-5], first=True, last=False),
        Forward(Peer.AGENT, PROMPT[:-5], ends=False),
    ]
    talk.core.handle(PieceRead(Peer.CLIENT, PROMPT[-5:], last=True))
    assert "EndTurn" in [type(kept).__name__ for kept in talk.agent(stopped("id")).kept]


@pytest.mark.parametrize(
    ("blocks", "title"),
    [
        ([TEXT, IMAGE], "Mend it"),
        ([COMMAND, TEXT, IMAGE], "Mend it"),
        ([LINK, TEXT, IMAGE], "Mend it"),
        ([COMMAND, IMAGE], None),  # a later block may be better
        ([LINK, IMAGE], None),
        ([IMAGE, {"type": "text", "text": "too late"}], None),
        ([{"type": "text", "text": "Mend it" * 9}], None),
        ([{"type": "text", "text": "\ud800"}, TEXT, IMAGE], "Mend it"),
    ],
)
def test_the_title_comes_from_blocks_that_are_whole_in_the_beginning_of_a_long_prompt(
    blocks: list[Any], title: str | None
) -> None:
    talk = talking()
    said = line(request("id", "session/prompt", {"sessionId": "s", "prompt": blocks}))
    assert opened(talk, Peer.CLIENT, said)
    talk.core.handle(PieceRead(Peer.CLIENT, said[-5:], last=True))
    announced = line(titled("s", title)) if title is not None else b""
    assert talk.agent(stopped("id")).to_client == announced + line(stopped("id"))


def test_a_long_prompt_with_blocks_elsewhere_makes_no_title() -> None:
    talk = talking()
    said = line(request("id", "session/prompt", {"sessionId": "s", "_meta": {}, "prompt": [TEXT, IMAGE]}))
    opened(talk, Peer.CLIENT, said)
    talk.core.handle(PieceRead(Peer.CLIENT, said[-5:], last=True))
    assert talk.agent(stopped("id")).to_client == line(stopped("id"))


@pytest.mark.parametrize(
    "said",
    [
        line(prompt(7, "s")),
        b'{"jsonrpc":"2.0","method":"session/prompt","id":"id","params":{"sessionId":"s","prompt":[]}}\n',
        b'{"jsonrpc":"2.0","id":"\xc3\xa4","method":"session/prompt","params":{"sessionId":"\xc3\xa4","prompt":[]}}\n',
    ],
)
def test_prompts_as_official_sdks_write_them_are_recognised(said: bytes) -> None:
    assert talking().core.opens_long_line(Peer.CLIENT, said) is not None


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        (Peer.AGENT, line(update("s", "session_info_update", title="long"))),
        (Peer.AGENT, line(chunk("of nobody", "long"))),
        (Peer.AGENT, line(stopped(1))),
        (Peer.AGENT, PROMPT),
        (Peer.AGENT, b"a stray line, and a long one"),
        (Peer.CLIENT, UPDATE),
        (Peer.CLIENT, line(load(7, "s"))),
        (Peer.CLIENT, PROMPT.replace(b'"id":"id"', b'"id":1.0')),
        (Peer.CLIENT, PROMPT.replace(b'"id":"id"', b'"id":null')),
        (Peer.CLIENT, PROMPT.replace(b'"sessionId":"s"', b'"sessionId":"\\u0073"')),
        (Peer.CLIENT, PROMPT.replace(b'"sessionId":"s"', b'"sessionId":"\xff"')),
        (Peer.CLIENT, PROMPT.replace(b'"sessionId":"s",', b"")),
        (Peer.CLIENT, b" " + PROMPT),
    ],
)
def test_other_long_lines_are_read_whole(peer: Peer, said: bytes) -> None:
    assert talking().core.opens_long_line(peer, said) is None


def test_a_long_update_that_must_be_held_is_read_whole() -> None:
    talk = talking()
    talk.stored["s"] = Stored()
    talk.client(load(7, "s"))
    assert talk.core.opens_long_line(Peer.AGENT, UPDATE) is None


def test_long_lines_pass_in_pieces_while_recording_is_off() -> None:
    talk = talking(records=False)
    assert opened(talk, Peer.AGENT, UPDATE) == [Forward(Peer.CLIENT, UPDATE[:-5], first=True, ends=False)]
    assert opened(talk, Peer.CLIENT, PROMPT) == [Forward(Peer.AGENT, PROMPT[:-5], ends=False)]


def test_the_end_of_the_agent_ends_a_long_line() -> None:
    talk = talking()
    opened(talk, Peer.AGENT, UPDATE)
    ended = talk.core.handle(AgentEnded("agent exited with status 1"))
    assert ended[:2] == [
        RecordPiece("s", Peer.AGENT, b"", first=False, last=True),
        Forward(Peer.CLIENT, b"", first=True, begins=False),
    ]
    assert talk.core.handle(PieceRead(Peer.AGENT, b"late\n", last=True)) == []


def test_a_long_line_without_a_meaning_here_passes_in_pieces_and_is_not_recorded() -> None:
    talk = talking()
    answer = line(result(5, {"content": "a long file"}))
    write = line(request("w", "fs/write_text_file", {"sessionId": "s", "path": "/w/a", "content": "a long file"}))
    for peer, said in ((Peer.CLIENT, answer), (Peer.AGENT, write)):
        assert opened(talk, peer, said) == [Forward(peer.other, said[:-5], first=peer is Peer.AGENT, ends=False)]
        assert talk.core.handle(PieceRead(peer, said[-5:], last=True)) == [
            Forward(peer.other, said[-5:], first=peer is Peer.AGENT, begins=False)
        ]


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        (Peer.CLIENT, result(7, {"output": "of a terminal"})),
        (Peer.CLIENT, request(9, "_editor/question", {"a": "long one"})),
        (Peer.CLIENT, b'{"id":5,"jsonrpc":"2.0","result":"otherwise written"}\n'),
        (Peer.CLIENT, b'{"jsonrpc":"2.0","id":"\\u0035","result":"otherwise written"}\n'),
        (Peer.AGENT, result(1, {"a": "long one"})),
        (Peer.AGENT, request(9, "session/request_permission", {"sessionId": "s"})),
    ],
)
def test_a_long_line_that_may_mean_something_here_is_held(peer: Peer, said: Any) -> None:
    talk = talking()
    talk.agent(request(7, "terminal/output", {"sessionId": "s", "terminalId": "t"}))
    assert talk.core.opens_long_line(peer, line(said)[:-5]) is None


def test_a_long_request_of_the_agent_is_held_while_a_load_is_under_way() -> None:
    talk = talking()
    talk.client(load(7, "s"))
    assert talk.core.opens_long_line(Peer.AGENT, line(request(9, "fs/write_text_file", {"sessionId": "s"}))) is None
