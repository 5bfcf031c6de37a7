"""The command line: one file per command. Each reads its arguments, calls one function and prints the result."""
