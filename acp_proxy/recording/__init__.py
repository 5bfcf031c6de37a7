"""Records the conversation into the store without ever delaying the relay."""
