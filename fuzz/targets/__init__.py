"""A module per reader of foreign input, with `run(data)`, which raises if a promise is broken. Found by name."""
