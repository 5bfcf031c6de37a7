"""What to paste into an editor's configuration, and where, so that the rest stays unchanged. Pure.

JSON settings are parsed. A program is only searched for the names of the members, so the advice says what to do if they
belong to something else.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.tools.editors import jsonc
from acp_proxy.tools.editors.configured import strip_comments
from acp_proxy.tools.editors.known_editors import Editor, SettingsFiles, Sources, Typed
from acp_proxy.tools.editors.snippets import Snippet


@dataclass(frozen=True, slots=True)
class Placed:
    """``where``: the place, in words. ``also``: more advice about that file."""

    where: str
    text: str
    also: tuple[str, ...] = ()


def place_snippet(
    editor: Editor, made: Snippet, path: Path | None, content: str | OSError | None, *, whole: bool
) -> Placed:
    """``path``: None: the user gives the command to the editor itself. ``content``: the content of the file; None: it
    does not exist. ``whole``: print the complete content."""
    kind = editor.configured
    if isinstance(kind, Typed):
        return Placed(kind.where, made.whole)
    assert path is not None
    if content is None and made.into is not None:
        return Placed(f"Create {path} and put this into {made.into}", made.whole)
    if content is None:
        return Placed(f"Create {path} with this content", made.whole)
    if isinstance(content, OSError):
        return _place_by_hand(made, f"{path} (it cannot be read: {content.strerror})")
    if isinstance(kind, Sources):
        looked_through = "" if whole else strip_comments(content, kind.comment)
        return _place_in_program(editor, made, f"Put this into {path}", looked_through, kind)
    return _place_by_hand(made, path) if whole else _place_in_settings(made, kind, path, content)


def _place_by_hand(made: Snippet, file: str | Path) -> Placed:
    return Placed(f"Add this to the content of {file}", made.whole)


def _place_in_settings(made: Snippet, kind: SettingsFiles, path: Path, content: str) -> Placed:
    put = f"Put this into {path}"
    if jsonc.says_nothing(content):
        return Placed(f"Put this into {path}, which is empty", made.whole)
    try:
        agents = jsonc.read(content)
    except ValueError as problem:
        return _place_by_hand(made, f"{path} ({problem})")
    if not isinstance(agents, dict):
        return _place_by_hand(made, f"{path} (it is not a JSON object)")
    brace = "its outermost {"
    for depth, member in enumerate(kind.members):
        if member not in agents:
            return Placed(f"{put}, right behind {brace}", made.within(depth) + ("," if agents else ""))
        agents = agents[member]
        name = f'"{".".join(kind.members[: depth + 1])}"'
        if not isinstance(agents, dict):
            return Placed(f"{put}, in place of its {name}", made.within(depth))
        brace = f"the {{ of its {name}"
    if made.title in agents:
        return Placed(f'{put}, in place of "{made.title}" in its {name}', made.within(len(kind.members)))
    return Placed(f"{put}, right behind {brace}", made.within(len(kind.members)) + ("," if agents else ""))


def _place_in_program(editor: Editor, made: Snippet, put: str, looked_through: str, kind: Sources) -> Placed:
    if made.into is None:
        return Placed(f"{put}, at its end", made.whole)
    begin = re.search(kind.mark, looked_through)
    existing = looked_through[begin.end() :] if begin else ""
    depth = _depth(made.members, existing)
    is_apart = made.beside is not None and (depth > 0 or _is_set(made.beside, existing))
    also = [f"Next to {made.members[0]}, set: {made.beside}"] if is_apart else []
    if not depth:
        text = made.within(0) if is_apart else made.whole
        return Placed(f"{put}, into {made.into}, next to the existing entries", text, tuple(also))
    outer = ".".join(made.members[:depth])
    also.append(f"If there is no {outer} in it, print the complete content: acp-proxy editor --whole {editor.name} …")
    which = f"in place of any {made.title} there" if depth == len(made.members) else "next to the existing entries"
    return Placed(f"{put}, into {outer} of {made.into}, {which}", made.within(depth), tuple(also))


def _depth(members: tuple[str, ...], existing: str) -> int:
    """How many of the members exist, each behind the previous one."""
    at = 0
    for depth, member in enumerate(members):
        match = re.compile(rf"\b{member}\b[\"']?\]?\s*=\s*\{{").search(existing, at)
        if match is None:
            return depth
        at = match.end()
    return len(members)


def _is_set(assignment: str, existing: str) -> bool:
    name = assignment.partition(" ")[0]
    return re.search(rf"\b{name}\b[\"']?\]?\s*=", existing) is not None
