"""``acp-proxy import``: import exported transcripts into a store."""

import os
import sys
from pathlib import Path
from typing import IO, Annotated

import typer

from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.progress import show_progress
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.shared_options import StoreOption
from acp_proxy.errors import DISK_FULL, AcpProxyError, NotImported, errno_name
from acp_proxy.tools.export.import_file import import_transcript, read_creation_time
from acp_proxy.transcript.file_names import make_selector
from acp_proxy.views import sanitize

_STDIN = "-"
_NUMBER_SHOWN_FROM = 10
"""With more files than these, the command says how many were imported."""


def import_sessions(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Transcripts: .jsonl, or compressed: .jsonl.zst. -: stdin."),
    ],
    store: StoreOption = "",
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also import files with damaged lines. acp-proxy repair can repair them.")
    ] = False,
) -> None:
    """Import exported transcripts, byte for byte.

    You can list, show and load them like sessions recorded here. The command refuses files that are not transcripts,
    and transcripts of a later version. It never replaces a session that already exists. The exit status is 1 if it
    refused a file. If several files are different sessions with one id, the newest gets the id; a session that has it
    already keeps it. The others are s0~1 and so on.

    From another machine: ssh HOST acp-proxy export last --format jsonl | acp-proxy import -

    Example: acp-proxy import session.jsonl
    """
    lines: list[str] = []
    refused: list[str] = []
    unlisted: list[str] = []  # without a conversation
    with report_errors():
        opened_store = open_store(store, create=True)
        # The newest first, so that it gets the id where an agent has used one again.
        files = sorted(
            files, key=lambda file: read_creation_time(_find_path(file)) if file != _STDIN else "", reverse=True
        )
        for file in show_progress(files, "Importing"):
            try:
                imported = import_transcript(opened_store, _open_source(file), accepts_damaged=damaged)
            except (AcpProxyError, OSError) as problem:
                reason = _explain(problem, opened_store.root) if isinstance(problem, OSError) else problem
                refused.append(f"{'stdin' if file == _STDIN else file}: {str(reason).removesuffix('.')}.")
                continue
            outcome = "imported" if imported.is_new else "here already"
            selector = make_selector(imported.agent_folder, imported.name, imported.session_id)
            lines.append(f"{selector}  {imported.agent_folder}  {outcome}")
            if imported.is_new and not imported.prompts:
                unlisted.append(selector)
    for text in lines:
        typer.echo(sanitize.make_line(text))
    if len(files) > _NUMBER_SHOWN_FROM:
        new_count = sum(text.endswith("  imported") for text in lines)
        print_on_stderr(
            f"{new_count:,} imported, {len(lines) - new_count:,} here already, {len(refused):,} not imported."
        )
    for text in unlisted:
        typer.echo(f"{sanitize.make_line(text)} contains no conversation. Lists do not show it.", err=True)
    for text in refused:
        typer.echo(f"acp-proxy: not imported: {sanitize.make_line(text)}", err=True)
    if refused:
        raise typer.Exit(1)


def _open_source(file: str) -> Path | IO[bytes]:
    """The file, or stdin for ``-``. Raises NotImported."""
    if file != _STDIN:
        return _find_path(file)
    if (stdin := getattr(sys.stdin, "buffer", None)) is None:
        raise NotImported("closed. Pipe a transcript into it, or name a file")
    return stdin  # type: ignore[no-any-return]


def _find_path(file: str) -> Path:
    return Path(os.path.expanduser(file))


def _explain(problem: OSError, root: Path) -> str:
    if os.path.isdir(problem.filename or ""):  # Windows reports it as a refusal
        return "it is a directory. Name the files in it"
    is_full = errno_name(problem) in DISK_FULL
    advice = f"Free some space in {root}" if is_full else "Check the file's name and permissions"
    return f"{problem.strerror}. {advice}"
