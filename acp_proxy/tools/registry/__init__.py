"""Agents by their id in the protocol's registry: what to start, and its download."""

PREFIX = "registry:"
"""In front of an id, it says that the word is an id, whatever program has that name."""
