"""Sessions in a full screen."""
