"""Secrets in recorded transcripts: their known forms, their places in a line, and the text that masks them."""
