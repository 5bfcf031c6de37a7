"""A conversation printed while it goes on."""

from collections.abc import Iterable
from typing import Any

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.views import formatting
from acp_proxy.views.streaming import PLAIN, QUIET, USER, StreamedText, StreamPrinter
from tests.store import transcript_lines
from tests.tools.mock_agent.recording import CANCELLED, permission_answer, permission_request

STEERING = "\x1b[2J\x07\x9b31m\u202e\r\x00\x7f"


def pieces(*lines: bytes, width: int | None = None) -> list[StreamedText]:
    streaming = StreamPrinter(width)
    return [piece for line in lines for piece in streaming.take(transcript_lines.entry(line))] + streaming.end()


def join_texts(found: Iterable[StreamedText]) -> str:
    """The output of a terminal that cannot rewrite a line."""
    return "".join(f"\n{piece.text}" if piece.replaces_line else piece.text for piece in found)


def looks(found: Iterable[StreamedText]) -> dict[str, str]:
    return {piece.text.strip(): piece.style for piece in found if piece.text.strip()}


def thought(words: str) -> bytes:
    return transcript_lines.update(update_kinds.THOUGHT_CHUNK, content={"type": "text", "text": words})


def call_line(status: str | None = None, id: str = "t", kind: str = "tool_call_update", **fields: Any) -> bytes:
    told: dict[str, Any] = fields | ({"status": status} if status else {})
    return transcript_lines.update(kind, toolCallId=id, **told)


def test_chunks_are_shown_as_they_came_with_each_speaker_apart() -> None:
    found = pieces(
        transcript_lines.prompt_line("Fix it", at=60),
        thought("Hm"),
        thought("."),
        transcript_lines.agent_chunk("Look"),
        transcript_lines.agent_chunk("ing.\n"),
    )
    assert (
        join_texts(found)
        == f"Turn 1 · {formatting.format_local_time(transcript_lines.time(60))}\n> Fix it\n\nHm.\n\nLooking.\n"
    )
    assert [piece.text for piece in found if piece.text.strip()][2:] == ["Hm", ".", "Look", "ing.\n"]
    assert {"> Fix it": USER, "Hm": QUIET, "Look": PLAIN}.items() <= looks(found).items()


def test_ids_separate_messages_of_one_speaker() -> None:
    def agent_chunk(words: str, id: str) -> bytes:
        return transcript_lines.update(update_kinds.AGENT_CHUNK, content={"type": "text", "text": words}, messageId=id)

    assert (
        join_texts(pieces(agent_chunk("One", "1"), agent_chunk(" and", "1"), agent_chunk("two", "2")))
        == "One and\n\ntwo\n"
    )


def test_the_line_of_a_call_is_updated_with_its_status() -> None:
    found = pieces(
        transcript_lines.agent_chunk("See"),
        call_line("pending", kind="tool_call", title="Edit"),
        call_line("in_progress"),
        call_line(rawOutput={"much": "more"}),
        call_line("completed"),
        transcript_lines.agent_chunk("Done"),
    )
    assert [piece for piece in found if piece.replaces_line] == [
        StreamedText("▸ in_progress: Edit", "yellow", replaces_line=True),
        StreamedText("✓ Edit", "green", replaces_line=True),
    ]
    assert join_texts(found) == "See\n\n○ pending: Edit\n▸ in_progress: Edit\n✓ Edit\n\nDone\n"


def test_a_call_whose_line_is_no_longer_last_gets_another() -> None:
    found = pieces(
        call_line("pending", "a"), call_line("pending", "b"), call_line("failed", "a"), call_line("failed", "a")
    )
    assert join_texts(found) == "○ pending: a\n○ pending: b\n✗ failed: a\n"
    assert not any(piece.replaces_line for piece in found)
    assert looks(found)["✗ failed: a"] == "red"


def test_the_line_of_a_call_fits_the_width() -> None:
    [piece] = [piece for piece in pieces(call_line("completed", title="編集 " * 30), width=40) if piece.text.strip()]
    assert piece.text.startswith("✓ 編集 編集")
    assert piece.text.endswith("…")
    assert 37 <= sum(2 if one in "編集" else 1 for one in piece.text) <= 39


def test_only_changed_steps_of_a_plan_are_shown() -> None:
    def plan(*statuses: str) -> bytes:
        return transcript_lines.update(
            "plan", entries=[{"content": f"step {n}", "status": s} for n, s in enumerate(statuses)]
        )

    found = join_texts(
        pieces(plan("in_progress", "pending"), plan("completed", "pending"), plan("completed", "pending"))
    )
    assert found == "▸ step 0\n○ step 1\n✓ step 0\n"


def test_a_permission_is_shown_with_the_decision() -> None:
    assert join_texts(pieces(permission_request(), permission_answer())) == "○ t\n? Yes / Always / No\n→ Yes\n"
    assert join_texts(pieces(permission_request(), permission_answer(CANCELLED))).endswith("→ cancelled\n")
    refused = transcript_lines.message(
        {"id": 0, "error": {"code": -1, "message": "x"}}, Peer.CLIENT, acp.REQUEST_PERMISSION
    )
    assert join_texts(pieces(permission_request(), refused)).endswith("→ refused\n")


def test_an_interrupted_or_failed_turn_says_so() -> None:
    stopped = transcript_lines.message({"id": 1, "result": {"stopReason": "max_tokens"}}, Peer.AGENT, acp.PROMPT)
    cancel = transcript_lines.message({"method": acp.CANCEL, "params": {}}, Peer.CLIENT)
    assert (
        join_texts(pieces(transcript_lines.agent_chunk("So"), cancel, stopped))
        == "So\ncancelled by the user\nstopped: max_tokens\n"
    )
    assert join_texts(pieces(transcript_lines.answer())) == ""
    assert (
        join_texts(pieces(transcript_lines.answer(error={"code": -32000, "message": "no login"})))
        == "the prompt failed: no login\n"
    )
    assert (
        join_texts(pieces(transcript_lines.answer(error={"code": -32603, "message": "Internal error", "data": "why"})))
        == "the prompt failed: Internal error: why\n"
    )
    assert "status 17" in join_texts(pieces(transcript_lines.note("failed", message="agent exited with status 17")))
    assert "ENOSPC" in join_texts(pieces(transcript_lines.note("gap", reason="ENOSPC")))


def test_an_echoed_prompt_is_shown_once_and_other_user_messages_are_kept() -> None:
    def user(words: str) -> bytes:
        return transcript_lines.update(update_kinds.USER_CHUNK, content={"type": "text", "text": words})

    echoed = join_texts(
        pieces(
            transcript_lines.prompt_line("Fix it now"), user("Fix it"), user(" now"), transcript_lines.agent_chunk("ok")
        )
    )
    assert echoed.endswith("> Fix it now\n\nok\n")
    assert join_texts(pieces(user("Earlier"), transcript_lines.agent_chunk("ok"))) == "Earlier\n\nok\n"
    told = pieces(
        transcript_lines.prompt_line("Fix @a"),
        user("Fix a, written out"),
        user("Context"),
        transcript_lines.agent_chunk("ok"),
        user("So?"),
    )
    assert join_texts(told).endswith("> Fix @a\n\nContext\n\nok\n\nSo?\n")


def test_content_that_is_not_text_is_named_and_unknown_updates_are_left_out() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "AA=="}
    shown = transcript_lines.update(update_kinds.AGENT_CHUNK, content=image)
    assert join_texts(pieces(shown)) == "[image: image/png]\n"
    assert join_texts(
        pieces(transcript_lines.agent_chunk("See"), shown, shown, transcript_lines.agent_chunk("Red."))
    ) == ("See\n\n[image: image/png]\n[image: image/png]\n\nRed.\n")
    assert (
        join_texts(
            pieces(
                transcript_lines.update("something_new", content="x"),
                transcript_lines.update(update_kinds.AGENT_CHUNK, content=7),
            )
        )
        == ""
    )
    assert (
        join_texts(pieces(transcript_lines.update(update_kinds.CURRENT_MODE, currentModeId="code"))) == "mode: code\n"
    )


def test_control_sequences_are_removed_everywhere() -> None:
    options = {"options": [{"optionId": "x", "name": STEERING}], "toolCall": {"toolCallId": STEERING}}
    found = pieces(
        transcript_lines.prompt_line(STEERING),
        transcript_lines.agent_chunk(STEERING),
        thought(STEERING),
        call_line(STEERING, STEERING, title=STEERING),
        transcript_lines.update("plan", entries=[{"content": STEERING, "status": STEERING}]),
        transcript_lines.message({"id": 2, "method": acp.REQUEST_PERMISSION, "params": options}, Peer.AGENT),
        transcript_lines.update(update_kinds.CURRENT_MODE, currentModeId=STEERING),
        transcript_lines.note("failed", message=STEERING),
        transcript_lines.note("gap", reason=STEERING),
        transcript_lines.answer(error={"code": 1, "message": STEERING}),
        width=30,
    )
    assert len(found) > 10
    assert all(piece.text.replace("\n", "").isprintable() for piece in found)


def test_a_repeated_turn_has_its_number_and_all_calls() -> None:
    lines = [transcript_lines.prompt_line("go"), call_line("completed", title="Edit")]
    streaming = StreamPrinter(None)
    first = [piece for line in lines for piece in streaming.take(transcript_lines.entry(line))] + streaming.end()
    streaming.rewind_to(1)
    again = [piece for line in lines for piece in streaming.take(transcript_lines.entry(line))] + streaming.end()
    assert join_texts(again).strip() == join_texts(first).strip()


def test_a_call_that_fails_says_why_and_one_that_edits_how_much() -> None:
    diff = {"type": "diff", "path": "/p/a", "oldText": "1\n2\n", "newText": "1\n3\n4\n"}
    output = {"type": "content", "content": {"type": "text", "text": "```\nline 1\n\x1b[2Jline 2\n```"}}
    found = pieces(
        call_line("in_progress", title="Edit a", content=[diff]),
        call_line("completed"),
        call_line("failed", "u", title="pytest", content=[output]),
        call_line("failed", "u", title="pytest -q"),
        call_line("completed", "v", title="ls", content=[output]),
    )
    lines = [line for line in join_texts(found).split("\n") if line]
    assert lines == [
        "▸ in_progress: Edit a",
        "✓ Edit a  +2 -1",
        "✗ failed: pytest",
        "    line 1",
        "    line 2",
        "✗ failed: pytest -q",
        "✓ ls",
    ]


def test_the_counts_of_an_edit_are_not_cut() -> None:
    diff = {"type": "diff", "path": "/p/a", "oldText": "", "newText": "x\n" * 12345}
    [found, _] = pieces(call_line("completed", title="Edit " + "a" * 100, content=[diff]), width=40)
    assert found.text.endswith("…  +12345 -0")
    assert len(found.text) == 39
