"""What is kept of what comes."""

from acp_proxy.replay.newest import Newest


def test_the_oldest_go_when_it_is_trimmed() -> None:
    kept: Newest[str, int] = Newest(10)
    for number, key in enumerate("abca"):
        kept.put(key, number, 5)
    assert kept.items() == [("b", 1), ("c", 2), ("a", 3)]
    kept.trim()
    assert kept.items() == [("c", 2), ("a", 3)]


def test_what_is_taken_leaves_room() -> None:
    kept: Newest[str, int] = Newest(10)
    kept.put("a", 1, 10)
    assert (kept.pop("a"), kept.pop("a"), kept.get("a"), "a" in kept, len(kept)) == (1, None, None, False, 0)
    kept.put("b", 2, 10)
    kept.trim()
    assert kept.get("b") == 2


def test_what_alone_is_too_large_is_not_kept() -> None:
    kept: Newest[str, int] = Newest(10)
    kept.put("a", 1, 11)
    kept.trim()
    assert len(kept) == 0
