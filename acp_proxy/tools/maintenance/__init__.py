"""Verify, repair, prune and compress the whole store."""
