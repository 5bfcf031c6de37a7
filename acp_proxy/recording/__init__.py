"""Writes entries to the store, in order, without delaying the relay."""
