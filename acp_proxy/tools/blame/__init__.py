"""Shows which session and turn wrote each line of a file."""
