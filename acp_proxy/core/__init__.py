"""Decides: events in, effects out. Pure: no await, no file, no clock, no randomness."""
