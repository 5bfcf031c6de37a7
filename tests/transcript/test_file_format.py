"""An entry gives back the exact bytes of its message; a damaged line is read or is None."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, Header, NoteType
from acp_proxy.transcript.salvage import Intact
from tests.strategies import messages, spelled, texts, values

AT, RUN = "2026-11-20T09:15:02.123Z", "k3f9a1"
PROMPT = b'{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}'

lines = st.binary().map(lambda data: data.replace(b"\n", b""))
peers = st.sampled_from(Peer)


def encode(raw: bytes, of: str | None = None, peer: Peer = Peer.AGENT) -> bytes:
    return file_format.encode_message(AT, RUN, peer, raw, of, is_plain=jsonrpc.is_embeddable(raw))


def decode(line: bytes) -> Entry:
    entry = file_format.decode_entry(line)
    assert entry is not None
    return entry


def test_an_entry_is_written_as_the_format_says() -> None:
    assert file_format.encode_message(AT, RUN, Peer.CLIENT, PROMPT) == (
        b'{"at":"2026-11-20T09:15:02.123Z","run":"k3f9a1","from":"client","message":' + PROMPT + b"}\n"
    )
    assert file_format.encode_message(AT, RUN, Peer.AGENT, b'{"id":2,"result":{}}', "session/prompt") == (
        b'{"at":"2026-11-20T09:15:02.123Z","run":"k3f9a1","from":"agent","of":"session/prompt",'
        b'"message":{"id":2,"result":{}}}\n'
    )
    assert file_format.encode_message(AT, RUN, Peer.AGENT, b'{"a":"\xff"}', is_plain=False) == (
        b'{"at":"2026-11-20T09:15:02.123Z","run":"k3f9a1","from":"agent","line":"{\\"a\\":\\"\\udcff\\"}"}\n'
    )
    assert file_format.encode_note(AT, RUN, {"type": "gap"}) == (
        b'{"at":"2026-11-20T09:15:02.123Z","run":"k3f9a1","from":"proxy","note":{"type":"gap"}}\n'
    )


def test_an_entry_of_another_protocol_version_names_it() -> None:
    line = file_format.encode_message(
        AT, RUN, Peer.AGENT, b'{"id":2,"result":{}}', "session/prompt", protocol_version=2
    )
    assert line == (
        b'{"at":"2026-11-20T09:15:02.123Z","run":"k3f9a1","from":"agent","of":"session/prompt","v":2,'
        b'"message":{"id":2,"result":{}}}\n'
    )
    assert decode(line) == Entry(
        AT, RUN, Peer.AGENT, "session/prompt", b'{"id":2,"result":{}}', {"id": 2, "result": {}}, protocol_version=2
    )
    assert b"".join(file_format.encode_update_parts(AT, RUN, b"{}\n", 2)) == file_format.encode_message(
        AT, RUN, Peer.AGENT, b"{}", protocol_version=2
    )


@pytest.mark.parametrize("raw", [b'{"a":1}', b"no json", b"[" * 1024 + b"]" * 1024])
def test_the_protocol_version_of_odd_lines_is_read(raw: bytes) -> None:
    line = file_format.encode_message(
        AT, RUN, Peer.CLIENT, raw, is_plain=jsonrpc.is_embeddable(raw), protocol_version=2
    )
    assert (decode(line).raw, decode(line).protocol_version) == (raw, 2)
    assert decode(encode(raw)).protocol_version == 1


def test_an_entry_has_its_time_run_peer_and_content() -> None:
    assert decode(encode(PROMPT, peer=Peer.CLIENT)) == Entry(
        AT, RUN, Peer.CLIENT, None, raw=PROMPT, value=json.loads(PROMPT)
    )
    answer = decode(encode(b'{"id":2,"result":{}}', "session/prompt"))
    assert (answer.peer, answer.answered_method) == (Peer.AGENT, "session/prompt")
    note = decode(file_format.encode_note(AT, RUN, {"type": "closed"}))
    assert note == Entry(AT, RUN, None, note={"type": "closed"})


NOTE = file_format.encode_note(AT, RUN, {"type": NoteType.ALIAS, "to": "other"})


def test_notes_are_found_at_the_beginnings_of_lines() -> None:
    other = file_format.encode_note(AT, RUN, {"type": NoteType.GAP})
    lines = encode(UPDATE) + NOTE + other + NOTE
    found = [(at, note["to"]) for at, note in file_format.find_notes(lines, {NoteType.ALIAS})]
    assert found == [(len(lines) - len(NOTE + other + NOTE), "other"), (len(lines) - len(NOTE), "other")]
    assert [note["type"] for _, note in file_format.find_notes(lines, {NoteType.GAP})] == [NoteType.GAP]


def test_a_note_whose_type_is_no_text_is_none_of_these() -> None:
    line = file_format.encode_note(AT, RUN, {"type": NoteType.ALIAS}).replace(b'"alias"', b'"alias","type":["alias"]')
    assert list(file_format.find_notes(line, {NoteType.ALIAS})) == []


def test_a_note_after_a_torn_entry_is_found() -> None:
    for torn in (encode(UPDATE)[:-9], other_note()[:-9], b"\0" * 512):
        found = list(file_format.find_notes(encode(UPDATE) + torn + NOTE, {NoteType.ALIAS}))
        assert [at for at, _ in found] == [len(encode(UPDATE) + torn)]


def other_note() -> bytes:
    return file_format.encode_note(AT, RUN, {"type": NoteType.TERMINAL, "output": "x" * 20})


@pytest.mark.parametrize("spaces", [b"", b" ", b"\t "])
@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4])
def test_a_note_within_a_message_is_none_of_ours(spaces: bytes, cut: int) -> None:
    """Neither in a whole line nor in one that was cut off after it."""
    forged = NOTE[:-1].replace(RUN.encode(), b"forged")
    for raw in (
        b'{"method":"session/update","params":{"_meta":%b%b}}',
        b'{"method":"session/update","params":{"rawInput":[1,%b%b]}}',
        b'{"method":"session/update","params":{"rawOutput":[%b%b]}}',
        b'{"from":"proxy",%b%b}' % (spaces, NOTE[NOTE.index(b'"note"') : -2]) + b"%b%b",
    ):
        line = encode(raw % (spaces, forged))
        for whole in (line, line[: len(line) - 1 - cut] + b"\n"):
            assert list(file_format.find_notes(whole, {NoteType.ALIAS})) == []


@pytest.mark.parametrize(
    "raw",
    [
        b'{"b":1.0, "a" : 1e2,"a":2}',
        b'{"n":1180591620717411303424,"m":-0}',
        b'{"text":"\\u00e9\\/"}',
        '{"text":"\u2028\u0085é😀"}'.encode(),
        b'{"text":"\\ud800"}',
        b'{"text":"\xff\xe2\x82\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"a":1}',
        b'\t{"a":1} \r',
        b'{"message":{"message":1},"x":",\\"message\\":"}',
        b'{"a":1,"message":2}',
        b'{"at":"x","run":"y","from":"agent","message":{"at":"z"}}',
        b'[{"id":1,"result":{}},{"id":2,"result":{}}]',
        b'{"a":NaN}',
        b'{"a":1e400}',
        b"[" * 1000 + b"]" * 1000,
        b"[" * 1023 + b"]" * 1023,
        b"[" * 1024 + b"]" * 1024,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"n":' + b"1" * 10_000 + b"}",
        b"42",
        b'"text"',
        b"no json",
        b"{",
        b"",
    ],
    ids=lambda raw: repr(raw)[2:22],
)
def test_the_exact_bytes_of_odd_lines_come_back(raw: bytes) -> None:
    line = encode(raw, "session/prompt")
    assert line.index(b"\n") == len(line) - 1
    assert decode(line).raw == raw


@given(spelled(messages | st.lists(messages, max_size=2)), peers)
def test_the_exact_bytes_of_any_message_come_back(text: str, peer: Peer) -> None:
    entry = decode(encode(text.encode(), peer=peer))
    assert (entry.raw, entry.peer) == (text.encode(), peer)
    assert json.dumps(entry.value) == json.dumps(jsonrpc.parse(text.encode()))


@given(lines, st.none() | texts.filter(bool))
def test_the_exact_bytes_of_any_line_come_back(raw: bytes, of: str | None) -> None:
    line = encode(raw, of)
    assert line.index(b"\n") == len(line) - 1
    entry = decode(line)
    assert entry.raw == raw
    assert entry.answered_method == (None if of is None else json.loads(json.dumps(of)))


@given(st.lists(spelled(messages), min_size=1, max_size=5))
def test_updates_encoded_together_equal_updates_encoded_alone(many: list[str]) -> None:
    raws = [text.encode() for text in many]
    together = b"".join(file_format.encode_update_parts(AT, RUN, b"".join(raw + b"\n" for raw in raws)))
    alone = [file_format.encode_message(AT, RUN, Peer.AGENT, raw) for raw in raws]
    assert together == b"".join(alone)


@given(st.dictionaries(texts, values, max_size=4))
def test_any_note_can_be_read_back(note: Mapping[str, Any]) -> None:
    entry = decode(file_format.encode_note(AT, RUN, note))
    assert entry.raw is None
    assert json.dumps(entry.note) == json.dumps(jsonrpc.parse(json.dumps(note).encode()))


def test_a_note_with_extremely_deep_values_is_still_a_note() -> None:
    modes = jsonrpc.parse(b"[" * 1020 + b"]" * 1020)
    note = decode(file_format.encode_note(AT, RUN, {"type": "opened", "cwd": "/x", "modes": modes})).note
    assert note is not None
    assert (note["type"], note["cwd"]) == ("opened", "/x")


# The header.

HEADER = Header(
    "s-1", "/home/me", file_format.RECORDED, AT, ["/more"], {"id": "agent-1", "name": "agent", "version": None}
)


def test_a_header_is_written_as_the_format_says() -> None:
    assert file_format.encode_header(HEADER) == (
        b'{"acp-transcript":1,"sessionId":"s-1","agent":{"id":"agent-1","name":"agent","version":null},'
        b'"cwd":"/home/me","additionalDirectories":["/more"],"createdAt":"2026-11-20T09:15:02.123Z","origin":"recorded"}\n'
    )


@pytest.mark.parametrize(
    "header",
    [
        HEADER,
        Header("", None, file_format.PARTIAL, AT),
        Header("\ud800\0\n\u2028../..", "/\udcff", file_format.IMPORTED, AT, ["\ud800"]),
    ],
)
def test_a_header_can_be_read_back(header: Header) -> None:
    line = file_format.encode_header(header)
    assert line.index(b"\n") == len(line) - 1
    assert file_format.decode_header(line) == header


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"garbage\n",
        b"\0\0\0\0",
        b"[]",
        b"1",
        b"{}",
        b'{"acp-transcript":1}',
        b'{"acp-transcript":1,"sessionId":7}',
        b'{"acp-transcript":"1","sessionId":"s"}',
        b'{"acp-transcript":true,"sessionId":"s"}',
        b'{"acp-transcript":1.0,"sessionId":"s"}',
        b'{"acp-transcript":0,"sessionId":"s"}',
        b'{"acp-transcript":-1,"sessionId":"s"}',
        b'{"acp-transcript":1,"sessionId":"s"',
        b"[" * 100_000,
        file_format.encode_message(AT, RUN, Peer.CLIENT, PROMPT),
    ],
    ids=lambda line: repr(line)[2:40],
)
def test_a_line_that_is_not_a_header_is_none(line: bytes) -> None:
    assert file_format.decode_header(line) is None


def test_a_header_with_wrong_values_keeps_its_session() -> None:
    line = (
        b'{"acp-transcript":1,"sessionId":"s","cwd":7,"origin":["recorded"],"createdAt":{},"agent":"x",'
        b'"additionalDirectories":["/a",7]}'
    )
    assert file_format.decode_header(line) == Header("s", None, file_format.PARTIAL, "", ["/a"], {})


@pytest.mark.parametrize("version", [2, 3, 2**40])
def test_a_newer_version_raises_an_error_of_its_own(version: int) -> None:
    line = b'{"acp-transcript":%d,"whatever":"comes"}' % version
    with pytest.raises(NewerFormat):
        file_format.decode_header(line)


# Damage.

UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"text":"\xc3\xa9\xe2\x82\xac"}}}'
)
LAST_TWO = [encode(UPDATE), encode(b'{"text":"\xff\\ud800"}', "session/prompt")]


@pytest.mark.parametrize("line", LAST_TWO, ids=["message", "line"])
def test_a_truncated_line_is_damaged_unless_only_its_newline_is_missing(line: bytes) -> None:
    whole = file_format.decode_entry(line)
    assert whole is not None
    assert file_format.decode_entry(line[:-1]) == whole
    assert [at for at in range(len(line) - 1) if file_format.decode_entry(line[:at]) is not None] == []


def entries_in(line: bytes) -> list[Entry]:
    return [piece.value for piece in file_format.find_entries(line)]


@pytest.mark.parametrize("torn", LAST_TWO, ids=["message", "line"])
def test_an_entry_after_a_truncated_one_is_found_wherever_that_was_cut(torn: bytes) -> None:
    intact = encode(PROMPT, peer=Peer.CLIENT)
    for at in range(len(torn) - 1):
        assert entries_in(torn[:at] + intact) == [decode(intact)]
    assert entries_in(torn[:-1] + intact) == [decode(torn), decode(intact)]


def test_entries_beside_nul_bytes_are_found_with_their_places() -> None:
    entry = encode(PROMPT, peer=Peer.CLIENT)
    size, value = len(entry) - 1, decode(entry)
    assert file_format.find_entries(entry) == [Intact(0, size, value)]
    assert file_format.find_entries(b"\0" * 4096 + entry) == [Intact(4096, 4096 + size, value)]
    between = entry[:-1] + b"\0" * 10 + entry[:-1] + b"\0\n"
    assert file_format.find_entries(between) == [Intact(0, size, value), Intact(size + 10, 2 * size + 10, value)]
    assert file_format.find_entries(b"\0" * 4096 + b"\n") == []


@pytest.mark.parametrize("newline", [b"\x0b", b"\x08", b"*", b"J", b"\x8a", b",", b"}", b""])
def test_entries_with_a_changed_newline_between_them_are_both_found(newline: bytes) -> None:
    one, two = encode(PROMPT, peer=Peer.CLIENT), encode(UPDATE)
    assert entries_in(one[:-1] + newline + two) == [decode(one), decode(two)]


def test_a_copy_of_an_entry_within_a_truncated_message_is_not_an_entry() -> None:
    within = encode(PROMPT, peer=Peer.CLIENT)[:-1]
    message = b'{"method":"session/update","params":{"a":%b,"b":[%b,%b]}}' % (within, within, within)
    whole = encode(message)
    assert [entry.raw for entry in entries_in(whole)] == [message]
    assert entries_in(whole[: whole.rindex(b"]") + 1]) == []


BEGINNING = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"x":"'
FORGED = encode(PROMPT, peer=Peer.CLIENT)[:-1].replace(RUN.encode(), b"forged")


@pytest.mark.parametrize("around", [b'"%b}}}', b'hel%b"}}}', b"\0%b}}}", b'"%b}}}}', b':%b,"y":{}}}}', b'%b"}}}'])
@pytest.mark.parametrize("forged", [FORGED, FORGED.replace(b"forged", RUN.encode()), NOTE[:-1]])
def test_nothing_within_an_update_that_is_not_json_is_an_entry(around: bytes, forged: bytes) -> None:
    """Not even if it knows the run. Other lines that came with it are recorded as they came."""
    raw, json = BEGINNING + around % forged, UPDATE.replace(b"{", b'{"rawInput":%b,' % forged, 1)
    written = b"".join(file_format.encode_update_parts(AT, RUN, b"".join(each + b"\n" for each in (UPDATE, raw, json))))

    lines = written.splitlines(keepends=True)

    assert [[each.raw for each in entries_in(line)] for line in lines] == [[UPDATE], [raw], [json]]
    assert lines[::2] == [encode(UPDATE), encode(json)]
    assert list(file_format.find_notes(written, {NoteType.ALIAS})) == []


@pytest.mark.parametrize("around", [b'"%b}}}', b'hel%b"}}}', b"\0%b}}}", b'"%b}}}}', b':%b,"y":{}}}}', b'%b"}}}'])
def test_nothing_within_an_update_that_an_older_version_recorded_is_an_entry(around: bytes) -> None:
    """It was written as it came. Nobody else knows the run; an entry that has it was attached by accident."""
    line = b'{"at":"%b","run":"%b","from":"agent","message":%b}\n' % (AT.encode(), RUN.encode(), BEGINNING + around)
    assert [entry for entry in entries_in(line % FORGED) if entry.peer is Peer.CLIENT] == []
    assert list(file_format.find_notes(line % NOTE[:-1].replace(RUN.encode(), b"forged"), {NoteType.ALIAS})) == []
    attached = entries_in(line % FORGED.replace(b"forged", RUN.encode()))
    assert [entry.raw for entry in attached if entry.peer is Peer.CLIENT] == [PROMPT] * (
        around[-6:] != b',"y":{}}}}'[-6:]
    )


def test_searching_for_an_attached_entry_takes_few_tries() -> None:
    calls = 0
    parse = jsonrpc.parse

    def counted(raw: bytes) -> object:
        nonlocal calls
        calls += 1
        return parse(raw)

    torn = encode(UPDATE)[:-9]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jsonrpc, "parse", counted)
        assert entries_in(b'{"at":"' * 10_000) == []
        assert entries_in(torn * 10_000) == []
    assert calls < 300


def test_a_header_counts_even_if_something_is_attached_to_it() -> None:
    header = Header("s", "/project", file_format.RECORDED, "2026-11-20T09:15:02.123Z")
    line = file_format.encode_header(header)
    assert file_format.find_header(line) == (header, len(line) - 1)
    for rest in (encode(PROMPT), b"\0\n", b"{", b""):
        assert file_format.find_header(line[:-1] + rest) == (header, len(line) - 1)
    for other in (b"", b"\n", b"{", line[:-2], encode(PROMPT), b'{"acp-transcript":1}{"acp-transcript":1}'):
        assert file_format.find_header(other) == (None, 0)


@pytest.mark.parametrize(
    "line",
    [
        b'{"at":"x","run":"y","from":"agent"}',
        b'{"at":"x","run":"y","from":"proxy"}',
        b'{"at":"x","run":"y","from":"proxy","note":[]}',
        b'{"at":"x","run":"y","from":"nobody","message":{}}',
        b'{"at":"x","run":"y","from":["agent"],"message":{}}',
        b'{"at":"x","from":"agent","message":{}}',
        b'{"at":7,"run":"y","from":"agent","message":{}}',
        b'{"at":"x","run":7,"from":"agent","message":{}}',
        b'{"at":"x","run":"y","from":"agent","line":7}',
        b'{"at":"2026-11-20T09:15:02.1\xff3Z","run":"y","from":"agent","message":{}}',
        b'{"at":"2026-11-20T09:15:02.1\\ud8003Z","run":"y","from":"agent","message":{}}',
        b"[]",
        b"7",
        b"",
        file_format.encode_header(HEADER),
    ],
    ids=lambda line: repr(line)[2:60],
)
def test_a_line_that_is_not_an_entry_is_none(line: bytes) -> None:
    assert file_format.decode_entry(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"at":"x", "run":"y", "from":"agent", "message": {"a" : "\\ud800"} }',
        b'{"at":"x","run":"y","from":"agent","message":{"a" : "\\ud800"}} \r',
        b'{"at":"x","run":"y","from":"agent","of":{"a":1,"message":2},"message":{"a" : "\\ud800"}}',
        b'{"message": {"a" : "\\ud800"} ,"at":"x","run":"y","from":"agent"}',
        b'{"at":"x","run":"y","from":"agent","message":{"a" : "\\ud800"},"more":[1]}\r',
        b'{"at":"x","more":{"b":1,"message":2},"run":"y","from":"agent","message":{"a" : "\\ud800"}}',
    ],
)
def test_an_entry_written_by_another_program_gives_exactly_its_message(line: bytes) -> None:
    entry = decode(line + b"\n")
    assert entry.raw == b'{"a" : "\\ud800"}'
    assert entry.value == {"a": "\ud800"}


def test_an_extremely_deep_entry_of_another_program_is_damaged() -> None:
    """100,000 levels are too many for the parser of every Python; 1,010 are not, if only the message has them."""
    too_deep = b"[" * 100_000 + b"]" * 100_000
    assert file_format.decode_entry(b'{"at":"x","run":"y","from":"agent","message":%s,"more":1}' % too_deep) is None
    deep = b"[" * 1010 + b"]" * 1010
    assert decode(b'{"at":"x","run":"y","from":"agent","message":%s}' % deep).raw == deep


def test_unknown_keys_of_an_entry_are_ignored() -> None:
    line = b'{"at":"x","new":1,"run":"y","from":"proxy","note":{"type":"unknown"},"newer":{}}'
    assert decode(line).note == {"type": "unknown"}


keys = st.sampled_from(["at", "run", "from", "of", "message", "line", "note", "acp-transcript", "sessionId", "cwd"])
shaped = st.dictionaries(keys | texts, st.sampled_from(["agent", "client", "proxy", "x", 1]) | values, max_size=8)


@given(spelled(shaped | values))
def test_reading_any_json_never_raises(text: str) -> None:
    assert_read(text.encode())


@given(st.binary())
def test_reading_any_bytes_never_raises(data: bytes) -> None:
    assert_read(data)


@given(
    st.data(),
    st.sampled_from([*LAST_TWO, file_format.encode_header(HEADER), file_format.encode_note(AT, RUN, {"a": 1})]),
)
def test_reading_flipped_bits_never_raises(data: st.DataObject, line: bytes) -> None:
    damaged = bytearray(line)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(line) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert_read(bytes(damaged))


def assert_read(line: bytes) -> None:
    """The line is read without raising, and the times in it can be stored as text."""
    entry = file_format.decode_entry(line)
    if entry is not None:
        entry.at.encode()
        assert (entry.raw is None) == (entry.note is not None)
        assert entry.raw is None or isinstance(entry.raw, bytes)
    try:
        header = file_format.decode_header(line)
    except NewerFormat:
        return
    if header is not None:
        header.created_at.encode()


@pytest.mark.parametrize("rest", [b',"from":"client"', b',"message":{"a":1}', b',"at":7', b',"note":{},"of":"x"'])
def test_text_after_a_message_changes_nothing_in_its_entry(rest: bytes) -> None:
    update = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}'
    hostile = update + rest + b',"z":{"y":1}'  # as a line of its own it is not JSON

    entry = decode(b"".join(file_format.encode_update_parts("2026-11-20T09:15:02.123Z", "k3f9a1", hostile + b"\n")))

    assert (entry.at, entry.run, entry.peer, entry.answered_method) == (
        "2026-11-20T09:15:02.123Z",
        "k3f9a1",
        Peer.AGENT,
        None,
    )
    assert entry.raw == update
    assert entry.value == json.loads(update)


@pytest.mark.parametrize(
    ("spelled_text", "read_text"),
    [
        (b"caf\xe9", "caf\udce9"),
        (b"cut off \xf0\x9f\x98", "cut off \udcf0\udc9f\udc98"),
    ],
)
def test_an_update_that_passed_unparsed_is_read_though_strict_parsers_refuse_it(
    spelled_text: bytes, read_text: str
) -> None:
    start = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"text":"'
    raws = [start + text + b'"}}}' for text in (b"one", spelled_text, b"two")]
    data = b"".join(raw + b"\n" for raw in raws)

    written = b"".join(file_format.encode_update_parts(AT, RUN, data))

    entries = [decode(line) for line in written.splitlines(keepends=True)]
    values: list[Any] = [entry.value for entry in entries]
    assert [value["params"]["update"]["text"] for value in values] == ["one", read_text, "two"]
    assert [entry.raw for entry in entries] == raws
    written.decode()


@pytest.mark.parametrize("spelled_text", [b"a\tb\x1b[0m", b"a\0b", b'\x01 \\" \x02'])
def test_control_characters_in_an_update_that_passed_unparsed_are_read_as_escapes(spelled_text: bytes) -> None:
    raw = (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"text":"%b"}}}' % spelled_text
    )

    written = b"".join(file_format.encode_update_parts(AT, RUN, raw + b"\n"))

    value: Any = json.loads(decode(written).raw or b"")
    assert value["params"]["update"]["text"] == json.loads(b'"%b"' % spelled_text, strict=False)
    assert decode(written).value == value
    assert b"\0" not in written, "a crash leaves that"


def test_an_update_that_is_not_utf8_is_read_from_the_transcripts_of_older_versions() -> None:
    raw = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"text":"caf\xe9"}}}'
    entry = decode(b'{"at":"%b","run":"%b","from":"agent","message":%b}\n' % (AT.encode(), RUN.encode(), raw))
    value: Any = entry.value
    assert (entry.raw, value["params"]["update"]["text"]) == (raw, "caf\udce9")
