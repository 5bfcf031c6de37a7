"""Lists of sessions: acp-proxy's own, and what it changes in the agent's."""
