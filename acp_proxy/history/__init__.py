"""Compares what an agent tells of a session with the session's transcript. Does no I/O."""
