"""Recorded sessions for commands and programs, by row: list, select, change, delete, restore, copy."""
