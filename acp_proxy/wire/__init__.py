"""Bytes to values and back; no state beyond a buffer."""
