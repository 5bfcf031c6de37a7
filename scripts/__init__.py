"""What the Makefile runs beside the tools themselves."""
