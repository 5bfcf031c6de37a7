"""A mapping that keeps the newest values, up to a limit."""

from acp_proxy.transcript_replay.newest_values import NewestValues


def test_trimming_removes_the_oldest_values() -> None:
    kept: NewestValues[str, int] = NewestValues(10)
    for number, key in enumerate("abca"):
        kept.put(key, number, 5)
    assert kept.items() == [("b", 1), ("c", 2), ("a", 3)]
    kept.trim()
    assert kept.items() == [("c", 2), ("a", 3)]


def test_taking_a_value_makes_room() -> None:
    kept: NewestValues[str, int] = NewestValues(10)
    kept.put("a", 1, 10)
    assert (kept.pop("a"), kept.pop("a"), kept.get("a"), "a" in kept, len(kept)) == (1, None, None, False, 0)
    kept.put("b", 2, 10)
    kept.trim()
    assert kept.get("b") == 2


def test_a_value_over_the_limit_is_not_kept() -> None:
    kept: NewestValues[str, int] = NewestValues(10)
    kept.put("a", 1, 11)
    kept.trim()
    assert len(kept) == 0
