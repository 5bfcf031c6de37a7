"""What a session changed: its edits of files, the net change of each file, and who wrote a line."""
