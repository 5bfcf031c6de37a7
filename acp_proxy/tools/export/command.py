"""``acp-proxy export``: write sessions as documents or as transcripts."""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from acp_proxy import shell_quote
from acp_proxy.cli import completion, output_files, values
from acp_proxy.cli.choose_session import choose_session, explain_unknown_agent
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import find_screen
from acp_proxy.cli.progress import show_progress
from acp_proxy.cli.report_errors import print_failures, print_on_stderr, report_errors, report_wrong_usage
from acp_proxy.cli.session_filter import BranchOption, CwdOption, HereOption, SinceOption, UntilOption, make_filter
from acp_proxy.cli.shared_options import AgentOption, StoreOption
from acp_proxy.config import options
from acp_proxy.errors import AcpProxyError, AlreadyThere, UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.raw_lines import wait_for_last_line
from acp_proxy.tools.redact.redact_files import mask_copy
from acp_proxy.tools.stats.usage import measure_session
from acp_proxy.transcript.file_names import file_name
from acp_proxy.views import sanitize
from acp_proxy.views.formatting import SHORTEST_ID, strip_markdown

if TYPE_CHECKING:  # imported late: no other command needs them
    from acp_proxy.redaction.masking import Masking
    from acp_proxy.store.index_database import ListedSession
    from acp_proxy.tools.export.hide_home import HomeHider
    from acp_proxy.transcript.reader import TranscriptReader
    from acp_proxy.views.conversation import OpenChild
    from acp_proxy.views.document import Choices, Head

_Format = Literal["md", "html", "json", "cast", "jsonl"]
_Tools = Literal["none", "summary", "full"]
_JSONL: _Format = "jsonl"
_INDEX = "index.html"
_MOST_LISTED = 10
"""More files than these are not listed on a terminal."""
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_SLUG_LENGTH, _WORD_CATEGORIES = 40, "LMN"
"""The characters of a title in a file name, and Unicode's categories of those that belong to a word."""
_SUFFIXES: dict[str, _Format] = {
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".cast": "cast",
    ".jsonl": _JSONL,
}


def export(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SESSION...",
            help="Ids, beginnings of ids, titles, or: last.",
            autocompletion=completion.complete_session,
        ),
    ] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    all_sessions: Annotated[
        bool, typer.Option("--all", help="Export every session that the options leave, also archived ones.")
    ] = False,
    cwd: CwdOption = "",
    here: HereOption = False,
    since: SinceOption = "",
    until: UntilOption = "",
    branch: BranchOption = "",
    turn: values.TurnOption = "",
    form: Annotated[
        _Format | None,
        typer.Option(
            "--format", metavar="FORMAT", help="md, html, json, cast, jsonl. Default: by the file's name, or md."
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A file; for several sessions a directory. Default: -, for stdout.",
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    web: Annotated[
        bool,
        typer.Option("--web", "-w", help="Open the HTML page in the browser."),
    ] = False,
    tools: Annotated[
        _Tools | None,
        typer.Option(
            metavar="HOW", help="Tool calls: none, summary (a line each) or full. Default: full; in md: summary."
        ),
    ] = None,
    thoughts: Annotated[
        bool | None, typer.Option("--thoughts/--no-thoughts", help="Include the agent's thoughts. Default: not in md.")
    ] = None,
    redact: Annotated[
        str,
        typer.Option(
            "--redact",
            metavar="keys|FILE",
            help="Mask known forms of keys; with FILE, also your own patterns.",
        ),
    ] = "off",
) -> None:
    """Export conversations, to share or to keep them.

    Example: acp-proxy export last --output session.html
    Example: acp-proxy export last --web
    Example: acp-proxy export --all --since 30d --format html --output pages/

    md is for pull requests. html is a page for any screen, which loads nothing; several get an index.html with a
    search. json is for programs, cast for asciinema. These show home directories as ~. jsonl is the transcript, byte
    for byte, for acp-proxy import.
    """
    is_narrow = bool(cwd or here or since or until or branch)
    is_several = all_sessions or is_narrow or len(sessions or ()) > 1
    output = "" if output == "-" else output
    with report_wrong_usage():
        if sessions and all_sessions:
            raise UsageError("SESSION and --all exclude each other. Give one of them.")
        if sessions and is_narrow:
            raise UsageError(
                "SESSION and --cwd, --here, --since, --until or --branch exclude each other. Leave out one of them."
            )
        if not is_several and not sessions:
            raise UsageError("no session is given. Name sessions, as in: acp-proxy export last. Or use --all.")
        if turn and is_several:
            raise UsageError("--turn is for one session. Leave it out, or name one session.")
        session_filter = make_filter(agent, cwd, here, since, until, branch)
        if web and (is_several or output or force or form not in (None, "html")):
            raise UsageError("--web shows one session as HTML. Leave out --all, --output, --force and --format.")
        if is_several and not output:
            raise UsageError(f"several sessions need a directory. {_advise_output(sessions or [])}")
        if is_several and not _is_directory(output) and (suffix := Path(output).suffix.lower()) in _SUFFIXES:
            options_for_all = (
                f"--output {shell_quote.quote(output[: -len(suffix)])}/ --format {form or _SUFFIXES[suffix]}"
            )
            raise UsageError(
                f"{output} names one file, but each session gets a file of its own. Name a directory: {options_for_all}"
            )
        format_of_name = _SUFFIXES.get(Path(output).suffix.lower())
        if form and format_of_name and form != format_of_name and not is_several and not _is_directory(output):
            raise UsageError(f"--format {form} does not fit {output}. Leave out --format, or end the name in .{form}.")
        chosen_form = (
            "html" if web else form or _choose_format(output, is_directory=is_several or _is_directory(output))
        )
        choices = _make_choices(chosen_form, tools, thoughts, values.parse_turns(turn))
        masking = _make_masking(redact)
    with report_errors(), ExitStack() as stack:
        opened_store = open_store(store)
        all_rows = session_filter.list_newest(opened_store) if is_several and not sessions else ()
        named_rows = [*all_rows, *(choose_session(opened_store, selector, agent) for selector in sessions or ())]
        # A session given twice is written once.
        rows = list({(row.agent_folder, row.name): row for row in named_rows}.values())
        left_out = opened_store.list_unreadable(agent) if is_several and not sessions else []
        print_failures("not exported", left_out)
        if not rows:
            unknown = explain_unknown_agent(opened_store, agent)
            text = f"{unknown[:1].upper()}{unknown[1:]}" if unknown else "There is no session to export."
            print_on_stderr(text if unknown else f"{text} To see all sessions: acp-proxy list")
            raise typer.Exit(1 if session_filter.is_narrow or left_out else 0)  # as for list
        source, target = _Source(opened_store, chosen_form, choices, masking), Path(os.path.expanduser(output))
        stack.callback(source.warn)
        if web:
            _export_to_browser(source, rows[0])
        elif not output:
            with source.open_exported(rows[0]) as exported:
                output_files.write_to_stdout(exported.pieces)
        elif is_several or _is_directory(output):
            _export_to_directory(source, rows, target, force=force, with_index=is_several and chosen_form == "html")
        else:
            with source.open_exported(rows[0]) as exported:
                output_files.write_file(target, exported.pieces, force=force)
            typer.echo(sanitize.make_line(str(target)))
        if left_out:
            raise typer.Exit(1)


def export_to_named_file(store: CommandStore, row: "ListedSession", output: Path) -> None:
    """Write a session in the format of the file's suffix. Raises AcpProxyError, OSError."""
    form = _choose_format(str(output), is_directory=False)
    with _Source(store, form, _make_choices(form, None, None, (1, None)), None).open_exported(row) as exported:
        output_files.write_file(output, exported.pieces, force=False)


def make_file_name(row: "ListedSession") -> str:
    """The name of a session's file when several are exported, without the suffix."""
    return _make_name(row.title or "", row)


def make_short_file_name(row: "ListedSession") -> str:
    """The name of a session's file that is alone, without the suffix: the words of its title."""
    return "-".join(_list_words(row.title or "")) or "session"


def _choose_format(output: str, *, is_directory: bool) -> _Format:
    """The format that a file name means. Raises UsageError."""
    suffix = "" if is_directory else Path(output).suffix.lower()
    if suffix and suffix not in _SUFFIXES:
        raise UsageError(
            f"{output}: no format has this suffix. Use {', '.join(_SUFFIXES)}, or choose a format with --format."
        )
    return _SUFFIXES.get(suffix, "md")


def _advise_output(words: list[str]) -> str:
    """What to write for several sessions without --output: the last of the words, if that is a place and no SESSION."""
    is_place = len(words) > 1 and (
        _is_directory(words[-1])
        or (len(words) == 2 and Path(words[-1]).suffix.lower() in _SUFFIXES and not os.path.isfile(words[-1]))
    )
    return f"Did you mean --output {shell_quote.quote(words[-1])}?" if is_place else "Use --output DIR."


def _is_directory(output: str) -> bool:
    return output.endswith("/") or Path(os.path.expanduser(output)).is_dir()


@dataclass(frozen=True, slots=True)
class _ExportedSession:
    """A session as it is exported. ``title``, ``cwd``: as the document shows them. ``collect_words``: reads what the
    search of the page of all sessions will find."""

    title: str
    cwd: str
    pieces: Iterable[bytes]
    collect_words: Callable[[], set[str]]


@dataclass(frozen=True, slots=True)
class _Source:
    """The sessions of a store, in the requested format."""

    store: CommandStore
    form: _Format
    choices: "Choices"
    masking: "Masking | None"
    secrets: Counter[str] = field(default_factory=Counter)
    """The known secrets in what was written: how many of each rule."""

    def warn(self) -> None:
        """Say which known secrets were written, as exports are shared."""
        if self.secrets:
            kinds = ", ".join(f"{name} ({count})" for name, count in self.secrets.most_common())
            print_on_stderr(
                f"acp-proxy: the export contains known forms of secrets: {kinds}. To mask them, add: --redact keys. "
                "To mask them in the store, too: acp-proxy redact"
            )

    @contextmanager
    def open_exported(self, row: "ListedSession") -> Iterator[_ExportedSession]:
        """Yields a session, ready to be written. Raises OSError, NewerFormat."""
        from acp_proxy.tools.export.hide_home import HomeHider

        hider = HomeHider(row.cwd, os.path.expanduser("~"))
        with ExitStack() as stack:
            reader, title = self.store.open_listed(row), row.title
            stack.callback(reader.close)
            wait_for_last_line(reader)
            if self.masking is not None:
                reader, title = stack.enter_context(mask_copy(self.store, row, reader, self.masking))

            @contextmanager
            def open_child(session_id: str) -> Iterator["TranscriptReader | None"]:
                with self.store.open_child(row, session_id) as child_reader:
                    if child_reader is None or self.masking is None:
                        yield child_reader
                        return
                    with mask_copy(self.store, row, child_reader, self.masking) as (masked_copy, _):
                        yield masked_copy

            def collect_words() -> set[str]:
                from acp_proxy.tools.export.index_page import collect_words
                from acp_proxy.views.conversation import read_turns

                return collect_words(hider.hide_in_turns(read_turns(reader, row.session_id)), self.choices)

            pieces = self._make_pieces(self._make_head(row, title, reader), reader, hider, open_child)
            yield _ExportedSession(hider.hide(title or ""), hider.hide(row.cwd or ""), pieces, collect_words)

    def _make_pieces(
        self, head: "Head", reader: "TranscriptReader", hider: "HomeHider", open_child: "OpenChild"
    ) -> Iterable[bytes]:
        if self.form == _JSONL:
            return reader.read_bytes(0)
        from acp_proxy.tools.export.formats import choose_turns, export_turns

        choices = choose_turns(self.choices, reader, head.session_id)
        return map(str.encode, self._count_secrets(export_turns(self.form, head, reader, choices, hider, open_child)))

    def _count_secrets(self, pieces: Iterable[str]) -> Iterator[str]:
        from acp_proxy.redaction.masking import Masking

        masking = Masking()
        for piece in pieces:
            text = piece.replace("\\", "") if self.form == "md" else piece  # a user's words are escaped in Markdown
            self.secrets.update(span.rule.name for span in masking.find(text))
            yield piece

    def _make_head(self, row: "ListedSession", title: str | None, reader: "TranscriptReader") -> "Head":
        from acp_proxy.tools.export.formats import make_head

        head = make_head(row, title, reader)
        if self.form != "html":
            return head
        usage = measure_session(self.store, row)
        return replace(head, tokens=usage.count_tokens(usage.total), cost=usage.total.cost)


def _export_to_directory(
    source: _Source, rows: "list[ListedSession]", directory: Path, *, force: bool, with_index: bool
) -> None:
    """Write each session to its own file, and a page of them all. If one cannot be written, go on with the others."""
    output_files.make_directory(directory)
    written_paths, failures, existing_count, session_count = [], [], 0, 0
    index = _Index(rows) if with_index else None
    if with_index:
        rows = sorted(rows, key=lambda row: row.updated, reverse=True)
    for row in show_progress(rows, "Exporting"):
        try:
            with source.open_exported(row) as exported:
                path = directory / f"{_make_name(exported.title, row)}.{source.form}"
                output_files.write_file(path, exported.pieces, force=force)
                written_paths.append(path)
                session_count += 1
                if index is not None:
                    index.add(row, exported, path)
        except AlreadyThere:
            existing_count += 1
        except (AcpProxyError, OSError) as problem:
            failures.append(f"{row.selector}: {_explain(problem)}")
    if index is not None and written_paths:
        path = directory / _INDEX
        try:
            output_files.write_file(path, index.make_pieces(), force=force)
            written_paths.append(path)
        except AlreadyThere:
            existing_count += 1
        except (AcpProxyError, OSError) as problem:
            failures.append(f"{_INDEX}: {_explain(problem)}")
    shown_paths = written_paths
    if (
        find_screen().is_terminal and len(written_paths) > _MOST_LISTED
    ):  # a person wants to know where, a program each path
        shown_paths = written_paths[-1:] if index is not None else []
    for path in shown_paths:
        typer.echo(sanitize.make_line(str(path)))
    if session_count:
        sessions = "1 session" if session_count == 1 else f"{session_count:,} sessions"
        typer.echo(sanitize.make_line(f"Exported {sessions} to {directory}"), err=True)  # not wrapped: a path to copy
    print_failures("not exported", failures)
    if existing_count:
        files = "1 file" if existing_count == 1 else f"{existing_count:,} files"
        print_on_stderr(
            f"acp-proxy: not replaced: {files} in {sanitize.make_line(str(directory))}."
            " To replace what is there: --force"
        )
    if failures or existing_count:
        raise typer.Exit(1)


def _explain(problem: AcpProxyError | OSError) -> str:
    return f"{problem.strerror}. Run: acp-proxy doctor" if isinstance(problem, OSError) else str(problem)


class _Index:
    """What the page of all sessions will show of these ``rows``, newest first."""

    def __init__(self, rows: "list[ListedSession]") -> None:
        from acp_proxy.tools.export.index_page import IndexEntry, WordIndex  # imported late, as for html alone
        from acp_proxy.views.session_lines import make_distinct_names

        self._agents = make_distinct_names(dict.fromkeys(row.agent_folder for row in rows))
        self._words = WordIndex()
        self._entries: list[IndexEntry] = []

    def add(self, row: "ListedSession", exported: _ExportedSession, path: Path) -> None:
        """Add an exported session. ``path``: its file. Raises OSError."""
        from acp_proxy.tools.export.index_page import IndexEntry

        if self._words.has_room:
            self._words.add(exported.collect_words())
        agent = self._agents[row.agent_folder]
        entry = IndexEntry(
            path.name, exported.title, agent, exported.cwd, row.updated, row.prompt_count, row.copy_of is not None
        )
        self._entries.append(entry)

    def make_pieces(self) -> Iterator[bytes]:
        from acp_proxy.tools.export.index_page import render_index

        return map(str.encode, render_index(self._entries, self._words))


def _export_to_browser(source: _Source, row: "ListedSession") -> None:
    """Write a page, and open it in the browser. The file stays: a browser reads it when it wants to. Raises
    AcpProxyError, OSError."""
    import tempfile
    import webbrowser

    path = Path(tempfile.mkdtemp(prefix="acp-proxy-")) / f"{make_short_file_name(row)}.html"
    with source.open_exported(row) as exported:
        output_files.write_file(path, exported.pieces, force=False)
    if not webbrowser.open(path.as_uri()):
        raise AcpProxyError(f"no browser was found. Open the page yourself: {path}")
    typer.echo(sanitize.make_line(str(path)))


def _make_name(title: str, row: "ListedSession") -> str:
    """A file name made of the title's words, in any script, and of the id as lists show it; different for every
    session."""
    id = row.selector if row.copy_of is not None else row.selector[:SHORTEST_ID].rstrip("-")
    unique = file_name(f"{title:<200}{row.agent_folder}/{row.name}").rpartition("-")[2][:SHORTEST_ID]
    return "-".join([*(_list_words(title) or ["session"]), *([id] if _PLAIN_ID.fullmatch(id) else []), unique])


def _list_words(title: str) -> list[str]:
    """The first words of a title, in any script."""
    title = strip_markdown(title)
    beginning = title[: _SLUG_LENGTH + 1]
    lowered = unicodedata.normalize("NFC", beginning).lower()
    words = "".join(
        character if unicodedata.category(character)[0] in _WORD_CATEGORIES else " " for character in lowered
    ).split(" ")
    if len(beginning) < len(title) and len(words) > 1:
        words.pop()  # it may be a part of a word
    return [word[:_SLUG_LENGTH] for word in words if word]


def _make_choices(form: _Format, tools: _Tools | None, thoughts: bool | None, turns: values.Turns) -> "Choices":
    """The reader's choices, with the defaults of the format. Raises UsageError."""
    from acp_proxy.views.document import Choices

    if form in (_JSONL, "cast") and (tools is not None or thoughts is not None or turns != (1, None)):
        raise UsageError(
            f"{form} exports the complete conversation. Use --turn, --tools and --thoughts with md, html or json."
        )
    is_markdown = form == "md"  # for reviewers: a pull request takes 64 KiB
    default_tools: _Tools = "summary" if is_markdown else "full"
    return Choices(tools or default_tools, not is_markdown if thoughts is None else thoughts, *turns)


def _make_masking(redact: str) -> "Masking | None":
    """The masking that ``--redact`` means; None: mask nothing. Raises UsageError."""
    patterns = options.read_patterns(redact)
    if patterns is None:
        return None
    from acp_proxy.redaction.masking import Masking

    return Masking(patterns)
