"""Names what undo leaves to the user: what still starts acp-proxy, copies of another setup, and leftovers of one that
was killed."""

import os
from collections.abc import Sequence

from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import find_configurations
from acp_proxy.tools.editors.known_editors import Name
from acp_proxy.tools.editors.own_files import find_temporary, make_removal
from acp_proxy.tools.setup import setup as steps
from acp_proxy.tools.setup.record import COPY_SUFFIX, REPLACED, Record, explain_copy, list_copies
from acp_proxy.tools.setup.setup import FileChange


def explain_remaining(
    machine: Machine, editors: Sequence[Name], undone: Sequence[FileChange], record: Record
) -> tuple[bool, bool]:
    """Name what still starts acp-proxy, though not by the setup in this record, and the copies that this does not know:
    undo leaves them to the user. Returns whether no other setup can have done it, and whether anything was named."""
    plans = {plan.path: plan for plan in undone}
    entries = [
        found
        for editor, path in steps.find_settings(machine, editors)
        if (plan := plans.get(path)) is None or plan.problem is None  # what stays with a problem is named already
        for found in steps.find_entries(editor, path, plan)
    ]
    kept_entries = {(plan.path, name) for plan in undone for name, _ in plan.kept}
    repaired_entries = {
        (plan.path, change.name) for plan in undone for change in plan.entries if change.how == REPLACED
    }
    remaining = [
        (path, entry) for path, entry in entries if entry.mentions_proxy and (path, entry.name) not in kept_entries
    ]
    for path, entry in remaining:
        reason = "goes through acp-proxy, but setup did not write it there, so it stays"
        if (path, entry.name) in repaired_entries:
            reason = "names acp-proxy again as it did before setup, which had repaired it"
        print_on_stderr(
            f'"{entry.name}" in {path} {reason}. To take acp-proxy out: write the agent\'s own command there.'
        )
    is_all_found, is_any_named = True, bool(remaining)
    variable = {"win32": "APPDATA", "darwin": "HOME"}.get(machine.platform, "XDG_CONFIG_HOME")
    remaining_paths = {path for path, _ in remaining}
    for _, path in steps.find_settings(machine, editors):
        if path in plans:
            continue
        for copy_path in list_copies(path):
            is_all_found, is_any_named = is_all_found and path not in remaining_paths, True
            removal = make_removal(copy_path)
            print_on_stderr(
                f"{copy_path} is the copy of another setup, which {record.path} does not know. Its record may be where "
                f"{variable} was then. {explain_copy(path, copy_path)}. If you do not need it: {removal}"
            )
        for leftover in (find_temporary(each) for each in (path, path.with_name(path.name + COPY_SUFFIX))):
            if os.path.lexists(leftover):
                is_any_named = True
                removal = make_removal(leftover)
                print_on_stderr(f"A setup that was killed has left {leftover}. To remove it: {removal}")
    for configuration in find_configurations(machine):
        if configuration.mentions_proxy and not editors:
            print_on_stderr(f"{configuration.path} mentions acp-proxy. It is a program, which stays as it is.")
    return is_all_found, is_any_named
