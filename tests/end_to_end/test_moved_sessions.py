"""A session recorded here, exported, and imported elsewhere is listed, loaded and continued there."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import invoke
from tests.end_to_end.proxied import Proxied, conversation


def sessions(store: Path, *words: str) -> str:
    result = invoke(*words, "--store", str(store))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("was_deleted", [False, True])
def test_an_imported_session_is_listed_loaded_and_continued(proxied: Proxied, was_deleted: bool) -> None:
    session = proxied.recorded("mend it", "and this")
    with proxied.start("conversation") as editor:
        [listed] = editor.sessions()
        told = conversation(editor.load(session).updates)
        assert editor.end() == 0
    exported = proxied.base / "exported.jsonl"
    sessions(proxied.store, "export", session, "--output", str(exported))
    before = exported.read_bytes()
    if was_deleted:
        sessions(proxied.store, "delete", session, "--yes")
    else:
        proxied.store = proxied.base / "elsewhere"
    with proxied.start("conversation") as editor:
        assert editor.sessions() == []
        sessions(proxied.store, "import", str(exported))  # while a proxy uses the store
        assert editor.sessions() == [listed]
        assert conversation(editor.load(session).updates) == told
        editor.prompt(session, "go on")
        assert editor.end() == 0
    after = proxied.transcript(session).read_bytes()
    uid, uid_here = (json.loads(data.partition(b"\n")[0])["uid"] for data in (before, after))
    assert (uid_here != uid) is was_deleted
    assert after.startswith(before.replace(uid.encode(), uid_here.encode()))
    assert "go on" in sessions(proxied.store, "export", session)
