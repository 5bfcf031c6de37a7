"""Takes over an agent's old sessions."""
