"""Recall: an MCP server with which an agent looks up earlier sessions, of any agent, in the same directory."""
