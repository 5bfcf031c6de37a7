"""The Homebrew formula: every dependency with its address and its hash."""

import runpy
import shutil
import subprocess
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLACE = "https://index.example/packages"
LOCK = f"""
lock-version = "1.0"
[[packages]]
name = "orjson"
version = "3.13.0"
sdist = {{ url = "{PLACE}/2/orjson-3.13.0.tar.gz", hashes = {{ sha256 = "bb" }} }}
[[packages]]
name = "anyio"
version = "4.16.0"
sdist = {{ url = "{PLACE}/1/anyio-4.16.0.tar.gz", hashes = {{ sha256 = "aa" }} }}
"""


@pytest.fixture(scope="module")
def homebrew() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "packaging" / "homebrew.py"))


def make_formula(homebrew: dict[str, Any]) -> str:
    about = Message()
    about["Project-URL"] = "Protocol, https://protocol.example"
    about["License-Expression"] = "Apache-2.0"
    sources = homebrew["locked"](LOCK)
    url = homebrew["expected_url"]("acp_proxy-1.2.3.tar.gz", sources)
    return str(homebrew["formula"](about, url, "cc", sources))


def test_the_formula_names_what_to_fetch_with_its_hash(homebrew: dict[str, Any]) -> None:
    text = make_formula(homebrew)
    lines = [line.strip() for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("url", "sha256", "resource", "homepage"))] == [
        'homepage "https://protocol.example"',
        f'url "{PLACE}/source/a/acp-proxy/acp_proxy-1.2.3.tar.gz"',
        'sha256 "cc"',
        'resource "anyio" do',
        f'url "{PLACE}/1/anyio-4.16.0.tar.gz"',
        'sha256 "aa"',
        'resource "orjson" do',
        f'url "{PLACE}/2/orjson-3.13.0.tar.gz"',
        'sha256 "bb"',
    ]
    assert 'depends_on "rust" => :build' in lines


def test_a_dependency_without_source_is_refused(homebrew: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="orjson 1 has no source distribution"):
        homebrew["locked"]('[[packages]]\nname = "orjson"\nversion = "1"')


def test_the_description_follows_homebrews_rules(homebrew: dict[str, Any]) -> None:
    about = homebrew["ABOUT"]
    assert len(about) <= 80
    assert not about.startswith(("A ", "An ", "The ", "acp-proxy"))
    assert not about.endswith(".")


@pytest.mark.skipif(shutil.which("ruby") is None, reason="needs ruby")
def test_ruby_reads_the_formula(homebrew: dict[str, Any]) -> None:
    result = subprocess.run(["ruby", "-c"], input=make_formula(homebrew), capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
