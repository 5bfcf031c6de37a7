"""An agent that plays transcripts."""
