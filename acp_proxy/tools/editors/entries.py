"""What an agent's entry in an editor's settings is. setup, undo and doctor all ask ``read_entry``."""

import enum
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from acp_proxy.config import options
from acp_proxy.errors import UsageError
from acp_proxy.protocol import acp
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.registry import PREFIX


class Kind(enum.Enum):
    """How an entry starts its agent."""

    NO_COMMAND = enum.auto()
    REGISTERED = enum.auto()
    """By the editor's own registry."""
    UNREADABLE = enum.auto()
    """In a way that setup cannot edit: ``Entry.fault`` says why."""
    DIRECT = enum.auto()
    """Without acp-proxy."""
    PROXIED = enum.auto()
    """By acp-proxy's own words, which stand first, and ``run``."""
    PROXIED_AFTER_WORDS = enum.auto()
    """By acp-proxy after other words, or in a line for a shell, which are the user's."""
    NO_RUN = enum.auto()
    """By acp-proxy without ``run``."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of one agent. ``words``: its command, as it is to be started; of an agent of the editor's own registry,
    its id there.

    ``own_count``: how many words start acp-proxy, in front of ``run``. ``words_after_run``: None: there are none that
    can be told. ``fault``: what is wrong with the entry, whatever it starts.
    """

    name: str
    kind: Kind
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    own_count: int | None = None
    words_after_run: tuple[str, ...] | None = None
    fault: str | None = None

    @property
    def is_proxied(self) -> bool:
        return self.kind in (Kind.PROXIED, Kind.PROXIED_AFTER_WORDS)

    @property
    def mentions_proxy(self) -> bool:
        """Whether acp-proxy is anywhere in its command, also where setup would not write it."""
        is_unreadable = self.kind is Kind.UNREADABLE
        return command_line.mentions_proxy([*self.words]) if is_unreadable else self.is_proxied or self.lacks_run

    @property
    def lacks_run(self) -> bool:
        return self.kind is Kind.NO_RUN

    @property
    def program(self) -> str | None:
        """What must be there for the entry to start acp-proxy; None if it does not start it."""
        return command_line.find_own_program([*self.words]) if self.is_proxied or self.lacks_run else None

    @property
    def runs_elsewhere(self) -> bool:
        """Whether it starts acp-proxy on another machine, or in a container."""
        return self.kind is Kind.PROXIED_AFTER_WORDS and command_line.runs_elsewhere([*self.words])

    def count_words_to_replace(self) -> int | None:
        """How many words at the front setup replaces by its own, ``run`` included, because they do not start acp-proxy;
        None if they do, or if nobody can say what they start."""
        if self.own_count is None or self.program is None:
            return None
        if self.lacks_run:
            return self.own_count if self._would_run(self.words[self.own_count :]) else None
        # A name alone is found in a terminal's PATH, but an editor that was started from a menu has a shorter one.
        is_name = self.own_count == 1 and not os.path.dirname(self.program)
        is_here = command_line.may_exist(self.program, None) and os.path.expanduser(self.program) == self.program
        return None if is_here and not is_name else self.own_count + 1

    def _would_run(self, words: Sequence[str]) -> bool:
        """Whether these words are an agent's command that is here, with options of ``run`` or without."""
        if not words or words[0] in command_line.OTHER_COMMANDS:
            return False
        try:
            _, command = options.parse([*words], {})
        except UsageError:
            return False
        return command_line.may_exist(command[0], self.environment.get("PATH"))


def read_entry(name: str, value: object, setup_words: Sequence[str] = ()) -> Entry:
    """What an entry is. ``setup_words``: with which setup starts acp-proxy there, up to ``run``; they are known though
    the program has another name."""
    words, environment = read_words(value), read_texts(acp.member(value, "env"))
    fault = _find_fault(environment)
    if acp.text(value, "type") == "registry":
        return Entry(name, Kind.REGISTERED, (f"{PREFIX}{name}",), environment, fault=fault)
    command = acp.member(value, "command")
    argument_list = command if isinstance(command, list) else acp.member(value, "args")
    has_arguments = isinstance(command, list) or (isinstance(value, dict) and "args" in value)
    is_readable = isinstance(argument_list, list) and all(isinstance(word, str) for word in argument_list)
    if words and has_arguments and not is_readable:
        return Entry(name, Kind.UNREADABLE, tuple(words), environment, fault="its args are not a list of texts")
    if isinstance(value, str):
        fault = "it is a text: its program belongs into command, and the words after it into args, each on its own"
        return Entry(name, Kind.UNREADABLE, tuple(value.split()), fault=fault)
    if not words:
        return Entry(name, Kind.NO_COMMAND, environment=environment if fault is None else {})
    if not all(map(_may_pass, words)):
        fault = "its command has a character that no program can get"
        return Entry(name, Kind.UNREADABLE, tuple(words), environment, fault=fault)
    if (fault_of_line := command_line.explain_line(words, environment.get("PATH"))) is not None:
        return Entry(name, Kind.UNREADABLE, tuple(words), environment, fault=fault_of_line)
    own_count, after_run = command_line.count_own_words(words), command_line.find_words_after_run(words)
    if setup_words and words[: len(setup_words)] == list(setup_words):
        own_count = len(setup_words) - 1
    kind = Kind.DIRECT
    if own_count is not None and words[own_count : own_count + 1] == ["run"]:
        kind, after_run = Kind.PROXIED, words[own_count + 1 :]
    elif after_run is not None:
        kind = Kind.PROXIED_AFTER_WORDS
    elif command_line.lacks_run(words):
        kind = Kind.NO_RUN
    elif command_line.mentions_proxy(words):
        kind = Kind.PROXIED_AFTER_WORDS
    if kind is Kind.DIRECT:
        words = command_line.expand_home(words)
    words_after_run = None if after_run is None else tuple(after_run)
    return Entry(name, kind, tuple(words), environment, own_count, words_after_run, fault)


def _find_fault(environment: Mapping[str, str]) -> str | None:
    """Why no system starts a program with this environment."""
    for variable, text in environment.items():
        if not variable or "=" in variable or not _may_pass(variable):
            return f'its variable "{variable}" is no name'
        if not _may_pass(text):
            return f'its variable "{variable}" has a character that no program can get'
    return None


def _may_pass(text: str) -> bool:
    """Whether a system passes a text to a program."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def read_words(entry: object) -> list[str]:
    """The words of an entry's command; empty if it has none."""
    if isinstance(acp.member(entry, "command"), list):  # with its arguments
        return acp.strings(entry, "command")
    command = acp.text(entry, "command")
    return [command, *acp.strings(entry, "args")] if command else []


def read_texts(value: object) -> dict[str, str]:
    """The members of an object that are texts; none of anything else."""
    return {key: text for key, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}
