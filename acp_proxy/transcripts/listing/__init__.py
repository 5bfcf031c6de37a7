"""The list of all sessions: an index that is made from the files, and what is asked of it."""
