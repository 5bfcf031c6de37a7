"""The errors of ``mock-agent`` before it serves. Its service: tests/end_to_end/test_mock_agent.py."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke

SAMPLES = Path(__file__).parents[2] / "fixtures" / "transcripts" / "v1"
SAMPLE = str(SAMPLES / "conversation.jsonl")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["no-such.jsonl"], 1, "no-such.jsonl"),
        ([str(SAMPLES / "README.md")], 1, "not a transcript"),
        ([str(SAMPLES / "newer.jsonl")], 1, "Upgrade"),
        ([SAMPLE, SAMPLE], 1, "Name each session once"),
        ([], 2, " is missing: "),
        (["--match", "best", SAMPLE], 2, "nearest"),
        (["--capabilities", "all", SAMPLE], 2, "resume-only"),
        (["--speed", "-1", SAMPLE], 2, "--speed"),
    ],
)
def test_a_file_that_cannot_be_played_is_reported_on_stderr_only(words: list[str], status: int, said: str) -> None:
    result = invoke("mock-agent", *words)
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr
