"""Adopting sessions that agents have from before acp-proxy."""
