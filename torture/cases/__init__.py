"""A module per kind of fault, with `run(scale)`, which yields an `Outcome` per fault. Found by name."""
