"""``acp-proxy mock-agent``: an agent that plays what was recorded, for whoever builds an editor."""

import signal
from typing import Annotated, Literal

import typer

from acp_proxy.cli import recordings
from acp_proxy.cli.storing import AgentOption, StoreOption, explained
from acp_proxy.errors import NoTranscript


def mock_agent(
    files: recordings.RecordingsArgument,
    match: Annotated[
        Literal["exact", "nearest", "next"],
        typer.Option(help="Which recorded turn answers a prompt: same words, most similar words, or simply the next."),
    ] = "nearest",
    speed: Annotated[
        float, typer.Option(metavar="TIMES", min=0, help="So many times faster than it was; 0: as fast as possible.")
    ] = 1.0,
    capabilities: Annotated[
        Literal["full", "resume-only", "none"],
        typer.Option(help="What it offers: list, load, resume and delete; resume alone; or nothing of these."),
    ] = "full",
    store: StoreOption = "",
    agent: AgentOption = "",
) -> None:
    """Be an agent that plays recordings, for testing editors.

    It speaks ACP on stdin and stdout. The recorded sessions can be listed, loaded, resumed and deleted (in memory), and
    prompted as new ones can: the turn whose prompt matches best is played, update by update, with its permission
    requests. The same talk gives the same bytes. More: docs/mock-agent.md.

    Example: acp-proxy mock-agent --speed 0 login.jsonl
    """
    from acp_proxy.mock import agent as mock
    from acp_proxy.mock import sessions

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    found = []
    with explained():
        for file in files:
            with recordings.opened(file, store, agent) as (reading, header):
                entries = (line.entry for line in reading.lines() if line.entry is not None)
                found.append(sessions.recorded(header, entries))
            if len({session.id for session in found}) < len(found):
                raise NoTranscript(f"{file}: this session is there already. Name each session once.")
    mock.run(found, match=match, speed=speed, capabilities=capabilities)
