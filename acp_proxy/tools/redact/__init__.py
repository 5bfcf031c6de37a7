"""Masks secrets in stored files."""
