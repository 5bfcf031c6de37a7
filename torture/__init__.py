"""Breaks things around the proxy and counts what was lost: `make torture` writes docs/reliability-figures.md."""
