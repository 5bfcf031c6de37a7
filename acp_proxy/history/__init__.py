"""Compares what an agent sends about a session with the session's transcript. Does no I/O."""
