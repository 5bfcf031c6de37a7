"""A conversation continues after an upgrade removed the files of the running proxy and its dependencies."""

import os
import shutil
import sys
from pathlib import Path

import psutil
import pytest

import acp_proxy
from acp_proxy.store.compress import CompressionOptions
from tests.client import RequestFailed
from tests.end_to_end.proxied import INTERNAL_ERROR, Editor, Proxied, conversation, texts
from tests.scripted.agent import NAME
from tests.stored import WholeStore, chunk, store_session

SUPERVISED = "it is supervised"
# The command line of this copy of the package. Once a certain file exists, only the standard library can be imported;
# before that, everything except the named modules. It reports when everything is loaded: then signals are waited for.
COPIED = """
import os, signal, sys
copy, gone, *names = sys.argv.pop(1).split(os.pathsep)
sys.path.insert(0, copy)
class Missing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if name in names or (os.path.exists(gone) and top not in (sys.stdlib_module_names | {"acp_proxy"})):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
name = "sigwait" if hasattr(signal, "sigwait") else "signal"  # Windows
def tell(*given, real=getattr(signal, name)):
    if given[-1] is not signal.SIG_DFL:
        os.write(2, b"SUPERVISED\\n")
    return real(*given)
setattr(signal, name, tell)
from acp_proxy.__main__ import main
main()
""".replace("SUPERVISED", SUPERVISED)


class Copy:
    """A proxy that runs from a copy of the package; ``lacks``: modules that it never finds."""

    def __init__(self, proxied: Proxied) -> None:
        self._proxied = proxied
        self._place, self._gone = proxied.base / "installed", proxied.base / "gone"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(acp_proxy.__file__).parent, self._place / "acp_proxy", ignore=ignored)

    def editor(self, *agent: str, lacks: tuple[str, ...] = (), script: str | None = "echo") -> Editor:
        words = os.pathsep.join([str(self._place), str(self._gone), *lacks])
        _, _, _, *run = self._proxied.command(script, options=("--grace", "0.2"), agent=agent)
        editor = Editor([sys.executable, "-c", COPIED, words, *run])
        editor.project = self._proxied.project
        return editor

    def upgrade(self, editor: Editor) -> None:
        editor.wait_for_stderr(SUPERVISED)
        self._place.rename(self._gone)


@pytest.fixture
def copy(proxied: Proxied) -> Copy:
    return Copy(proxied)


def store_compressed_session(proxied: Proxied, session: str) -> None:
    """Store a compressed session."""
    store = WholeStore(proxied.store)
    path = store_session(store, session, ("long ago", [chunk(f"said in {session}")]), agent=NAME)
    assert store.list_all()  # only indexed sessions are compressed
    assert store.compress(path.parent.name, path.stem, CompressionOptions(min_size=0, older_than=0)) is not None


def test_a_conversation_continues_after_the_proxys_files_were_removed(proxied: Proxied, copy: Copy) -> None:
    store_compressed_session(proxied, "compressed")
    store_compressed_session(proxied, "also-compressed")
    damaged = store_session(WholeStore(proxied.store), "damaged", ("long ago", [chunk("intact")]), agent=NAME)
    damaged.write_bytes(b"{" + damaged.read_bytes())
    with copy.editor("--capabilities", "close", "--ignore-eof") as editor:
        session = editor.open()
        copy.upgrade(editor)

        assert "I heard: one" in texts(editor.prompt(session, "one"))
        session_ids = [row["sessionId"] for row in editor.sessions()]
        assert {session, "compressed", "also-compressed"} <= set(session_ids)
        assert editor.sessions(cwd="/elsewhere") == []
        with pytest.raises(RequestFailed, match="Invalid cursor"):
            editor.sessions(cursor="none")
        assert "I heard: one" in texts(conversation(editor.load(session).updates))
        for name in ("compressed", "damaged"):
            assert editor.load(name).updates, name
        [answer] = texts(editor.prompt("compressed", "again"))  # it is handed over, and its transcript is decompressed
        assert "said in compressed" in answer
        editor.request("session/delete", {"sessionId": "also-compressed"})
        assert "also-compressed" not in [row["sessionId"] for row in editor.sessions()]
        assert texts(editor.prompt(session, "two"))

        agent = psutil.Process(editor.pid).children()
        editor.end()
        assert not psutil.wait_procs(agent, timeout=10)[1]
        assert set(editor.read_stderr().splitlines()) == {SUPERVISED}


def test_a_proxy_upgraded_during_its_start_says_what_to_do_and_ends_its_agent(copy: Copy) -> None:
    with copy.editor(lacks=("acp_proxy.relay.process_tree",)) as editor:
        assert editor.wait() == 1
        assert (
            editor.read_stderr()
            == "acp-proxy: acp-proxy was upgraded or removed while it was starting. Restart the agent.\n"
        )
        assert editor.all_ended()


@pytest.mark.parametrize("lacks", ["acp_proxy.store.queries", "acp_proxy.store.store_index"])
def test_a_list_that_fails_after_an_upgrade_says_what_to_do(proxied: Proxied, copy: Copy, lacks: str) -> None:
    with copy.editor(lacks=(lacks,)) as editor:
        session = editor.open()
        editor.prompt(session, "one")
        with pytest.raises(RequestFailed, match=r"upgraded.*Restart the agent") as refused:
            editor.sessions()
        assert refused.value.code == INTERNAL_ERROR
        assert "I heard: two" in texts(editor.prompt(session, "two"))
        assert editor.end() == 0


@pytest.mark.parametrize("lacks", ["acp_proxy.transcript.compressed", "acp_proxy.relay.load_thread"])
def test_a_load_that_fails_after_an_upgrade_says_what_to_do(proxied: Proxied, copy: Copy, lacks: str) -> None:
    store_compressed_session(proxied, "compressed")
    with copy.editor(lacks=(lacks,)) as editor:
        session = editor.open()
        refused = editor.load("compressed").answer["error"]
        assert "upgraded" in refused["message"]
        assert "Restart the agent" in refused["message"]
        assert "I heard: two" in texts(editor.prompt(session, "two"))
        assert editor.end() == 0
