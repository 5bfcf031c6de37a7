"""A conversation as it streamed: what each entry of a transcript adds to a growing screen.

Pure. Chunks appear as they came. A tool call is one line, which is rewritten while it is the last line. A plan shows
its changes. The pieces are printable text and line ends: they cannot control a terminal.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.transcript import rewinds
from acp_proxy.transcript.file_format import ACP_V1, Entry, NoteType
from acp_proxy.transcript.v2_entries import V2AsV1
from acp_proxy.views import conversation, formatting, sanitize
from acp_proxy.views.diffs import count_rows, diff_texts
from acp_proxy.views.passages import find_shown_reason
from acp_proxy.views.tool_calls import FAILED, choose_mark

PLAIN, QUIET, TURN, USER, BAD = "none", "dim", "bold", "bold green", "bold red"
"""The style of a piece, in rich's words."""

_REWOUND = "rewound: a part of what is above was taken back"
_STYLES = {Role.USER: USER, Role.AGENT: PLAIN, Role.THOUGHT: QUIET}
"""The style of what each speaks."""


Block = tuple[str, ...] | tuple[str, str | None]
"""What is written without an empty line in it, such as one message: its kind, and what tells it from others."""


@dataclass(frozen=True, slots=True)
class StreamedText:
    """Text to write. ``style``: in rich's words. ``replaces_line``: it replaces the last line, if the output can do
    that. ``is_prose``: it is Markdown."""

    text: str
    style: str = PLAIN
    replaces_line: bool = False
    is_prose: bool = False


class StreamPrinter:
    def __init__(self, width: int | None) -> None:
        """``width``: of lines that may be rewritten; None: any."""
        self._width = width
        self._v2_as_v1 = V2AsV1(at_once=True)
        self._turn = 0
        self._block: Block | None = None  # the current message; the next one begins on a new line
        self._is_open = False  # the last line may continue
        self._calls: dict[str, dict[str, str | None]] = {}
        self._contents: dict[str, list[object]] = {}
        """The last contents of each call that has not ended."""
        self._plan: dict[str, str] = {}
        self._echo = ""
        self._is_quiet = False  # this turn has only user messages so far
        self._option_names: dict[tuple[str, bytes], Mapping[str, str]] = {}

    def rewind_to(self, turn: int) -> None:
        """The next prompt begins this turn, which was shown before."""
        self._turn = turn - 1
        self._calls.clear()

    def begin_screen(self) -> None:
        """What comes next is the first on the screen: no empty line goes before it."""
        self._block = None

    def take(self, entry: Entry) -> list[StreamedText]:
        if entry.protocol_version == ACP_V1 and self._v2_as_v1.is_idle:
            return list(self._print_entry(entry))
        return [piece for as_v1 in self._v2_as_v1.add(entry) for piece in self._print_entry(as_v1)]

    def end(self) -> list[StreamedText]:
        """The current message ends."""
        was_open, self._is_open = self._is_open, False
        return [StreamedText("\n")] if was_open else []

    def _print_entry(self, entry: Entry) -> Iterator[StreamedText]:
        value, method = entry.value, acp.text(entry.value, "method")
        params = acp.member(value, "params")
        if entry.note is not None:
            yield from self._print_note(entry.note)
        elif entry.peer is Peer.CLIENT and method == acp.PROMPT:
            yield from self._print_prompt(entry.at, acp.member(params, "prompt"))
        elif entry.peer is Peer.CLIENT and method == acp.STEERING:
            yield from self._print_message(
                ("steering", entry.at), f"> {_join_words(acp.member(params, 'prompt'))}", USER
            )
        elif entry.peer is Peer.AGENT and method == acp.UPDATE:
            yield from self._print_update(acp.member(params, "update"))
        elif entry.peer is Peer.AGENT and method == acp.REQUEST_PERMISSION:
            yield from self._print_question(entry, params)
        elif entry.peer is Peer.CLIENT and entry.answered_method == acp.REQUEST_PERMISSION:
            yield from self._print_decision(entry)
        elif entry.peer is Peer.CLIENT and method == acp.CANCEL:
            yield from self._print_line("cancelled by the user", QUIET)
        elif entry.answered_method == acp.PROMPT:
            yield from self._print_answer(value)
        elif entry.answered_method in acp.REWINDS and rewinds.is_rewind(entry):
            yield from self._print_line(_REWOUND, QUIET)

    def _print_prompt(self, stamp: str, blocks: object) -> Iterator[StreamedText]:
        self._turn += 1
        text = _join_words(blocks)
        self._echo = "".join(text.split())
        self._is_quiet = True
        self._plan = {}
        yield from self._print_line(
            f"Turn {self._turn} · {formatting.format_local_time(stamp)}", TURN, ("prompt",), apart=True
        )
        yield from self._print_message(("prompt",), f"> {text}", USER)

    def _print_update(self, update: object) -> Iterator[StreamedText]:
        kind, content = acp.update_kind(update), acp.member(update, "content")
        role = update_kinds.find_v1_role(kind)
        self._is_quiet &= role is Role.USER or not update_kinds.is_conversation(kind)
        if role in _STYLES:
            words = conversation.read_words(content) if isinstance(content, dict) else ""
            if role is Role.USER and self._is_echo(words):
                return
            if acp.text(content, "type") != "text" and words:  # a description, which is no part of the words beside it
                yield from self._print_line(words, _STYLES[role], ("other",), apart=not self._is_at("other"))
                return
            yield from self._print_message((role.name, acp.text(update, "messageId")), words, _STYLES[role])
        elif role is Role.CALL:
            yield from self._print_call(update)
        elif kind == update_kinds.PLAN:
            yield from self._print_plan(acp.member(update, "entries"))
        elif kind == update_kinds.CURRENT_MODE:
            yield from self._print_line(f"mode: {acp.text(update, 'currentModeId')}", QUIET)
        elif kind == update_kinds.HISTORY_TRUNCATED:
            yield from self._print_line(_REWOUND, QUIET)

    def _print_call(self, update: object) -> Iterator[StreamedText]:
        id = acp.text(update, "toolCallId")
        if id is None:
            return
        previous = self._calls.get(id)
        current = {name: acp.text(update, name) or (previous or {}).get(name) for name in ("title", "status")}
        if content := _read_list(acp.member(update, "content")):
            self._contents[id] = content
        if current == previous:
            return
        self._calls[id] = current
        replaces_line = self._is_open and self._block == ("call", id)
        if not replaces_line:
            yield from self._begin(("call", id), apart=not self._is_at("call", "asked", "reason"))
        counts = ""
        if current["status"] in ("completed", FAILED):
            content = self._contents.pop(id, [])
            counts = _count_lines(content) if current["status"] == "completed" else ""
        sign, style = choose_mark(current["status"])
        state = "" if current["status"] in (None, "completed") else f"{sanitize.make_line(current['status'])}: "
        title = f"{sign} {state}{sanitize.make_line(current['title'] or id)}"
        yield StreamedText(self._fit(title, cell_len(counts)) + counts, style, replaces_line)
        self._is_open = True
        if current["status"] == FAILED and isinstance(update, Mapping):
            fields = {"content": content, **update}
            reason = find_shown_reason(conversation.ToolCall(id, fields, False))
            for line in sanitize.clean_output(reason).split("\n") if reason else ():
                yield from self._print_line(f"    {line}", QUIET, ("reason",))

    def _fit(self, text: str, reserved_columns: int = 0) -> str:
        """The text, cut so that ``reserved_columns`` fit after it. The last column of a line stays free: terminals
        differ after it."""
        if self._width is None or cell_len(text) + reserved_columns < self._width:
            return text
        return set_cell_size(text, max(self._width - 2 - reserved_columns, 0)).rstrip() + "…"

    def _print_plan(self, entries: object) -> Iterator[StreamedText]:
        steps = {acp.text(entry, "content") or "": acp.text(entry, "status") or "" for entry in _read_list(entries)}
        for content, status in steps.items():
            if self._plan.get(content) != status:
                yield from self._print_line(
                    f"{choose_mark(status)[0]} {content}", QUIET, ("plan",), apart=not self._is_at("plan")
                )
        self._plan = steps

    def _print_question(self, entry: Entry, params: object) -> Iterator[StreamedText]:
        options = _read_list(acp.member(params, "options"))
        names = {acp.text(option, "optionId") or "": acp.text(option, "name") or "" for option in options}
        self._option_names[entry.request_key] = names
        yield from self._print_call(acp.member(params, "toolCall"))
        yield from self._print_line(f"? {' / '.join(names.values())}", QUIET, ("asked",))

    def _print_decision(self, entry: Entry) -> Iterator[StreamedText]:
        outcome = acp.member(acp.member(entry.value, "result"), "outcome")
        option = acp.text(outcome, "optionId")
        chosen = self._option_names.get(entry.request_key, {}).get(
            option or "", option or acp.text(outcome, "outcome") or "refused"
        )
        yield from self._print_line(f"→ {chosen}", QUIET, ("asked",))

    def _print_answer(self, value: object) -> Iterator[StreamedText]:
        error, stop = acp.member(value, "error"), acp.text(acp.member(value, "result"), "stopReason")
        if error is not None:
            yield from self._print_line(f"the prompt failed: {acp.read_error(error)}", BAD)
        elif stop not in ("end_turn", None):
            yield from self._print_line(f"stopped: {stop}", QUIET)

    def _print_note(self, note: Mapping[str, object]) -> Iterator[StreamedText]:
        match note.get("type"):
            case NoteType.FAILED:
                yield from self._print_line(f"the prompt failed: {acp.text(note, 'message')}", BAD)
            case NoteType.GAP:
                yield from self._print_line(f"something is missing here ({acp.text(note, 'reason')})", BAD)

    def _is_echo(self, words: str) -> bool:
        """Whether an agent repeats the user's words, in the same form or, before anything else, in another."""
        letters = "".join(words.split())
        if self._echo.startswith(letters):
            self._echo = self._echo.removeprefix(letters)
            return True
        is_echo = self._is_quiet and bool(self._echo)
        self._echo = self._echo if not is_echo else ""
        return is_echo

    # Writing.

    def _print_message(self, block: Block, words: str, style: str) -> Iterator[StreamedText]:
        if not words:
            return
        if self._block != block:
            yield from self._begin(block, apart=True)
        is_prose = block[0] in (Role.AGENT.name, Role.THOUGHT.name)
        yield StreamedText(sanitize.make_printable(words), style, is_prose=is_prose)
        self._is_open = not words.endswith("\n")

    def _print_line(
        self, text: str, style: str, block: Block = ("line",), *, apart: bool = False
    ) -> Iterator[StreamedText]:
        yield from self._begin(block, apart=apart)
        yield StreamedText(sanitize.make_line(text) + "\n", style)
        self._is_open = False

    def _begin(self, block: Block, *, apart: bool) -> Iterator[StreamedText]:
        """Write on a new line; ``apart``: with an empty line before it, except at the start."""
        if line_ends := "\n" * (self._is_open + (apart and self._block is not None)):
            yield StreamedText(line_ends)
        self._block, self._is_open = block, False

    def _is_at(self, *kinds: str) -> bool:
        return self._block is not None and self._block[0] in kinds


def _count_lines(content: list[object]) -> str:
    """How many lines the diffs of a call add and remove: ``  +5 -1``; empty if they change none."""
    added = removed = 0
    for item in content:
        if acp.text(item, "type") == "diff":
            added_rows, removed_rows = count_rows(
                list(diff_texts(acp.text(item, "oldText"), acp.text(item, "newText") or ""))
            )
            added, removed = added + added_rows, removed + removed_rows
    return f"  +{added} -{removed}" if added or removed else ""


def _join_words(blocks: object) -> str:
    return "\n".join(conversation.read_words(block) for block in _read_list(blocks) if isinstance(block, dict))


def _read_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
