"""What was said in a session before, and whether the agent tells it again. Pure."""
