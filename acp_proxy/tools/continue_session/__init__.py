"""Continues a session with another agent."""
