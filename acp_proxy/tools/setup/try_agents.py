"""Starts each agent once, as its editor will do it, and leaves out those that do not answer."""

import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.tools.editors.known_editors import EDITORS, SettingsFiles
from acp_proxy.tools.editors.launch_commands import StartedAgent, find_started
from acp_proxy.tools.setup.setup import FileChange
from acp_proxy.views import sanitize

ANSWER_SECONDS = 60.0
"""How long each answer of an agent may take: a first start may download it."""
_END_SECONDS = 2.0
"""How soon after a Ctrl-C, which skips an agent, another one ends setup."""
_SLOW_ADVICE = "If it is only slow, write it all the same: --force"


@dataclass(slots=True)
class TriedAgents:
    """The agents that were started once. ``some_answer``: at least one of them. ``problems``: those of the others.
    ``silent``: the others, each with its file."""

    some_answer: bool = False
    problems: list[str] = field(default_factory=list)
    silent: list[tuple[Path, str]] = field(default_factory=list)


def choose_answering(
    plan_files: Callable[[Collection[tuple[Path, str]]], Sequence[FileChange]],
    tried_agents: TriedAgents,
    changes: Sequence[FileChange],
    *,
    force: bool,
    yes: bool,
    command_line_again: str,
) -> tuple[Sequence[FileChange], bool]:
    """Start the agents of these changes, and leave out those that do not answer, unless none does. Returns the changes
    to make, and whether Enter means yes. ``plan_files``: plans anew without these entries. ``tried_agents``: gets the
    results."""
    if try_agents(changes, tried_agents) or force:
        return changes, True
    remaining_changes = [
        change for change in plan_files(tried_agents.silent) if change.entries and change.problem is None
    ]
    if not remaining_changes and not yes:
        return changes, False
    changed_entries = {(change.path, entry.name) for change in remaining_changes for entry in change.entries}
    silent_names = dict.fromkeys(
        f'"{name}"' for path, name in tried_agents.silent if (path, name) not in changed_entries
    )
    if not silent_names:
        return changes, True
    print_on_stderr(
        f"Left out, until it answers: {', '.join(silent_names)}. To write it all the same: {command_line_again} --force"
    )
    return remaining_changes, True


def try_agents(changes: Sequence[FileChange], tried_agents: TriedAgents) -> bool:
    """Start each agent once, as its editor will after these changes, and say what is wrong. One with the same command
    and variables in several entries is started for all of them.

    Returns False if one does not answer. ``tried_agents``: gets the results.
    """
    from acp_proxy.cli.open_store import find_root, make_new_files_private, read_umask
    from acp_proxy.store.store_root import resolve_root
    from acp_proxy.tools.doctor.report import diagnose_agent

    print_on_stderr(
        "Now each agent is started once, as its editor does it. A first start may download it: up to "
        f"{ANSWER_SECONDS:.0f} s for an answer. Ctrl-C skips an agent."
    )
    umask = read_umask()
    make_new_files_private()
    root = find_root(str(resolve_root("")))
    same_agents: dict[object, list[tuple[Path, StartedAgent]]] = {}
    for path, agent in ((change.path, agent) for change in changes for agent in _find_changed(change)):
        same_agents.setdefault((agent.words, agent.environment), []).append((path, agent))
    interrupted_at = -math.inf
    for same in same_agents.values():
        agent, entries = same[0][1], [(path, agent.name) for path, agent in same]
        if agent.words is None:
            continue
        quoted_name, *other_names = dict.fromkeys(f'"{name}"' for _, name in entries)
        name = f"{quoted_name} (also {', '.join(other_names)})" if other_names else quoted_name
        if agent.fault is not None:
            tried_agents.problems.append(agent.fault)
            tried_agents.silent += entries
            print_on_stderr(sanitize.make_line(f"{name} does not answer: {agent.fault}. Correct its entry."))
            continue
        print_on_stderr(f"Starting {name} …")
        try:
            with _use_environment(dict(agent.environment)):
                report, advice_list = diagnose_agent(
                    root, list(agent.words), ANSWER_SECONDS, umask, lambda _: None, _SLOW_ADVICE
                )
        except KeyboardInterrupt as interrupt:
            is_second = time.monotonic() - interrupted_at < _END_SECONDS
            if is_second or isinstance(interrupt.__context__, KeyboardInterrupt):
                raise
            interrupted_at = time.monotonic()
            tried_agents.silent += entries
            print_on_stderr(f"{name} is skipped. Ctrl-C again at once ends setup, which then writes nothing.")
            continue
        if report.problem is None:
            tried_agents.some_answer = True
            print_on_stderr(f"{name} answers.")
        else:
            tried_agents.problems.append(report.problem)
            tried_agents.silent += entries
            print_on_stderr(f"{name} does not answer: {report.problem}.")
        for advice in (piece for piece in advice_list if piece.is_wrong):
            print_on_stderr(f"  {_remove_problem(report.problem, advice.text)}", indent_columns=2)
        for line in report.stderr if report.problem is not None else ():
            print_on_stderr(f"  on stderr: {sanitize.make_line(line)}")
    return not tried_agents.silent


def _find_changed(change: FileChange) -> list[StartedAgent]:
    """The agents whose entries change, as they will be."""
    editor = EDITORS[change.editor]
    assert isinstance(editor.configured, SettingsFiles)
    names = {entry.name for entry in change.entries}
    started = find_started(editor.title, editor.configured, (change.new_content or b"").decode())
    return [agent for agent in started if agent.name in names]


def _remove_problem(problem: str | None, text: str) -> str:
    """The text without the problem at its beginning, which the user has just read."""
    if problem is not None and text.casefold().startswith(problem.casefold()):
        return text[len(problem) :].lstrip(". ") or text
    return text


@contextmanager
def _use_environment(variables: dict[str, str]) -> Iterator[None]:
    environment_before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment_before)
