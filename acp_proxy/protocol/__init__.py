"""Bytes to JSON-RPC to ACP: lines, messages, the protocol's names and versions."""
