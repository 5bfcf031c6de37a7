"""Takes over sessions that agents have from before acp-proxy."""
