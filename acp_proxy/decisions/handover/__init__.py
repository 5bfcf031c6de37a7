"""A session that the agent cannot open continues in a new one of the agent, which gets a record of it."""
