"""A small agent, a small client, and the walk through the main job that `acp-proxy demo` takes with them."""
