"""The same history on several machines: one log for each machine in a shared place, and a merge."""
