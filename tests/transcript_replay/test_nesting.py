"""Values nested extremely deeply: a replay skips them or sends them whole. Other entries: fuzz/targets/replay.py."""

from typing import get_args

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from tests.transcript_replay.entries import AT


def test_extremely_deep_values_are_skipped_or_replayed_whole() -> None:
    for depth in (200, 400, *range(880, 1030)):
        deep = '{"a":' * depth + "1" + "}" * depth
        item = f'{{"type":"terminal","terminalId":"1","x":{deep}}}'
        for field in (f'"rawInput":{deep}', f'"content":[{item}]'):
            raw = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":{"sessionUpdate":'
            raw += '"tool_call","toolCallId":"t","title":"T",%s}}}'
            for session in ("s", "parent"):
                encoded = (raw % (session, field)).encode()
                entry = file_format.decode_entry(file_format.encode_message(AT, "r", Peer.AGENT, encoded))
                for mode in get_args(Mode):
                    replayer = Replayer("s", run_id="r", mode=mode, tool_limit=100, other_ids=frozenset({"parent"}))
                    if entry is not None:
                        replayer.add(1, entry)
                    replayer.end()
