"""session/load, resume and fork: the table of a load's life, and the machine that follows it."""
