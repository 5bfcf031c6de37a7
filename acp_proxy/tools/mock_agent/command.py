"""``acp-proxy mock-agent``: an agent that plays recordings, for developers of editors."""

import signal
from typing import Annotated, Literal

import typer

from acp_proxy.cli import recordings
from acp_proxy.cli.pager import is_attended
from acp_proxy.cli.report_errors import report_errors
from acp_proxy.cli.shared_options import AgentOption, StoreOption
from acp_proxy.errors import NoTranscript
from acp_proxy.transcript.reader import Line
from acp_proxy.transcript.turn_order import order_turns


def mock_agent(
    files: recordings.RecordingsArgument,
    match: Annotated[
        Literal["exact", "nearest", "next"],
        typer.Option(help="The recorded turn for a prompt: same words, most similar words, or simply the next turn."),
    ] = "nearest",
    speed: Annotated[
        float, typer.Option(metavar="TIMES", min=0, help="Play this many times faster. 0: as fast as possible.")
    ] = 1.0,
    capabilities: Annotated[
        Literal["full", "resume-only", "none"],
        typer.Option(help="What the agent offers. full: list, load, resume and delete."),
    ] = "full",
    store: StoreOption = "",
    agent: AgentOption = "",
) -> None:
    """Run an agent that plays recordings, to test an editor.

    It speaks ACP on stdin and stdout. An editor can list, load, resume and delete the recorded sessions (in memory),
    and can prompt them or new ones. The agent plays the recorded turn whose prompt matches best, update by update, with
    its permission requests. The same requests produce the same bytes. More: docs/mock-agent.md.

    Example: acp-proxy mock-agent --speed 0 login.jsonl
    """
    from acp_proxy.tools.mock_agent import agent as mock
    from acp_proxy.tools.mock_agent import sessions

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    played_sessions = []
    with report_errors():
        for file in files:
            with recordings.open_recording(file, store, agent) as (reader, header, _):
                lines = order_turns(reader.read_lines(), reader.find_last_lines)
                entries = (line.entry for line in lines if isinstance(line, Line) and line.entry is not None)
                played_sessions.append(sessions.read_session(header, entries))
            if len({session.id for session in played_sessions}) < len(played_sessions):
                raise NoTranscript(f"{file}: this session was already given. Name each session once.")
    if is_attended():
        typer.echo("mock-agent waits for an editor on stdin. To end it: Ctrl-C", err=True)
    mock.run(played_sessions, match=match, speed=speed, capabilities=capabilities)
