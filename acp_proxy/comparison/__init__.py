"""Is what an agent sends past or new, and whose replay does the client see? Touches no file."""
