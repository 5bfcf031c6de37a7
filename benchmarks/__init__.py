"""What the proxy costs, as ratios in one run. Not part of the tests: nothing here passes or fails."""
