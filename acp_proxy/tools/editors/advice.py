"""What to paste into an editor's configuration, and where, so that the rest stays unchanged. Pure.

JSON settings are parsed. A program is only searched for the names of the members, so the advice says what to do if they
belong to something else.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.tools.editors import jsonc
from acp_proxy.tools.editors.configured import strip_comments
from acp_proxy.tools.editors.known_editors import Editor, SettingsFiles, Sources, TypedByUser
from acp_proxy.tools.editors.snippets import Snippet


@dataclass(frozen=True, slots=True)
class PlacedSnippet:
    """A text to paste. ``instruction``: where to put it, in words. ``more_advice``: about the same file."""

    instruction: str
    text: str
    more_advice: tuple[str, ...] = ()


def place_snippet(
    editor: Editor, snippet: Snippet, path: Path | None, content: str | OSError | None, *, is_whole: bool
) -> PlacedSnippet:
    """What to paste, and where. ``path``: the editor's file; None: the user gives the command to the editor itself.
    ``content``: what the file has; None: it does not exist. ``is_whole``: paste the complete content."""
    kind = editor.configured
    if isinstance(kind, TypedByUser):
        return PlacedSnippet(kind.instruction, snippet.whole)
    assert path is not None
    if content is None and snippet.container is not None:
        instruction = f"Create {path}, set up {editor.title} in it, and put this into {snippet.container}"
        return PlacedSnippet(instruction, snippet.whole)
    if content is None:
        return PlacedSnippet(f"Create {path} with this content", snippet.whole)
    if isinstance(content, OSError):
        return _place_by_hand(snippet, f"{path} (it cannot be read: {content.strerror})")
    if isinstance(kind, Sources):
        code = "" if is_whole else strip_comments(content, kind.comment)
        return _place_in_program(editor, snippet, f"Put this into {path}", code, kind)
    return _place_by_hand(snippet, path) if is_whole else _place_in_settings(snippet, kind, path, content)


def _place_by_hand(snippet: Snippet, file: str | Path) -> PlacedSnippet:
    return PlacedSnippet(f"Add this to the content of {file}", snippet.whole)


def _place_in_settings(snippet: Snippet, kind: SettingsFiles, path: Path, content: str) -> PlacedSnippet:
    instruction = f"Put this into {path}"
    if jsonc.says_nothing(content):
        return PlacedSnippet(f"Put this into {path}, which is empty", snippet.whole)
    try:
        agents = jsonc.decode(content)
    except ValueError as problem:
        return _place_by_hand(snippet, f"{path} ({problem})")
    if not isinstance(agents, dict):
        return _place_by_hand(snippet, f"{path} (it is not a JSON object)")
    brace = "its outermost {"
    for depth, member in enumerate(kind.members):
        if member not in agents:
            return PlacedSnippet(
                f"{instruction}, right after {brace}", snippet.make_text(depth) + ("," if agents else "")
            )
        agents = agents[member]
        name = f'"{".".join(kind.members[: depth + 1])}"'
        if not isinstance(agents, dict):
            return PlacedSnippet(f"{instruction}, in place of its {name}", snippet.make_text(depth))
        brace = f"the {{ of its {name}"
    if snippet.title in agents:
        return PlacedSnippet(
            f'{instruction}, in place of "{snippet.title}" in its {name}', snippet.make_text(len(kind.members))
        )
    return PlacedSnippet(
        f"{instruction}, right after {brace}", snippet.make_text(len(kind.members)) + ("," if agents else "")
    )


def _place_in_program(editor: Editor, snippet: Snippet, instruction: str, code: str, kind: Sources) -> PlacedSnippet:
    if snippet.container is None:
        return PlacedSnippet(f"{instruction}, at its end", snippet.whole)
    begin = re.search(kind.plugin_pattern, code)
    existing = code[begin.end() :] if begin else ""
    depth = _count_existing(snippet.members, existing)
    is_beside_apart = snippet.text_beside is not None and (depth > 0 or _is_set(snippet.text_beside, existing))
    more_advice = [f"Next to {snippet.members[0]}, set: {snippet.text_beside}"] if is_beside_apart else []
    if not depth:
        text = snippet.make_text(0) if is_beside_apart else snippet.whole
        return PlacedSnippet(
            f"{instruction}, into {snippet.container}, next to the existing entries", text, tuple(more_advice)
        )
    outer = ".".join(snippet.members[:depth])
    more_advice.append(
        f"If there is no {outer} in it, print the complete content: acp-proxy editor --whole {editor.name} …"
    )
    position = (
        f"in place of any {snippet.title} there" if depth == len(snippet.members) else "next to the existing entries"
    )
    return PlacedSnippet(
        f"{instruction}, into {outer} of {snippet.container}, {position}", snippet.make_text(depth), tuple(more_advice)
    )


def _count_existing(members: tuple[str, ...], existing: str) -> int:
    """How many of the members exist, each after the previous one."""
    offset = 0
    for depth, member in enumerate(members):
        match = re.compile(rf"\b{member}\b[\"']?\]?\s*=\s*\{{").search(existing, offset)
        if match is None:
            return depth
        offset = match.end()
    return len(members)


def _is_set(assignment: str, existing: str) -> bool:
    name = assignment.partition(" ")[0]
    return re.search(rf"\b{name}\b[\"']?\]?\s*=", existing) is not None
