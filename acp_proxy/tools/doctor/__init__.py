"""Checks the store, the versions, the editors and an agent."""
