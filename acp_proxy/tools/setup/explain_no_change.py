"""Says that nothing changes, and which command line would add an agent."""

from collections.abc import Sequence

from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.tools.editors.agent_names import make_typed_line
from acp_proxy.tools.editors.known_editors import EDITORS, Name, SettingsFiles
from acp_proxy.tools.setup import overview
from acp_proxy.tools.setup.setup import FileChange, FoundEntry


def explain_no_change(
    changes: Sequence[FileChange],
    editors: Sequence[Name],
    chosen: Sequence[FoundEntry],
    agent: str,
) -> bool:
    """Say that nothing changes. Returns whether what the user wants is there. ``chosen``: the entries of the agent that
    the user has named. ``agent``: the name."""
    chosen_names = {entry.name for _, entry in chosen}
    is_any_broken = any(overview.has_broken(plan, chosen_names or None) for plan in changes)
    if chosen:
        print_on_stderr("Nothing to change.")
        return not is_any_broken
    if not changes:
        titles_by_name = {
            str(name): known_editor.title
            for name, known_editor in EDITORS.items()
            if isinstance(known_editor.configured, SettingsFiles)
        }
        titles, other_names = ", ".join(titles_by_name.values()), ", ".join(list(titles_by_name)[1:])
        editor_options = [word for name in editors or list(titles_by_name)[:1] for word in ("--editor", str(name))]
        command_to_make = make_typed_line("setup", *editor_options, "--agent", agent or "COMMAND")
        or_other_names = "" if editors else f" (or {other_names})"
        print_on_stderr(
            f"None of {titles} has settings of agents on this machine. To write them: {command_to_make}{or_other_names}"
        )
        print_on_stderr(f"For Neovim, Emacs and others: {make_typed_line('editor', 'EDITOR', agent or 'COMMAND')}")
        return not (editors or agent)
    editor_options = [word for name in editors for word in ("--editor", str(name))]
    command_to_add = make_typed_line("setup", *editor_options, "--agent", agent or "COMMAND")
    example = "" if agent else f". For example: {make_typed_line('setup', *editor_options, '--agent', 'claude-acp')}"
    print_on_stderr(f"Nothing to change. To add an agent: {command_to_add}{example}")
    return not is_any_broken
