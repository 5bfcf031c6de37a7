"""The extension that VS Code needs to read agents: settings that nothing reads without it, and where to get it."""

from collections.abc import Sequence
from pathlib import Path

from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import find_configurations
from acp_proxy.tools.editors.known_editors import EDITORS, EXTENSION, EXTENSION_TITLE, Editor, Name, SettingsFiles
from acp_proxy.tools.setup.setup import FileChange


def lacks_extension(editor: Name, machine: Machine) -> bool:
    """Whether nothing reads an editor's settings of agents, because the extension that does is not installed."""
    kind = EDITORS[editor].configured
    assert isinstance(kind, SettingsFiles)
    return kind.lacks_extension(machine)


def find_unread_settings(settings: Sequence[tuple[Editor, Path]], machine: Machine) -> list[tuple[Editor, Path]]:
    """The settings that have no agents, and that nothing would read for lack of an extension."""
    used_paths = {found.path for found in find_configurations(machine) if found.agents or found.problem is not None}
    return [
        (editor, path) for editor, path in settings if path not in used_paths and lacks_extension(editor.name, machine)
    ]


def explain_missing_extension(plans: Sequence[FileChange], machine: Machine) -> None:
    """Say which editors lack the extension that reads the new entry."""
    for plan in plans:
        if lacks_extension(plan.editor, machine):
            print_on_stderr(
                f'{EDITORS[plan.editor].title} has no extension "{EXTENSION_TITLE}", which starts the agent. '
                f"Install it there: {EXTENSION}"
            )
