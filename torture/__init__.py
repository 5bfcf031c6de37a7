"""Breaks things around the proxy and counts what was lost: `make torture` makes docs/reliability-figures.md of it."""
