"""One session's transcript, the files next to it, and how they are read and written."""
