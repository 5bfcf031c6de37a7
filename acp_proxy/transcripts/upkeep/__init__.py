"""The care of a whole store: what is wrong in it and how it is mended, what it takes up, what may go."""
