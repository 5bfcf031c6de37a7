"""Editors that support agents: where their configuration is, what it says, and what to add to it."""
