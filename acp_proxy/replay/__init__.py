"""Entries of a transcript to the updates that a client should see. Touches no file."""
