"""A module per kind of fault, with `run(scale)`: it yields an `Outcome` per fault. Found by name, listed nowhere."""
