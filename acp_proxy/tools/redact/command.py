"""``acp-proxy redact``: mask secrets in recorded transcripts."""

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from acp_proxy.cli.choose_session import choose_session, list_rows_of_agent, shorten_ids
from acp_proxy.cli.confirm import ask_to_confirm
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.output_files import make_directory, report_output_errors
from acp_proxy.cli.progress import show_progress
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, SessionsArgument, StoreOption, YesOption
from acp_proxy.config import config_file, options
from acp_proxy.errors import NewerFormat, Unreadable, UsageError
from acp_proxy.redaction.masks import MASK_START
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.relatives import Relatives, TranscriptKey
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.transcript.file_names import SUFFIX, compressed_path
from acp_proxy.views import sanitize, session_lines

if TYPE_CHECKING:  # imported late: no other command needs it
    from acp_proxy.redaction.masking import Masking

_MOST_SHOWN = 20
"""Sessions listed before the question. --dry-run shows all."""

Counts = dict[Path, Counter[str]]
"""The number of secrets of each kind, by file."""

PatternsOption = Annotated[
    str,
    typer.Option(
        "--redact",
        metavar="keys|FILE",
        envvar="ACP_PROXY_REDACT",
        help="What to mask. keys: known forms of keys; FILE: also your own patterns, one per line. Default: keys.",
    ),
]


def redact(
    sessions: SessionsArgument = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    patterns: PatternsOption = "",
    backup: Annotated[
        str, typer.Option("--backup", metavar="DIR", help="Keep the originals, which contain the secrets, in DIR.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be masked; change nothing.")] = False,
    yes: YesOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Mask secrets in recorded transcripts, permanently. It asks first.

    The command masks every text that has the form of a key, also if a message spreads it over several chunks. Without
    --backup, the original is gone. You can run it while sessions are running, and more than once. Copies and forks of
    a session have its words, so they are masked with it, and so are what it was copied from, and the sessions of
    its subagents.

    Example: acp-proxy redact --dry-run
    """
    from acp_proxy.redaction.masking import Masking  # imported late: no other command needs it

    with report_errors():
        patterns_value = patterns or config_file.read_valid().get("redact", "keys")
        masking = Masking(options.read_patterns(patterns_value) or [])
        if as_json and not (dry_run or yes):
            raise UsageError("--json cannot ask. Add --dry-run or --yes.")
        opened_store = open_store(store, for_writing=not dry_run)
        chosen_rows = list_rows_of_agent(opened_store, agent) if agent else None
        if sessions:
            chosen_rows = [choose_session(opened_store, selector, agent, exact_title=yes) for selector in sessions]
        originals = _check_directory(backup, opened_store.root) if backup and not dry_run else None
        relatives = set[TranscriptKey]()
        if chosen_rows is not None:
            relatives = Relatives(opened_store.layout).find({(row.agent_folder, row.name) for row in chosen_rows})

        def find_paths() -> list[Path]:
            return opened_store.find_redactable(chosen_rows, relatives)

        redaction = _Redaction(opened_store, masking, find_paths)
        if yes and not dry_run:
            counts = redaction.mask(find_paths(), originals)
        else:
            counts = redaction.count(find_paths())
            if counts and not dry_run:
                _ask(
                    redaction.format_lines(counts),
                    _format_total(counts, redaction.searched_count, is_done=False),
                    originals,
                )
                counts = redaction.mask(list(counts), originals)
        if not dry_run:
            # Even if nothing was found: an earlier run may have been interrupted here.
            try:
                opened_store.reindex(chosen_rows, relatives)
            except Unreadable as problem:  # what was masked must be told all the same
                redaction.failures.append(f"titles in the index ({problem.name})")
        total = _format_total(counts, redaction.searched_count, is_done=not dry_run)
        if as_json:
            files = redaction.encode_files(counts)
            backup_directory = str(originals) if originals is not None else None
            typer.echo(json.dumps({"dryRun": dry_run, "files": files, "backup": backup_directory}, indent=2))
        else:
            for text in [*(redaction.format_lines(counts) if dry_run or yes else ()), total]:
                typer.echo(text)
            if originals is not None and counts:
                typer.echo(sanitize.make_line(f"The originals are in {originals}. They contain the secrets."))
    for text in redaction.failures:
        typer.echo(f"acp-proxy: not redacted: {text}. Fix this problem, then run the command again.", err=True)
    if redaction.failures:
        raise typer.Exit(1)


class _Redaction:
    """Counts and masks secrets, file by file. ``failures``: a line for each file with a problem."""

    def __init__(self, store: CommandStore, masking: "Masking", find_paths: Callable[[], list[Path]]) -> None:
        """``find_paths``: the files to search, as they are called now."""
        self._store = store
        self._masking = masking
        self._find_paths = find_paths
        self._known_paths: set[Path] = set()
        self.searched_count = 0
        self.failures: list[str] = []

    def count(self, paths: Sequence[Path]) -> Counts:
        """The secrets in these files; those without any are left out."""
        return self._redact_each(paths, "Searching", dry_run=True)

    def mask(self, paths: Sequence[Path], originals: Path | None) -> Counts:
        """Mask the secrets. ``originals``: a directory for the files as they were. Raises NotWritable."""
        if originals is not None:
            make_directory(originals)
        return self._redact_each(paths, "Masking", dry_run=False, originals=originals)

    def _redact_each(
        self, paths: Sequence[Path], title: str, *, dry_run: bool, originals: Path | None = None
    ) -> Counts:
        counts_by_path: Counts = {}
        missing_paths: set[Path] = set()
        while paths:
            self._known_paths.update(paths)
            for path in show_progress(paths, title):
                try:
                    counts_by_path[path] = redact_stored(
                        self._store, path, self._masking, dry_run=dry_run, backup=originals
                    )
                except FileNotFoundError:  # deleted in the meantime
                    missing_paths.add(path)
                except (OSError, NewerFormat) as problem:
                    reason = problem.strerror if isinstance(problem, OSError) else str(problem).removesuffix(".")
                    self.failures.append(f"{path.relative_to(self._store.root)}: {reason}")
            # What was soft-deleted or restored in the meantime has another name now, or its old one again.
            returned_paths = {path for path in missing_paths if _exists(path)}
            missing_paths -= returned_paths
            paths = [path for path in self._find_paths() if path not in self._known_paths or path in returned_paths]
        self.searched_count = max(self.searched_count, len(counts_by_path))
        return {path: counts for path, counts in counts_by_path.items() if counts}

    def format_lines(self, redacted_files: Counts) -> list[str]:
        """For each file: its session, without secrets in the title, or the file's name; and the counts by kind."""
        rows_by_path = {path: self._mask_title(row) for path, row in self._find_rows(redacted_files).items()}
        ids = shorten_ids(self._store, list(rows_by_path.values())) if rows_by_path else {}
        names = dict(
            zip(
                rows_by_path,
                session_lines.format_short_lines(list(rows_by_path.values()), ids) if rows_by_path else (),
                strict=True,
            )
        )
        return [
            f"{names.get(path) or sanitize.make_line(str(path.relative_to(self._store.root)))}: "
            + ", ".join(f"{count} x {rule}" for rule, count in sorted(counts.items()))
            for path, counts in redacted_files.items()
        ]

    def encode_files(self, redacted_files: Counts) -> list[dict[str, Any]]:
        rows_by_path = self._find_rows(redacted_files)
        return [
            {
                "file": str(path),
                "sessionId": rows_by_path[path].session_id if path in rows_by_path else None,
                "masked": dict(counts),
            }
            for path, counts in redacted_files.items()
        ]

    def _find_rows(self, counts: Counts) -> dict[Path, ListedSession]:
        """The sessions of those of the files that are listed sessions' transcripts."""
        if not counts:
            return {}
        with suppress(Unreadable):  # files are then called by their names
            transcripts = self._store.root / "transcripts"
            rows_by_path = {
                transcripts / row.agent_folder / f"{row.name}{SUFFIX}": row for row in self._store.list_newest()
            }
            return {path: rows_by_path[path] for path in counts if path in rows_by_path}
        return {}

    def _mask_title(self, row: ListedSession) -> ListedSession:
        title = row.title or ""
        if title.endswith("…"):  # the last word may be the beginning of a secret
            title = f"{title.rpartition(' ')[0]}…"
        for span in reversed(self._masking.find(title)):
            title = title[: span.start] + MASK_START + title[span.end :]
        return replace(row, title=title)


def _check_directory(directory: str, root: Path) -> Path:
    """The directory for the originals. Raises UsageError, NotWritable."""
    path = Path(os.path.expanduser(directory)).absolute()
    if path.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{path} is in the store, which would then still contain the secrets. Give another directory.")
    with report_output_errors(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} exists, and is not an empty directory. Give another directory.")
    return path


def _ask(lines: Sequence[str], total: str, originals: Path | None) -> None:
    """Show what was found, and ask whether to mask it."""
    for text in lines[:_MOST_SHOWN]:
        typer.echo(text, err=True)
    if len(lines) > _MOST_SHOWN:
        typer.echo(f"and {len(lines) - _MOST_SHOWN} more, which --dry-run shows", err=True)
    typer.echo(total, err=True)
    backup_text = (
        f"The originals will be in {originals}." if originals else "There will be no backup; --backup DIR makes one."
    )
    typer.echo(sanitize.make_line(backup_text), err=True)
    ask_to_confirm("Mask these secrets permanently?")


def _exists(path: Path) -> bool:
    return os.path.lexists(path) or os.path.lexists(compressed_path(path))


def _format_total(redacted_files: Counts, searched_count: int, *, is_done: bool) -> str:
    total = sum(counts.total() for counts in redacted_files.values())
    return f"{total} {'masked' if is_done else 'would be masked'}, in {len(redacted_files)} of {searched_count} files."
