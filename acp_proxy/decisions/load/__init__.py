"""session/load, resume and fork: the table of a load's states, and the machine that follows it."""
