"""Checks what was written, as ``doctor`` does, and says what the user does next."""

from collections.abc import Sequence

from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.tools.editors.agent_names import make_typed_line
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.known_editors import EXTENSION_TITLE, VSCODE_BUILDS, Name
from acp_proxy.tools.setup import setup as steps
from acp_proxy.tools.setup.setup import FileChange
from acp_proxy.tools.setup.try_agents import ANSWER_SECONDS, TriedAgents

_NEXT_STEP = {
    Name.ZED: "In Zed: open the agent panel and begin a new thread with the agent.",
    Name.JETBRAINS: "In your JetBrains IDE: open AI Chat and choose the agent. If it runs already, restart the IDE.",
    **{
        name: f'In {title}: run the command "Developer: Reload Window", then choose the agent in "{EXTENSION_TITLE}".'
        for name, (title, _, _) in VSCODE_BUILDS.items()
    },
    Name.PASEO: "In Paseo: restart its daemon (paseo daemon restart), and choose the agent.",
}
"""What the user does next, by editor."""


def report_written(machine: Machine, written: Sequence[FileChange], tried_agents: TriedAgents) -> bool:
    """Check what was written, as ``doctor`` does, and say what the user does next. Returns whether nothing of what was
    written is wrong, apart from the agents, of which the user has read."""
    from acp_proxy.cli.open_store import find_root, make_new_files_private, read_umask
    from acp_proxy.store.store_root import resolve_root
    from acp_proxy.tools.doctor.report import diagnose

    texts_to_do = [
        f"{change.path} was written again, and not by setup. Close its editor, then run acp-proxy setup again."
        for change in written
        if not steps.is_as_written(change)
    ]
    umask = read_umask()
    make_new_files_private()
    diagnosis = diagnose(find_root(str(resolve_root(""))), machine, [], ANSWER_SECONDS, umask, lambda _: None)
    faults = [
        advice
        for advice in diagnosis.advice
        if advice.is_wrong and not any(text in advice.text for text in tried_agents.problems)
    ]
    readers = [(editor, change) for change in written for editor in steps.find_sharers(change, machine)]
    written_places = {f'"{entry.name}" in {editor.title}' for editor, change in readers for entry in change.entries}
    texts_to_do += [advice.text for advice in faults if any(place in advice.found_in for place in written_places)]
    is_well = not texts_to_do
    texts_to_do += [
        advice.text for advice in faults if not advice.found_in
    ]  # of the store, or of acp-proxy's own configuration
    titles = {editor.title for editor, _ in readers}
    notes = [advice.text for advice in faults if any(f'" in {title}' in advice.found_in for title in titles)]
    for text in (text for text in notes if text not in texts_to_do):
        print_on_stderr(f"Note: {text}")
    if texts_to_do:
        print_on_stderr("What to do:")
        for number, text in enumerate(dict.fromkeys(texts_to_do), 1):
            print_on_stderr(f"  {number}. {text}", indent_columns=len(f"  {number}. "))
    if tried_agents.some_answer:
        for editor, _ in readers:
            print_on_stderr(_NEXT_STEP[editor.name])
    print_on_stderr(f"To take this back: {make_typed_line('setup', '--undo')}")
    return is_well
