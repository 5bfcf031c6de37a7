"""Processes, streams, threads and time: the only place that touches them."""
