"""Real editors in front of real agents, through the proxy: `make editors`. docs/editors.md has the result."""
