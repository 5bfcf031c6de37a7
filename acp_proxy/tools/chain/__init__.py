"""acp-proxy as one of a chain of proxies."""
