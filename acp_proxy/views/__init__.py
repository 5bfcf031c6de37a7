"""A transcript for people."""
