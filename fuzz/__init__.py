"""Feeds what reads foreign bytes with bytes that look for trouble: `make fuzz`."""
