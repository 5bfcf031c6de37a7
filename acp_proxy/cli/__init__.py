"""The command line: the tree of commands, what they share, and the commands that need no tool."""
