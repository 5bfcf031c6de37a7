"""The fixtures of stores."""

from tests.store.conftest import parent, transcripts, trusted_times

__all__ = ["parent", "transcripts", "trusted_times"]
