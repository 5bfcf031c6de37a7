"""Transcripts in forms for people."""
