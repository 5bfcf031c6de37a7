"""A module per thing that reads foreign input, with `run(data)`: it raises when a promise is broken. Listed nowhere."""
