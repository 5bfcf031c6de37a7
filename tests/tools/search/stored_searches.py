"""Sessions to search, the results, and the files that contain a word."""

from pathlib import Path

from acp_proxy.store.journal import DELETED, Event
from acp_proxy.tools.search import query
from acp_proxy.tools.search.search import SearchRequest, SearchResult, search_store
from acp_proxy.transcript.file_names import file_name
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT
from tests.store.transcript_lines import answer, prompt_line
from tests.stored import WholeStore, read_files

SECRET = "z9q7x5w3v1t8r6p4n2"


def store_turns(
    store: WholeStore, session: str, *words: str, at: int = 0, agent: str = AGENT, cwd: str = transcript_lines.CWD
) -> None:
    """Record a session with a turn for each prompt, a minute apart."""
    lines = [
        line
        for number, text in enumerate(words)
        for line in (prompt_line(text, at=at + 60 * number, session=session), answer(at=at + 60 * number))
    ]
    transcript_lines.store_lines(store, agent, session, *lines, at=at, cwd=cwd)


def append(store: WholeStore, session: str, *lines: bytes) -> None:
    """Continue a session with these lines."""
    transcript = store.open_to_append(AGENT, transcript_lines.header(session), is_new=False)
    store.mark(AGENT, session)
    transcript.append(b"".join(lines))
    transcript.close()


def search(store: WholeStore, *words: str, agents: tuple[str, ...] | None = None, **wanted: object) -> SearchResult:
    """Search all agents, or those named."""
    chosen = store.list_agents() if agents is None else agents
    return search_store(store, SearchRequest(query.make_query(words), chosen, **wanted))  # type: ignore[arg-type]


def find_turns(store: WholeStore, *words: str, **wanted: object) -> list[tuple[str, list[int]]]:
    """The sessions that are found, each with the numbers of its turns."""
    return [(hit.row.session_id, hit.turns) for hit in search(store, *words, **wanted).hits]  # type: ignore[arg-type]


def list_tables(root: Path) -> set[str]:
    """The names of the search tables."""
    return {path.name for path in root.glob("search/*.sqlite3")}


def find_files_with(root: Path, word: str = SECRET) -> list[str]:
    """The files that contain a word or its second half: a search table omits what a word shares with the one before."""
    half = word[len(word) // 2 :].encode()
    return [path.relative_to(root).as_posix() for path, data in read_files(root) if half in data]


def delete_by_editor(store: WholeStore) -> None:
    """Delete the session as an editor does."""
    store.delete(AGENT, "s", soft=False)
    store.remove_from_index(AGENT, "s")


def delete_listed(store: WholeStore) -> None:
    """Delete the session as a command does."""
    [row] = [row for row in store.list_all() if row.session_id == "s"]
    store.delete_listed(row, soft=False)


def remove_files(store: WholeStore) -> None:
    """Remove the session's files by hand."""
    for path in (store.root / "transcripts" / AGENT).glob(f"{file_name('s')}.*"):
        path.unlink()
    store.mark(AGENT, "s")
    store.list_all()


def die_during_a_delete(store: WholeStore) -> None:
    """Write the session's delete to the journal, as a process that then died."""
    journal = store.layout.get_journal(AGENT)
    journal.append(Event(DELETED, "s"), transcript_lines.time(0))
    WholeStore(store.root).list_all()


DELETES = [delete_by_editor, delete_listed, remove_files, die_during_a_delete]
