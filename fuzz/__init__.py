"""Feeds every reader of foreign bytes with malformed input: `make fuzz`."""
