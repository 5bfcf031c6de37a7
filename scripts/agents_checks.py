"""Checks that real agents behind the proxy, with default options, show the same history however it is opened.

Each check holds a conversation, kills every process, opens the session again in one way, and compares what is shown
with the conversation, and the transcripts with their earlier content. It yields errors, and remarks on what is no
error: for example, that the agent refuses a request, as it does without the proxy. It uses only what an agent offers.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from scripts.findings import NOT_OFFERED, Finding, Findings, refused
from scripts.histories import Recorded, count_of_user_messages, differences, grown, held, never_said, recorded
from scripts.real_agents import (
    MINUTE,
    PATIENCE,
    PROMPTS,
    Bench,
    Lived,
    blocks,
    initialize,
    offers,
    prompt,
    second_of_the_minute,
    wait_for_quiet,
    wait_for_the_next_minute,
)
from scripts.shown import Shown, read_shown, updates
from tests.client import Client, OutputEnded, RequestFailed

LOADS = 10
AGAIN = 2
"""How often to open a session if the number does not matter: enough to see a change, and whether it grows."""
SLOW_WORDS = 8.0  # seconds in which a streaming agent has sent part of a slow answer
LAST_SLOW_WORD = "tick3"
RECORDED = 1.0  # seconds in which a word that a client has seen is in the transcript
BY_THE_MINUTE = ("gemini",)
"""Agents that refuse, and lose, a session that is loaded in the minute of its creation. (gemini also loses it for the
next process at the first load in a later minute.)
"""
EARLY = 5.0
"""Seconds of a minute after which the rest may be too short for a conversation and a start."""

FIRST, SECOND, SLOW, AFTER = "hello first", "hello second", "SLOW please", "hello after"
STEERED = "and now be quick about it"
OF_EACH_PROCESS = ("Warning: Model metadata", "**Warning:** We're changing auto mode", "Config warning")
"""Beginnings of what claude-agent-acp and codex-acp say about themselves, at most once in a turn."""
AT_MESSAGES = ("claude", "codexacp")
"""Agents that fork at a message."""
COMMANDS = {"claude": "/context", "codexacp": "/status"}
"""Slash commands that agents answer by themselves, without their model."""


@dataclass(frozen=True)
class Past:
    """A session as it must be shown, and the store's messages of it and of all others."""

    session: str
    said: Shown
    held: Recorded


# What a new process, and a request, must show.


def past(bench: Bench, lived: Lived) -> Past:
    return Past(lived.session, lived.shown, recorded(bench.store))


def loaded(bench: Bench, before: Past, where: str, often: int = 1) -> Findings:
    """Load it in a new process, so often."""
    with bench.client() as client:
        initialize(client)
        for number in range(often):
            here = f"{where} load {number + 1}".strip() if often > 1 else where
            yield from one_load(client, bench, before, here, may_refuse=number > 0)
    yield from unchanged(bench, before, where)


def one_load(client: Client, bench: Bench, before: Past, where: str, *, may_refuse: bool = False) -> Findings:
    since = client.count_lines()
    try:
        client.request("session/load", bench.place(before.session), PATIENCE)
    except RequestFailed as refusal:
        yield refused("the load", refusal, where, is_wrong=not may_refuse)
        return
    wait_for_quiet(client)
    yield from same(before.said, read_shown(client.messages(since), before.session), where)


def same(said: Shown, seen: Shown, where: str) -> Findings:
    """Compare two histories. New text may be the agent's rewriting of its history, so it is only a remark."""
    yield from (finding(where, difference) for difference in differences(said, seen))
    yield from (Finding(where, difference, is_wrong=False) for difference in never_said(said, seen))


def unchanged(bench: Bench, before: Past, where: str) -> Findings:
    """All transcripts are unchanged, and the session's has everything once."""
    now = recorded(bench.store)
    yield from (Finding(where, change) for change in grown(before.held, now))
    yield from (finding(where, difference) for difference in held(before.said, now.get(before.session, ())))


def finding(where: str, difference: str) -> Finding:
    """A difference; only a remark if it is about what the agent says anew in each process, and never keeps."""
    return Finding(where, difference, is_wrong=not any(words in difference for words in OF_EACH_PROCESS))


def prompted(client: Client, bench: Bench, before: Past, words: str, where: str = "") -> tuple[Past, list[Finding]]:
    """Take one more turn, which must show something."""
    try:
        turn = prompt(client, before.session, words)
    except RequestFailed as refusal:
        return before, [refused("the next prompt", refusal, where)]
    nothing = [] if turn.words("agent") else [Finding(where, "the next prompt is answered without words")]
    return Past(before.session, joined(before.said, turn), recorded(bench.store)), nothing


def joined(*parts: Shown) -> Shown:
    """The first history followed by the second. The messages on both sides of the border stay separate."""
    messages = [message for part in parts for message in part.messages]
    return Shown(messages, {number: status for part in parts for number, status in part.tools.items()})


# The checks.


def loads(bench: Bench) -> Findings:
    """Ten loads, each in a new process."""
    lived = bench.talk()
    if bench.name in BY_THE_MINUTE:
        wait_for_the_next_minute()
    before = past(bench, lived)
    for number in range(LOADS):
        yield from loaded(bench, before, f"load {number + 1}")


def kill(bench: Bench) -> Findings:
    """Every process is killed during an answer."""
    with bench.client() as client:
        initialize(client)
        session = str(client.request("session/new", bench.place(), PATIENCE)["sessionId"])
        whole = prompt(client, session, FIRST)
        since = interrupted(client, session, bench.store)
    before = Past(session, joined(whole, read_shown(client.messages(since), session, SLOW)), recorded(bench.store))
    if bench.name in BY_THE_MINUTE:
        wait_for_the_next_minute()
    for number in range(AGAIN):
        yield from loaded(bench, before, f"load {number + 1}")


def interrupted(client: Client, session: str, store: Path) -> int:
    """Ask for a slow answer, and wait for its first words. The mark before the prompt.

    A kill at that very moment may cost the transcript the last read (docs/reliability.md), so this waits for that too.
    """
    since = client.count_lines()
    client.start_request("session/prompt", {"sessionId": session, "prompt": blocks(SLOW)})
    with suppress(TimeoutError):
        client.wait_for_text(LAST_SLOW_WORD, SLOW_WORDS, since=since)
    deadline = time.monotonic() + RECORDED
    while time.monotonic() < deadline:
        if any(LAST_SLOW_WORD in path.read_text("utf-8") for path in store.rglob("*.jsonl")):
            break
        time.sleep(0.02)
    return since


def again(bench: Bench) -> Findings:
    """Load, and load again in the same process."""
    before = grown_old(bench)
    yield from loaded(bench, before, "", often=AGAIN)
    yield from loaded(bench, before, "in a new process")


def prompt_at_once(bench: Bench) -> Findings:
    """Load, and prompt at once: the history comes first, then the turn; later processes show both."""
    before = grown_old(bench)
    with bench.client() as client:
        initialize(client)
        since = client.count_lines()
        try:
            client.request("session/load", bench.place(before.session), PATIENCE)
        except RequestFailed as refusal:
            yield refused("the load", refusal)
            return
        after, wrong = prompted(client, bench, before, AFTER)
        yield from wrong
        if after is before:
            return
        seen = read_shown(client.messages(since), before.session)
    # A late replay cannot be separated from the turn, but the turn resembles an earlier one.
    likely = [(joined(before.said, turn), turn) for turn in turns(before.said)]
    said, turn = min(likely, key=lambda one: len(list(differences(one[0], seen))))
    yield from same(said, seen, "at once")
    whole = joined(before.said, Shown([("user", AFTER)]), turn)
    after = Past(before.session, whole, recorded(bench.store))
    for number in range(AGAIN):
        yield from loaded(bench, after, f"load {number + 1}")


def turns(said: Shown) -> Iterator[Shown]:
    """The agent's messages and tool calls of each turn. The stand-in model uses a tool again if a record names one."""
    starts = [at for at, (speaker, _) in enumerate(said.messages) if speaker == "user"]
    for start, end in pairwise([*starts, len(said.messages)]):
        messages = said.messages[start + 1 : end]
        called = [f"of the next turn, {at}" for at, (speaker, _) in enumerate(messages) if speaker == "tool"]
        yield Shown(messages, dict.fromkeys(called, "completed"))


def fork(bench: Bench) -> Findings:
    """The fork shows its history once, and so does each load of it; the parent is unchanged."""
    before = grown_old(bench)
    with bench.client() as client:
        if "fork" not in offers(initialize(client)):
            yield NOT_OFFERED
            return
        try:
            branch = forked(client, bench, before)
        except RequestFailed as refusal:
            yield refused("the fork", refusal, is_wrong=False)
            return
        seen = read_shown(client.messages(), branch)
        if seen.messages:
            yield from same(before.said, seen, "at the fork")
        branched = Past(branch, before.said, recorded(bench.store))
        after, wrong = prompted(client, bench, branched, AFTER)
        yield from wrong
    after = Past(branch, after.said, recorded(bench.store))
    parent = Past(before.session, before.said, after.held)
    with bench.client() as client:
        initialize(client)
        for number in range(AGAIN):
            yield from one_load(client, bench, after, f"load {number + 1}", may_refuse=number > 0)
        yield from one_load(client, bench, parent, "the parent")
    yield from unchanged(bench, after, "the fork")
    yield from unchanged(bench, parent, "the parent")


def message(bench: Bench) -> Findings:
    """Fork at a message, and fork the fork at an earlier one: each shows what came up to it, and so does each load."""
    if bench.name not in AT_MESSAGES:
        yield NOT_OFFERED
        return
    with bench.client() as client:
        initialize(client)
        session = str(client.request("session/new", bench.place(), PATIENCE)["sessionId"])
        told, ids = [], []
        for words in (*PROMPTS, AFTER):
            since = client.count_lines()
            told.append(prompt(client, session, words))
            ids.append(last_message(client, session, since))
        branch = forked_at(client, bench, session, ids[1])
        branched = Past(branch, joined(told[0], told[1]), recorded(bench.store))
        branched, wrong = prompted(client, bench, branched, SECOND)
        yield from wrong
    with bench.client() as client:
        initialize(client)
        for number in range(AGAIN):
            yield from one_load(client, bench, branched, f"load {number + 1}")
        twig = Past(forked_at(client, bench, branch, ids[0]), told[0], recorded(bench.store))
        twig, wrong = prompted(client, bench, twig, SECOND)
        yield from wrong
    parent = Past(session, joined(*told), recorded(bench.store))
    for one, where in ((twig, "the fork of the fork"), (branched, "the fork"), (parent, "the parent")):
        yield from loaded(bench, Past(one.session, one.said, recorded(bench.store)), where)


def last_message(client: Client, session: str, since: int) -> str:
    """The id of the agent's last message that has one."""
    said = [one for one in updates(client.messages(since), session) if one["sessionUpdate"] == "agent_message_chunk"]
    return str([one["messageId"] for one in said if one.get("messageId")][-1])


def forked_at(client: Client, bench: Bench, session: str, id: str) -> str:
    """The id of a fork at this message, as JetBrains' clients ask for it."""
    point = {"_meta": {"jetbrains": {"air": {"fork": {"version": 1, "messageId": id}}}}}
    answer = client.request("session/fork", bench.place(session) | point, PATIENCE)
    wait_for_quiet(client)
    return str(answer["sessionId"])


def rewind(bench: Bench) -> Findings:
    """Rewind after the first turn, in each way that is drafted: what follows it is not shown any more."""
    with bench.client() as client:
        initialize(client)
        session = str(client.request("session/new", bench.place(), PATIENCE)["sessionId"])
        since = client.count_lines()
        first = prompt(client, session, FIRST)
        said = [one for one in updates(client.messages(since), session) if one.get("messageId")]
        prompt(client, session, SECOND)
        ids = [str(one["messageId"]) for one in said if one["sessionUpdate"] == "agent_message_chunk"]
        params = {"sessionId": session, "toMessageId": ids[-1] if ids else "none"}
        answer = client.wait_for_answer(client.start_request("session/rewind", params), PATIENCE)
        if "error" in answer:
            yield NOT_OFFERED
            return
        after, wrong = prompted(client, bench, Past(session, first, recorded(bench.store)), AFTER)
        yield from wrong
    for number in range(AGAIN):
        yield from loaded(bench, after, f"load {number + 1}")


def steering(bench: Bench) -> Findings:
    """The user's words into a running turn come back once and in their place."""
    with bench.client() as client:
        offered = (initialize(client).get("_meta") or {}).get("steering") or {}
        if not offered.get("supported"):
            yield NOT_OFFERED
            return
        session = str(client.request("session/new", bench.place(), PATIENCE)["sessionId"])
        first = prompt(client, session, FIRST)
        since = client.count_lines()
        turn = client.start_request("session/prompt", {"sessionId": session, "prompt": blocks(SLOW)})
        client.wait_for_text(LAST_SLOW_WORD, PATIENCE, since=since)
        params = {"sessionId": session, "prompt": blocks(STEERED)}
        answer = client.wait_for_answer(steered := client.start_request("_session/steering", params), PATIENCE)
        if (answer.get("result") or {}).get("outcome") != "injected":
            yield Finding("", f"the words are answered {answer.get('result') or answer['error']['code']}")
            return
        taken = client.find_answer(steered)
        client.wait_for_answer(turn, PATIENCE)
        wait_for_quiet(client)
        begun = read_shown(client.messages()[since:taken], session, SLOW)
        ended = read_shown(client.messages(taken), session, STEERED)
    before = Past(session, joined(first, begun, ended), recorded(bench.store))
    for number in range(AGAIN):
        yield from loaded(bench, before, f"load {number + 1}")
    with bench.client() as client:
        initialize(client)
        yield from one_load(client, bench, before, "before the next prompt")
        after, wrong = prompted(client, bench, before, AFTER)
        yield from wrong
    yield from loaded(bench, after, "after the next prompt")


def queued(bench: Bench) -> Findings:
    """Each answer follows its prompt if the agent queues a prompt that is sent during a turn."""
    with bench.client() as client:
        initialize(client)
        session = str(client.request("session/new", bench.place(), PATIENCE)["sessionId"])
        since = client.count_lines()
        turn = client.start_request("session/prompt", {"sessionId": session, "prompt": blocks(SLOW)})
        client.wait_for_text(LAST_SLOW_WORD, PATIENCE, since=since)
        next_turn = client.start_request("session/prompt", {"sessionId": session, "prompt": blocks(SECOND)})
        client.wait_for_answer(turn, PATIENCE)
        with suppress(TimeoutError):  # zedcodex takes the prompt into the running turn, and never answers it
            client.wait_for_answer(next_turn, MINUTE)
        wait_for_quiet(client)
        ended = client.find_answer(turn)
        begun = read_shown(client.messages()[since:ended], session, SLOW)
        followed = read_shown(client.messages(ended), session, SECOND)
        if not followed.words("agent"):
            yield NOT_OFFERED  # it refuses the prompt, or takes it into the running turn
            return
        client.wait_for_answer(next_turn, PATIENCE)
    before = Past(session, joined(begun, followed), recorded(bench.store))
    for number in range(AGAIN):
        yield from loaded(bench, before, f"load {number + 1}")


def rename(bench: Bench) -> Findings:
    """What a client renames, archives and deletes in the agent's index is so in ours, and what we do holds there."""
    with bench.client() as client:
        answer = initialize(client, "sessionIndex")
        if "sessionIndex" not in ((answer.get("_meta") or {}).get("jetbrains") or {}).get("air", {}).get(
            "capabilities", ()
        ):
            yield NOT_OFFERED
            return
        ids = [str(client.request("session/new", bench.place(), PATIENCE)["sessionId"]) for _ in range(3)]
        one, two, three = ids
        for session, words in ((one, FIRST), (two, SECOND), (three, AFTER)):
            prompt(client, session, words)
        client.request("_session/rename", {"sessionId": one, "title": "Renamed there"}, PATIENCE)
        client.request("_session/archive", {"sessionId": two}, PATIENCE)
        ours = sessions_command(bench, "list")
        if "Renamed there" not in ours or two in ours or two not in sessions_command(bench, "list", "--archived"):
            yield Finding("", "what the client has changed is not known here")
        yield from indexed(client, bench, ids, {one: ("Renamed there", False), two: (None, True), three: (None, False)})
        sessions_command(bench, "rename", one, "Renamed here")
        sessions_command(bench, "archive", three)
        sessions_command(bench, "delete", two, "--yes")
        after = {one: ("Renamed here", False), three: (None, True)}
        yield from indexed(client, bench, ids, after)
    with bench.client() as client:
        initialize(client, "sessionIndex")
        yield from indexed(client, bench, ids, after, "in a new process")
        client.request("_session/rename", {"sessionId": one, "title": "And there again"}, PATIENCE)
        client.request("_session/unarchive", {"sessionId": three}, PATIENCE)
        yield from indexed(
            client, bench, ids, {one: ("And there again", False), three: (None, False)}, "in a new process"
        )


def indexed(
    client: Client, bench: Bench, ids: Sequence[str], wanted: Mapping[str, tuple[str | None, bool]], where: str = ""
) -> Findings:
    """Of the sessions ``ids``, the agent's index shows those in ``wanted``.

    ``wanted``: by id, the title, if it is known, and whether the session is archived.
    """
    everything = {"_meta": {"jetbrains": {"air": {"list": {"archived": "all"}}}}, "cwd": str(bench.project)}
    for method, params in (("session/list", everything), ("_session/batch_get", {"sessionIds": list(ids)})):
        rows = {row["sessionId"]: row for row in client.request(method, params, PATIENCE)["sessions"]}
        if rows.keys() != wanted.keys():
            yield Finding(where, f"{method} has {len(rows)} sessions instead of {len(wanted)}")
            continue
        for id, (title, is_archived) in wanted.items():
            if title not in (None, rows[id]["title"]):
                yield Finding(where, f"{method} has the title {rows[id]['title']!r} instead of {title!r}")
            if rows[id]["_meta"]["jetbrains"]["air"]["archived"] is not is_archived:
                yield Finding(where, f"{method} says that a session is {'not ' if is_archived else ''}archived")


def sessions_command(bench: Bench, *words: str) -> str:
    """What ``acp-proxy sessions`` prints for the store."""
    command = [sys.executable, "-m", "acp_proxy", "sessions", *words, "--store", str(bench.store)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def commands(bench: Bench) -> Findings:
    """A slash command is answered, and is answered again after a load; later loads show both."""
    command = COMMANDS.get(bench.name)
    if command is None:
        yield Finding("", "no command is known that it answers by itself", is_wrong=False)
        return
    before = past(bench, bench.talk((FIRST, command)))
    with bench.client() as client:
        initialize(client)
        yield from one_load(client, bench, before, "load 1")
        after, wrong = prompted(client, bench, before, command, "after the load")
        yield from wrong
        after, wrong = prompted(client, bench, after, AFTER, "after the load")
        yield from wrong
    for number in range(AGAIN):
        yield from loaded(bench, after, f"load {number + 2}")


def forked(client: Client, bench: Bench, before: Past) -> str:
    """The fork's id. Raises RequestFailed if the agent refuses even for an open session (vibe needs that)."""
    try:
        answer = client.request("session/fork", bench.place(before.session), PATIENCE)
    except RequestFailed:
        client.request("session/load", bench.place(before.session), PATIENCE)
        wait_for_quiet(client)
        answer = client.request("session/fork", bench.place(before.session), PATIENCE)
    wait_for_quiet(client)
    return str(answer["sessionId"])


def mentions(bench: Bench) -> Findings:
    """Prompts that name a file: there are as many user messages as prompts, also in the proxy's own replay.

    The agent loses part of an answer in the kill, which is a reason for the proxy to show its transcript.
    """
    notes = bench.project / "notes.txt"
    notes.write_text("one\ntwo\n", encoding="utf-8")
    link = {"type": "resource_link", "uri": notes.as_uri(), "name": notes.name}
    words = [{"type": "text", "text": text} for text in ("then look at ", " and say what it is")]
    prompts = (f"first look at @{notes.name} please", [words[0], link, words[1]], "bye")
    lived = bench.talk(prompts)
    if bench.name in BY_THE_MINUTE:
        wait_for_the_next_minute()
    before = past(bench, lived)
    with bench.client() as client:
        initialize(client)
        yield from counted_load(client, bench, before, len(prompts), "load 1")
        yield from unchanged(bench, before, "load 1")
        since = interrupted(client, before.session, bench.store)
    whole = joined(before.said, read_shown(client.messages(since), before.session, SLOW))
    after = Past(before.session, whole, recorded(bench.store))
    with bench.client() as client:
        initialize(client)
        yield from counted_load(client, bench, after, len(prompts) + 1, "load after a kill")
    yield from unchanged(bench, after, "load after a kill")


def counted_load(client: Client, bench: Bench, before: Past, prompts: int, where: str) -> Findings:
    """Load, and count the messages of the user; the blocks of one prompt share an id."""
    since = client.count_lines()
    yield from one_load(client, bench, before, where)
    count = count_of_user_messages(updates(client.messages(since), before.session))
    if count != prompts:
        yield Finding(where, f"{count} messages of the user instead of {prompts}")


def minute(bench: Bench) -> Findings:
    """Load in the minute of the session's creation: it is shown and continues, and so it does in the next process."""
    if bench.name not in BY_THE_MINUTE:
        yield Finding("", "like loads: the minute is nothing to it", is_wrong=False)
        return
    if second_of_the_minute() > EARLY:
        wait_for_the_next_minute()
    began = time.monotonic()
    before = past(bench, bench.talk())
    with bench.client() as client:
        initialize(client)
        yield from one_load(client, bench, before, "at once")
        if time.monotonic() - began > MINUTE - EARLY:
            yield Finding("", "this machine was too slow: the minute may have passed", is_wrong=False)
        after, wrong = prompted(client, bench, before, AFTER, "at once")
        yield from wrong
    for number in range(AGAIN):
        yield from loaded(bench, after, f"load {number + 1}")


def cancelled(bench: Bench) -> Findings:
    """Cancel a load at once, and load again."""
    before = grown_old(bench)
    with bench.client() as client:
        initialize(client)
        number = client.start_request("session/load", bench.place(before.session))
        client.notify("$/cancel_request", {"requestId": number})
        wait_for_quiet(client)
        yield from one_load(client, bench, before, "", may_refuse=True)
    yield from unchanged(bench, before, "")
    yield from loaded(bench, before, "in a new process")


def twice(bench: Bench) -> Findings:
    """Two loads at once: each that is answered shows the history once."""
    before = grown_old(bench)
    with bench.client() as client:
        initialize(client)
        numbers = [client.start_request("session/load", bench.place(before.session)) for _ in range(AGAIN)]
        whole, refusals = Shown(), []
        for number in numbers:
            answer = client.wait_for_answer(number, PATIENCE)
            if "error" in answer:
                refusals.append(refused("one of them", RequestFailed(answer["error"]), is_wrong=False))
            else:
                whole.messages += before.said.messages
        wait_for_quiet(client)
        whole.tools |= before.said.tools
        yield from refusals
        if len(refusals) == len(numbers):
            yield Finding("", "both loads are refused")
        yield from same(whole, read_shown(client.messages(), before.session), "")
    yield from unchanged(bench, before, "")
    yield from loaded(bench, before, "in a new process")


def resume(bench: Bench) -> Findings:
    """Resume and continue; then a load shows everything."""
    before = grown_old(bench)
    with bench.client() as client:
        if "resume" not in offers(initialize(client)):
            yield NOT_OFFERED
            return
        try:
            client.request("session/resume", bench.place(before.session), PATIENCE)
        except RequestFailed as refusal:
            yield refused("the resume", refusal, is_wrong=False)
            return
        wait_for_quiet(client)
        yield from unchanged(bench, before, "")
        after, wrong = prompted(client, bench, before, AFTER)
        yield from wrong
    yield from loaded(bench, after, "load")


CHECKS: Mapping[str, Callable[[Bench], Findings]] = {
    "loads": loads,
    "kill": kill,
    "again": again,
    "prompt": prompt_at_once,
    "fork": fork,
    "mentions": mentions,
    "minute": minute,
    "cancelled": cancelled,
    "twice": twice,
    "resume": resume,
    "message": message,
    "rewind": rewind,
    "steering": steering,
    "queued": queued,
    "commands": commands,
    "rename": rename,
}


def grown_old(bench: Bench) -> Past:
    """The session of a conversation; for agents in BY_THE_MINUTE, created in an earlier minute."""
    lived = bench.talk()
    if bench.name in BY_THE_MINUTE:
        wait_for_the_next_minute()
    return past(bench, lived)


# Running.


def checked(name: str, bench: Bench) -> list[Finding]:
    """The findings of one check; an early end is an error too."""
    found: list[Finding] = []
    try:
        found.extend(CHECKS[name](bench))
    except RequestFailed as refusal:
        found.append(refused("a request", refusal))
    except (TimeoutError, OutputEnded, OSError) as problem:
        found.append(Finding("", f"{type(problem).__name__}: {str(problem).split(';')[0]}"))
    return found
