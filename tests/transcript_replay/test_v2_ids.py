"""After a handover, the ids from before it are other ones, so that the agent may use them again."""

import json
from typing import Any

from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, NoteType
from acp_proxy.transcript_replay.replayer import Replayer
from acp_proxy.transcript_replay.v2_client_replayer import V2ClientReplayer, prefix_ids
from acp_proxy.transcript_replay.v2_replayer import V2Replayer
from tests.conversation import line, update
from tests.transcript.test_v2_entries import AT, RUN, accept_prompt, chunk_entry, entry, prompt_entry, state, text


def prefixed_update(sort: str, **more: Any) -> dict[str, Any]:
    [said] = prefix_ids([line(update("s", sort, **more))], "old-")
    found: dict[str, Any] = json.loads(said)["params"]["update"]
    return found


def test_every_id_in_an_update_is_changed() -> None:
    assert prefixed_update("agent_message", messageId="m", content=[text("messageId")]) == {
        "sessionUpdate": "agent_message",
        "messageId": "old-m",
        "content": [text("messageId")],
    }
    shown = [{"type": "terminal", "terminalId": "x"}, {"type": "content", "content": text("a")}]
    call = prefixed_update("tool_call_update", toolCallId="c", content=shown, rawInput={"messageId": "m"})
    assert (call["toolCallId"], call["content"][0]["terminalId"]) == ("old-c", "old-x")
    assert call["rawInput"] == {"messageId": "m"}
    piece = prefixed_update("tool_call_content_chunk", toolCallId="c", content=shown[0])
    assert (piece["toolCallId"], piece["content"]["terminalId"]) == ("old-c", "old-x")
    assert prefixed_update("terminal_output_chunk", terminalId="x", data="")["terminalId"] == "old-x"
    assert prefixed_update("plan_update", plan={"planId": "p"})["plan"] == {"planId": "old-p"}
    assert prefixed_update("plan_removed", planId="p")["planId"] == "old-p"
    assert prefixed_update("compaction_update", compactionId="k")["compactionId"] == "old-k"


def test_every_id_in_the_subject_of_a_permission_request_is_changed() -> None:
    raw = b'{"id":0,"params":{"toolCallId":"x","subject":%b,"options":[{"optionId":"c"}]}}\n'
    call = raw % b'{"type":"tool_call", "toolCall":{"toolCallId":"c","content":[{"terminalId":"t"}]}}'
    command = raw % b'{"type":"command","toolCallId":"c","terminalId":null}'
    assert prefix_ids([call, command, raw % b"null"], "old-") == [
        call.replace(b'Id":"c"', b'Id":"old-c"', 1).replace(b'"t"', b'"old-t"'),
        command.replace(b'Id":"c"', b'Id":"old-c"', 1),
        raw % b"null",
    ]


def test_other_bytes_stay_and_what_makes_no_sense_too() -> None:
    spaced = b'{"params": {"update" :{"messageId" : 7, "content": null, "x":1.0}}}\n'
    assert prefix_ids([spaced + b"odd\n", b'{"params":[]}\n'], "old-") == [spaced + b"odd\n", b'{"params":[]}\n']


def anew() -> Entry:
    return Entry(AT, RUN, None, note={"type": NoteType.OPENED, file_format.ANEW: True})


def test_ids_from_before_the_last_handover_are_changed() -> None:
    turn = [prompt_entry(), state("running"), accept_prompt(), chunk_entry("a"), state("idle")]
    opened = Entry(AT, RUN, None, note={"type": NoteType.OPENED})
    old = entry(update("s", "agent_message_chunk", content=text("one")), version=1)
    entries = [old, *turn, opened, *turn, anew(), *turn, anew(), *turn]

    def ids(wanted: int) -> list[str]:
        either = V2ClientReplayer("s", Replayer("s", run_id="own"), V2Replayer("s"))
        either.new_session_count = wanted
        lines = [told for number, each in enumerate(entries) for told in either.add(number, each)] + either.end()
        said = [json.loads(each)["params"]["update"]["messageId"] for each in b"".join(lines).splitlines()]
        return [id for id in said if not id.endswith("u1")]

    first = [f"acp-proxy-0-{id}" for id in ("acp-proxy-1", "a", "a")]
    assert ids(2) == [*first, "acp-proxy-1-a", "a"], "as the agent's third session continues"
    assert ids(3) == [*first, "acp-proxy-1-a", "acp-proxy-2-a"], "as a fourth one begins"
    assert ids(0) == ["acp-proxy-1", "a", "a", "a", "a"]
