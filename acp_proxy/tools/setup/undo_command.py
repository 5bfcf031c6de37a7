"""``acp-proxy setup --undo``: take back what setup did, and say what stays, and why."""

from collections.abc import Sequence
from pathlib import Path

import typer

from acp_proxy.cli.confirm import ask
from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.tools.editors.agent_names import make_typed_line
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.known_editors import EDITORS, Name
from acp_proxy.tools.editors.own_files import make_removal
from acp_proxy.tools.setup.agent_option import find_changed_names
from acp_proxy.tools.setup.explain_remaining import explain_remaining
from acp_proxy.tools.setup.record import Record, RecordStays, explain_copy
from acp_proxy.tools.setup.setup import FileChange, explain_problem
from acp_proxy.tools.setup.undo import is_file_of, plan_undo, write_undo
from acp_proxy.tools.setup.write_changes import report_failure, write_changes
from acp_proxy.views import sanitize


def undo_setup(
    machine: Machine,
    record: Record,
    editors: Sequence[Name],
    agent: str,
    registry: str,
    command_line_again: str,
    *,
    force: bool,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Take back what setup did, in the settings of ``editors``; of all, if there are none. ``agent``: to this agent
    alone; empty: to all. ``registry``: the value of ``--registry``. Returns whether nothing of setup had to stay.
    Raises UsageError."""
    plans = [plan_undo(Path(path), file_record) for path, file_record in record.files.items()]
    plans = [
        plan
        for plan in plans
        if not editors or plan.editor in editors or any(is_file_of(EDITORS[name], plan.path) for name in editors)
    ]
    names_by_path = find_changed_names(agent, plans, record, registry) if agent else None
    edited_names = {plan.path: list[str]() for plan in plans}

    def plan_again(path: Path) -> FileChange:
        only_names = names_by_path[path] if names_by_path is not None else None
        return plan_undo(path, record.files[str(path)], only_names, edited_names[path])

    if names_by_path is not None:
        plans = [plan_again(plan.path) for plan in plans if names_by_path[plan.path]]
    for plan in plans:
        edited_names[plan.path] = _choose_edited(plan, force=force, asks=not yes and not dry_run)
    plans = [plan_again(plan.path) if edited_names[plan.path] else plan for plan in plans]
    has_plans, failures = bool(plans), list[str]()
    for plan in plans:
        if plan.is_copy_changed:
            print_on_stderr(
                f"The copy of {plan.path} has changed since setup made it, so it is not given back, and stays."
            )
        for name, reason in plan.kept:
            advice = "To take acp-proxy out: write the agent's own command there, or delete the entry."
            if name in dict(plan.edited):
                advice = f"To remove it all the same: {command_line_again} --force"
            print_on_stderr(f'"{name}" in {plan.path} stays as it is: {reason}. {advice}')
        if plan.problem is not None:
            print_on_stderr(explain_problem(plan))
        elif not plan.entries and not plan.kept:
            print_on_stderr(_explain_nothing_left(plan, record))
            if plan.is_settled and not dry_run:
                _settle(plan, record, failures)
    question = "Take this back?", command_line_again
    undone, is_every_file_right = write_changes(
        plans, lambda plan: write_undo(plan, record), question, dry_run=dry_run, yes=yes
    )
    if undone:
        print_on_stderr("An agent that runs keeps acp-proxy in front of it until its editor starts it again.")
    if agent:
        return is_every_file_right and not any(plan.kept for plan in plans)
    is_all_found, is_any_named = explain_remaining(machine, editors, plans, record)
    if not has_plans and not is_any_named:
        texts = [f"{EDITORS[name].title} has nothing of setup." for name in dict.fromkeys(editors)]
        for text in texts or ["Nothing left to undo: no settings here have anything of setup."]:
            print_on_stderr(text)
    for plan in plans:
        copy_path = record.find_copy(plan.path) if plan.entries or plan.kept else None
        if copy_path is None or plan.is_settled or plan.is_copy_changed:
            continue
        print_on_stderr(f"The copy from before setup stays, too: {copy_path}")
        if plan.gone:
            names = ", ".join(f'"{name}"' for name in plan.gone)
            removal = make_removal(copy_path)
            print_on_stderr(f"Not in {plan.path} any more: {names}. If you do not need the copy: {removal}")
    return not failures and is_every_file_right and is_all_found and not any(plan.kept for plan in plans)


def _choose_edited(plan: FileChange, *, force: bool, asks: bool) -> list[str]:
    """Which of the entries go that setup added and the user has edited since. ``asks``: the user says it of each."""
    names = list[str]()
    for name, text in plan.edited:
        if not force and asks:
            print_on_stderr(f"setup added this to {plan.path}, and it may have been edited since:")
            for line in text.splitlines():
                typer.echo(sanitize.make_line(line))
        if force or (asks and ask("Remove it?", declined="Nothing was changed.", options_to_skip="--yes --force")):
            names.append(name)
    return names


def _settle(plan: FileChange, record: Record, failures: list[str]) -> None:
    """Remove the copy and the record of a file in which nothing of setup is. ``failures``: gets what cannot be done."""
    copy_path = record.find_copy(plan.path)
    with report_failure(plan.path, failures):
        try:
            write_undo(plan, record)
        except RecordStays as problem:
            copy_text = f" and its copy, {copy_path}, stay" if copy_path is not None else " stays"
            failures.append(f"The record{copy_text}, because {problem}.")
            print_on_stderr(failures[-1])


def _explain_nothing_left(plan: FileChange, record: Record) -> str:
    """What to say of a file in which nothing of setup is: where its copy is, which stays until it is of no use."""
    copy_path = record.find_copy(plan.path)
    if plan.old_content is None:
        if copy_path is not None:
            removal = make_removal(copy_path)
            return f"{plan.path} is missing. {explain_copy(plan.path, copy_path)}. If you do not need it: {removal}"
        if plan.is_settled:
            return f"{plan.path} is missing, and setup has no copy of it, so nothing is left to undo there."
        command = make_typed_line("setup", "--undo")
        return f"{plan.path} is missing, and setup has no copy of it. If it comes back: {command}"
    text = f"{plan.path} has nothing of setup any more."
    if plan.is_settled or copy_path is None:
        return text
    removal = make_removal(copy_path)
    return f"{text} {explain_copy(plan.path, copy_path)}. If you do not need it: {removal}"
