"""The page is made from the figures that are kept, and from nothing else."""

from pathlib import Path

from benchmarks import goals, page
from benchmarks.figures import BYTES, SECONDS, Figures, load, measured, save

BEFORE = (
    f"# Title\n\n{page.GOALS_BEGIN}old goals\n{page.GOALS_END}\nBetween.\n\n"
    f"{page.BEGIN}old figures\n{page.END}\nAfter.\n"
)


def figures(proxy: float = 0.000013) -> Figures:
    trip = measured("round trip, p50", SECONDS, {"none": [0.000007], "C": [0.00001], "acp-proxy": [proxy]}, "C")
    growth = measured("50 MB prompt: memory growth", BYTES, {"C": [0.0], "acp-proxy": [300_000_000.0]})
    grows = measured("a <turn>", SECONDS, {"1,000": [0.001], "10,000": [0.002]}, "1,000", sized=True)
    machines = {"relay": "3 s on a machine", "scale": "4 s on a machine"}
    about = {"relay": "Passing on: how long it takes.", "scale": "As it grows."}
    return Figures({"scale": [grows], "relay": [trip, growth]}, about, machines)


def made(found: Figures, folder: Path) -> str:
    path = folder / "performance.md"
    path.write_text(BEFORE, encoding="utf-8")
    page.make(found, path)
    return path.read_text(encoding="utf-8")


def test_tables_stand_between_the_marks_and_the_rest_stays(tmp_path: Path) -> None:
    text = made(figures(), tmp_path)

    assert text.startswith("# Title\n\n")
    assert "\nBetween.\n" in text
    assert text.endswith("\nAfter.\n")
    assert "old" not in text
    assert "| round trip, p50 | 7.00 µs (0.70 x) | 10.0 µs | 13.0 µs (1.30 x) |" in text
    assert "`make bench CASE=relay`: 3 s on a machine." in text
    assert text.index("### relay") < text.index("### scale")


def test_making_the_page_again_changes_nothing(tmp_path: Path) -> None:
    first = made(figures(), tmp_path)

    page.make(figures(), tmp_path / "performance.md")

    assert (tmp_path / "performance.md").read_text(encoding="utf-8") == first


def test_a_goal_stands_beside_what_was_measured(tmp_path: Path) -> None:
    assert "| round trip of a 200 B message, p50 | ≤ 1.40 x C | 1.30 x | reached |" in made(figures(), tmp_path)
    text = made(figures(proxy=0.00002), tmp_path)
    assert "| round trip of a 200 B message, p50 | ≤ 1.40 x C | 2.00 x | **not reached** |" in text
    assert "| a 50 MB prompt: memory | ≤ 2.00 MB | 300 MB | **not reached** |" in text
    assert "| agent started | ≤ 1.45 x | not measured |  |" in text


def test_what_is_kept_is_what_was_measured(tmp_path: Path) -> None:
    save(figures(), tmp_path / "results.json")

    assert load(tmp_path / "results.json") == figures()


def test_every_goal_is_about_a_row_that_is_measured() -> None:
    for goal, row in goals.rows(load()):
        assert row is not None, goal
        assert goal.reached(row) is not None, goal


def test_the_page_is_the_one_that_the_kept_figures_make(tmp_path: Path) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    path = tmp_path / "performance.md"
    path.write_text(text, encoding="utf-8")

    page.make(load(), path)

    assert path.read_text(encoding="utf-8") == text, "run: python -m benchmarks page"
