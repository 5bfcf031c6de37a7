"""Commands outside the core: a folder each, with its ``command``. The core imports none of them."""
