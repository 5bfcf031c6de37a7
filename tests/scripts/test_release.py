"""What belongs into a release."""

import re
import tomllib
from pathlib import Path

import pytest

from scripts import release

TRACKED = ["acp_proxy/__init__.py", "acp_proxy/views/page.css", "docs/store.md", "CHANGELOG.md", ".ci/run", "LICENSE"]


def test_the_wheel_has_the_package_and_its_metadata_alone() -> None:
    wanted = release.in_wheel(TRACKED, "acp_proxy-1.0.dist-info", ["LICENSE", "acp_proxy/views/license.txt"])
    assert [name for name in wanted if "dist-info" not in name] == TRACKED[:2]
    assert "acp_proxy-1.0.dist-info/licenses/LICENSE" in wanted
    assert "acp_proxy-1.0.dist-info/licenses/acp_proxy/views/license.txt" in wanted


def test_the_source_distribution_has_what_the_project_includes() -> None:
    wanted = set(release.in_sdist(TRACKED, ["/acp_proxy", "/docs", "/CHANGELOG.md"]))
    assert wanted == {*TRACKED[:4], *release.ALWAYS_IN_SDIST}


def test_a_file_too_many_and_a_file_too_few_are_named() -> None:
    assert release.differences(["a", "b"], ["b", "c"]) == ["c is missing", "a does not belong there"]


@pytest.mark.parametrize("text", ["[a](docs/a.md)", "[a][b]\n\n[b]: a.md", "![a](docs/a.svg)", '<img src="a.png">'])
def test_a_link_into_the_repository_is_dead_on_a_package_index(text: str) -> None:
    assert len(release.dead_links(text)) == 1


def test_the_page_on_a_package_index_has_no_dead_link_and_needs_no_clone() -> None:
    project = tomllib.loads((release.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = (release.ROOT / "README.md").read_text(encoding="utf-8")
    for change in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        page, times = re.subn(change["pattern"], change["replacement"], page)
        assert times, change
    assert release.dead_links(page) == []
    assert "clone" not in page
    assert "pip install acp-proxy\n" in page
    assert "\nuv tool install acp-proxy" in page
    assert "first release" not in page


def test_the_projects_address_comes_first_because_the_formula_takes_the_first_one() -> None:
    assert next(iter(release.project_urls())) in ("Repository", "Protocol")
    assert "Repository" not in list(release.project_urls())[1:]


def test_every_supported_python_is_tried() -> None:
    assert release.supported() == ["3.11", "3.12", "3.13", "3.14"]


def test_a_program_that_fails_is_reported_with_what_it_said() -> None:
    with pytest.raises(release.Wrong, match=r"exit status 3\nsaid\nproblem"):
        release.run("sh", "-c", "echo said; echo problem >&2; exit 3")
    with pytest.raises(release.Wrong, match="no-such-tool is missing"):
        release.run("no-such-tool")


def test_a_missing_tool_is_reported_with_what_it_would_have_checked() -> None:
    unchecked = release.Unchecked()
    assert unchecked.has("sh", "nothing")
    assert not unchecked.has("no-such-tool", "the formula")
    assert unchecked.reasons == ["the formula (no-such-tool is missing)"]


def test_the_page_on_releases_names_the_places_of_what_is_made() -> None:
    page = (Path(release.ROOT) / "docs" / "releasing.md").read_text(encoding="utf-8")
    assert "`dist/`" in page
    assert f"`{release.PACKAGES.relative_to(release.ROOT)}/`" in page
