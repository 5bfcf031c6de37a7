"""Secrets in what is kept: which forms are known, where they stand in a line, and what is written in their place."""
