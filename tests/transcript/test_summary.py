"""The summary of a session: title, time, counts and ``_meta``, folded at once or step by step."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert, to_builtins

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.summary import Summary, merge
from acp_proxy.transcript.titles import HANDOVER_RECORD_BEGINNINGS, clean
from tests.store import transcript_lines
from tests.store.transcript_lines import agent_chunk, answer, info, note, prompt_line, update
from tests.strategies import messages, texts, values

OTHER = "run002"
AGENTS_TIME = "2026-11-20T10:15:02.5+01:00"
OUR_FORM_OF_IT = "2026-11-20T09:15:02.500Z"


def summary(*lines: bytes, header: file_format.Header | None = None) -> Summary:
    folded = Summary.begin(header or transcript_lines.header())
    for line in lines:
        folded.add(transcript_lines.entry(line))
    return folded


def title(*blocks: transcript_lines.Block) -> str | None:
    return summary(prompt_line(*blocks)).title


# --- the title from the agent


def test_a_title_made_from_a_handovers_record_does_not_count_and_the_one_before_stays() -> None:
    title_of_handover_record = f"{HANDOVER_RECORD_BEGINNINGS[0]}an agent…"
    lines = [prompt_line("mend it", at=1), answer(at=2), info(title=title_of_handover_record, at=3)]
    assert summary(*lines).title == "mend it"
    lines += [info(title="Mending", at=4), info(title=title_of_handover_record, at=5)]
    assert summary(*lines).title == "Mending"
    lines.append(note("adopted", title=title_of_handover_record, at=6))
    assert summary(*lines).title == "Mending"
    assert summary(*lines, info(title=None, at=7)).title == "mend it"


# --- the title from the prompts


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (["Fix the login"], "Fix the login"),
        (["\n \t\n  Fix the login  \nand more"], "Fix the login"),
        (["Fix\r\nthe login"], "Fix"),
        (["/review", "Fix the login"], "Fix the login"),
        (["<context>a</context>", "Fix the login"], "Fix the login"),
        (
            ['<context ref="file:///a.py">\nx\n</context>\n<system-reminder>b</system-reminder>\nFix it', "More"],
            "Fix it",
        ),
        (["<environment_context>\n<cwd>/x</cwd>\n</environment_context>", "/review", "Fix it"], "Fix it"),
        (["<context>\n" + "x\n" * 100_000 + "</context>\nFix the login"], "Fix the login"),
        (["<context>\nwithout an end", "Fix the login"], "Fix the login"),
        (["<Button> does not render", "Second block"], "<Button> does not render"),
        (["<div> is not centered, why?", "Second block"], "<div> is not centered, why?"),
        (["<b>html</b> & entities", "Second block"], "<b>html</b> & entities"),
        (["<my_tag> in the feed has no end", "Second block"], "<my_tag> in the feed has no end"),
        (["/etc/hosts is not read", "Second block"], "/etc/hosts is not read"),
        (["// TODO is still there", "Second block"], "// TODO is still there"),
        (["<system-reminder>a</system-reminder>"], "<system-reminder>a</system-reminder>"),
        (["  /review", "  <context>"], "/review"),
        (["/review\nFix the login"], "/review"),
        (["", "   ", "\n\n", "Fix"], "Fix"),
        (["/a", "/b"], "/a"),
        (["a/b"], "a/b"),
        (["1 < 2"], "1 < 2"),
    ],
)
def test_the_title_is_the_first_line_that_is_no_command_or_context(blocks: list[str], expected: str) -> None:
    assert title(*blocks) == expected


def test_a_later_prompt_gives_the_title_if_the_first_has_only_commands() -> None:
    lines = [
        prompt_line("/login", at=1),
        answer(at=2),
        prompt_line("Fix the login", at=3),
        prompt_line("Then this", at=4),
    ]
    assert [summary(*lines[:count]).title for count in range(5)] == [None, "/login", "/login", *["Fix the login"] * 2]


def test_a_prompt_without_text_is_titled_by_its_first_resource() -> None:
    link = {"type": "resource_link", "name": "login.py", "uri": "file:///home/me/other.py"}
    embedded = {"type": "resource", "resource": {"uri": "file:///home/me/notes.md", "text": "…"}}
    nameless = {"type": "resource_link", "uri": "file:///home/me/project/"}
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    assert title(image, link, embedded) == "login.py"
    assert title(embedded) == "notes.md"
    assert title(nameless) == "project"
    assert title(link, "/review") == "/review"
    assert summary(prompt_line(link, at=1), prompt_line("Fix it", at=2)).title == "Fix it"
    assert summary(prompt_line(link, at=1), prompt_line(embedded, at=2)).title == "login.py"


@pytest.mark.parametrize("blocks", [[], [""], [" \n\t"], [{"type": "image", "data": "AA"}], [{"type": "text"}], [{}]])
def test_a_prompt_without_text_or_resource_has_no_title(blocks: list[transcript_lines.Block]) -> None:
    assert title(*blocks) is None


@pytest.mark.parametrize(
    "blocks", [None, "Fix", 7, {"text": "Fix"}, [7, None, ["x"], "Fix"], [{"type": "text", "text": 7}]]
)
def test_a_malformed_prompt_has_no_title_and_is_counted(blocks: object) -> None:
    found = summary(transcript_lines.message({"method": "session/prompt", "params": {"prompt": blocks}}, Peer.CLIENT))
    assert (found.title, found.prompts) == (None, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a  b\t\tc\u00a0d\u2028e", "a b c d e"),
        ("\x1b[1;31mred\x1b[0m\x07\x00", "red"),
        ("a \x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "a link"),
        ("ab\u202ecd\u200b", "abcd"),
        ("\x1b\x07\nFix", "Fix"),
        ("\x1b/review", "/review"),
        ("half \ud800 pair", "half pair"),
        ("日本語 é 😀", "日本語 é 😀"),
        (" " * 5000 + "Fix", "Fix"),
    ],
)
def test_white_space_is_collapsed_and_control_characters_are_removed(text: str, expected: str) -> None:
    assert title(text) == expected


def test_a_line_is_cleaned_before_it_is_classified() -> None:
    assert title("\x1b/review", "Fix") == "Fix"
    assert title("\x07 \x1b", "Fix") == "Fix"


# --- its length


def test_a_title_longer_than_120_characters_is_cut_at_a_word() -> None:
    assert title("x" * 120) == "x" * 120
    cut = title("word " * 60)
    assert cut is not None
    assert 100 < len(cut) <= 120
    assert set(cut.removesuffix("…").split(" ")) == {"word"}


def test_a_very_long_word_is_cut() -> None:
    assert title("x" * 121) == "x" * 119 + "…"
    assert title("ab " + "x" * 200) == "ab " + "x" * 116 + "…"


@given(texts | st.text(st.sampled_from("ab \n\t/<\x1b\u2028é"), max_size=400), st.integers(20, 130))
def test_a_title_is_one_printable_line_of_bounded_length(text: str, length: int) -> None:
    found = clean(text, length)
    if found is not None:
        assert 0 < len(found) <= length
        assert found == " ".join(found.split())
        assert found.isprintable()
        assert clean(found, length) == found


@pytest.mark.parametrize("value", [None, 7, True, ["x"], {"x": 1}, "", " \n", "\x1b"])
def test_an_empty_or_invalid_title_is_none(value: object) -> None:
    assert clean(value, 120) is None


# --- the agent's title


def test_the_agents_last_title_wins_over_the_prompts() -> None:
    lines = [
        prompt_line("Fix it", at=1),
        info(at=2, title="Login"),
        info(at=3, title="Login, umlauts"),
        prompt_line("x", at=4),
    ]
    assert [summary(*lines[:count]).title for count in range(1, 5)] == ["Fix it", "Login", *["Login, umlauts"] * 2]


def test_only_null_clears_the_agents_title() -> None:
    lines = [prompt_line("Fix it"), info(title="Login"), info(updatedAt=AGENTS_TIME), info(title=None)]
    assert [summary(*lines[:count]).title for count in (2, 3, 4)] == ["Login", "Login", "Fix it"]


@pytest.mark.parametrize("empty", ["", "  \n", "\x07"])
def test_an_empty_title_of_the_agent_falls_back_to_the_prompts(empty: str) -> None:
    assert summary(prompt_line("Fix it"), info(title=empty)).title == "Fix it"


@pytest.mark.parametrize("wrong", [7, True, ["x"], {"x": 1}])
def test_an_invalid_title_of_the_agent_is_ignored(wrong: object) -> None:
    assert summary(prompt_line("Fix it"), info(title="Login"), info(title=wrong)).title == "Login"


def test_the_agents_title_is_cleaned_and_cut_at_500_characters() -> None:
    assert summary(info(title="a\x1b[0m  b\nc")).title == "a b c"
    assert summary(info(title="x" * 500)).title == "x" * 500
    cut = summary(info(title="word " * 200)).title
    assert cut is not None
    assert len(cut) <= 500
    assert cut.endswith("word…")
    assert summary(info(title="/looks like a command")).title == "/looks like a command"


# --- the time


def test_the_time_is_the_last_activity() -> None:
    lines = [
        prompt_line("x", at=1),
        agent_chunk("a", at=2),
        update("tool_call", at=3),
        update("draft_kind", at=4),
        answer(at=5),
        agent_chunk("late", at=6),
    ]
    assert [summary(*lines[:count]).updated for count in range(7)] == [
        transcript_lines.time(count) for count in range(7)
    ]


@pytest.mark.parametrize(
    "line",
    [
        update("available_commands_update", at=9),
        update("current_mode_update", at=9),
        update("config_option_update", at=9),
        update("usage_update", at=9),
        update("notice", at=9),
        info(at=9, title="x"),
        note("opened", at=9, method="session/resume", cwd="/x"),
        note("closed", at=9),
        note("gap", at=9),
        transcript_lines.message({"method": "session/request_permission", "id": 1}, Peer.AGENT, at=9),
        transcript_lines.message({"method": "session/set_mode", "id": 1}, Peer.CLIENT, at=9),
        transcript_lines.message({"id": 1, "result": {}}, Peer.AGENT, "session/set_mode", at=9),
    ],
)
def test_updates_of_the_state_are_no_activity(line: bytes) -> None:
    assert summary(prompt_line("x", at=1), line).updated == transcript_lines.time(1)


def test_the_agents_time_counts_until_the_next_prompt() -> None:
    lines = [
        prompt_line("x", at=1),
        info(at=2, updatedAt=AGENTS_TIME),
        agent_chunk("a", at=3),
        answer(at=4),
        prompt_line("y", at=5),
    ]
    times = [summary(*lines[:count]).updated for count in (2, 3, 4, 5)]
    assert times == [OUR_FORM_OF_IT] * 3 + [transcript_lines.time(5)]
    assert summary(*lines, info(at=6, updatedAt="2030-01-01")).updated == "2030-01-01T00:00:00.000Z"


def test_only_null_clears_the_agents_time() -> None:
    lines = [
        prompt_line("x", at=1),
        info(at=2, updatedAt=AGENTS_TIME),
        info(at=3, title="x"),
        info(at=4, updatedAt=None),
    ]
    assert [summary(*lines[:count]).updated for count in (3, 4)] == [OUR_FORM_OF_IT, transcript_lines.time(1)]


@pytest.mark.parametrize("wrong", ["yesterday", "", 1795166102, True, [AGENTS_TIME], {}])
def test_an_invalid_time_is_ignored(wrong: object) -> None:
    assert summary(prompt_line("x", at=1), info(updatedAt=wrong)).updated == transcript_lines.time(1)
    assert summary(prompt_line("x", at=1), info(updatedAt=AGENTS_TIME), info(updatedAt=wrong)).updated == OUR_FORM_OF_IT


# --- _meta, by the rules of session_info_update


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        ([{"tags": ["a"], "priority": "high"}], {"tags": ["a"], "priority": "high"}),
        ([{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
        ([{"a": 1, "b": 2}, {"a": None}], {"b": 2}),
        ([{"a": {"x": 1, "y": 2}}, {"a": {"y": 3, "z": 4}}], {"a": {"x": 1, "y": 3, "z": 4}}),
        ([{"a": {"x": {"deep": 1}}}, {"a": {"x": {"deep": None, "more": 2}}}], {"a": {"x": {"more": 2}}}),
        ([{"tags": ["a", "b"]}, {"tags": ["c"]}], {"tags": ["c"]}),
        ([{"a": {"x": 1}}, {"a": "text"}], {"a": "text"}),
        ([{"a": "text"}, {"a": {"x": 1}}], {"a": {"x": 1}}),
        ([{"a": 1}, None, {"b": 2}], {"b": 2}),
        ([{"a": 1}, None], {}),
        ([{"a": 1}, {}], {"a": 1}),
        ([{"a": None, "b": {"c": None, "d": 1}}], {"b": {"d": 1}}),
        ([{"a": 1}, "wrong", 7, ["wrong"], True], {"a": 1}),
    ],
)
def test_meta_is_merged(updates: list[object], expected: dict[str, object]) -> None:
    assert summary(*(info(_meta=meta) for meta in updates)).meta == expected


def test_an_update_without_meta_keeps_it() -> None:
    assert summary(info(_meta={"a": 1}), info(title="x"), prompt_line("x"), answer()).meta == {"a": 1}


def test_only_session_info_updates_change_meta() -> None:
    assert summary(update("agent_message_chunk", _meta={"a": 1}), update("plan", _meta={"b": 1})).meta == {}


nested = st.dictionaries(
    st.sampled_from("abc"), st.recursive(values, lambda x: st.dictionaries(st.sampled_from("abc"), x))
)


@given(nested, nested)
def test_merging_is_idempotent_and_keeps_its_arguments(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = json.dumps([old, new])
    once = merge(old, new)
    assert merge(once, new) == once
    assert json.dumps([old, new]) == before
    assert all(key not in once if value is None else key in once for key, value in new.items())
    assert all(once[key] == value for key, value in old.items() if key not in new)


@pytest.mark.parametrize("depth", [100, 500, 960, 1010])
@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")], ids=["objects", "arrays"])
def test_deeply_nested_meta_does_no_harm(opening: bytes, closing: bytes, depth: int) -> None:
    raw = b'{"method":"session/update","params":{"update":{"sessionUpdate":"session_info_update","_meta":{"b":%s}}}}'
    nested_meta = raw % (opening * depth + b"1" + closing * depth)
    line = file_format.encode_message(transcript_lines.time(1), transcript_lines.RUN, Peer.AGENT, nested_meta)
    found = summary(info(_meta={"a": 1}), line, line, prompt_line("x"))
    assert found.meta["a"] == 1
    assert found.prompts == 1
    assert convert(json.loads(json.dumps(to_builtins(found))), Summary) == found


def test_meta_beyond_the_limit_is_ignored() -> None:
    large = {f"key {number}": "x" * 1000 for number in range(60)}
    found = summary(info(_meta=large), info(_meta={"more": "x" * 10_000}), info(_meta={"small": 1}), prompt_line("x"))
    assert found.meta == {**large, "small": 1}


# --- counts


def user_chunk(text: str, *, at: int = 0) -> bytes:
    """A chunk of the user's message as an agent sends it."""
    return update("user_message_chunk", at=at, content={"type": "text", "text": text})


IMPORTED = transcript_lines.header(origin=file_format.IMPORTED)
EARLIER = [
    user_chunk("<context>"),
    user_chunk("Fix it"),
    agent_chunk("a"),
    agent_chunk("b"),
    user_chunk("and this"),
    update("tool_call"),
    agent_chunk("c"),
]


@pytest.mark.parametrize(
    "header", [IMPORTED, transcript_lines.header(), transcript_lines.header(origin=file_format.PARTIAL)]
)
def test_a_replay_before_the_first_prompt_has_turns_and_a_title(header: file_format.Header) -> None:
    found = summary(*EARLIER, header=header)
    assert (found.prompts, found.replies, found.title) == (2, 2, "Fix it")
    prompted = [
        prompt_line("Go on", at=9),
        user_chunk("Go on", at=9),
        agent_chunk("d", at=9),
        answer(at=9),
        user_chunk("late", at=9),
    ]
    found = summary(*EARLIER, *prompted, header=header)
    assert (found.prompts, found.replies, found.title) == (3, 3, "Fix it")


def test_agent_messages_alone_are_a_turn_only_in_an_imported_session() -> None:
    assert summary(agent_chunk("hello"), header=IMPORTED).prompts == 1
    assert summary(agent_chunk("hello"), user_chunk("Fix it"), header=IMPORTED).prompts == 2
    assert summary(info(title="x"), note("opened", method="session/load"), header=IMPORTED).prompts == 0
    assert summary(agent_chunk("hello")).prompts == 0


def test_a_session_that_was_never_opened_has_no_turn() -> None:
    unopened = transcript_lines.header(cwd=None, origin=file_format.PARTIAL)
    assert summary(*EARLIER, header=unopened).prompts == 0
    opened = note("opened", method="session/load", cwd="/project")
    assert summary(opened, *EARLIER, header=unopened).prompts == 2


def test_replies_are_turns_in_which_the_agent_said_something() -> None:
    lines = [
        prompt_line("one", at=1),
        agent_chunk("a", at=2),
        agent_chunk("b", at=3),
        update("tool_call", at=4),
        answer(at=5),
        prompt_line("two", at=6),
        answer(at=7),
        prompt_line("three", at=8),
        update("plan", at=9),
    ]
    counts = [(found.prompts, found.replies) for found in (summary(*lines[:count]) for count in range(10))]
    assert counts == [(0, 0), (1, 0), *[(1, 1)] * 4, (2, 1), (2, 1), (3, 1), (3, 2)]


@pytest.mark.parametrize(
    "line",
    [
        update("user_message_chunk", content={"type": "text", "text": "an echo"}),
        update("available_commands_update"),
        update("usage_update"),
        update("notice"),
        info(title="x"),
        note("terminal"),
        answer(),
        transcript_lines.message({"method": "session/update", "params": {"update": "wrong"}}, Peer.AGENT),
        transcript_lines.message({"method": "session/update"}, Peer.AGENT),
        transcript_lines.message({"method": "session/request_permission", "id": 1}, Peer.AGENT),
        transcript_lines.message({"method": "session/prompt", "id": 1}, Peer.AGENT),
        transcript_lines.message(
            {"method": "session/update", "params": {"update": {"sessionUpdate": "plan"}}}, Peer.CLIENT
        ),
    ],
)
def test_other_messages_are_no_reply(line: bytes) -> None:
    found = summary(prompt_line("one"), line)
    assert (found.prompts, found.replies) == (1, 0)


def test_late_messages_belong_to_the_turn_before() -> None:
    assert summary(prompt_line("one"), answer(), agent_chunk("late")).replies == 1
    assert summary(prompt_line("one"), agent_chunk("a"), answer(), agent_chunk("late")).replies == 1


# --- errors, and open turns


def test_a_failed_prompt_marks_the_session_as_failed_for_good() -> None:
    assert not summary(prompt_line("x"), answer()).failed
    assert not summary(prompt_line("x"), answer(error=None)).failed
    refused = {"id": 1, "result": {"stopReason": "refusal"}}
    assert not summary(prompt_line("x"), transcript_lines.message(refused, Peer.AGENT, "session/prompt")).failed
    assert summary(prompt_line("x"), answer(error={"code": -32000})).failed
    assert summary(prompt_line("x"), note("failed", method="session/prompt")).failed
    assert summary(prompt_line("x"), answer(error={}), prompt_line("y"), answer()).failed


def test_an_error_of_another_request_is_no_failure() -> None:
    assert not summary(transcript_lines.message({"id": 1, "error": {"code": 1}}, Peer.AGENT, "session/set_mode")).failed
    assert not summary(transcript_lines.message({"id": 1, "error": {"code": 1}}, Peer.CLIENT, "session/prompt")).failed


def test_open_turns_are_counted_by_run() -> None:
    lines = [
        prompt_line("one"),
        prompt_line("two", run=OTHER),
        prompt_line("three", run=OTHER),
        answer(run=OTHER),
        answer(),
        answer(),
    ]
    open_runs = [summary(*lines[:count]).open for count in range(7)]
    assert open_runs == [
        {},
        {transcript_lines.RUN: 1},
        {transcript_lines.RUN: 1, OTHER: 1},
        {transcript_lines.RUN: 1, OTHER: 2},
        {transcript_lines.RUN: 1, OTHER: 1},
        {OTHER: 1},
        {OTHER: 1},
    ]
    assert summary(*lines, note("failed", run=OTHER)).open == {}


# --- the directory


def test_a_later_opening_changes_the_directory() -> None:
    header = transcript_lines.header(cwd=None, more=("/more",))
    assert (summary(header=header).cwd, summary(header=header).directories) == (None, ["/more"])
    opened = note("opened", method="session/resume", cwd="/project", additionalDirectories=["/a"])
    found = summary(opened, header=header)
    assert (found.cwd, found.directories) == ("/project", ["/a"])
    later = summary(opened, note("opened", method="session/load", cwd=None), header=header)
    assert (later.cwd, later.directories) == ("/project", [])


def test_a_time_to_come_in_the_agents_list_counts_as_the_time_of_the_adoption() -> None:
    adopted = note("adopted", updatedAt="9999-12-31T23:59:59Z", adoptedAt="2026-01-02T03:04:05Z")
    assert summary(prompt_line("x"), answer(), adopted).updated == "2026-01-02T03:04:05.000Z"


def test_an_adopted_session_has_the_title_and_the_time_of_the_agents_list_until_it_is_prompted() -> None:
    imported = transcript_lines.header(origin=file_format.IMPORTED)
    replayed = [
        user_chunk("hello"),
        transcript_lines.agent_chunk("hi", at=1),
        transcript_lines.info(title="Before", updatedAt=transcript_lines.time(2)),
    ]
    adopted = transcript_lines.note(NoteType.ADOPTED, at=90, title="ListedSession", updatedAt=transcript_lines.time(3))
    found = summary(*replayed, adopted, header=imported)
    assert (found.title, found.updated) == ("ListedSession", transcript_lines.time(3))
    found = summary(*replayed, adopted, transcript_lines.prompt_line("more", at=100), header=imported)
    assert (found.title, found.updated) == ("ListedSession", transcript_lines.time(100))
    found = summary(
        *replayed, transcript_lines.note(NoteType.ADOPTED, at=90, title=None, updatedAt=None), header=imported
    )
    assert (found.title, found.updated) == ("Before", transcript_lines.time(1))


def test_notes_that_say_nothing_of_what_a_list_shows_are_ignored() -> None:
    assert summary(note("gap"), note("handover"), note("")) == summary(note("gap"))


# Step by step.

moments = st.integers(0, 100)
runs = st.sampled_from([transcript_lines.RUN, OTHER])
blocks = st.one_of(
    texts,
    st.sampled_from(["/review", "<x>", "Fix it", " \n", "x" * 200]),
    st.just({"type": "resource_link", "name": "a.py"}),
    st.dictionaries(st.sampled_from(["type", "text", "uri"]), values, max_size=2),
)
infos = st.fixed_dictionaries(
    {},
    optional={
        "title": st.none() | texts | values,
        "updatedAt": st.sampled_from([None, AGENTS_TIME, 7]),
        "_meta": values,
    },
)
kinds = st.sampled_from(["agent_message_chunk", "user_message_chunk", "tool_call", "usage_update", "unknown", None, 7])
entries: st.SearchStrategy[bytes] = st.one_of(
    st.builds(lambda at, run, said: prompt_line(*said, at=at, run=run), moments, runs, st.lists(blocks, max_size=3)),
    st.builds(
        lambda at, run, error: answer(at=at, run=run, error=error), moments, runs, st.sampled_from([None, {}, 7])
    ),
    st.builds(lambda at, run, kind: update(kind, at=at, run=run), moments, runs, kinds),
    st.builds(lambda at, fields: info(at=at, **fields), moments, infos),
    st.builds(
        lambda at, run, kind, cwd: note(kind, at=at, run=run, cwd=cwd),
        moments,
        runs,
        st.sampled_from(["opened", "failed", "gap", "closed"]),
        st.sampled_from(["/x", None, 7]),
    ),
    st.builds(
        lambda peer, value, of: transcript_lines.message(value, peer, of),
        st.sampled_from(Peer),
        messages,
        st.sampled_from([None, "session/prompt"]),
    ),
)


@given(st.lists(entries, max_size=12), st.data())
def test_folding_can_continue_from_a_saved_state(lines: list[bytes], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(lines)))
    state = json.dumps(to_builtins(summary(*lines[:cut])))
    later = convert(json.loads(state), Summary)
    for line in lines[cut:]:
        later.add(transcript_lines.entry(line))
    assert later == summary(*lines)


@given(st.lists(entries, max_size=8))
def test_any_entries_give_a_valid_summary(lines: list[bytes]) -> None:
    found = summary(*lines)
    assert found.title is None or (found.title and found.title.isprintable() and len(found.title) <= 500)
    assert found.updated is not None
    assert len(found.updated) == 24
    assert found.prompts >= 0
    assert found.replies <= found.prompts + 1
    json.dumps(found.meta).encode()


def test_unknown_keys_of_a_saved_state_are_ignored() -> None:
    assert convert(to_builtins(summary(prompt_line("x"))) | {"later": 1}, Summary) == summary(prompt_line("x"))
