"""A small agent, a small client, and the demonstration with them."""
