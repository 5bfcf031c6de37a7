"""Finds the editors on this machine and writes acp-proxy into their settings, and takes it out again."""
