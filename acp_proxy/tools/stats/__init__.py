"""Turns, tokens and sizes by agent, month, day and project."""
