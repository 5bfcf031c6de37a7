"""The MCP server by which an agent looks up earlier sessions."""
