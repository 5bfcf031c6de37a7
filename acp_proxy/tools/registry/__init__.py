"""Agents by their id in the protocol's registry: what to start, and its download."""
