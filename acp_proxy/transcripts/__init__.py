"""What is kept: the files of sessions, and what is derived from them. Others see ``Store`` and its values."""
