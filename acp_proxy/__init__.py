"""acp-proxy: session history for any agent of the Agent Client Protocol."""

__version__ = "0.1.0"
