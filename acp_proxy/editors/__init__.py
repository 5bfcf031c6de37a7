"""Editors that talk to agents: where their configuration lies, what stands in it, and what belongs into it."""
