"""A search over all that was said: tables of words that are made from the files, and what is asked of them."""
