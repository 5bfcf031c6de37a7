"""Programs for the Makefile."""
