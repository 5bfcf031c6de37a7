"""An agent for tests: it plays what a script says, on threads, and can offer whatever a test wants."""
