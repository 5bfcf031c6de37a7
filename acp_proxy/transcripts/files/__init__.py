"""One session's transcript, the files beside it, and how they are read and written."""
