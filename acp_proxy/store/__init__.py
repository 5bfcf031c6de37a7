"""All sessions: the layout of the directory, the journal, the index; delete, restore, fork, compress."""
