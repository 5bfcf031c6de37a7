"""The fixtures of stores."""

from tests.store.conftest import parent, root, settled, shelf, store

__all__ = ["parent", "root", "settled", "shelf", "store"]
