"""Where editors are configured on this machine, what is there, what to add."""
