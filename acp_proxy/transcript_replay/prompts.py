"""Turns a prompt into the user chunks that a client should see: one for each block."""

from collections.abc import Iterator
from itertools import groupby

from acp_proxy.protocol import acp, json_splice, jsonrpc
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.entry_updates import Update, find_text, is_block


class Prompt:
    """A prompt.

    ``run``, ``id``: the connection, and the JSON text of the request's id. ``letters``: its text without white space.
    ``is_only_text``: all its blocks are text. ``is_echoed``: the agent has echoed it. ``is_certain``: nothing that
    comes can change its chunks. ``is_cancelled``: the client has cancelled its turn.
    """

    def __init__(self, session_id: str, number: int, entry: Entry, message_id: str | None = None) -> None:
        """``number``: its line in the transcript, which makes its ``messageId`` unless an echo gives one, or the agent
        has another one in its own replay (``message_id``): it may be asked to fork or rewind there."""
        self.run = entry.run
        self.id = jsonrpc.dump(acp.member(entry.value, "id"))
        self.is_echoed = self.is_certain = self.is_cancelled = False
        self._session_id = session_id
        self._message_id = message_id or f"acp-proxy-{entry.run}-{number}"
        self._blocks = _read_blocks(entry)
        texts = [find_text(block) for block, _ in self._blocks]
        self.letters = acp.fold_letters("".join(text for text in texts if text is not None))
        self.is_only_text = None not in texts

    def note_echo(self, message_id: str | None) -> None:
        """The agent has echoed the prompt. ``message_id``: the echo's, if it has one."""
        self.is_echoed = self.is_certain = True
        self._message_id = message_id if message_id is not None else self._message_id

    def take_chunks(self) -> list[bytes]:
        """The lines of the chunks. Empty when called again."""
        blocks, self._blocks = self._blocks, []
        return [acp.encode_user_chunk(self._session_id, raw, self._message_id) for _, raw in blocks]


def _read_blocks(entry: Entry) -> list[tuple[object, bytes]]:
    """The valid blocks of a prompt, each with its JSON text."""
    blocks = acp.items(acp.member(entry.value, "params"), "prompt")
    raw = entry.raw or b""
    is_ours = jsonrpc.equals_dump(raw, entry.value)  # the usual case, which needs no search for the blocks
    raws = [jsonrpc.dump(block) for block in blocks] if is_ours else _read_raw_blocks(raw, blocks)
    return [(block, raw) for block, raw in zip(blocks, raws, strict=True) if is_block(block)]


def _read_raw_blocks(raw: bytes, blocks: list[object]) -> list[bytes]:
    text = json_splice.decode(raw)
    try:
        spans = json_splice.find_elements(text, json_splice.find_span(text, "params", "prompt")[0])
        if len(spans) == len(blocks):
            return [json_splice.encode(text[start:end]) for start, end in spans]
    except (ValueError, KeyError):
        pass
    return [jsonrpc.dump(block) for block in blocks]


# --- Follows the prompts without an answer, and finds which of the agent's user messages are echoes of them.
#
# An echo has the text of its prompt, apart from white space; or it comes before everything else that the agent sends
# in the turn, and does not begin the conversation again (some agents write mentions out, or replay the past late). An
# echo belongs to the first prompt with its text, or else to the first prompt without an echo. A prompt has one echo;
# every other user message stands for itself. Chunks with the same ``messageId`` are one message; a message without one
# ends with the text of a prompt. User chunks wait until something else comes.
#
# Prompts and messages are matched only within one run. The time depends only on the amount of text, not on what it
# says.


QUEUE_LIMIT = 64
"""The most prompts that wait for an answer. If there are more, the oldest counts as unanswered."""
_BEGINNING_LENGTH = 4096
"""The letters by which the first prompt is recognised."""

ChunkGroups = list[list[Update]]


class Echoes:
    """The open prompts of a conversation, and the user chunks that may be their echoes. The methods that return updates
    return user chunks that came before and turned out to be no echoes."""

    def __init__(self) -> None:
        self._open_prompts: list[Prompt] = []
        self._held_chunks: list[Update] = []
        self._quiet_runs: set[str] = set()
        """The runs in whose turn nothing has come yet except user messages."""
        self._first_letters: str | None = None
        self._has_echoes = False
        """The agent has echoed a prompt."""

    def list_busy_runs(self) -> frozenset[str]:
        """The runs in which a turn is under way."""
        return frozenset(prompt.run for prompt in self._open_prompts)

    def begin_prompt(self, prompt: Prompt) -> list[Update]:
        """The client has sent a prompt."""
        replayed = [] if prompt.run in self._quiet_runs else self.settle()
        if all(other.is_cancelled for other in self._iterate_prompts(prompt.run)):  # some agents never answer these
            self._quiet_runs.add(prompt.run)
        for other in self._open_prompts:
            other.is_certain |= other.run != prompt.run  # the other connection seems to have ended
        if self._first_letters is None:
            self._first_letters = prompt.letters[:_BEGINNING_LENGTH]
        self._open_prompts.append(prompt)
        if len(self._open_prompts) > QUEUE_LIMIT:
            self._close(self._open_prompts[:1])
        return replayed

    def hold(self, update: Update) -> bool:
        """The agent has sent a user chunk. Returns whether it waits, since it or a chunk before it may be an echo."""
        if update.run not in self.list_busy_runs() and not self._held_chunks:
            return False
        self._held_chunks.append(update)
        return True

    def end_echoes(self, run: str) -> list[Update]:
        """The agent has sent something else, so an echo can no longer give the current prompt its id."""
        if not self._open_prompts and not self._held_chunks:
            return []
        replayed = self.settle()
        self._quiet_runs.discard(run)
        if (current := next(self._iterate_prompts(run), None)) is not None:
            current.is_certain = True
        return replayed

    def answer_prompt(self, run: str, id: bytes) -> list[Update]:
        """The agent has answered a prompt. ``id``: the JSON text of the request's id."""
        prompt = next((prompt for prompt in self._iterate_prompts(run) if prompt.id == id), None)
        if prompt is None:
            return []
        replayed = self.settle()
        if next(self._iterate_prompts(run)) is prompt:
            self._quiet_runs.add(run)  # the next prompt's turn begins
        self._close([prompt])
        return replayed

    def cancel_prompts(self, run: str) -> None:
        """The client has cancelled the turn of a run."""
        for prompt in self._iterate_prompts(run):
            prompt.is_cancelled = True

    def give_up_prompts(self, run: str, *, only_cancelled: bool) -> list[Update]:
        """The prompts of a run, or only the cancelled ones, will get no answer."""
        given_up = [prompt for prompt in self._iterate_prompts(run) if prompt.is_cancelled or not only_cancelled]
        replayed = self.settle() if given_up else []
        self._close(given_up)
        return replayed

    def leave_out_queued(self, run: str) -> None:
        """Replay no prompts of a run that wait for the end of its turn, if the agent echoes prompts: it will echo
        these when their turns begin."""
        if self._has_echoes:  # not with each prompt: one that carries the handover record is not echoed
            queued = list(self._iterate_prompts(run))[1:]
            for prompt in queued:
                if not prompt.is_echoed:
                    prompt.take_chunks()

    def stop_waiting(self) -> None:
        """Stop waiting for echoes: all prompts are replayed as they are known now."""
        for prompt in self._open_prompts:
            prompt.is_certain = True

    def settle(self) -> list[Update]:
        """Decide which of the waiting chunks are echoes."""
        if not self._held_chunks:
            return []
        held_chunks, self._held_chunks = self._held_chunks, []
        other_messages: ChunkGroups = []
        for message in _group_messages(held_chunks):
            other_messages += self._drop_echoes(message)
        begins_again = False
        replayed: list[Update] = []
        for message in other_messages:
            unechoed = self._list_unechoed(message[0].run) if message[0].run in self._quiet_runs else []
            if len(unechoed) > 1 and unechoed[0].is_cancelled:  # it may have no echo
                letters = _join_letters(message)
                unechoed = [prompt for prompt in unechoed if prompt.letters.partition("@")[0] in letters]
            beginning = _join_letters(message)[:_BEGINNING_LENGTH]
            # Mentions may be written out after it.
            is_echo = bool(unechoed) and beginning == unechoed[0].letters[:_BEGINNING_LENGTH]
            begins_again |= bool(self._first_letters) and beginning == self._first_letters and not is_echo
            if unechoed and not begins_again:
                self._note_echo(unechoed[0], message[0])
            else:
                replayed += message
        return replayed

    def _drop_echoes(self, message: list[Update]) -> ChunkGroups:
        """The rest of a message after the texts of prompts with which it begins."""
        while message:
            prompt, count = _find_echoed_prompt(message, self._list_unechoed(message[0].run))
            if prompt is None:
                return [message]
            self._note_echo(prompt, message[0])
            message = message[count:]
        return []

    def _note_echo(self, prompt: Prompt, echo: Update) -> None:
        prompt.note_echo(_find_message_id(echo))
        self._has_echoes = True

    def _iterate_prompts(self, run: str) -> Iterator[Prompt]:
        return (prompt for prompt in self._open_prompts if prompt.run == run)

    def _list_unechoed(self, run: str) -> list[Prompt]:
        return [prompt for prompt in self._iterate_prompts(run) if not prompt.is_echoed]

    def _close(self, prompts: list[Prompt]) -> None:
        for prompt in prompts:
            prompt.is_certain = True
        self._open_prompts = [prompt for prompt in self._open_prompts if prompt not in prompts]
        self._quiet_runs &= self.list_busy_runs()


def _group_messages(chunks_in_order: list[Update]) -> ChunkGroups:
    return [
        list(chunks) for _, chunks in groupby(chunks_in_order, lambda update: (update.run, _find_message_id(update)))
    ]


def _find_echoed_prompt(message: list[Update], prompts: list[Prompt]) -> tuple[Prompt | None, int]:
    """The first prompt whose text these chunks begin with, and the largest number of chunks that are its echo. Chunks
    with a ``messageId`` are one message, which is an echo only as a whole."""
    echo: tuple[Prompt | None, int] = None, 0
    candidates, letter_count = [prompt for prompt in prompts if prompt.letters], 0
    for count, update in enumerate(message, 1):
        text = find_text(update.parsed.get("content"))
        letters = acp.fold_letters(text or "")
        candidates = [prompt for prompt in candidates if prompt.letters.startswith(letters, letter_count)]
        if text is None:
            candidates = [prompt for prompt in candidates if not prompt.is_only_text]
        letter_count += len(letters)
        if not candidates:
            break
        complete = next((prompt for prompt in candidates if len(prompt.letters) == letter_count), None)
        echo = (complete, count) if complete is not None else echo
    return echo if _find_message_id(message[0]) is None or echo[1] == len(message) else (None, 0)


def _join_letters(message: list[Update]) -> str:
    return "".join(acp.fold_letters(find_text(update.parsed.get("content")) or "") for update in message)


def _find_message_id(update: Update) -> str | None:
    return acp.text(update.parsed, "messageId")
