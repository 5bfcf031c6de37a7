"""The cost of the proxy, as ratios within one run. No test: nothing here passes or fails."""
