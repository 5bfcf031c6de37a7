"""The fixtures of stores."""

from tests.store.conftest import parent, settled, transcripts

__all__ = ["parent", "settled", "transcripts"]
