"""An agent for tests: it plays a script, on threads, and offers any capabilities."""
