"""Entries of a transcript to the updates that a client should see. Touches no file.

A replay here is that of the transcript, unless it is called the agent's.
"""
