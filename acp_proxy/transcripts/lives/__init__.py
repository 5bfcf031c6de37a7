"""What becomes of sessions: begun, forked, packed, masked, imported, deleted, restored.

What a delete may touch is in ``deleting``.
"""
