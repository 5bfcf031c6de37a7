"""Maintenance of a whole store: verify, repair, measure usage, prune."""
