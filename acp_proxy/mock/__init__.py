"""An agent that plays recorded conversations."""
