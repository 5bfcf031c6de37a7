"""Turns bytes into values and back: lines, JSON-RPC, the protocol's names, the transcript's format. Does no I/O."""
