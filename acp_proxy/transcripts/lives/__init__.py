"""What becomes of sessions: begun, forked, compressed, masked, imported, deleted, restored.

What a delete may touch is in ``deleting``.
"""
