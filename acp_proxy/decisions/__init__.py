"""The decisions of a running proxy: events in, effects out. Touches no file, clock or thread."""
