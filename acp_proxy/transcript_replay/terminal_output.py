"""Replaces the terminals in tool calls by their output, because they do not exist any more.

The client's terminals are noted in the transcript. Their ids are unique only within a run. An output may be noted
several times as more of it becomes known; the newest calls that were replayed without that are then sent again.
The bytes kept from one turn to the next are bounded; what is lost is replaced by a placeholder.

A terminal without a note, in a call whose ``_meta`` has terminal output, is the agent's own. Such references stay,
since the client has the output; for a client that does not show such terminals, ``AgentTerminals`` makes notes of it.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.protocol import acp, agent_terminals, jsonrpc, v2_updates
from acp_proxy.protocol.agent_terminals import AgentTerminal
from acp_proxy.transcript_replay import raw_members, truncate
from acp_proxy.transcript_replay.newest_values import NewestValues
from acp_proxy.transcript_replay.tool_calls import CallStatement

KEPT_OUTPUT_BYTES = 1024 * 1024
"""The most bytes of outputs, and of contents that wait for an output, that are kept from one turn to the next."""
PLACEHOLDER = "[the output of this terminal was not recorded]"

_AWAITING_CALLS_LIMIT = 16
"""The most calls that are sent again when more becomes known of one terminal; agents show one in a call or two. Else a
terminal of all turns would send all calls again in each."""
_AGENT_OUTPUT_LIMIT = KEPT_OUTPUT_BYTES // 4
"""Characters kept of the end of an agent's terminal, and at most twice as many: ``truncate.shorten`` keeps beginnings,
so what is left must fit."""
_TERMINAL_OVERHEAD = 512
"""Bytes that a terminal of the agent takes beside its output."""
_UNAWAITED_LIMIT = 1000
"""The most terminals that are remembered although no call waits for them."""
_RESERVED_BYTES = 512
"""The bytes kept free for the lines around an output, so that the exit status is not cut."""
_TerminalKey = tuple[str, str]  # run, terminal id


class ContentWithTerminals(Struct, frozen=True):
    """A tool call's content that refers to terminals (JSON text), and their run."""

    run: str
    content: bytes


class _NotedTerminal(Struct, frozen=True):
    """What is known of a terminal.

    ``output``: a Markdown code fence, or None if no output was recorded. ``ending``: how the command ended, if known.
    ``left_out``: how many bytes of the output are not in it. ``is_final``: no later note says more.
    """

    output: str | None
    ending: str | None = None
    left_out: int = 0
    is_final: bool = False

    @property
    def text(self) -> str:
        """What replaces the terminal."""
        return "\n".join(filter(None, (self.output or PLACEHOLDER, self.ending)))

    def merge(self, later: "_NotedTerminal") -> "_NotedTerminal":
        """What is known with a later note, which may lack what an earlier one had; unless the id was used again."""
        if self.is_final:
            return later
        if later.output is not None:
            return replace(later, ending=later.ending or self.ending)
        return replace(later, output=self.output, left_out=self.left_out, ending=later.ending or self.ending)


class ReplayedTerminals:
    """The noted outputs of a conversation, and the calls that wait for one."""

    def __init__(self, limit: int) -> None:
        """``limit``: the most bytes of one output; 0 for no limit."""
        self._limit = limit
        self._noted_terminals: NewestValues[_TerminalKey, _NotedTerminal] = NewestValues(KEPT_OUTPUT_BYTES)
        self._calls_awaiting_output: NewestValues[str, ContentWithTerminals] = NewestValues(KEPT_OUTPUT_BYTES)
        self._awaited: dict[_TerminalKey, dict[str, None]] = {}
        """By terminal: the ids of the newest calls that wait for its output, or did."""

    def note(self, run: str, note: Mapping[str, object]) -> dict[str, ContentWithTerminals]:
        """Take a note of a terminal, written in ``run``. Returns the contents of the calls that were replayed without
        what it says, by call id."""
        id = acp.text(note, "terminalId")
        if id is None:
            return {}
        earlier, output = self._noted_terminals.get((run, id)), _read_terminal(note, self._limit)
        output = earlier.merge(output) if earlier is not None else output
        self._noted_terminals.put((run, id), output, len(output.text))
        if output.text == (earlier.text if earlier is not None else PLACEHOLDER):
            return {}
        calls = ((call, self._calls_awaiting_output.get(call)) for call in self._awaited.get((run, id), ()))
        return {call: content for call, content in calls if content is not None and _has_terminal(content, run, id)}

    def resolve(self, content: ContentWithTerminals, *, keeps_agent_terminals: bool = False) -> tuple[bytes, int]:
        """The content with outputs in place of terminals (JSON text), and how many bytes of output are left out.
        ``keeps_agent_terminals``: terminals without a note are the agent's own, and stay."""
        items, left_out = [], 0
        for raw in raw_members.split_array(content.content):
            item = raw_members.parse(raw)
            id = content.run, acp.text(item, "terminalId") or ""
            if acp.text(item, "type") == "terminal" and not (keeps_agent_terminals and id not in self._noted_terminals):
                terminal = self._noted_terminals.get(id) or _NotedTerminal(None)
                raw, left_out = raw_members.encode_text_item(terminal.text), left_out + terminal.left_out
            items.append(raw)
        return raw_members.join_array(items), left_out

    def fill_line(self, line: bytes, run: str, *, keeps_agent_terminals: bool) -> bytes:
        """An update's line with outputs in place of terminals, as in ``resolve``; every other byte stays."""
        raw = line.removesuffix(b"\n")
        try:
            content = raw_members.find_content(raw)
            new_content = self.resolve(ContentWithTerminals(run, content), keeps_agent_terminals=keeps_agent_terminals)[
                0
            ]
            return raw_members.replace_content(raw, new_content) + b"\n" if new_content != content else line
        except (ValueError, KeyError):
            return line

    def stop_awaiting(self, call: str) -> None:
        """A call's content has changed, so it no longer waits for an output."""
        self._calls_awaiting_output.pop(call)

    def end_turn(self, contents: Mapping[str, ContentWithTerminals]) -> None:
        """A turn has ended: remember which calls wait for an output, and forget what is beyond the limit. ``contents``:
        those that refer to terminals, by call id."""
        awaiting_calls = [(call, content) for call, content in contents.items() if self._may_change(content)]
        for call, content in awaiting_calls:
            self._calls_awaiting_output.put(call, content, len(content.content))
        self._await(awaiting_calls)
        self._calls_awaiting_output.trim()
        if len(self._awaited) > 2 * len(self._calls_awaiting_output) + _UNAWAITED_LIMIT:
            self._awaited.clear()
            self._await(self._calls_awaiting_output.items())
        self._noted_terminals.trim()

    def _await(self, awaiting_calls: Iterable[tuple[str, ContentWithTerminals]]) -> None:
        for call, content in awaiting_calls:
            for id in _find_terminals(content):
                calls = self._awaited.setdefault((content.run, id), {})
                calls.pop(call, None)
                calls[call] = None
                if len(calls) > _AWAITING_CALLS_LIMIT:
                    del calls[next(iter(calls))]

    def _may_change(self, content: ContentWithTerminals) -> bool:
        terminals = (self._noted_terminals.get((content.run, id)) for id in _find_terminals(content))
        return any(output is None or not output.is_final for output in terminals)


class AgentTerminals:
    """The agent's own terminals, for a client that does not show them."""

    def __init__(self) -> None:
        self._terminals: NewestValues[_TerminalKey, AgentTerminal] = NewestValues(KEPT_OUTPUT_BYTES)
        self._changed: dict[_TerminalKey, None] = {}
        """Those about which something was said since they were noted."""
        self._noted_sizes: dict[_TerminalKey, int] = {}
        """The sizes of their outputs when they were noted last."""

    def take(self, call: CallStatement) -> CallStatement:
        """Take what a statement's ``_meta`` says of terminals. Returns the statement without it."""
        meta = raw_members.parse(call.fields["_meta"])
        if not isinstance(meta, dict):
            return call
        for id in agent_terminals.find_ids(meta):
            terminal = self._terminals.get((call.run, id))
            if terminal is None or terminal.has_ended:
                terminal = AgentTerminal(_AGENT_OUTPUT_LIMIT)
                self._noted_sizes.pop((call.run, id), None)
            terminal.add(meta, id)
            self._terminals.put((call.run, id), terminal, terminal.size + _TERMINAL_OVERHEAD)
            self._changed[call.run, id] = None
        other_meta = agent_terminals.remove_all(meta)
        fields = {name: raw for name, raw in call.fields.items() if name != "_meta"}
        if other_meta:
            fields["_meta"] = jsonrpc.dump(other_meta)
        return replace(call, fields=fields, line=None, has_terminal_output=False)

    def make_notes(self, *, of_all: bool) -> Iterator[tuple[str, Mapping[str, object]]]:
        """What changed since the last call, as notes of terminals of the client, each with its run. Unless ``of_all``,
        one that still runs is noted once its output has doubled: each note sends its calls once more."""
        for key in list(self._changed):
            terminal = self._terminals.get(key)
            if terminal is not None:
                if not (of_all or terminal.has_ended or terminal.size >= 2 * self._noted_sizes.get(key, 0)):
                    continue
                self._noted_sizes[key] = terminal.size
                yield (
                    key[0],
                    {
                        "terminalId": key[1],
                        "output": terminal.output,
                        "truncated": terminal.is_cut,
                        "exitStatus": terminal.exit_status,
                        "final": terminal.has_ended,
                    },
                )
            del self._changed[key]
        self._terminals.trim()
        self._noted_sizes = {key: size for key, size in self._noted_sizes.items() if key in self._terminals}


def _find_terminals(content: ContentWithTerminals) -> set[str]:
    values = [raw_members.parse(raw) for raw in raw_members.split_array(content.content)]
    ids = [acp.text(value, "terminalId") for value in values if acp.text(value, "type") == "terminal"]
    return {id for id in ids if id is not None}


def _has_terminal(content: ContentWithTerminals, run: str, id: str) -> bool:
    """Whether a content refers to this terminal. It may have changed since the call began to wait."""
    return content.run == run and id in _find_terminals(content)


def _read_terminal(note: Mapping[str, object], limit: int) -> _NotedTerminal:
    output, final = acp.text(note, "output"), note.get("final")
    ending = v2_updates.explain_exit(note.get("exitStatus"))
    is_final = final if isinstance(final, bool) else output is not None and ending is not None  # older notes lack it
    if output is None:
        return _NotedTerminal(None, ending, is_final=is_final)
    kept_output = truncate.shorten(output, max(limit - _RESERVED_BYTES, 0)) if limit else output
    left_out = len(jsonrpc.dump(output)) - len(jsonrpc.dump(kept_output)) if len(kept_output) < len(output) else 0
    cut_notice = "[the terminal kept only the end of its output]" if note.get("truncated") is True else None
    text = "\n".join(filter(None, (cut_notice, v2_updates.fence(kept_output))))
    return _NotedTerminal(text, ending, left_out, is_final)
