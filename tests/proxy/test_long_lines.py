"""Long lines pass in pieces if their beginning is all that has to be known."""

from typing import Any

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.proxy.effects import BeginTurn, Effect, Forward, RecordNote, RecordPiece
from acp_proxy.proxy.events import AgentEnded, PieceRead
from tests.conversation import (
    RESUMES,
    Stored,
    Talk,
    chunk,
    error,
    line,
    load,
    notification,
    permission,
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
    assert talking().opens("ä").core.opens_long_line(Peer.CLIENT, said) is not None


def test_a_long_prompt_to_a_session_that_was_not_opened_here_is_held_since_the_agent_may_know_another_id() -> None:
    assert talking().core.opens_long_line(Peer.CLIENT, line(prompt(7, "another"))) is None


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
    opens = line(notification("document/didOpen", {"sessionId": "s", "text": "a long file"}))
    told = line(notification("_agent/news", {"sessionId": "s", "text": "a long file"}))
    for peer, said in ((Peer.CLIENT, answer), (Peer.CLIENT, opens), (Peer.AGENT, write), (Peer.AGENT, told)):
        assert opened(talk, peer, said) == [Forward(peer.other, said[:-5], first=peer is Peer.AGENT, ends=False)]
        assert talk.core.handle(PieceRead(peer, said[-5:], last=True)) == [
            Forward(peer.other, said[-5:], first=peer is Peer.AGENT, begins=False)
        ]


@pytest.mark.parametrize(
    "said",
    [
        line(request("id", "_editor/question", {"a": "long one"})),
        b'{"jsonrpc":"2.0","method":"_editor/question","id":"id","params":{"a":"long one"}}\n',
    ],
)
def test_a_long_request_that_passes_in_pieces_is_refused_if_the_agent_ends(said: bytes) -> None:
    talk = talking()
    assert opened(talk, Peer.CLIENT, said) == [Forward(Peer.AGENT, said[:-5], ends=False)]
    assert talk.core.handle(PieceRead(Peer.CLIENT, said[-5:], last=True)) == [
        Forward(Peer.AGENT, said[-5:], begins=False)
    ]
    assert talk.agent_ends().refusals == [("id", -32603)]


class TerminalTalk(Talk):
    """A turn in which a tool call shows a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.begins().opens("s")
        self.client(prompt("turn", "s"))
        self.agent(request(1, "terminal/create", {"sessionId": "s"}))
        self.client(result(1, {"terminalId": "t"}))
        self.agent(update("s", "tool_call", toolCallId="c", content=[{"type": "terminal", "terminalId": "t"}]))

    def asks(self) -> None:
        self.agent(request(7, "terminal/output", {"sessionId": "s", "terminalId": "t"}))

    def answers(self, said: dict[str, Any]) -> None:
        """A long answer, in three pieces."""
        self.asks()
        whole = line(said)
        passed = opened(self, Peer.CLIENT, whole[:-5])
        for piece, last in ((whole[-10:-5], False), (whole[-5:], True)):
            passed += self.core.handle(PieceRead(Peer.CLIENT, piece, last=last))
        assert b"".join(each.data for each in passed if isinstance(each, Forward)) == whole
        assert all(isinstance(each, Forward) for each in passed)

    def noted(self) -> list[tuple[object, object]]:
        """The output and the exit status in each note at the end of the turn."""
        kept = self.agent(stopped("turn")).kept
        return [(effect.note["output"], effect.note["exitStatus"]) for effect in kept if isinstance(effect, RecordNote)]


def test_a_terminals_long_output_passes_in_pieces_and_is_noted_at_the_end_of_the_turn() -> None:
    talk = TerminalTalk()
    talk.answers(result(7, {"output": "outdated"}))
    talk.answers(result(7, {"output": "a long ☃", "truncated": True, "exitStatus": {"exitCode": 3}}))
    talk.asks()
    talk.client(error(7, -32603))
    assert talk.noted() == [("a long ☃", {"exitCode": 3})]


def test_a_terminals_last_output_counts_if_it_is_short_after_a_long_one() -> None:
    talk = TerminalTalk()
    talk.answers(result(7, {"output": "a long one"}))
    talk.asks()
    talk.client(result(7, {"output": "short"}))
    assert talk.noted() == [("short", None)]


def test_a_terminals_long_output_is_noted_when_it_is_released() -> None:
    talk = TerminalTalk()
    talk.answers(result(7, {"output": "a long one"}))
    [note] = talk.agent(request(8, "terminal/release", {"sessionId": "s", "terminalId": "t"})).kept
    assert isinstance(note, RecordNote)
    assert note.note["output"] == "a long one"
    assert talk.noted() == []


@pytest.mark.parametrize("said", [result(7, {"a": "long one"}), result(7, "\ud800"), error(7, -32603, "a long one")])
def test_a_long_answer_without_output_is_no_news_of_a_terminal(said: dict[str, Any]) -> None:
    talk = TerminalTalk()
    talk.answers(said)
    assert talk.noted() == [(None, None)]
    talk.client(prompt("turn", "s"))
    talk.answers(said)
    assert talk.noted() == []


def test_long_outputs_beyond_the_limit_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for the text, not for the escapes in its line."""
    monkeypatch.setattr("acp_proxy.proxy.terminals.SHOWN_LIMIT", 2000)
    talk = TerminalTalk()
    talk.answers(result(7, {"output": "\x1b" * 1488}))
    assert talk.noted() == [("\x1b" * 1488, None)]
    talk.client(prompt("turn", "s"))
    talk.answers(result(7, {"output": "\x1b" * 1489}))
    assert talk.noted() == [(None, None)]


def test_a_long_output_beyond_the_limit_takes_no_room_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.proxy.terminals.SHOWN_LIMIT", 2000)
    talk = TerminalTalk()
    talk.answers(result(7, {"output": "x" * 4000}))
    talk.agent(request(2, "terminal/create", {"sessionId": "s"}))
    talk.client(result(2, {"terminalId": "other"}))
    talk.agent(update("s", "tool_call", toolCallId="d", content=[{"type": "terminal", "terminalId": "other"}]))
    talk.agent(request(8, "terminal/output", {"sessionId": "s", "terminalId": "other"}))
    talk.client(result(8, {"output": "kept"}))
    assert talk.noted() == [(None, None), ("kept", None)]


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        (Peer.CLIENT, result(6, {"outcome": "of a permission request"})),
        (Peer.CLIENT, request(9, "session/set_mode", {"sessionId": "s"})),
        (Peer.CLIENT, request(9, "terminal/release", {"sessionId": "s"})),
        (Peer.CLIENT, request(9, "initialize", {"a": "long one"})),
        (Peer.CLIENT, notification("$/cancel_request", {"requestId": "a long one"})),
        (Peer.CLIENT, b'{"id":5,"jsonrpc":"2.0","result":"otherwise written"}\n'),
        (Peer.CLIENT, b'{"jsonrpc":"2.0","id":"\\u0035","result":"otherwise written"}\n'),
        (Peer.AGENT, result(1, {"a": "long one"})),
        (Peer.AGENT, request(9, "session/request_permission", {"sessionId": "s"})),
        (Peer.AGENT, notification("session/cancel", {"sessionId": "s"})),
    ],
)
def test_a_long_line_that_may_mean_something_here_is_held(peer: Peer, said: Any) -> None:
    talk = talking()
    talk.agent(permission(6, "s"))
    assert talk.core.opens_long_line(peer, line(said)[:-5]) is None


def test_a_long_request_of_the_agent_is_held_while_a_load_is_under_way() -> None:
    talk = talking()
    talk.client(load(7, "s"))
    assert talk.core.opens_long_line(Peer.AGENT, line(request(9, "fs/write_text_file", {"sessionId": "s"}))) is None
