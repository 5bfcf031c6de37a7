"""What is found by who looks whether all is well: the store, the versions, the editors, an agent. Prints nothing."""
