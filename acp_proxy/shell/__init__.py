"""Runs the proxy: processes, streams, threads and time. No other package of the relay's path touches them."""
