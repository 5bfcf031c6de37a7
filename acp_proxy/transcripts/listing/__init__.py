"""The index of all sessions, derived from the transcripts, and the queries on it."""
