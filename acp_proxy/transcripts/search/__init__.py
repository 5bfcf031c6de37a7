"""Full-text search: tables of words, derived from the transcripts, and the queries on them."""
