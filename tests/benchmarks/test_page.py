"""The pages are made only from the saved figures."""

from pathlib import Path

from benchmarks import goals, page
from benchmarks.figures import BYTES, SECONDS, Figures, load, measured, save

GOALS_BEFORE = f"# Title\n\n{page.GOALS_BEGIN}old goals\n{page.GOALS_END}\nAfter.\n"
TABLES_BEFORE = f"# Tables\n\n{page.BEGIN}old figures\n{page.END}\nAfter.\n"


def figures(proxy: float = 0.000013) -> Figures:
    trip = measured("round trip, p50", SECONDS, {"none": [0.000007], "C": [0.00001], "acp-proxy": [proxy]}, "C")
    growth = measured("50 MB prompt: memory growth", BYTES, {"C": [0.0], "acp-proxy": [400_000_000.0]})
    grows = measured("a <turn>", SECONDS, {"1,000": [0.001], "10,000": [0.002]}, "1,000", sized=True)
    machines = {"relay": "3 s on a machine", "scale": "4 s on a machine"}
    about = {"relay": "Passing on: how long it takes.", "scale": "As it grows."}
    return Figures({"scale": [grows], "relay": [trip, growth]}, about, machines)


def write_pages(found: Figures, folder: Path) -> tuple[str, str]:
    """The texts of the page with the goals and of the page with all figures."""
    goals_page, tables = folder / "performance.md", folder / "performance-figures.md"
    if not goals_page.exists():
        goals_page.write_text(GOALS_BEFORE, encoding="utf-8")
        tables.write_text(TABLES_BEFORE, encoding="utf-8")
    page.make(found, goals_page, tables)
    return goals_page.read_text(encoding="utf-8"), tables.read_text(encoding="utf-8")


def test_tables_are_written_between_the_marks(tmp_path: Path) -> None:
    goals_page, tables = write_pages(figures(), tmp_path)

    assert goals_page.startswith("# Title\n\n")
    assert tables.startswith("# Tables\n\n")
    for text in (goals_page, tables):
        assert text.endswith("\nAfter.\n")
        assert "old" not in text
    assert "|round trip, p50|7.00 µs (0.70x)|10.0 µs|13.0 µs (1.30x)|" in tables
    assert "Measured in 3 s on a machine." in tables
    assert tables.index("## relay") < tables.index("## scale")


def test_making_the_pages_again_changes_nothing(tmp_path: Path) -> None:
    assert write_pages(figures(), tmp_path) == write_pages(figures(), tmp_path)


def test_a_goal_is_shown_beside_its_measurement(tmp_path: Path) -> None:
    assert "|round trip of a 200 B message, p50|≤ 2.20x C|1.30x|reached|" in write_pages(figures(), tmp_path)[0]
    text, _ = write_pages(figures(proxy=0.00003), tmp_path)
    assert "|round trip of a 200 B message, p50|≤ 2.20x C|3.00x|**not reached**|" in text
    assert "|a 50 MB prompt: memory|≤ 320 MB|400 MB|**not reached**|" in text
    assert "|agent started|≤ 1.45x|not measured||" in text


def test_saved_figures_are_loaded_unchanged(tmp_path: Path) -> None:
    save(figures(), tmp_path / "results.json")

    assert load(tmp_path / "results.json") == figures()


def test_every_goal_has_a_measured_row() -> None:
    for goal, row in goals.rows(load()):
        assert row is not None, goal
        assert goal.reached(row) is not None, goal


def test_the_pages_match_the_saved_figures(tmp_path: Path) -> None:
    goals_page, tables = (kept.read_text(encoding="utf-8") for kept in (page.PAGE, page.TABLES))
    (tmp_path / page.PAGE.name).write_text(goals_page, encoding="utf-8")
    (tmp_path / page.TABLES.name).write_text(tables, encoding="utf-8")

    assert write_pages(load(), tmp_path) == (goals_page, tables), "run: python -m benchmarks page"
