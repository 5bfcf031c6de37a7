"""Breaks things around the proxy and counts what was lost: `make torture`; docs/reliability.md says what came of it."""
