"""The store's work for ``acp-proxy browse``: reads lists and previews, searches, and changes sessions."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy.cli import config_values
from acp_proxy.cli.open_store import is_default_store
from acp_proxy.cli.pager import find_screen
from acp_proxy.cli.session_filter import SessionFilter
from acp_proxy.errors import AcpProxyError, AlreadyThere, NoSuchSession, Unreadable, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.soft_deleted import DeletedSession
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.browse.state import TURN_IS_RUNNING, Action, TextHit, make_key
from acp_proxy.tools.search.search import search_store
from acp_proxy.transcript.file_names import name_agent, name_before_delete
from acp_proxy.views import formatting
from acp_proxy.views.session_lines import find_words_elsewhere, make_distinct_names

if TYPE_CHECKING:  # imported late: no list needs it
    from acp_proxy.tools.search.fts_table import Excerpt

_FIRST_HITS = 100  # sessions: more than a screen
_CHARACTERS_BEFORE = 24
"""Characters of an excerpt before the words that were found, which a narrow screen shows."""

HitsByKey = dict[tuple[str, str], TextHit]
"""By ``make_key`` of its session."""


class BrowseStore:
    """The store as browse uses it. Each thread needs one of its own. ``session_filter``: which sessions it shows."""

    def __init__(self, root: Path, session_filter: SessionFilter) -> None:
        self._root = root
        self._session_filter = session_filter
        self.bin_days = config_values.read_bin_days()
        self._store = CommandStore(root, create=False, bin_days=self.bin_days)
        self.agents = make_distinct_names(self._store.list_agents())
        """The names shown for agents' folders."""
        self._undo: list[Callable[[], str]] = []
        """Each undoes a delete or an archiving, the last one last. Returns a message."""
        self.brought_back: tuple[str, str] | None = None
        """The session that the last undo brought back: the agent, and the transcript's name."""

    def reopen(self) -> "BrowseStore":
        """The same store, opened once more for another thread."""
        return BrowseStore(self._root, self._session_filter)

    def list_rows(self, archived: bool) -> list[ListedSession]:
        """All sessions of the list. Raises Unreadable."""
        self.agents = make_distinct_names(self._store.list_agents())
        return list(self._session_filter.list_newest(self._store, archived))

    def search(
        self, typed: str, archived: bool, show_hits: Callable[[list[TextHit]], None], is_wanted: Callable[[], bool]
    ) -> list[TextHit]:
        """The sessions in which these words were said, in one turn; then those in which each was said, or is in a
        column of the list. The last word may be the beginning of one.

        ``show_hits`` gets the first ones early, and then more each time; if not ``is_wanted`` any more, the rest is
        left out. Raises AcpProxyError, OSError.
        """
        words = typed.split()
        words[-1] = words[-1].rstrip("*") + "*"
        next_count = _FIRST_HITS

        def report_hits(hits: HitsByKey) -> bool:
            nonlocal next_count
            if len(hits) >= next_count:
                next_count *= 2  # so that drawing does not take longer than searching
                show_hits(list(hits.values()))
            return is_wanted()

        hits = self._find_hits(words, archived, report_hits)
        if len(words) > 1 and hits is not None and is_wanted():
            show_hits(list(hits.values()))
            hits |= self._find_scattered(words, archived, hits, is_wanted)
        return list((hits or {}).values())

    def _find_scattered(
        self, words: list[str], archived: bool, known_hits: HitsByKey, is_wanted: Callable[[], bool]
    ) -> HitsByKey:
        """The sessions without ``known_hits`` in which each word that is in no column of the list was
        said, in any turn: with the place of the first such word."""
        folded_words = [word.rstrip("*").casefold() for word in words]
        missing_words = {
            make_key(row): missing
            for row in self.list_rows(archived)
            if make_key(row) not in known_hits and (missing := find_words_elsewhere(row, folded_words))
        }
        hits_by_word = dict[str, HitsByKey]()
        for word, folded in zip(words, folded_words, strict=True):
            if any(folded in missing for missing in missing_words.values()):
                hits = self._find_hits([word], archived, lambda hits: is_wanted())
                if hits is not None:  # else it has no letter or digit: no search looks for it
                    hits_by_word[folded] = hits
                    missing_words = {
                        key: missing for key, missing in missing_words.items() if folded not in missing or key in hits
                    }
        hits_by_session = {
            key: [hits_by_word[word][key] for word in missing if word in hits_by_word]
            for key, missing in missing_words.items()
        }
        return {key: hits[0] for key, hits in hits_by_session.items() if hits} if is_wanted() else {}

    def _find_hits(
        self, words: Sequence[str], archived: bool, report_hits: Callable[[HitsByKey], bool]
    ) -> HitsByKey | None:
        """The sessions that have a turn with all of these words; None if no word has a letter or digit.

        ``report_hits`` gets those found so far after each one, and returns whether to go on.
        """
        from acp_proxy.tools.search.query import make_query
        from acp_proxy.tools.search.search import Hit, SearchRequest

        try:
            query = make_query(words)
        except UsageError:
            return None
        hits: HitsByKey = {}

        def add_hit(hit: Hit) -> bool:
            if hit.row.is_archived == archived:
                text = "".join(_format_excerpt(excerpt, hit.row.cwd) for excerpt in hit.excerpts if excerpt.turn)
                hits[make_key(hit.row)] = TextHit(hit.row, text, hit.turns[0] if hit.turns else 1)
            return report_hits(hits)

        session_filter = self._session_filter
        request = SearchRequest(
            query,
            self._store.list_agents(session_filter.agent),
            session_filter.cwd,
            session_filter.since or None,
            limit=None,
            excerpts_per_session=1,
            until=session_filter.until or None,
            includes_below=session_filter.includes_below,
            branch=session_filter.branch,
        )
        search_store(self._store, request, report_hit=add_hit)
        return hits

    def read_preview(self, row: ListedSession, turn: int, width: int, height: int) -> list[str]:
        """The first lines of a conversation, from a turn on. Raises AcpProxyError, OSError."""
        from acp_proxy.views.conversation import TurnBegin, read_parts
        from acp_proxy.views.passages import make_passages
        from acp_proxy.views.rich_text import RichPrinter

        lines: list[str] = []
        printer = RichPrinter(width, has_colours=find_screen().has_colours, cwd=row.cwd)
        with closing(self._store.open_listed(row)) as reader:
            parts = dropwhile(
                lambda part: not (isinstance(part, TurnBegin) and part.number >= turn),
                read_parts(reader, row.session_id),
            )
            for passage in make_passages(parts):
                lines += "".join(printer.print(passage)).split("\n")[:-1]
                if len(lines) > height:
                    break
        return lines[1:]

    def read_code_blocks(self, row: ListedSession) -> list[str]:
        """The fenced code blocks of the agent's messages. Raises AcpProxyError, OSError."""
        from markdown_it import MarkdownIt

        from acp_proxy.views.conversation import SpokenMessage, read_turns, read_words

        parser, blocks = MarkdownIt("commonmark"), list[str]()
        with closing(self._store.open_listed(row)) as reader:
            for turn in read_turns(reader, row.session_id):
                for item in turn.items:
                    if isinstance(item, SpokenMessage) and item.speaker == "agent":
                        tokens = parser.parse("".join(map(read_words, item.blocks)))
                        blocks += [token.content for token in tokens if token.type == "fence"]
        return blocks

    def do(self, action: Action) -> str:
        """Do what the user asked for. Returns a message. Raises AcpProxyError, OSError."""
        if action.kind == "undo":
            self.brought_back = None
            if not self._undo:
                return "There is nothing to undo. For earlier deletes: acp-proxy restore"
            try:
                message = self._undo[-1]()
            except NoSuchSession as problem:  # it stays so: trying again would keep from the ones before
                message = str(problem)
            self._undo.pop()  # what fails for another reason can be undone again
            return f"{message} ^X undoes the one before." if self._undo else message
        row = self._find_now(action.row)
        if action.kind == "export":
            return _export(self._store, row, action.text)
        if action.kind == "continue":
            return self._explain_continue(row)
        if self._store.read_only_reason is not None:
            raise self._store.read_only_reason
        match action.kind:
            case "rename":
                return self._rename(row, action.text)
            case "archive":
                self._store.set_listed_archived(row, not row.is_archived)
                self._undo.append(partial(self._archive_as_before, row))
                return "Unarchived." if row.is_archived else "Archived. ^X undoes it, ^T shows the archived sessions."
            case "pin":
                self._store.set_listed_pinned(row, not row.is_pinned)
                return "Unpinned." if row.is_pinned else "Pinned: prune leaves it alone."
            case "delete" if row.is_running:
                raise AcpProxyError(TURN_IS_RUNNING)
            case "delete":
                return self._delete(row, soft=action.is_soft)
        return ""

    def _explain_continue(self, row: ListedSession) -> str:
        from acp_proxy.cli.choose_session import shorten_ids
        from acp_proxy.cli.next_command import format_command, repeat_agent_option

        agent_option = repeat_agent_option(self._store, row.agent_folder, row.session_id)
        id = shorten_ids(self._store, [row])[row.selector]
        continue_command = format_command(
            "continue", [id], "--with", "AGENT", *agent_option, *self._repeat_store_option()
        )
        list_name = f"the list of {name_agent(row.agent_folder)}'s sessions{f' in {row.cwd}' if row.cwd else ''}"
        return f"In your editor, open it from {list_name}. With another agent: {continue_command}"

    def _repeat_store_option(self) -> list[str]:
        return [] if is_default_store(self._root) else ["--store", str(self._root)]

    def _find_now(self, row: ListedSession | None) -> ListedSession:
        """The session as it is now: another process may have changed it. Raises NoSuchSession, Unreadable."""
        return self._find_by_name(*make_key(row) if row is not None else ("", ""))

    def _find_by_name(self, agent_folder: str, name: str) -> ListedSession:
        """The listed session of this agent with this transcript. Raises NoSuchSession, Unreadable."""
        for match in self._store.find_named(name):
            if match.agent_folder == agent_folder:
                return match
        raise NoSuchSession("The session does not exist any more.")

    def _rename(self, row: ListedSession, text: str) -> str:
        from acp_proxy.cli.rename import mask_title_as_recorded
        from acp_proxy.transcript.titles import AGENT_TITLE_LENGTH, clean

        cleaned = clean(text, AGENT_TITLE_LENGTH)
        if cleaned == row.title:  # else the agent's would become the user's, and hide its later ones
            return "The title stays as it is."
        title = mask_title_as_recorded(cleaned)
        self._store.set_listed_title(row, title)
        if title is not None:
            return "Renamed."
        is_other = self._find_now(row).title != row.title
        return "Your title is removed." if is_other else "The title stays: it is not one that you gave."

    def _delete(self, row: ListedSession, *, soft: bool) -> str:
        try:
            self._store.delete_listed(row, soft=soft)
        except Unreadable:
            return "Deleted. The index cannot be written now. The next list removes the session from it."
        if not soft:
            return "Deleted permanently."
        from acp_proxy.cli.delete import format_restore_command

        deleted_rows = [
            deleted
            for deleted in self._store.list_deleted()
            if (deleted.agent_folder, name_before_delete(deleted.name)) == (row.agent_folder, row.name)
        ]
        self._undo += [partial(self._restore, deleted) for deleted in deleted_rows[:1]]
        back = format_restore_command(self._store, [row], self._repeat_store_option())
        return f"Deleted. Undo: ^X, or within {formatting.format_count(self.bin_days, 'day')}: {back}"

    def _restore(self, kept: DeletedSession) -> str:
        try:
            row = self._store.restore(kept)
        except FileNotFoundError:  # it was restored elsewhere, or deleted for good
            row = self._find_by_name(kept.agent_folder, name_before_delete(kept.name))
            if row.created > kept.deleted_at:  # its id was used again
                raise NoSuchSession("The session was deleted for good. A newer one has its id.") from None
        self.brought_back = make_key(row)
        is_readable = self._store.explain_if_unreadable(row.agent_folder, row.name) is None
        return _say_is_back(row) + ("" if is_readable else " No list shows it, as it cannot be read: acp-proxy verify")

    def _archive_as_before(self, row: ListedSession) -> str:
        self._store.set_listed_archived(self._find_now(row), row.is_archived)
        self.brought_back = make_key(row)
        return "Archived again." if row.is_archived else _say_is_back(row)


def _say_is_back(row: ListedSession) -> str:
    """Which one it is: it need not be the one that was deleted last, but permanently."""
    return f'"{formatting.strip_markdown(row.title or "") or row.selector}" is back.'


def _format_excerpt(excerpt: "Excerpt", cwd: str | None) -> str:
    """Where the words are, in a line that begins shortly before the first of them."""
    from acp_proxy.tools.search.results import split_excerpt

    pieces = list(split_excerpt(excerpt, cwd))
    first_found = next((index for index, (_, is_found) in enumerate(pieces) if is_found), 0)
    text_before, text = ("".join(piece for piece, _ in part) for part in (pieces[:first_found], pieces[first_found:]))
    text_before = text_before if len(text_before) <= _CHARACTERS_BEFORE else f"…{text_before[-_CHARACTERS_BEFORE:]}"
    return f"turn {excerpt.turn}: {text_before}{text}"


def _export(store: CommandStore, row: ListedSession, text: str) -> str:
    from acp_proxy.tools.export.command import export_to_named_file

    path = Path(os.path.expanduser(text))
    try:
        export_to_named_file(store, row, path)
    except AlreadyThere as problem:
        raise AcpProxyError(f"{path} already exists. Give another name.") from problem
    except UsageError as problem:
        raise AcpProxyError(str(problem).replace(", or choose a format with --format", "")) from problem
    return f"Exported to {os.path.abspath(path)}"


def suggest_name(row: ListedSession) -> str:
    """A file for an export of this session that is not there yet."""
    from acp_proxy.tools.export.command import make_file_name, make_short_file_name

    name = f"{make_short_file_name(row)}.md"
    return f"{make_file_name(row)}.md" if os.path.lexists(name) else name
