"""Chooses an agent's folder for a transcript that was recorded elsewhere."""

from acp_proxy.protocol import acp
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import ASIDE, file_name, has_generated_form

_LONGEST_FOLDER_NAME = 100
"""Characters: more than any name made here has."""


def choose_folder_for_import(header: Header) -> str:
    """The folder for a transcript that was recorded elsewhere: the one it came from, if acp-proxy can have made that
    name; else one named after the agent."""
    folder_or_name = acp.text(header.agent, "id") or acp.text(header.agent, "name") or "agent"
    is_folder = (
        has_generated_form(folder_or_name)
        and ASIDE not in folder_or_name
        and len(folder_or_name) <= _LONGEST_FOLDER_NAME
    )
    return folder_or_name if is_folder else file_name(folder_or_name)
