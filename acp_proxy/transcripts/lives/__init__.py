"""What happens to whole sessions: begin, fork, compress, mask, import, delete, restore.

``deleting`` says what a delete may touch.
"""
