"""A small agent, a small client, and the demonstration that ``acp-proxy demo`` runs with them."""
