"""A line that is too long to be held passes unread, and its session's transcript says that something is missing."""

import pytest

from acp_proxy.decisions.effects import RecordGap, Warn
from acp_proxy.decisions.events import LineTooLong
from acp_proxy.protocol.jsonrpc import Peer
from tests.conversation import RESUMES, CoreConversation, chunk, line, notification, prompt

UPDATE, PROMPT = line(chunk("s", "a long one")), line(prompt("id", "s", "a long one"))


@pytest.mark.parametrize(("peer", "beginning"), [(Peer.AGENT, UPDATE), (Peer.CLIENT, PROMPT)])
def test_a_line_that_is_too_long_is_a_gap_of_its_session_and_a_warning(peer: Peer, beginning: bytes) -> None:
    talk = CoreConversation().initialize(RESUMES).open("s")
    gap, warning = sorted(talk.core.handle(LineTooLong(peer, beginning)), key=lambda effect: isinstance(effect, Warn))
    assert gap == RecordGap("s", "EMSGSIZE")
    assert isinstance(warning, Warn)


@pytest.mark.parametrize(("records", "beginning"), [(False, UPDATE), (True, line(notification("_long")))])
def test_where_nothing_would_be_recorded_nothing_is_missing(records: bool, beginning: bytes) -> None:
    talk = CoreConversation(records=records).initialize(RESUMES).open("s")
    [warning] = talk.core.handle(LineTooLong(Peer.AGENT, beginning))
    assert isinstance(warning, Warn)
