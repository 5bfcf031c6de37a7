"""The same history on several machines."""
