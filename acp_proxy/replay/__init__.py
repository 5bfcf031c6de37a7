"""Turns the entries of a transcript into the updates that a client should see. Does no I/O."""
