"""One session in a terminal: read, followed, or as it streamed."""
