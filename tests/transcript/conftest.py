"""The fixtures of stores."""

from tests.store.conftest import parent, settled, shelf

__all__ = ["parent", "settled", "shelf"]
