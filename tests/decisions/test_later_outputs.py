"""The output of a client's terminal that becomes known after the turn that shows it: recorded, then replayed."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, get_args

import pytest

from acp_proxy.decisions.effects import RecordMessage, RecordNote, RecordUnparsedUpdates, TranscriptEffect
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from acp_proxy.transcript_replay.terminal_output import PLACEHOLDER
from acp_proxy.transcript_replay.v2_client_replayer import V2ClientReplayer
from acp_proxy.transcript_replay.v2_fold import V2Fold
from acp_proxy.transcript_replay.v2_replayer import V2Replayer
from tests.conversation import prompt, request, result, update
from tests.decisions.terminal_conversation import TerminalConversation

RUN = "k3f9a1"
EXITED = {"exitCode": 0, "signal": None}
MODES: tuple[Mode, ...] = get_args(Mode)
Replay = Callable[[], Replayer | V2ClientReplayer]


def first(mode: Mode) -> Replayer:
    return Replayer("s", run_id="a later one", mode=mode)


def second(mode: Mode) -> V2ClientReplayer:
    folding = V2Fold("s", 0) if mode == "compact" else None
    return V2ClientReplayer("s", first(mode), V2Replayer("s"), folding)


REPLAYS = pytest.mark.parametrize(
    "replay", [pytest.param(partial(of, mode), id=f"{of.__name__} {mode}") for of in (first, second) for mode in MODES]
)
"""Every form of a replay, for clients of both versions."""


def recorded_entries(kept: Iterable[TranscriptEffect]) -> list[Entry]:
    """The entries of the transcript that these effects write."""
    lines: list[bytes] = []
    for effect in kept:
        match effect:
            case RecordMessage(_, peer, raw, of):
                lines.append(file_format.encode_message("", RUN, peer, raw, of))
            case RecordUnparsedUpdates(_, data):
                lines += [file_format.encode_message("", RUN, Peer.AGENT, raw) for raw in data.splitlines()]
            case RecordNote(_, note):
                lines.append(file_format.encode_note("", RUN, note))
    return [entry for line in lines if (entry := file_format.decode_entry(line)) is not None]


def shown_outputs(talk: TerminalConversation, replay: Replay) -> list[list[str]]:
    """The texts that a replay shows for the terminal, by turn."""
    told = replay()
    items = [
        item for number, entry in enumerate(recorded_entries(talk.all.kept), 1) for item in told.add(number, entry)
    ]
    turns: list[list[str]] = []
    for line in b"".join([*items, *told.end()]).splitlines():
        update = json.loads(line)["params"]["update"]
        if update["sessionUpdate"].startswith("user_message"):
            turns.append([])
        elif (content := update.get("content")) and "toolCallId" in update:
            assert content[-1]["type"] == "content"  # the terminal does not exist any more
            turns[-1].append(content[-1]["content"]["text"])
    return turns


def ask(talk: TerminalConversation, verb: str, answer: object) -> None:
    talk.ask(verb, {}, answer)


def in_a_later_turn(*before: tuple[str, Any]) -> TerminalConversation:
    """A call has shown the terminal, of which that much became known in the turn; another turn is under way."""
    talk = TerminalConversation()
    talk.show()
    for verb, answer in before:
        ask(talk, verb, answer)
    talk.end_turn()
    talk.client.say(prompt("turn", "s", "and now?"))
    return talk


def output(text: str, status: object = None) -> tuple[str, Any]:
    return "output", {"output": text, "truncated": False, "exitStatus": status}


WAITED: tuple[str, Any] = ("wait_for_exit", EXITED)
RELEASED: tuple[str, Any] = ("release", {})
NOTHING = PLACEHOLDER
DONE = "```\nall of it\n```\n[exited with code 0]"


@REPLAYS
@pytest.mark.parametrize(
    ("before", "then", "first_shown", "shown_later"),
    [
        ([], [output("all of it", EXITED)], NOTHING, [DONE]),
        ([], [output("all of it", EXITED), RELEASED], NOTHING, [DONE]),
        ([], [output("all of it"), WAITED, RELEASED], NOTHING, [DONE]),
        ([], [WAITED, output("all of it"), RELEASED], NOTHING, [DONE]),
        ([], [WAITED, RELEASED], NOTHING, [f"{PLACEHOLDER}\n[exited with code 0]"]),
        ([WAITED], [output("all of it", EXITED)], f"{PLACEHOLDER}\n[exited with code 0]", [DONE]),
        ([WAITED], [output("all of it"), RELEASED], f"{PLACEHOLDER}\n[exited with code 0]", [DONE]),
        ([output("all")], [output("all of it", EXITED)], "```\nall\n```", [DONE]),
        ([output("all")], [output("all of it", EXITED), RELEASED], "```\nall\n```", [DONE]),
        ([output("all"), WAITED], [output("all of it", EXITED)], "```\nall\n```\n[exited with code 0]", [DONE]),
        ([output("all of it")], [WAITED, RELEASED], "```\nall of it\n```", [DONE]),
        ([output("all of it", EXITED)], [output("all of it", EXITED), RELEASED], DONE, []),
        ([output("all of it", EXITED), RELEASED], [], DONE, []),
        ([], [RELEASED], NOTHING, []),
        ([output("all")], [output("all"), RELEASED], "```\nall\n```", []),
    ],
)
def test_what_becomes_known_of_a_terminal_in_a_later_turn_is_replayed_there(
    before: list[tuple[str, Any]],
    then: list[tuple[str, Any]],
    first_shown: str,
    shown_later: list[str],
    replay: Replay,
) -> None:
    talk = in_a_later_turn(*before)
    for verb, answer in then:
        ask(talk, verb, answer)
    talk.end_turn()
    assert shown_outputs(talk, replay) == [[first_shown], shown_later]


@REPLAYS
def test_what_becomes_known_turn_by_turn_is_replayed_turn_by_turn(replay: Replay) -> None:
    talk = in_a_later_turn()
    for text in ("all", "all of"):
        ask(talk, *output(text))
        talk.end_turn()
        talk.client.say(prompt("turn", "s", "and now?"))
    ask(talk, *output("all of it", EXITED))
    talk.end_turn()
    assert shown_outputs(talk, replay) == [[NOTHING], ["```\nall\n```"], ["```\nall of\n```"], [DONE]]


@REPLAYS
@pytest.mark.parametrize("ending", ["close", "end"])
def test_what_becomes_known_between_turns_is_recorded_when_the_session_or_the_agent_ends(
    ending: str, replay: Replay
) -> None:
    talk = TerminalConversation()
    talk.show()
    talk.end_turn()
    ask(talk, *output("all of it", EXITED))
    if ending == "close":
        talk.client.say(request("c", "session/close", {"sessionId": "s"}))
        talk.agent.say(result("c", {}))
    else:
        talk.end_agent()
    assert shown_outputs(talk, replay) == [[DONE]]


@REPLAYS
@pytest.mark.parametrize("is_released", [True, False])
def test_a_terminal_whose_id_the_client_uses_again_is_another_one(is_released: bool, replay: Replay) -> None:
    talk = in_a_later_turn(output("one", EXITED), *([RELEASED] if is_released else []))
    talk.ask("create", {}, {"terminalId": "t1"})
    shows = [{"type": "terminal", "terminalId": "t1"}]
    talk.agent.say(update("s", "tool_call", toolCallId="another", title="Another", content=shows))
    talk.end_turn()
    talk.client.say(prompt("turn", "s", "and now?"))
    ask(talk, *output("two", EXITED))
    talk.end_turn()
    ended = "[exited with code 0]"
    assert shown_outputs(talk, replay) == [[f"```\none\n```\n{ended}"], [PLACEHOLDER], [f"```\ntwo\n```\n{ended}"]]
