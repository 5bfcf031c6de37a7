"""Makes the Homebrew formula of a source distribution: homebrew.py SDIST FOLDER [--url URL]

FOLDER gets acp-proxy.rb, and pylock.toml with the newest version of each dependency, from which the formula takes its
addresses and hashes. Homebrew builds all of them from source. URL: where the source distribution will be; without it,
where the index of the dependencies will have it.
"""

import argparse
import hashlib
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from urllib.parse import urlsplit

PYTHON = "3.14"
ABOUT = "Session list, delete and load for coding agents that speak ACP"
"""Homebrew allows 80 characters, no article at the start and no full stop."""
BUILT_WITH_RUST = ("orjson", "pydantic-core")

FORMULA = """\
class AcpProxy < Formula
  include Language::Python::Virtualenv

  desc "{about}"
  homepage "{homepage}"
  url "{url}"
  sha256 "{sha256}"
  license "{license}"

{needs}

{resources}

  def install
    virtualenv_install_with_resources
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/acp-proxy --version")
    system bin/"acp-proxy", "demo"
  end
end
"""
RESOURCE = """\
  resource "{name}" do
    url "{url}"
    sha256 "{sha256}"
  end"""


@dataclass(frozen=True, slots=True)
class Source:
    """A dependency's source distribution."""

    name: str
    url: str
    sha256: str


def locked(lock: str) -> list[Source]:
    """The dependencies of a pylock.toml, by name. Raises ValueError if one can be had as a wheel only."""
    sources = []
    for package in tomllib.loads(lock)["packages"]:
        if "sdist" not in package:
            raise ValueError(
                f"{package['name']} {package['version']} has no source distribution: require another version"
            )
        sources.append(Source(package["name"], package["sdist"]["url"], package["sdist"]["hashes"]["sha256"]))
    return sorted(sources, key=lambda each: each.name)


def formula(about: Message, url: str, sha256: str, sources: Iterable[Source]) -> str:
    """``about``: the metadata of the source distribution."""
    sources = list(sources)
    rust = ['depends_on "rust" => :build'] if any(each.name in BUILT_WITH_RUST for each in sources) else []
    return FORMULA.format(
        about=ABOUT,
        homepage=str(about["Project-URL"]).partition(", ")[2],
        url=url,
        sha256=sha256,
        license=about["License-Expression"],
        needs="\n".join(f"  {need}" for need in (*rust, f'depends_on "python@{PYTHON}"')),
        resources="\n\n".join(RESOURCE.format(name=each.name, url=each.url, sha256=each.sha256) for each in sources),
    )


def expected_url(sdist: str, sources: Iterable[Source]) -> str:
    """Where the index that has the dependencies will have this source distribution."""
    index = urlsplit(next(iter(sources)).url)
    return f"{index.scheme}://{index.netloc}/packages/source/a/acp-proxy/{sdist}"


def lock(requirements: str) -> str:
    """The pylock.toml of pyproject.toml's dependencies on this system. macOS and Linux have the same."""
    with tempfile.TemporaryDirectory() as folder:
        project, made = Path(folder, "pyproject.toml"), Path(folder, "pylock.toml")
        project.write_text(requirements, encoding="utf-8")
        words = ["uv", "pip", "compile", "--quiet", "--no-header", "--format", "pylock.toml"]
        words += ["--python-version", PYTHON, "--output-file", str(made), str(project)]
        subprocess.run(words, check=True)
        return made.read_text(encoding="utf-8")


def main() -> None:
    reader = argparse.ArgumentParser(description="Make the Homebrew formula of a source distribution.")
    reader.add_argument("sdist", type=Path, metavar="SDIST")
    reader.add_argument("folder", type=Path, metavar="FOLDER", help="gets acp-proxy.rb and pylock.toml")
    reader.add_argument("--url", help="where the source distribution will be")
    given = reader.parse_args()
    root = given.sdist.name.removesuffix(".tar.gz")
    with tarfile.open(given.sdist) as archive:
        about, project = (archive.extractfile(f"{root}/{name}") for name in ("PKG-INFO", "pyproject.toml"))
        assert about is not None
        assert project is not None
        metadata, requirements = BytesParser().parse(about), project.read().decode()
    pinned = lock(requirements)
    sources = locked(pinned)
    url = given.url or expected_url(given.sdist.name, sources)
    sha256 = hashlib.sha256(given.sdist.read_bytes()).hexdigest()
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "pylock.toml").write_text(pinned, encoding="utf-8")
    (given.folder / "acp-proxy.rb").write_text(formula(metadata, url, sha256, sources), encoding="utf-8")


if __name__ == "__main__":
    main()
