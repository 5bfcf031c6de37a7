"""Is what an agent sends past or new, and whose past does the client see? Touches no file."""
