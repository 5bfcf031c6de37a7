"""One session's file: its format, reading, appending, and what is folded from it."""
