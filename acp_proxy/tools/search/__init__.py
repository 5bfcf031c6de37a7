"""The search tables, and the queries on them."""
