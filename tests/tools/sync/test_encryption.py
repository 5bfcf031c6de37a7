"""Records are sealed for one place in one log, and what is read is checked."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.errors import AcpProxyError
from acp_proxy.protocol import jsonrpc
from acp_proxy.tools.sync import encryption, records
from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.interfaces import BadRecord
from acp_proxy.tools.sync.records import Death, InvalidRecord, Label, Mask, SegmentRecord
from tests.store import transcript_lines
from tests.strategies import values

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

KEY = HistoryKey.create()
HEADER = transcript_lines.header()
SEGMENT = SegmentRecord(
    transcript_lines.UID,
    transcript_lines.UID,
    "agent",
    HEADER,
    transcript_lines.prompt_line("Hello") + transcript_lines.answer(),
)
SAID = [
    SEGMENT,
    Label(transcript_lines.UID, transcript_lines.UID, records.TITLE, "Hello", 1, "m"),
    Death(transcript_lines.UID, "root", ("beside",)),
    Mask(transcript_lines.UID, "segment", ((3, b"[redacted]***"),)),
    records.BlankRecord(transcript_lines.UID, "id", "parent"),
    records.LogEnd("m", 3),
]


@pytest.mark.parametrize("said", SAID, ids=lambda said: type(said).__name__)
def test_a_record_is_read_as_it_was_written(said: records.Record) -> None:
    decoded = records.decode(KEY.open("m", 1, KEY.seal("m", 1, records.encode(said, "laptop"))))
    assert (decoded.record, decoded.machine_name) == (said, "laptop")


def test_a_record_cannot_be_moved_changed_or_read_with_another_key() -> None:
    sealed = KEY.seal("m", 1, b"data")
    wrong = [
        (KEY, "m", 2, sealed),
        (KEY, "n", 1, sealed),
        (HistoryKey(HistoryKey.create().history, KEY.key), "m", 1, sealed),
        (HistoryKey(KEY.history, HistoryKey.create().key), "m", 1, sealed),
        (KEY, "m", 1, sealed[:-1] + bytes([sealed[-1] ^ 1])),
        (KEY, "m", 1, sealed[:10]),
        (KEY, "m", 1, b""),
    ]
    for key, machine, number, data in wrong:
        with pytest.raises(BadRecord):
            key.open(machine, number, data)


def test_a_record_that_decompresses_to_more_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "_LARGEST_RECORD_BYTES", 1000)
    assert KEY.open("m", 1, KEY.seal("m", 1, b"x" * 1000)) == b"x" * 1000
    with pytest.raises(BadRecord):
        KEY.open("m", 1, KEY.seal("m", 1, b"x" * 1001))


def test_data_after_the_end_or_a_cut_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = zstd.compress(b"data")
    monkeypatch.setattr(zstd, "compress", lambda data, level: whole[:-3])
    with pytest.raises(BadRecord):
        KEY.open("m", 1, KEY.seal("m", 1, b"data"))


@pytest.mark.parametrize(
    "data",
    [
        b"no entry\n",
        transcript_lines.prompt_line("of another", session="another"),
        transcript_lines.prompt_line("torn").rstrip(b"\n"),
    ],
)
def test_every_line_must_be_an_entry_of_the_session(data: bytes) -> None:
    said = SegmentRecord(transcript_lines.UID, transcript_lines.UID, "agent", HEADER, data)
    with pytest.raises(InvalidRecord):
        records.decode(records.encode(said, "m"))


@given(st.binary())
def test_any_other_bytes_are_not_a_record(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        records.decode(data)


_KEYS = [
    "kind",
    "tree",
    "machine",
    "id",
    "parent",
    "agent",
    "header",
    "anchor",
    "field",
    "value",
    "stamp",
    "by",
    "root",
]
_KINDS = st.sampled_from(["segment", "title", "dead", "mask", "blank", "ended"])


@given(
    st.dictionaries(st.sampled_from([*_KEYS, "root", "beside", "segment", "spans", "log", "number"]), values), _KINDS
)
def test_any_json_is_a_record_or_none(value: dict[str, object], kind: str) -> None:
    try:
        records.decode(jsonrpc.dump(value | {"kind": kind}) + b"\n")
    except InvalidRecord:
        return


@pytest.mark.parametrize("mask", [b"*", b"[redacted]", b"[redacted]**", b"[redacted private key]*"])
def test_a_mask_is_read_as_it_was_written(mask: bytes) -> None:
    record = Mask("tree", "segment", ((3, mask),))
    assert records.decode(records.encode(record, "laptop")).record == record


@pytest.mark.parametrize(
    ("words", "masks"),
    [
        *((words, []) for words in (b"", b"words", b"\n", b"\xff")),
        (b"[redacted] words", [(3, b"[redacted]")]),
        (b"[redacted]*** and ****", [(3, b"[redacted]***"), (21, b"****")]),
    ],
)
def test_of_words_in_place_of_a_mask_only_the_masks_are_read(words: bytes, masks: list[tuple[int, bytes]]) -> None:
    encoded = records.encode(Mask("tree", "segment", ((0, b"***"), (3, words))), "laptop")
    assert records.decode(encoded).record == Mask("tree", "segment", ((0, b"***"), *masks))


@pytest.mark.parametrize("span", [[-1, "***"], ["3", "***"], [3, None], [3], "***"])
def test_a_span_that_is_no_offset_and_text_makes_no_record(span: object) -> None:
    head = {"machine": "laptop", "kind": "mask", "tree": "tree", "segment": "segment", "spans": [span]}
    with pytest.raises(InvalidRecord):
        records.decode(jsonrpc.dump(head) + b"\n")


def test_a_key_file_is_private_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sync.key"
    KEY.write(path)
    assert HistoryKey.read(path) == KEY
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(AcpProxyError):
        HistoryKey.create().write(path)


@pytest.mark.parametrize("text", [b"", b"acp-proxy sync 1\n", b"acp-proxy sync 1\nhistory a\nkey zz\n", b"\xff"])
def test_a_damaged_key_file_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "sync.key"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(AcpProxyError):
        HistoryKey.read(path)
